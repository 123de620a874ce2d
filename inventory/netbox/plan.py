"""What would have to be written so that the book says what was found. Pure: same input, same plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from inventory.certificate import NodeCertificate
from inventory.findings import Finding, Outcome
from inventory.model import Frozen
from inventory.netbox.book import BookNode
from inventory.netbox.parts import PROFILES, SeenPart, SeenPort
from inventory.report import NodeReport

_WORDS = {"gpus": "GPU", "nics": "NIC", "dimms": "DIMM", "drives": "drive", "cpus": "CPU", "psus": "PSU"}


class PartType(Frozen):
    """A module type, as the catalogue has it or as it would be added."""

    id: int | None = None
    manufacturer: str
    model: str
    part_number: str = ""
    profile: str = ""


class NewPart(Frozen):
    """A part to be put into an empty bay."""

    bay_id: int
    bay: str
    seen: SeenPart
    type: PartType | None = None  # None until the catalogue was asked


class ChangedPart(Frozen):
    """A part that stays in its bay and gets other fields: a new serial after a swap, another firmware."""

    module_id: int
    bay: str
    fields: dict[str, Any]
    sentence: str

    @property
    def serial(self) -> str:
        """The serial it would get, if it gets one."""
        return str(self.fields.get("serial", ""))


class NewPort(Frozen):
    """A port to be added to a part; the part may itself be new."""

    name: str
    bay_id: int
    module_id: int | None
    seen: SeenPort


class ChangedPort(Frozen):
    """A port that gets another address."""

    port_id: int
    fields: dict[str, Any]
    sentence: str


class Known(Frozen):
    """What the rest of the book says about the parts of a plan."""

    elsewhere: dict[str, str] = Field(default_factory=dict)  # serial → where the book has it
    types: tuple[PartType, ...] = ()
    may_add_types: bool = False


class RecordPlan(Frozen):
    """The difference between book and report, as writes. Empty `writes` = the book says so already."""

    book: BookNode
    report: NodeReport
    certificate: NodeCertificate | None = None
    known: Known | None = None
    new_parts: tuple[NewPart, ...] = ()
    changed_parts: tuple[ChangedPart, ...] = ()
    new_ports: tuple[NewPort, ...] = ()
    changed_ports: tuple[ChangedPort, ...] = ()
    device: dict[str, Any] = Field(default_factory=dict)  # fields and custom fields of the device itself
    journal: str = ""
    journal_kind: str = "info"
    findings: tuple[Finding, ...] = ()  # what was not written, and why

    @property
    def parts_changed(self) -> bool:
        """Whether anything but the device itself is to be written."""
        return bool(self.new_parts or self.changed_parts or self.new_ports or self.changed_ports)

    @property
    def writes(self) -> tuple[str, ...]:
        """Every single change, one line each."""
        return (
            *(f"{part.bay}: {part.seen.model} enters the book" for part in self.new_parts),
            *(part.sentence for part in self.changed_parts),
            *(f"{port.name}: port added" for port in self.new_ports),
            *(port.sentence for port in self.changed_ports),
            *_device_sentences(self.book, self.device),
            *(("journal entry",) if self.journal else ()),
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The changes for people: new parts and ports are counted, all else is named."""
        return (
            *counted(self),
            *(part.sentence for part in self.changed_parts),
            *(port.sentence for port in self.changed_ports),
            *_device_sentences(self.book, self.device),
        )


def counted(plan: RecordPlan) -> tuple[str, ...]:
    """New parts and ports, by number."""
    kinds = Counter(_WORDS[part.seen.kind] for part in plan.new_parts)
    parts = [f"{number} {kind}" for kind, number in kinds.items()]
    if plan.new_ports:
        parts.append(f"{len(plan.new_ports)} ports")
    return (f"entered in NetBox: {', '.join(parts)}",) if parts else ()


def _device_sentences(book: BookNode, device: Mapping[str, Any]) -> tuple[str, ...]:
    plain = [(name, getattr(book, name), value) for name, value in device.items() if name != "custom_fields"]
    custom = [(name, book.custom_fields[name], value) for name, value in device.get("custom_fields", {}).items()]
    return tuple(f"{name}: {_changed(old, value)}" for name, old, value in (*plain, *custom))


def _changed(old: Any, new: Any) -> str:
    """Old and new; of a field that holds several values, those that changed."""
    if isinstance(new, dict):
        was = old if isinstance(old, dict) else {}
        return ", ".join(f"{k} {_changed(was.get(k), v)}" for k, v in new.items() if v != was.get(k))
    return f"{old or 'empty'} → {new or 'empty'}"


def note(metric: str, subject: str, cause: str, *, remedy: str, outcome: Outcome = Outcome.NOT_APPLICABLE) -> Finding:
    """Something that was left unwritten: told, and by itself no verdict on the node unless `outcome` says so."""
    return Finding(
        metric=metric,
        subject=subject,
        outcome=outcome,
        observed="not written to NetBox",
        expected="the book says what was found",
        remedy=remedy,
        source="NetBox",
        cause=cause,
    )


def resolve(plan: RecordPlan, known: Known) -> RecordPlan:
    """The plan once the rest of the book was asked: parts recorded elsewhere are not taken, types are filled in."""
    moved = [*_moved(plan, known)]
    typed = [_typed(part, known) for part in plan.new_parts if part.bay not in {f.subject for f in moved}]
    entered = tuple(part for part in typed if isinstance(part, NewPart))
    refused = tuple(part for part in typed if isinstance(part, Finding))
    gone = {f.subject for f in (*moved, *refused)}
    return plan.model_copy(
        update={
            "known": known,
            "new_parts": entered,
            "changed_parts": tuple(part for part in plan.changed_parts if part.bay not in gone),
            "new_ports": tuple(port for port in plan.new_ports if port.name.rpartition("/")[0] not in gone),
            "findings": (*plan.findings, *moved, *refused),
        }
    )


def _moved(plan: RecordPlan, known: Known) -> Iterable[Finding]:
    wanted = [(part.bay, part.seen.serial or "") for part in plan.new_parts]
    wanted += [(part.bay, part.serial) for part in plan.changed_parts]
    for bay, serial in wanted:
        if serial in known.elsewhere:
            yield note(
                "book_part",
                bay,
                f"{bay}: serial {serial} is in this node, but the book has it in {known.elsewhere[serial]}",
                remedy="Move the module in NetBox, or correct its serial there, and record again.",
                outcome=Outcome.ERROR,
            )


def _typed(part: NewPart, known: Known) -> NewPart | Finding:
    if part.seen.model is None:
        cause = f"{part.bay}: a part without a model name cannot be entered"
        return note("book_type", part.bay, cause, remedy="Enter the module in NetBox by hand.")
    held = next((kind for kind in known.types if same_type(part.seen, kind)), None)
    if held is None and not known.may_add_types:
        cause = f"{part.bay}: NetBox has no module type {part.seen.model}"
        return note("book_type", part.bay, cause, remedy="Add the module type, or let the token add types.")
    return part.model_copy(update={"type": held or new_type(part.seen)})


def new_type(seen: SeenPart) -> PartType:
    """The module type that would be added for a part nobody has entered before."""
    return PartType(
        manufacturer=maker(seen),
        model=seen.model or "",
        part_number=seen.part_number or "",
        profile=PROFILES[seen.kind],
    )


def maker(seen: SeenPart) -> str:
    """Who made it; GPUs and adapters whose BMC names no maker carry it in their model name."""
    if seen.manufacturer:
        return seen.manufacturer
    first = (seen.model or "").partition(" ")[0]
    return first if first.upper() == "NVIDIA" else "Unknown"


def same_type(seen: SeenPart, held: PartType) -> bool:
    """Same model or same part number, whatever the case and with or without the maker in front."""
    model, number = _bare(seen.model, seen.manufacturer), (seen.part_number or "").lower()
    return model == _bare(held.model, held.manufacturer) or (number != "" and number == held.part_number.lower())


def _bare(model: str | None, manufacturer: str | None) -> str:
    text = (model or "").lower()
    for name in ((manufacturer or "").lower(), "nvidia"):
        text = text.removeprefix(name).strip() if name else text
    return text


__all__ = [
    "ChangedPart",
    "ChangedPort",
    "Known",
    "NewPart",
    "NewPort",
    "PartType",
    "RecordPlan",
    "counted",
    "maker",
    "new_type",
    "note",
    "resolve",
    "same_type",
]
