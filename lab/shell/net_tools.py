"""`ip -j` and `ethtool`: network devices as JSON and as text."""

from __future__ import annotations

import json
from typing import Any

from lab.shell.call import Call
from lab.shell.net_state import NetDevice, net_devices
from lab.shell.reply import Reply, refused, said


def ip(call: Call) -> Reply:
    """`ip -j addr|link [show [dev NAME]]`; only the JSON form is spoken."""
    words = [word for word in call.arguments if not word.startswith("-")]
    subject = words[0] if words else ""
    if not call.has("-j", "-json", "--json", "-details") or not subject.startswith(("a", "l")):
        return refused(f'Object "{subject}" is unknown, try "ip help".')
    wanted = words[-1] if words[-1] not in {subject, "show", "list"} else ""
    devices = [device for device in net_devices(call.machine) if wanted in {"", device.name}]
    if not devices:
        return refused(f'Device "{wanted}" does not exist.')
    rows = [_row(number, device, addresses=subject.startswith("a")) for number, device in enumerate(devices, 1)]
    return said(json.dumps(rows))


def _row(number: int, device: NetDevice, *, addresses: bool) -> dict[str, Any]:
    flags = ["LOOPBACK"] if device.kind == "loopback" else ["BROADCAST", "MULTICAST"]
    row: dict[str, Any] = {
        "ifindex": number,
        "ifname": device.name,
        "flags": [*flags, "UP", "LOWER_UP"] if device.up else [*flags, "UP", "NO-CARRIER"],
        "mtu": device.mtu,
        "qdisc": "noqueue" if device.kind == "loopback" else "mq",
        "operstate": "UNKNOWN" if device.kind == "loopback" else ("UP" if device.up else "DOWN"),
        "group": "default",
        "txqlen": 1000,
        "link_type": device.kind,
        "address": device.address,
        "broadcast": "ff:ff:ff:ff:ff:ff",
    }
    if addresses:
        length = 8 if device.kind == "loopback" else 16
        row["addr_info"] = (
            [{"family": "inet", "local": device.ipv4, "prefixlen": length, "scope": "global", "label": device.name}]
            if device.ipv4
            else []
        )
    return row


def ethtool(call: Call) -> Reply:
    """`ethtool NAME`, `-i NAME`, `-S NAME`."""
    name = call.argv[-1] if len(call.argv) > 1 else ""
    device = next((device for device in net_devices(call.machine) if device.name == name), None)
    if device is None:
        return refused("netlink error: No such device", 75)
    if call.has("-i"):
        return _driver(call, device)
    if call.has("-S"):
        return _statistics(call, device)
    return said(
        f"Settings for {name}:",
        f"\tSpeed: {f'{device.speed_mbit_s}Mb/s' if device.up else 'Unknown!'}",
        f"\tDuplex: {'Full' if device.up else 'Unknown! (255)'}",
        "\tAuto-negotiation: on",
        "\tPort: Direct Attach Copper",
        f"\tLink detected: {'yes' if device.up else 'no (No cable)'}",
    )


def _driver(call: Call, device: NetDevice) -> Reply:
    nic = next((nic for nic in call.state.nics if nic.pci_address == device.pci_address), None)
    return said(
        f"driver: {'mlx5_core' if nic else 'ixgbe'}",
        f"version: {call.machine.software.get('kernel', '')}",
        f"firmware-version: {nic.firmware + ' (MT_0000000838)' if nic else '0x8000'}",
        f"bus-info: {device.pci_address or '0000:04:00.0'}",
    )


def _statistics(call: Call, device: NetDevice) -> Reply:
    nic = next((nic for nic in call.state.nics if nic.pci_address == device.pci_address), None)
    counters = {
        "rx_discards_phy": 0,
        "rx_crc_errors_phy": 0,
        "rx_symbol_err_phy": nic.symbol_errors if nic else 0,
        "link_down_events_phy": nic.link_downed if nic else 0,
        "rx_prio3_pause": 0,
        "tx_prio3_pause": 0,
    }
    return said("NIC statistics:", *(f"     {name}: {count}" for name, count in counters.items()))
