"""Network adapters and their ports, wherever the MAC or GUID stands."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inventory.model import Nic, NicPort
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.gpus import generation

_HEX_PAIRS = re.compile(r"[0-9a-f]{12}|[0-9a-f]{16}", re.IGNORECASE)
_LINK_WORDS = {  # Port.LinkStatus and NetworkPort.LinkStatus, DMTF DSP8010
    "LinkUp": "up", "Up": "up", "LinkDown": "down", "Down": "down", "NoLink": "down",
    "Starting": "init", "Training": "init",
}  # fmt: skip


def find_nics(reader: Reader, chassis: tuple[Resource, ...]) -> tuple[Nic, ...]:
    """All network adapters of the host's chassis."""
    found: list[Nic] = []
    for part in chassis:
        uri = part.link("NetworkAdapters")
        needs = ("Controllers", "SerialNumber", "Model")
        adapters = reader.members(uri, "nics", "nics", needs) if uri else ()
        found += [_nic(reader, adapter) for adapter in adapters or ()]
    if not found:
        reader.notes.lack("nics", chassis[0].uri if chassis else "", "no network adapter is listed")
    return tuple(found)


def _nic(reader: Reader, adapter: Resource) -> Nic:
    interface = ("Controllers", 0, "PCIeInterface")
    return Nic(
        id=adapter.id,
        serial=adapter.serial("serial", "SerialNumber"),
        model=adapter.text("model", "Model"),
        manufacturer=adapter.text("manufacturer", "Manufacturer"),
        part_number=adapter.text("part_number", "PartNumber"),
        firmware=adapter.text("firmware", "Controllers", 0, "FirmwarePackageVersion"),
        slot=adapter.text("slot", "Controllers", 0, "Location", "PartLocation", "ServiceLabel")
        or adapter.text("slot", "Location", "PartLocation", "ServiceLabel"),
        pcie_width=adapter.whole("pcie_width", *interface, "LanesInUse"),
        pcie_generation=generation(adapter.text("pcie_generation", *interface, "PCIeType")),
        ports=_ports(reader, adapter),
        source=adapter.source,
    )


def _ports(reader: Reader, adapter: Resource) -> tuple[NicPort, ...]:
    """The links of the controllers are followed straight to the ports; the collection is asked only without them."""
    uris = _linked(adapter, "Ports") or _listed(reader, adapter, "Ports")
    if not uris:
        uris = _linked(adapter, "NetworkPorts") or _listed(reader, adapter, "NetworkPorts")
    read = (reader.get(uri, f"{adapter.about}.ports[{_last(uri)}]") for uri in uris)
    ports = tuple(port for port in read if port)
    functions = _linked(adapter, "NetworkDeviceFunctions")
    # One function a port, in the same order, is what makes them belong together without another request.
    pairs = functions if len(functions) == len(ports) else ("",) * len(ports)
    return tuple(_port(reader, port, function) for port, function in zip(ports, pairs, strict=True))


def _linked(adapter: Resource, kind: str) -> tuple[str, ...]:
    found = (uri for controller in adapter.parts("Controllers") for uri in controller.links("Links", kind))
    return tuple(dict.fromkeys(found))


def _listed(reader: Reader, adapter: Resource, kind: str) -> tuple[str, ...]:
    uri = adapter.link(kind)
    return (reader.collection(uri, f"{adapter.about}.ports") or ()) if uri else ()


def _port(reader: Reader, port: Resource, function_uri: str) -> NicPort:
    mac = _address(_macs(port), 12)
    guid = _address(_guids(port), 16)
    layer = port.text("link_layer", "PortProtocol") or port.text("link_layer", "LinkNetworkTechnology")
    if not mac and not guid and function_uri:
        function = reader.get(function_uri, f"{port.about}.mac")
        mac, guid = _of_function(function) if function else (None, None)
    _note_address(reader, port, mac, guid, layer)
    return NicPort(
        id=port.id,
        mac=mac,
        guid=guid,
        link_layer=layer or port.text("link_layer", "ActiveLinkTechnology"),
        link_state=_LINK_WORDS.get(port.text("link_state", "LinkStatus") or ""),
        speed_gbit_s=port.number("speed_gbit_s", "CurrentSpeedGbps") or _mbps(port),
        speed_max_gbit_s=port.number("speed_max_gbit_s", "MaxSpeedGbps"),
        lldp_neighbour=port.text("", "Ethernet", "LLDPReceive", "SystemName"),
    )


def _macs(port: Resource) -> Iterable[str]:
    yield from port.texts("Ethernet", "AssociatedMACAddresses") or ()
    yield from port.texts("AssociatedNetworkAddresses") or ()  # NetworkPort, before Port replaced it


def _guids(port: Resource) -> Iterable[str]:
    yield from port.texts("InfiniBand", "AssociatedPortGUIDs") or ()
    yield from port.texts("AssociatedNetworkAddresses") or ()


def _of_function(function: Resource) -> tuple[str | None, str | None]:
    macs = (function.text("", "Ethernet", "PermanentMACAddress"), function.text("", "Ethernet", "MACAddress"))
    guids = (function.text("", "InfiniBand", "PermanentPortGUID"), function.text("", "InfiniBand", "PortGUID"))
    return _address((m for m in macs if m), 12), _address((g for g in guids if g), 16)


def _note_address(reader: Reader, port: Resource, mac: str | None, guid: str | None, layer: str | None) -> None:
    if not mac and not guid:
        lacking = "guid" if layer == "InfiniBand" else "mac"
        reader.notes.lack(f"{port.about}.{lacking}", port.uri, "not offered by the port nor by its function")


def _address(candidates: Iterable[str], digits: int) -> str | None:
    """The first address of the wanted length, upper case with colons; zeros are none."""
    for text in candidates:
        plain = re.sub(r"[:\-. ]|^0x", "", text.strip())
        if len(plain) == digits and _HEX_PAIRS.fullmatch(plain) and plain.strip("0"):
            return ":".join(plain[i : i + 2] for i in range(0, digits, 2)).upper()
    return None


def _mbps(port: Resource) -> float | None:
    speed = port.number("", "CurrentLinkSpeedMbps")  # NetworkPort
    return speed / 1000 if speed else None


def _last(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]
