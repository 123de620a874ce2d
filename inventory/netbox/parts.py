"""What a BMC found, in the words of the book: parts with the bays they may stand in, and ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inventory.model import Cpu, Dimm, Drive, Frozen, Gpu, Inventory, Nic, NicPort, Psu
from inventory.report import NodeReport

# What firmware says when nobody wrote a serial. Source: issues of NetBox importers (netbox-sync 74, 159; ssot 893).
_PLACEHOLDERS = frozenset({
    "", "0", "na", "n/a", "none", "null", "unknown", "not available", "not specified", "not present", "no dimm",
    "default string", "to be filled by o.e.m.", "system serial number", "chassis serial number",
})  # fmt: skip
_SERIAL_LONGEST, _MODEL_LONGEST, _NAME_LONGEST = 50, 100, 50  # NetBox's columns; cf. its models' max_length
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")  # also bidi overrides
_MAC = re.compile(r"^(?:[0-9A-F]{2}:){5}[0-9A-F]{2}$")
_GUID = re.compile(r"^(?:[0-9A-F]{2}:){7}[0-9A-F]{2}$")

KINDS = ("gpus", "nics", "dimms", "drives", "cpus", "psus")  # as the inventory names its lists
# The module type profiles that NetBox ships, by our kinds.
PROFILES = {
    "gpus": "GPU", "nics": "Expansion card", "dimms": "Memory", "drives": "Hard disk", "cpus": "CPU",
    "psus": "Power supply",
}  # fmt: skip


class SeenPort(Frozen):
    """One port of an adapter, as it was seen."""

    number: int  # counted from 1 within its adapter
    mac: str | None = None
    guid: str | None = None
    type: str = "other"  # NetBox's interface type


class SeenPart(Frozen):
    """One part, as it was seen. `None` = asked and not answered, which overwrites nothing."""

    kind: str
    label: str  # how the BMC calls it
    bays: tuple[str, ...]  # normalised names of bays it may stand in, best first
    serial: str | None = None
    model: str | None = None
    part_number: str | None = None
    manufacturer: str | None = None
    firmware: str | None = None
    uuid: str | None = None
    ports: tuple[SeenPort, ...] = ()


def clean(text: str | None, longest: int = 200) -> str | None:
    """Text from a machine made fit for the book: no control characters, no endless names; None when nothing is left."""
    if text is None:
        return None
    return _CONTROL.sub(" ", text).strip()[:longest].strip() or None


def clean_serial(serial: str | None) -> str | None:
    """A serial that identifies something; None for the placeholders firmware is shipped with."""
    text = clean(serial, _SERIAL_LONGEST)
    if text is None or text.lower() in _PLACEHOLDERS or len(set(text)) == 1:
        return None
    return text


def bay_key(name: str) -> str:
    """Bay and slot names compared without case, punctuation and leading zeros: "DIMM_A1" = "dimm a01"."""
    apart = re.sub(r"(?<=\d)[^a-z0-9]+(?=\d)", "-", name.lower())  # "1-10" and "11-0" stay two
    return re.sub(r"(?<!\d)0+(?=\d)", "", re.sub(r"[^a-z0-9-]|(?<!\d)-|-(?!\d)", "", apart))


def seen_parts(report: NodeReport) -> tuple[SeenPart, ...]:
    """All parts of a report's inventory in the book's words."""
    inventory = report.inventory
    slots = _slots_by_serial(r.inventory for r in report.records if r.inventory)
    return (
        *(_gpu(gpu, gpu.slot or slots.get(gpu.serial or "")) for gpu in inventory.gpus),
        *(_nic(nic, nic.slot or slots.get(nic.serial or "")) for nic in inventory.nics),
        *map(_dimm, inventory.dimms),
        *map(_drive, inventory.drives),
        *map(_cpu, inventory.cpus),
        *map(_psu, inventory.psus),
    )


def half_read(inventory: Inventory, kind: str) -> bool:
    """Whether parts of this kind may be there and unseen: nothing listed, or a list or an entry could not be read."""
    gaps = (gap.fact for gap in inventory.missing if gap.fact.split("[")[0].split(".")[0] == kind)
    return not getattr(inventory, kind) or any("." not in re.sub(r"\[[^\]]*\]", "", gap) for gap in gaps)


def _slots_by_serial(inventories: Iterable[Inventory]) -> dict[str, str]:
    """Slots as the BMC gave them: in-band readings know serials and no slots."""
    found = list(inventories)
    gpus = {gpu.serial: gpu.slot for i in found for gpu in i.gpus if gpu.serial and gpu.slot}
    nics = {nic.serial: nic.slot for i in found for nic in i.nics if nic.serial and nic.slot}
    return gpus | nics


def _gpu(gpu: Gpu, slot: str | None) -> SeenPart:
    return SeenPart(
        kind="gpus",
        label=gpu.id,
        bays=_gpu_bays(slot, gpu.id),
        serial=clean_serial(gpu.serial),
        model=clean(gpu.model, _MODEL_LONGEST),
        part_number=clean(gpu.part_number, _NAME_LONGEST),
        manufacturer=clean(gpu.manufacturer, _NAME_LONGEST),
        firmware=clean(gpu.firmware),
        uuid=clean(gpu.uuid),
    )


def _nic(nic: Nic, slot: str | None) -> SeenPart:
    return SeenPart(
        kind="nics",
        label=nic.id,
        bays=_bays(slot, nic.id, "pcie", "nic", "ocp"),
        serial=clean_serial(nic.serial),
        model=clean(nic.model, _MODEL_LONGEST),
        part_number=clean(nic.part_number, _NAME_LONGEST),
        manufacturer=clean(nic.manufacturer, _NAME_LONGEST),
        firmware=clean(nic.firmware),
        ports=tuple(_port(number, port) for number, port in enumerate(nic.ports, 1)),
    )


def _port(number: int, port: NicPort) -> SeenPort:
    mac, guid = (port.mac or "").upper(), (port.guid or "").upper()
    return SeenPort(
        number=number,
        mac=mac if _MAC.match(mac) else None,
        guid=guid if _GUID.match(guid) else None,
        type=port_type(port.link_layer, port.speed_max_gbit_s or port.speed_gbit_s),
    )


# NetBox's interface types by link layer and Gbit/s, for the cages GPU servers have. Source: its InterfaceTypeChoices.
_PORT_TYPES = {
    ("InfiniBand", 100): "infiniband-edr-4x",
    ("InfiniBand", 200): "infiniband-hdr-4x",
    ("InfiniBand", 400): "infiniband-ndr-4x",
    ("InfiniBand", 800): "infiniband-xdr-4x",
    ("Ethernet", 1): "1000base-t",
    ("Ethernet", 10): "10gbase-x-sfpp",
    ("Ethernet", 25): "25gbase-x-sfp28",
    ("Ethernet", 100): "100gbase-x-qsfp28",
    ("Ethernet", 200): "200gbase-x-qsfp56",
    ("Ethernet", 400): "400gbase-x-osfp",
    ("Ethernet", 800): "800gbase-x-osfp",
}


def port_type(link_layer: str | None, gbit_s: float | None) -> str:
    """NetBox's word for a port; "other" when layer or rate are not known."""
    return _PORT_TYPES.get((link_layer or "", round(gbit_s or 0)), "other")


def _dimm(dimm: Dimm) -> SeenPart:
    size = f"DIMM {dimm.size_mib // 1024} GiB" if dimm.size_mib else None
    part_number = clean(dimm.part_number, _NAME_LONGEST)
    return SeenPart(
        kind="dimms",
        label=dimm.slot or dimm.id,
        bays=_bays(dimm.slot, dimm.id, "dimm"),
        serial=clean_serial(dimm.serial),
        model=part_number or size,
        part_number=part_number,
        manufacturer=clean(dimm.manufacturer, _NAME_LONGEST),
    )


def _drive(drive: Drive) -> SeenPart:
    return SeenPart(
        kind="drives",
        label=drive.slot or drive.id,
        bays=_bays(drive.slot, drive.id, "nvme", "drive", "disk"),
        serial=clean_serial(drive.serial),
        model=clean(drive.model, _MODEL_LONGEST),
        manufacturer=clean(drive.manufacturer, _NAME_LONGEST),
        firmware=clean(drive.firmware),
    )


def _cpu(cpu: Cpu) -> SeenPart:
    return SeenPart(
        kind="cpus",
        label=cpu.id,
        bays=_bays(None, cpu.id),
        serial=clean_serial(cpu.serial),
        model=clean(cpu.model, _MODEL_LONGEST),
        manufacturer=clean(cpu.manufacturer, _NAME_LONGEST),
    )


def _psu(psu: Psu) -> SeenPart:
    return SeenPart(
        kind="psus",
        label=psu.id,
        bays=_bays(None, psu.id),
        serial=clean_serial(psu.serial),
        model=clean(psu.model, _MODEL_LONGEST),
        firmware=clean(psu.firmware),
    )


def _gpu_bays(slot: str | None, part_id: str) -> tuple[str, ...]:
    """A GPU that stands in "PCIe 1" goes into bay GPU1 where there is one: PCIe1 is an adapter's."""
    return tuple(sorted(_bays(slot, part_id, "gpu"), key=lambda key: not key.startswith("gpu")))


def _bays(slot: str | None, part_id: str, *prefixes: str) -> tuple[str, ...]:
    """The slot as it is called, then by number under the usual names; an id counts only when it names a place.

    A bare number as id is an index (nvidia-smi's "0"), and an index is no place.
    """
    place = slot or ("" if part_id.isdigit() else part_id)
    number = re.search(r"(\d+)\D*$", place)
    names = [place, *(f"{prefix}{number.group(1)}" for prefix in prefixes if number)]
    # A bare number would fit a GPU's, a riser's and a fan's bay alike.
    return tuple(dict.fromkeys(key for name in names if (key := bay_key(name)) and not key.isdigit()))
