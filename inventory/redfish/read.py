"""Reading whole nodes in three lanes: fast (what decides), parts (what is counted), firmware (what is slow)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from inventory.model import Bios, Cpu, Dimm, Drive, Evidence, Firmware, Gpu, Identity, Inventory, Nic, Psu
from inventory.redfish.bios import read_bios
from inventory.redfish.boot import read_boot
from inventory.redfish.client import Wire
from inventory.redfish.crawl import Notes, Reader, Resource
from inventory.redfish.explain import explained
from inventory.redfish.gpus import find_gpus
from inventory.redfish.hosts import Systems
from inventory.redfish.nics import find_nics
from inventory.redfish.parts import read_cpus, read_dimms, read_drives, read_firmware, read_identity, read_psus
from inventory.redfish.power import power_of
from inventory.redfish.quirks import Trait

FAST, PARTS, FIRMWARE = "fast", "parts", "firmware"
_SETTLE_TRIES = 3  # our choice: a GPU that is still sparse at the third look is reported as unknown


@dataclass
class Lanes:
    """Requests spent, by lane."""

    requests: dict[str, int] = field(default_factory=dict)

    def count(self, lane: str, requests: int) -> None:
        """Add to a lane."""
        self.requests[lane] = self.requests.get(lane, 0) + requests


@dataclass(frozen=True)
class Start:
    """What reading a node starts from: root, systems, and how this BMC must be asked."""

    root: Resource
    systems: Systems
    traits: frozenset[Trait]
    expands: bool
    offers_expand: bool


def read_node(
    wire: Wire, start: Start, host: Resource, lanes: Lanes, *, parts: bool, firmware: bool, deep: bool
) -> Inventory:
    """One node with everything its BMC tells; `deep` also asks each NVLink singly where there is no other way."""
    notes = Notes()
    reader = _reader(wire, notes, start, host)
    reader.deep = deep
    begun = wire.requests
    inventory = _fast(reader, start, host.renamed(""))
    reader.keep(FAST, host)
    lanes.count(FAST, wire.requests - begun)
    if parts:
        begun = wire.requests
        inventory = inventory.model_copy(update=_parts(reader, host))
        reader.keep(PARTS)
        lanes.count(PARTS, wire.requests - begun)
    if firmware:
        begun = wire.requests
        inventory = inventory.model_copy(update={"firmware": read_firmware(reader, start.root)})
        reader.keep(FIRMWARE)
        lanes.count(FIRMWARE, wire.requests - begun)
    _say_what_was_not_asked(notes, parts=parts, firmware=firmware)
    return _with_evidence(inventory.model_copy(update={"missing": explained(inventory, notes)}), reader.kept)


_PARTS = ("gpus", "nics", "dimms", "drives", "cpus", "psus", "firmware")
Sourced = TypeVar("Sourced", Identity, Bios, Gpu, Nic, Dimm, Drive, Cpu, Psu, Firmware)


def _with_evidence(inventory: Inventory, kept: Mapping[str, Evidence]) -> Inventory:
    """Each part's source with the kept raw answer that it was read from."""
    parts = {name: tuple(rests_on(part, kept) for part in getattr(inventory, name)) for name in _PARTS}
    return inventory.model_copy(
        update={
            "identity": rests_on(inventory.identity, kept),
            "bios": rests_on(inventory.bios, kept),
            **parts,
        }
    )


def rests_on(part: Sourced, kept: Mapping[str, Evidence]) -> Sourced:
    """A part whose source names the kept raw answer it was read from."""
    if part.source is None:
        return part
    # A member that came expanded stands in the answer of its collection.
    evidence = kept.get(part.source.uri) or kept.get(part.source.uri.rpartition("/")[0])
    return part.model_copy(update={"source": part.source.model_copy(update={"evidence": evidence})})


def _reader(wire: Wire, notes: Notes, start: Start, host: Resource) -> Reader:
    wire.be_patient()
    reader = Reader(wire, notes)
    reader.expands, reader.offers_expand = start.expands, start.offers_expand
    reader.host_on = power_of(host) == "On"
    return reader


def _fast(reader: Reader, start: Start, host: Resource) -> Inventory:
    chassis = _chassis(reader, host)
    manager_uri = next(iter(host.links("Links", "ManagedBy")), "")
    manager = reader.get(manager_uri, "bmc_version") if manager_uri else None
    if not reader.host_on:
        reader.wire.be_patient(0.0)  # a baseboard without power answers 503 as long as one asks: NVIDIA/libredfish#134
    baseboards = _baseboards(reader, start) if len(start.systems.hosts) == 1 else ()
    gpus, place = _settled_gpus(reader, host, baseboards, chassis)
    reader.wire.be_patient()
    return Inventory(
        identity=read_identity(reader, host, chassis, manager, start.traits),
        power=host.text("power", "PowerState"),
        gpus=gpus,
        gpus_found_in=place,
        nics=find_nics(reader, chassis),
        cpus=read_cpus(reader, host),
        bios=read_bios(reader, host),
        boot=read_boot(reader, host),
        bmc_version=manager.renamed("").text("bmc_version", "FirmwareVersion") if manager else None,
    )


def _baseboards(reader: Reader, start: Start) -> tuple[Resource, ...]:
    """The GPU baseboards, those included that slept when the BMC was first asked."""
    woken = (reader.get(uri, "gpus") for uri in start.systems.asleep)
    return (*start.systems.baseboards, *(system for system in woken if system))


def _chassis(reader: Reader, host: Resource) -> tuple[Resource, ...]:
    read = (reader.get(uri, "chassis") for uri in host.links("Links", "Chassis"))
    return tuple(chassis for chassis in read if chassis)


def _settled_gpus(
    reader: Reader, host: Resource, baseboards: tuple[Resource, ...], chassis: tuple[Resource, ...]
) -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs, once they say who they are: a baseboard waking up lists them before it knows their serials."""
    gpus, place = find_gpus(reader, host, baseboards, chassis)
    for _ in range(_SETTLE_TRIES - 1):
        sparse = [gpu for gpu in gpus if gpu.serial is None and gpu.uuid is None]
        if not sparse or not reader.host_on:
            break
        reader.wire.deadline.wait(reader.wire.poll_s, f"{len(sparse)} GPUs to tell their serials")
        reader.forget("/Processors")
        gpus, place = find_gpus(reader, host, baseboards, chassis)
    for gpu in gpus:
        if gpu.serial is None and gpu.uuid is None:
            reader.notes.lack(
                f"gpus[{gpu.id}]", gpu.source.uri if gpu.source else "", "unknown: sparse, no serial, no UUID"
            )
    return gpus, place


def _parts(reader: Reader, host: Resource) -> dict[str, object]:
    chassis = _chassis(reader, host)
    return {
        "dimms": read_dimms(reader, host),
        "drives": read_drives(reader, host, chassis),
        "psus": read_psus(reader, chassis),
    }


def _say_what_was_not_asked(notes: Notes, *, parts: bool, firmware: bool) -> None:
    lacking = () if parts else ("dimms", "drives", "psus")
    for fact in (*lacking, *(() if firmware else ("firmware",))):
        notes.lack(fact, "", "not asked")
