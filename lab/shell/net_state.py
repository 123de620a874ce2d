"""Network devices of a node as the kernel names and shows them."""

from __future__ import annotations

from typing import NamedTuple

from lab.hardware import NicState
from lab.machine import Machine
from lab.shell.sysfs_rdma import rate_gbit_s

MANAGEMENT = "eno1"


class NetDevice(NamedTuple):
    """One network device."""

    name: str
    address: str  # link-layer address, lower case
    kind: str  # "ether" | "infiniband" | "loopback"
    up: bool
    speed_mbit_s: int
    mtu: int
    ipv4: str = ""
    pci_address: str = ""


def node_address(machine: Machine) -> str:
    """The IPv4 address of the management port, where SSH answers."""
    return machine.ssh_address.rpartition(":")[0] or "127.78.0.1"


def netdev_name(nic: NicState) -> str:
    """What systemd names the port: by kind, bus and slot."""
    prefix, suffix = ("ib", "") if nic.link_layer == "InfiniBand" else ("en", "np0")
    return f"{prefix}p{int(nic.pci_address[5:7], 16)}s{int(nic.pci_address[8:10], 16)}{suffix}"


def net_devices(machine: Machine) -> list[NetDevice]:
    """Loopback, the management port and every fast port."""
    devices = [
        NetDevice("lo", "00:00:00:00:00:00", "loopback", True, 0, 65536, "127.0.0.1"),
        NetDevice(MANAGEMENT, machine.state.mgmt_mac.lower(), "ether", True, 10_000, 1500, node_address(machine)),
    ]
    return devices + [_fast(nic) for nic in machine.state.nics]


def _fast(nic: NicState) -> NetDevice:
    infiniband = nic.link_layer == "InfiniBand"
    # An IPoIB address: queue pair, GID prefix, port GUID. Source: RFC 4391 section 9.1.1.
    long = f"00:00:10:49:fe:80:00:00:00:00:00:00:{nic.guid.lower()}"
    return NetDevice(
        name=netdev_name(nic),
        address=long if infiniband else nic.mac.lower(),
        kind="infiniband" if infiniband else "ether",
        up=nic.link_up,
        speed_mbit_s=rate_gbit_s(nic) * 1000,
        mtu=2044 if infiniband else 9000,
        pci_address=nic.pci_address,
    )


def netdev_files(machine: Machine) -> dict[str, str]:
    """`/sys/class/net`, as far as anybody asks."""
    found: dict[str, str] = {}
    for device in net_devices(machine):
        root = f"/sys/class/net/{device.name}"
        state = "unknown" if device.kind == "loopback" else ("up" if device.up else "down")
        found |= {
            f"{root}/address": f"{device.address}\n",
            f"{root}/mtu": f"{device.mtu}\n",
            f"{root}/operstate": f"{state}\n",
            f"{root}/speed": f"{device.speed_mbit_s if device.up else -1}\n",
            f"{root}/carrier": f"{int(device.up)}\n",
        }
        if device.pci_address:
            found[f"{root}/device/uevent"] = f"DRIVER=mlx5_core\nPCI_SLOT_NAME={device.pci_address}\n"
    return found
