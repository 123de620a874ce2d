"""What NetBox must know before the first node is recorded: custom fields, tag, role, device types with their bays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from inventory.netbox.parts import bay_key
from inventory.netbox.wire import Row, Wire
from inventory.netbox.writing import TAG, add_makers, slug

ROLE = "gpu-node"
Add = Callable[[str, list[Row]], list[Row]]  # (path, rows) → the rows as NetBox keeps them
_WHO = "NetBox catalogue"

# Text, not selections: NetBox 4.7 answers selections as objects, which clients write back wrongly (pynetbox#806).
DEVICE_FIELDS: Mapping[str, tuple[str, str]] = {
    "node_class": ("text", "What this node must be: a node class of rackmint. Set by people"),
    "bmc_url": ("text", "Where the BMC answers, when oob_ip alone does not say it"),
    "node_uuid": ("text", "System UUID, as the BMC says"),
    "provision_phase": ("text", "How far the node got"),
    "verdict": ("text", "accepted, rejected or undecided, by the last run that changed it"),
    "certificate_id": ("text", "The node certificate that holds"),
    "certificate_expires": ("datetime", "When the node certificate is due"),
    "validation_run": ("text", "The run that last changed the record"),
    "validated_at": ("datetime", "When that run ended"),
    "bios_version": ("text", "BIOS version, as the BMC says"),
    "bmc_version": ("text", "BMC firmware version"),
    "bios_profile": ("text", "BIOS profile that was proven"),
    "os_image": ("text", "Image laid on the boot disk, with digest"),
    "software": ("json", "Kernel, driver, CUDA and so on, as the node says"),
    "k8s_node": ("text", "Name of the node in Kubernetes"),
    "claim_run": ("text", "Run that is working on the node"),
    "claim_until": ("datetime", "When that claim ends"),
}
MODULE_FIELDS: Mapping[str, tuple[str, str]] = {
    "firmware": ("text", "Firmware version, as last read"),
    "gpu_uuid": ("text", "GPU UUID, as last read"),
}


def ensure_catalogue(
    wire: Wire, shapes: Iterable[tuple[str, str, Sequence[str]]] = (), *, plan_only: bool = False
) -> tuple[str, ...]:
    """Add what lacks, change nothing that is there; what was added, in words. Needs a token that may.

    With `plan_only` nothing is added: the same words say what would be.
    """
    add = _add_nothing if plan_only else partial(_add, wire)
    added = [
        *_fields(wire, add, "dcim.device", DEVICE_FIELDS),
        *_fields(wire, add, "dcim.module", MODULE_FIELDS),
        *_by_slug(wire, add, "extras/tags", {"name": TAG, "slug": TAG}),
        *_by_slug(wire, add, "dcim/device-roles", {"name": "GPU node", "slug": ROLE, "color": "4caf50"}),
    ]
    for manufacturer, model, bays in shapes:
        same = [row for row in wire.listed("dcim/device-types", model=model) if _made_by(row, manufacturer)]
        added += _device_type(wire, add, same[0] if same else None, (manufacturer, model, bays))
    return tuple(added)


def _add(wire: Wire, path: str, rows: list[Row]) -> list[Row]:
    return wire.post(path, rows, _WHO)


def _add_nothing(path: str, rows: list[Row]) -> list[Row]:
    return rows


def _fields(wire: Wire, add: Add, object_type: str, fields: Mapping[str, tuple[str, str]]) -> list[str]:
    held = {row["name"] for row in wire.listed("extras/custom-fields")}
    rows = [
        {"name": name, "type": kind, "object_types": [object_type], "description": what, "group_name": "rackmint"}
        for name, (kind, what) in fields.items()
        if name not in held
    ]
    if rows:
        add("extras/custom-fields", rows)
    return [f"custom field {row['name']} on {object_type}" for row in rows]


def _by_slug(wire: Wire, add: Add, path: str, row: Row) -> list[str]:
    if wire.listed(path, slug=row["slug"]):
        return []
    add(path, [row])
    return [f"{path} {row['slug']}"]


def _device_type(wire: Wire, add: Add, held: Row | None, shape: tuple[str, str, Sequence[str]]) -> list[str]:
    """A device type with a BMC port and its bays; bays that an existing type lacks are added to the type alone."""
    manufacturer, model, bays = shape
    lacking = _lacking_bays(wire, held, bays)
    said = [*([] if held else [f"device type {model}"]), *(f"bay {name} of {model}" for name in lacking)]
    if add is _add_nothing:
        return said
    makers = add_makers(wire, {manufacturer}, _WHO)
    body = {"manufacturer": makers[manufacturer], "model": model, "slug": slug(model), "u_height": 6}
    made = held or add("dcim/device-types", [body])[0]
    if lacking:
        rows = [{"device_type": made["id"], "name": name, "position": name[:30]} for name in lacking]
        add("dcim/module-bay-templates", rows)
    if not wire.listed("dcim/interface-templates", device_type_id=made["id"]):
        port = {"device_type": made["id"], "name": "BMC", "type": "1000base-t", "mgmt_only": True}
        add("dcim/interface-templates", [port])
    return said


def _made_by(device_type: Row, manufacturer: str) -> bool:
    return bay_key(device_type["manufacturer"]["name"]) == bay_key(manufacturer)


def _lacking_bays(wire: Wire, held: Row | None, bays: Sequence[str]) -> list[str]:
    if held is None:
        return list(bays)
    there = {row["name"] for row in wire.listed("dcim/module-bay-templates", device_type_id=held["id"])}
    return [name for name in bays if name not in there]
