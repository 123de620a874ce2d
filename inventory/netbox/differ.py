"""Book against report, bay by bay, port by port, field by field: `plan_record`. Pure, and it never forgets a fact.

What was asked and not answered overwrites nothing, and a part that could not be seen is not a part that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from inventory.certificate import NodeCertificate
from inventory.findings import Finding, Outcome, Verdict
from inventory.model import Software
from inventory.model import now as now_utc
from inventory.netbox.book import BookBay, BookNode, BookPart, BookPort
from inventory.netbox.journal import entry, entry_kind
from inventory.netbox.parts import PROFILES, SeenPart, SeenPort, bay_key, clean, clean_serial, half_read, seen_parts
from inventory.netbox.plan import ChangedPart, ChangedPort, NewPart, NewPort, PartType, RecordPlan, note, same_type
from inventory.report import NodeReport, Stage, verdict_of

Placed = dict[int, SeenPart]  # bay id → what was seen there

# The device's custom fields that a record writes.
_OWN_FIELDS = (
    "node_uuid", "bios_version", "bmc_version", "bios_profile", "os_image", "software", "verdict", "provision_phase",
    "certificate_id", "certificate_expires", "validation_run", "validated_at",
)  # fmt: skip
_MAY_FAIL = ("active", "staged")  # the only states a failed validation leaves; all other moves are a person's
_BEFORE_RECORD = tuple(stage for stage in Stage if stage not in (Stage.RECORD, Stage.JOIN))
# Bay names by kind, for modules whose type has no profile.
_PREFIXES = {"gpu": "gpus", "pcie": "nics", "nic": "nics", "ocp": "nics", "dimm": "dimms", "nvme": "drives",
             "drive": "drives", "disk": "drives", "cpu": "cpus", "psu": "psus"}  # fmt: skip
_KINDS = {profile: kind for kind, profile in PROFILES.items()}
_SOFTWARE = ("os", "kernel", "driver", "cuda", "nccl", "fabric_manager", "dcgm", "containerd", "kubelet", "kubeadm")


def plan_record(book: BookNode, report: NodeReport, certificate: NodeCertificate | None = None) -> RecordPlan:
    """The writes that make the book say what this report found; an identity that does not fit writes nothing."""
    alarm = identity_alarm(book, report)
    if alarm:
        stopped = RecordPlan(book=book, report=report, findings=(alarm,))
        return _with_journal(stopped, Verdict.UNDECIDED, "danger")
    placed, findings = place(book, seen_parts(report))
    changed, others = _changed_parts(book, report, placed)
    plan = RecordPlan(
        book=book,
        report=report,
        certificate=certificate,
        new_parts=tuple(_new_parts(book, placed)),
        changed_parts=changed,
        new_ports=tuple(_new_ports(book, placed)),
        changed_ports=tuple(_changed_ports(book, placed)),
        findings=(*findings, *others, *_not_set_up(book)),
    )
    return finish(plan)


def _not_set_up(book: BookNode) -> Iterator[Finding]:
    """Custom fields this NetBox lacks: their facts are left out of the book, and that is said."""
    lacking = [name for name in _OWN_FIELDS if name not in book.custom_fields]
    if lacking:
        cause = f"NetBox has no custom field {', '.join(lacking)} on devices"
        yield note("book_field", "node", cause, remedy="Set the custom fields up: rackmint netbox init")


def finish(plan: RecordPlan) -> RecordPlan:
    """The plan with the device's own fields and the journal entry, which depend on all the rest."""
    plan = plan.model_copy(update={"device": _device(plan), "journal": ""})
    if not plan.writes:
        return plan
    said = verdict(plan.report, plan.certificate)
    return _with_journal(plan, said, entry_kind(said))


def _with_journal(plan: RecordPlan, said: Verdict, kind: str) -> RecordPlan:
    return plan.model_copy(update={"journal": entry(plan, said), "journal_kind": kind})


def verdict(report: NodeReport, certificate: NodeCertificate | None) -> Verdict:
    """What the book says of the node: accepted only with a certificate in hand."""
    if certificate:
        return Verdict.ACCEPTED
    rejected = verdict_of(report.records, _BEFORE_RECORD) is Verdict.REJECTED
    return Verdict.REJECTED if rejected else Verdict.UNDECIDED


def identity_alarm(book: BookNode, report: NodeReport) -> Finding | None:
    """Another machine than the book means: a swapped board or a cloned record, and for a person to sort out."""
    identity = report.inventory.identity
    seen = [clean_serial(s) for s in (identity.serial, identity.sku, identity.board_serial)]
    if clean_serial(book.serial) and seen[0] and book.serial.lower() not in [s.lower() for s in seen if s]:
        return _alarm("serial", book.serial, seen[0])
    uuid, recorded = (identity.uuid or "").lower(), book.text("node_uuid").lower()
    if uuid and recorded and uuid != recorded:
        return _alarm("UUID", recorded, uuid)
    return None


def _alarm(what: str, recorded: str, seen: str) -> Finding:
    return note(
        "book_identity",
        "node",
        f"NetBox has {what} {recorded} for this node, its BMC says {clean(seen, 50)}",
        remedy=f"Find out which machine this is; if the board was replaced, correct the {what} in NetBox.",
        outcome=Outcome.ERROR,
    )


def place(book: BookNode, seen: Iterable[SeenPart]) -> tuple[Placed, tuple[Finding, ...]]:
    """Each part in its bay: by slot, else where its serial already stands. What fits nowhere is told."""
    by_key = {bay_key(bay.name): bay for bay in book.bays}
    by_serial = {bay.part.serial: bay for bay in book.bays if bay.part and bay.part.serial}
    placed: Placed = {}
    findings: list[Finding] = []
    for part in seen:
        bay = next((by_key[key] for key in part.bays if key in by_key), None) or by_serial.get(part.serial or "")
        if bay is None:
            findings += _homeless(part)
        elif bay.id in placed:
            cause = f"{bay.name}: both {placed[bay.id].label} and {part.label} say they stand here"
            findings.append(note("book_bay", bay.name, cause, remedy="Check what the BMC calls its slots."))
        else:
            placed[bay.id] = part
    return placed, tuple(findings)


def _homeless(part: SeenPart) -> list[Finding]:
    if part.kind in ("cpus", "psus"):  # recorded where the device type has bays for them, and not missed elsewhere
        return []
    cause = f"{part.label}: the device type in NetBox has no bay for it"
    return [note("book_bay", part.label, cause, remedy="Add the bay to the device type, and to the device.")]


def _new_parts(book: BookNode, placed: Placed) -> Iterator[NewPart]:
    for bay in book.bays:
        if bay.part is None and bay.id in placed:
            yield NewPart(bay_id=bay.id, bay=bay.name, seen=placed[bay.id])


def _changed_parts(
    book: BookNode, report: NodeReport, placed: Placed
) -> tuple[tuple[ChangedPart, ...], tuple[Finding, ...]]:
    changed: list[ChangedPart] = []
    findings: list[Finding] = []
    for bay in book.bays:
        if bay.part is None:
            continue
        seen = placed.get(bay.id)
        if seen is None:
            changed += _gone(book, bay, bay.part, report, placed)
        elif not _fits(seen, bay.part):
            findings.append(_other_model(bay.name, bay.part, seen))
        elif fields := _part_fields(bay.part, seen):
            changed.append(_changed(bay.name, bay.part, fields))
    return tuple(changed), tuple(findings)


def _fits(seen: SeenPart, part: BookPart) -> bool:
    held = PartType(manufacturer=part.manufacturer, model=part.model, part_number=part.part_number)
    return seen.model is None or same_type(seen, held)


def _other_model(bay: str, part: BookPart, seen: SeenPart) -> Finding:
    cause = f"{bay}: the book has a {part.model}, found was a {seen.model} (serial {seen.serial or 'unknown'})"
    return note("book_type", bay, cause, remedy="If the other model is meant to be there, change the module's type.")


def _part_fields(part: BookPart, seen: SeenPart) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if seen.serial and seen.serial != part.serial:
        fields["serial"] = seen.serial
    if part.status in ("offline", "planned", "staged"):  # it is there; "failed" may be a person's word and stays
        fields["status"] = "active"
    wanted = {"firmware": seen.firmware, "gpu_uuid": seen.uuid}
    custom = {n: v for n, v in wanted.items() if v and n in part.custom_fields and v != part.custom_fields[n]}
    return {**fields, "custom_fields": custom} if custom else fields


def _changed(bay: str, part: BookPart, fields: dict[str, Any]) -> ChangedPart:
    old: dict[str, Any] = {"serial": part.serial, "status": part.status, **part.custom_fields}
    flat = {**fields, **fields.get("custom_fields", {})}
    flat.pop("custom_fields", None)
    words = ", ".join(f"{name} {old.get(name) or 'empty'} → {value}" for name, value in flat.items())
    return ChangedPart(module_id=part.id, bay=bay, fields=fields, sentence=f"{bay}: {words}")


def _gone(book: BookNode, bay: BookBay, part: BookPart, report: NodeReport, placed: Placed) -> list[ChangedPart]:
    """A part that a whole reading does not show any more: off line in the book, never deleted."""
    kind = _kind(bay, part)
    if kind is None or part.status == "offline" or half_read(report.inventory, kind):
        return []
    unplaced = len(getattr(report.inventory, kind)) > sum(seen.kind == kind for seen in placed.values())
    return [] if unplaced else [_changed(bay.name, part, {"status": "offline"})]


def _kind(bay: BookBay, part: BookPart) -> str | None:
    key = bay_key(bay.name)
    by_name = (kind for prefix, kind in _PREFIXES.items() if key.startswith(prefix))
    return _KINDS.get(part.kind) or next(by_name, None)


def _ports(book: BookNode, placed: Placed) -> Iterator[tuple[BookBay, SeenPort, BookPort | None]]:
    """Every port seen with an address, and the port of the book that it is."""
    for bay in book.bays:
        seen = placed.get(bay.id)
        if seen and (bay.part is None or _fits(seen, bay.part)):
            for port in seen.ports:
                if port.mac or port.guid:
                    yield bay, port, _match(book, bay, port)


def _match(book: BookNode, bay: BookBay, seen: SeenPort) -> BookPort | None:
    """By address, then by the part it sits on, then by name; never a port of another part."""
    module_id = bay.part.id if bay.part else None
    mine = [p for p in book.ports if not p.mgmt_only and p.module_id in (module_id, None)]
    by_address = (p for p in mine if (seen.mac and seen.mac in p.macs) or (seen.guid and seen.guid == p.wwn))
    name = port_name(bay.name, seen.number)
    on_part = [p for p in mine if p.module_id is not None]
    nth = on_part[seen.number - 1] if len(on_part) >= seen.number else None
    return next(by_address, None) or next((p for p in mine if p.name == name), None) or nth


def port_name(bay: str, number: int) -> str:
    """Port names hang on the slot: what the operating system calls them changes with every boot order."""
    return f"{bay}/{number}"


def _new_ports(book: BookNode, placed: Placed) -> Iterator[NewPort]:
    for bay, seen, held in _ports(book, placed):
        if held is None:
            module_id = bay.part.id if bay.part else None
            yield NewPort(name=port_name(bay.name, seen.number), bay_id=bay.id, module_id=module_id, seen=seen)


def _changed_ports(book: BookNode, placed: Placed) -> Iterator[ChangedPort]:
    for _, seen, held in _ports(book, placed):
        if held is None:
            continue
        fields = {}
        if seen.mac and seen.mac not in (held.mac, *held.macs):
            fields["mac_address"] = seen.mac
        if seen.guid and seen.guid != held.wwn:
            fields["wwn"] = seen.guid
        if fields:
            old = {"mac_address": held.mac, "wwn": held.wwn}
            words = ", ".join(f"{name} {old[name] or 'empty'} → {value}" for name, value in fields.items())
            yield ChangedPort(port_id=held.id, fields=fields, sentence=f"{held.name}: {words}")


def _device(plan: RecordPlan) -> dict[str, Any]:
    """The device's own fields that differ; run and time of validation move only when something else does."""
    book, report = plan.book, plan.report
    said = verdict(report, plan.certificate)
    fields: dict[str, Any] = {}
    serial = clean_serial(report.inventory.identity.serial)
    if serial and not clean_serial(book.serial):
        fields["serial"] = serial
    if said is Verdict.REJECTED and book.status in _MAY_FAIL:
        fields["status"] = "failed"
    custom = {n: v for n, v in _facts(plan, said).items() if n in book.custom_fields and _differs(book, n, v)}
    if custom or fields or plan.parts_changed:
        ended = max((r.ended_at for r in report.records), default=now_utc())
        stamps = {"validation_run": report.run_id, "validated_at": _seconds(ended)}
        custom |= {n: v for n, v in stamps.items() if n in book.custom_fields}
    return {**fields, "custom_fields": custom} if custom else fields


def _facts(plan: RecordPlan, said: Verdict) -> dict[str, Any]:
    """Custom fields by name; a fact that was not had is left out, so that the last one stands."""
    inventory, software = plan.report.inventory, plan.report.software
    facts: dict[str, Any] = {
        "node_uuid": clean((inventory.identity.uuid or "").lower()),
        "bios_version": clean(inventory.bios.version),
        "bmc_version": clean(inventory.bmc_version),
        "os_image": _image(software),
        "software": _software(plan.book, software),
        "verdict": said.value,
        "provision_phase": _phase(plan.report, said),
    }
    held = {name: value for name, value in facts.items() if value not in (None, "", {})}
    if plan.certificate:
        until = _seconds(plan.certificate.expires_at)
        own = {"certificate_id": plan.certificate.certificate_id, "certificate_expires": until}
        return held | own | {"bios_profile": plan.certificate.bios_profile}
    if said is Verdict.REJECTED:  # what was proven once is proven no longer
        return held | {"certificate_id": None, "certificate_expires": None}
    return held


def _phase(report: NodeReport, said: Verdict) -> str:
    if said is not Verdict.UNDECIDED:
        return {Verdict.ACCEPTED: "passed", Verdict.REJECTED: "failed"}[said]
    done = {record.stage for record in report.records if record.passed}
    return next((stage.value for stage in _BEFORE_RECORD if stage not in done), "record")


def _image(software: Software) -> str | None:
    if not software.image_name:
        return None
    return clean(
        f"{software.image_name}@sha256:{software.image_digest}" if software.image_digest else software.image_name
    )


def _software(book: BookNode, software: Software) -> dict[str, Any]:
    held = book.custom_fields.get("software")
    found = {name: clean(str(value)) for name in _SOFTWARE if (value := getattr(software, name)) is not None}
    return {**(held if isinstance(held, dict) else {}), **found}


def _differs(book: BookNode, name: str, value: Any) -> bool:
    held = book.custom_fields[name]
    if value is None or held is None:
        return (held or None) != (value or None)
    if name == "certificate_expires":
        return datetime.fromisoformat(str(held).replace("Z", "+00:00")) != datetime.fromisoformat(str(value))
    return bool(held != value)


def _seconds(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat()
