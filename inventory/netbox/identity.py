"""Whose machine is this? Four keys are asked; two that point at different devices, or one at two, stop the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inventory.errors import BadSettings
from inventory.model import NodeRef
from inventory.netbox.parts import clean_serial
from inventory.netbox.reading import REF_FIELDS, device_ref
from inventory.netbox.wire import Row, Wire


def look_up(wire: Wire, *, serial: str, uuid: str, bmc_mac: str, name: str) -> NodeRef | None:
    """The device that the keys name, the surest key first; a placeholder serial is no key."""
    by_key = {
        "UUID": _by_uuid(wire, uuid.lower()),
        "serial": _by(wire, "serial", clean_serial(serial)),
        "BMC MAC": _by(wire, "mac_address", bmc_mac.upper() or None),
        "name": _by(wire, "name", name or None),
    }
    for key, found in by_key.items():
        if len(found) > 1:
            raise BadSettings(f"NetBox has {key} of this machine twice: {_named(found)}. Correct one of them")
    devices = {row["id"]: row for rows in by_key.values() for row in rows}
    if len(devices) > 1:
        said = "; ".join(f"{key} says {_named(rows)}" for key, rows in by_key.items() if rows)
        raise BadSettings(f"NetBox has two devices for one machine: {said}. A swapped board or a copied record?")
    return device_ref(next(iter(devices.values()))) if devices else None


def refuse_twins(nodes: Iterable[NodeRef]) -> None:
    """Raise `BadSettings` when two nodes have one serial: leases, records and certificates hang on it."""
    held: dict[str, NodeRef] = {}
    for node in nodes:
        serial = (clean_serial(node.serial) or "").lower()
        if serial in held:
            twins = f"{held[serial].name} (id {held[serial].netbox_id}) and {node.name} (id {node.netbox_id})"
            raise BadSettings(f"NetBox has serial {node.serial} twice: {twins}. Correct one of them")
        if serial:
            held[serial] = node


def _by(wire: Wire, key: str, value: str | None) -> list[Row]:
    return wire.listed("dcim/devices", fields=REF_FIELDS, **{key: value}) if value else []


def _by_uuid(wire: Wire, uuid: str) -> list[Row]:
    """A text field is searched for its parts, and a field that is not set up for nothing: so compare here as well."""
    rows = _by(wire, "cf_node_uuid", uuid or None)
    return [row for row in rows if str((row["custom_fields"] or {}).get("node_uuid") or "").lower() == uuid]


def _named(rows: Sequence[Row]) -> str:
    return " and ".join(f"{row['name']} (id {row['id']})" for row in rows)
