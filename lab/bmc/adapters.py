"""Network adapters with their ports and functions."""

from __future__ import annotations

from lab.bmc.answers import Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc
from lab.bmc.gpus import pcie_interface
from lab.hardware import NicState


def _nic(bmc: Bmc, chassis: str, adapter: str) -> NicState | None:
    if chassis != bmc.layout.chassis:
        return None
    return next((nic for nic in bmc.machine.state.nics if f"NIC{nic.index + 1}" == adapter), None)


def _path(bmc: Bmc, nic: NicState) -> str:
    return f"{bmc.chassis}/NetworkAdapters/NIC{nic.index + 1}"


def adapters(bmc: Bmc, chassis: str) -> Resource | None:
    """All network adapters."""
    if chassis != bmc.layout.chassis:
        return None
    ids = [f"NIC{nic.index + 1}" for nic in bmc.machine.state.nics]
    return collection(f"{bmc.chassis}/NetworkAdapters", "NetworkAdapter", ids)


def adapter(bmc: Bmc, chassis: str, adapter: str) -> Resource | None:
    """One network adapter."""
    nic = _nic(bmc, chassis, adapter)
    if nic is None:
        return None
    path, slot = _path(bmc, nic), nic.index + 1
    controller = {
        "FirmwarePackageVersion": nic.firmware,
        "PCIeInterface": pcie_interface(nic.pcie_width, 5),
        "Location": {"PartLocation": {"LocationType": "Slot", "ServiceLabel": f"PCIe Slot {slot}"}},
        "Links": {
            "PCIeDevices": [link(f"{bmc.chassis}/PCIeDevices/NIC{slot}")],
            "Ports": [link(f"{path}/Ports/1")],
        },
    }
    return resource(
        path,
        "NetworkAdapter.v1_9_0.NetworkAdapter",
        f"Adapter {slot}",
        Manufacturer="Mellanox Technologies",
        Model=nic.model,
        SerialNumber=nic.serial,
        PartNumber=nic.part_number,
        Controllers=[controller],
        Ports=link(f"{path}/Ports"),
        NetworkDeviceFunctions=link(f"{path}/NetworkDeviceFunctions"),
        Status=status(),
    )


def ports(bmc: Bmc, chassis: str, adapter: str) -> Resource | None:
    """An adapter's ports."""
    nic = _nic(bmc, chassis, adapter)
    return collection(f"{_path(bmc, nic)}/Ports", "Port", ["1"]) if nic else None


def port(bmc: Bmc, chassis: str, adapter: str, port: str) -> Resource | None:
    """One port; without host power its link is down and its speed unknown."""
    nic = _nic(bmc, chassis, adapter)
    if nic is None or port != "1":
        return None
    up = nic.link_up and bmc.machine.power == "On"
    return resource(
        f"{_path(bmc, nic)}/Ports/1",
        "Port.v1_9_0.Port",
        "Port 1",
        PortId="1",
        PortProtocol=nic.link_layer,
        LinkNetworkTechnology=nic.link_layer,
        LinkStatus="LinkUp" if up else "LinkDown",
        CurrentSpeedGbps=nic.rate_gbit_s if up else None,
        MaxSpeedGbps=400,
        Ethernet={"AssociatedMACAddresses": [nic.mac]},
        InfiniBand={"AssociatedPortGUIDs": [nic.guid]},
        Status=status(),
    )


def functions(bmc: Bmc, chassis: str, adapter: str) -> Resource | None:
    """An adapter's device functions."""
    nic = _nic(bmc, chassis, adapter)
    return collection(f"{_path(bmc, nic)}/NetworkDeviceFunctions", "NetworkDeviceFunction", ["1"]) if nic else None


def function(bmc: Bmc, chassis: str, adapter: str, function: str) -> Resource | None:
    """One device function with its addresses."""
    nic = _nic(bmc, chassis, adapter)
    if nic is None or function != "1":
        return None
    return resource(
        f"{_path(bmc, nic)}/NetworkDeviceFunctions/1",
        "NetworkDeviceFunction.v1_9_0.NetworkDeviceFunction",
        "Function 1",
        NetDevFuncType=nic.link_layer,
        DeviceEnabled=True,
        Ethernet={"MACAddress": nic.mac, "PermanentMACAddress": nic.mac},
        InfiniBand={"NodeGUID": nic.guid, "PortGUID": nic.guid, "PermanentPortGUID": nic.guid},
        Links={"PhysicalPortAssignment": link(f"{_path(bmc, nic)}/Ports/1")},
    )
