"""GPUs and network adapters, each put together from what several tools say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inventory.findings import Evidence
from inventory.model import Gpu, Nic, NicPort, Source
from inventory.parsers.ethernet import NetInterface
from inventory.parsers.infiniband import RdmaDevice, RdmaPort
from inventory.parsers.nvlink import GpuLinks
from inventory.parsers.pci import PciDevice

# PCIe generation by transfer rate in GT/s. Source: PCI Express base specifications 1.0 to 6.0.
_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SHORT = 60  # our choice: a source stands in one line of a report; the whole command is in the evidence
_LINK_STATES = {"ACTIVE": "up", "INIT": "init", "ARMED": "init", "DOWN": "down"}  # sysfs → the inventory's words


def source_of(evidence: Evidence) -> Source:
    """Where and when a fact was read."""
    asked = evidence.asked if len(evidence.asked) <= _SHORT else f"{evidence.asked[: _SHORT - 1]}…"
    return Source(uri=asked, read_at=evidence.at, took_ms=round(evidence.took_s * 1000, 1), evidence=evidence)


def gpus_with_links(gpus: Iterable[Gpu], links: Iterable[GpuLinks], source: Source | None) -> tuple[Gpu, ...]:
    """nvidia-smi's GPUs with their NVLinks, joined by UUID."""
    by_uuid = {found.uuid: found for found in links}
    return tuple(_linked(gpu, by_uuid.get(gpu.uuid or ""), source) for gpu in gpus)


def _linked(gpu: Gpu, links: GpuLinks | None, source: Source | None) -> Gpu:
    facts: dict[str, object] = {"source": source}
    if links:
        facts["nvlinks_up"] = links.up
        facts["nvlinks_total"] = len(links.speeds_gbit_s) or None
        facts["nvlink_speed_gbit_s"] = links.slowest_gbit_s
    return gpu.model_copy(update=facts)


def nics_of(
    rdma: Iterable[RdmaDevice],
    pci: Iterable[PciDevice],
    interfaces: Iterable[NetInterface],
    source: Source | None,
) -> tuple[Nic, ...]:
    """One adapter per card: the functions of a dual-port card share serial or slot."""
    by_address = {device.address: device for device in pci}
    by_name = {interface.name: interface for interface in interfaces}
    cards: dict[str, list[RdmaDevice]] = {}
    for device in rdma:
        cards.setdefault(_card(device, by_address), []).append(device)
    return tuple(_nic(devices, by_address, by_name, source) for devices in cards.values())


def _card(device: RdmaDevice, by_address: Mapping[str, PciDevice]) -> str:
    function = by_address.get(device.pci_address or "")
    if function and function.serial:
        return function.serial
    return (device.pci_address or device.name).rpartition(".")[0] or device.name


def _nic(
    devices: list[RdmaDevice],
    by_address: Mapping[str, PciDevice],
    by_name: Mapping[str, NetInterface],
    source: Source | None,
) -> Nic:
    first = devices[0]
    function = by_address.get(first.pci_address or "")
    return Nic(
        id=first.name,
        serial=function.serial if function else None,
        part_number=function.part_number if function else None,
        firmware=first.firmware,
        pci_address=first.pci_address,
        pcie_width=function.width if function else None,
        pcie_generation=_GENERATION.get(function.speed_gt_s or 0.0) if function else None,
        ports=tuple(_port(device, port, by_name) for device in devices for port in device.ports),
        source=source,
    )


def _port(device: RdmaDevice, port: RdmaPort, by_name: Mapping[str, NetInterface]) -> NicPort:
    interface = by_name.get(device.interface or "")
    return NicPort(
        id=f"{device.name}/{port.number}",
        name=device.interface or device.name,
        mac=device.mac or _mac_of(device.node_guid),
        guid=port.guid,
        link_layer=port.link_layer,
        link_state=_LINK_STATES.get(port.state or "", (port.state or "").lower() or None),
        speed_gbit_s=port.rate_gbit_s,
        mtu=interface.mtu if interface else None,
    )


def _mac_of(guid: str | None) -> str | None:
    """mlx5 makes its node GUID from the card's MAC by putting 03:00 in the middle."""
    if not guid or guid[9:14] != "03:00":
        return None
    return f"{guid[:8]}:{guid[15:]}"
