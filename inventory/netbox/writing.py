"""Carries a record plan out, in an order that a crash at any point leaves repeatable: parts, journal, swaps, device.

The device comes last and carries the run: until it is written, a next try finds work to do and ends in the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inventory.errors import BookUnreachable, ChangeRefused
from inventory.netbox.book import BookNode
from inventory.netbox.claims import refuse_held
from inventory.netbox.journal import mark
from inventory.netbox.parts import SeenPort, bay_key
from inventory.netbox.plan import NewPart, PartType, RecordPlan
from inventory.netbox.reading import read_nodes
from inventory.netbox.wire import Row, Wire

Fence = Callable[[], None]

TAG = "rackmint"  # on everything that is created here; nothing without it is ever deleted
_MAC_WRITABLE = (4, 7)  # below, a port's MAC is an object of its own: netbox#18708


def carry_out(wire: Wire, plan: RecordPlan, tags: list[int], fence: Fence) -> None:
    """Write the plan, step by step; each step first makes sure that the node is still ours."""
    for step in (_enter_parts, _change_ports, _journal, _change_parts, _change_device):
        fence()
        step(wire, plan, tags)


def _enter_parts(wire: Wire, plan: RecordPlan, tags: list[int]) -> None:
    modules = _post_parts(wire, plan, tags)
    ports = [_port_row(plan, port.name, port.seen, port.module_id or modules[port.bay_id]) for port in plan.new_ports]
    if ports:
        _post_ports(wire, plan, [{**port, "tags": tags} for port in ports])


def _post_parts(wire: Wire, plan: RecordPlan, tags: list[int]) -> dict[int, int]:
    """Module ids by bay id."""
    if not plan.new_parts:
        return {}
    types = _add_types(wire, plan)
    rows = [{**_part_row(plan, part, types), "tags": tags} for part in plan.new_parts]
    made = wire.post("dcim/modules", rows, plan.book.name)
    return {int(row["module_bay"]["id"]): int(row["id"]) for row in made}


def _part_row(plan: RecordPlan, part: NewPart, types: dict[str, int]) -> Row:
    seen = part.seen
    custom = {"firmware": seen.firmware, "gpu_uuid": seen.uuid}
    return {
        "device": plan.book.id,
        "module_bay": part.bay_id,
        "module_type": _type_id(part.type, types),
        "serial": seen.serial or "",
        "status": "active",
        "replicate_components": False,  # else each module re-reads nine kinds of component: 2.9 s of CPU for 32 DIMMs
        "changelog_message": plan.report.run_id,
        "custom_fields": {name: value for name, value in custom.items() if value},
    }


def _type_id(kind: PartType | None, added: dict[str, int]) -> int:
    if kind is None:
        raise ValueError("the plan was not resolved against the catalogue")
    return kind.id if kind.id is not None else added[kind.model]


def _add_types(wire: Wire, plan: RecordPlan) -> dict[str, int]:
    """Add module types nobody has entered before; ids by model. Plans hold them only where the token may add."""
    wanted = {part.type.model: part.type for part in plan.new_parts if part.type and part.type.id is None}
    if not wanted:
        return {}
    makers = add_makers(wire, {kind.manufacturer for kind in wanted.values()}, plan.book.name)
    profiles = {row["name"]: row["id"] for row in wire.listed("dcim/module-type-profiles", fields=("id", "name"))}
    rows = {
        kind.model: {
            "manufacturer": makers[kind.manufacturer],
            "model": kind.model,
            "part_number": kind.part_number,
            "profile": profiles.get(kind.profile),
        }
        for kind in wanted.values()
    }

    def held() -> dict[str, int]:
        found = wire.listed_by("dcim/module-types", "model", rows, fields=("id", "model", "manufacturer"))
        ours = {(row["manufacturer"], row["model"]) for row in rows.values()}
        return {row["model"]: int(row["id"]) for row in found if (row["manufacturer"]["id"], row["model"]) in ours}

    return _add_missing(wire, "dcim/module-types", rows, held, plan.book.name)


def add_makers(wire: Wire, names: Iterable[str], who: str) -> dict[str, int]:
    """Manufacturer ids by name; a name that differs in case or punctuation alone is the same maker."""
    keys = {name: bay_key(name) for name in names}
    rows = {key: {"name": name, "slug": slug(name)} for name, key in keys.items()}

    def held() -> dict[str, int]:
        found = wire.listed("dcim/manufacturers", fields=("id", "name"))
        return {bay_key(row["name"]): int(row["id"]) for row in found}

    ids = _add_missing(wire, "dcim/manufacturers", rows, held, who)
    return {name: ids[key] for name, key in keys.items()}


def _add_missing(
    wire: Wire, path: str, rows: Mapping[str, Row], held: Callable[[], dict[str, int]], who: str
) -> dict[str, int]:
    """Ids of these rows by key, added where they lack.

    Nodes recorded side by side race, and a list is taken whole or not at all: who loses looks again, and goes on as
    long as others have entered some of the rows meanwhile.
    """
    ids = held()
    while lacking := {key: row for key, row in rows.items() if key not in ids}:
        try:
            wire.post(path, list(lacking.values()), who)
        except (ChangeRefused, BookUnreachable):  # a lost race is answered with 400, or 500 "duplicate key"
            ids = held()
            if not lacking.keys() & ids.keys():
                raise
        else:
            ids = held()
    return ids


def slug(name: str) -> str:
    """NetBox's short form of a name: letters, digits and hyphens."""
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in name.lower()).split()) or "unnamed"


def _port_row(plan: RecordPlan, name: str, seen: SeenPort, module_id: int) -> Row:
    row: Row = {
        "device": plan.book.id,
        "module": module_id,
        "name": name,
        "type": seen.type,
        "changelog_message": plan.report.run_id,
    }
    if seen.mac:
        row["mac_address"] = seen.mac
    if seen.guid:
        row["wwn"] = seen.guid
    return row


def _post_ports(wire: Wire, plan: RecordPlan, rows: list[Row]) -> None:
    made = wire.post("dcim/interfaces", rows, plan.book.name)
    _set_macs(wire, plan, {int(new["id"]): row.get("mac_address", "") for new, row in zip(made, rows, strict=True)})


def _change_ports(wire: Wire, plan: RecordPlan, tags: list[int]) -> None:
    if plan.changed_ports:
        message = {"changelog_message": plan.report.run_id}
        rows = [{"id": port.port_id, **port.fields, **message} for port in plan.changed_ports]
        wire.patch("dcim/interfaces", rows, plan.book.name)
        _set_macs(wire, plan, {port.port_id: port.fields.get("mac_address", "") for port in plan.changed_ports})


def _set_macs(wire: Wire, plan: RecordPlan, macs: dict[int, str]) -> None:
    """Below 4.7 `mac_address` of a port is ignored in silence: make the MAC and point the port at it."""
    wanted = {port_id: mac for port_id, mac in macs.items() if mac}
    if _version(wire.version) >= _MAC_WRITABLE or not wanted:
        return
    where = {"assigned_object_type": "dcim.interface"}
    rows = [{"mac_address": mac, "assigned_object_id": port_id, **where} for port_id, mac in wanted.items()]
    made = wire.post("dcim/mac-addresses", rows, plan.book.name)
    pointed = [{"id": row["assigned_object_id"], "primary_mac_address": row["id"]} for row in made]
    wire.patch("dcim/interfaces", pointed, plan.book.name)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _journal(wire: Wire, plan: RecordPlan, tags: list[int]) -> None:
    """One entry a run: what was written before is looked for by the run's id."""
    device = {"assigned_object_type": "dcim.device", "assigned_object_id": plan.book.id}
    wanted = mark(plan.report.run_id)
    held = wire.listed(
        "extras/journal-entries",
        assigned_object_type="dcim.device",
        assigned_object_id=plan.book.id,
        q=plan.report.run_id,
    )
    if not any(wanted in row["comments"] for row in held):
        row = {**device, "kind": plan.journal_kind, "comments": plan.journal}
        wire.post("extras/journal-entries", [row], plan.book.name)


def _change_parts(wire: Wire, plan: RecordPlan, tags: list[int]) -> None:
    if plan.changed_parts:
        message = {"changelog_message": plan.report.run_id}
        rows = [{"id": part.module_id, **part.fields, **message} for part in plan.changed_parts]
        wire.patch("dcim/modules", rows, plan.book.name)


def _change_device(wire: Wire, plan: RecordPlan, tags: list[int]) -> None:
    """Change the device if nobody has since it was read; once more when others changed other fields meanwhile."""
    if not plan.device:
        return
    body = {**plan.device, "changelog_message": plan.report.run_id}
    if wire.patch_if("dcim/devices", plan.book.id, body, plan.book.etag, plan.book.name):
        return
    (fresh,) = read_nodes(wire, [plan.book.id])
    refuse_held(fresh, plan.report.run_id)
    touched = [name for name in _ours(plan) if _field(fresh, name) != _field(plan.book, name)]
    if touched or not wire.patch_if("dcim/devices", fresh.id, body, fresh.etag, fresh.name):
        said = f"changed meanwhile: {', '.join(touched) or 'the device, again'}"
        raise ChangeRefused(fresh.name, "NetBox record", said, "Run again; the record starts from what is there now")


def _ours(plan: RecordPlan) -> list[str]:
    return [*(name for name in plan.device if name != "custom_fields"), *plan.device.get("custom_fields", {})]


def _field(book: BookNode, name: str) -> Any:
    return getattr(book, name) if name in ("status", "serial") else book.custom_fields.get(name)
