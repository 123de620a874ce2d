"""Conditional changes of one device: claims of a run, and the life cycle's allowed transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from inventory.errors import BadSettings, ChangeRefused, LeaseHeld
from inventory.netbox.book import BookNode
from inventory.netbox.reading import read_nodes
from inventory.netbox.wire import Row, Wire

# What may be written without a person: everything else, `failed → staged` above all, is somebody's decision.
ALLOWED = frozenset({("staged", "active"), ("staged", "failed"), ("active", "failed")})
_TRIES = 5  # our choice: whoever loses five races in a row is up against another writer, not against bad luck
_JITTER_S = 0.1


def claim(wire: Wire, book: BookNode, run_id: str, until: datetime) -> BookNode:
    """Put the run's name on the node, or raise `LeaseHeld` naming who has it. A claim past its end may be taken."""

    def wanted(fresh: BookNode) -> Row:
        refuse_held(fresh, run_id)
        return {"custom_fields": {"claim_run": run_id, "claim_until": until.replace(microsecond=0).isoformat()}}

    if _held(book, run_id):
        book = read_one(wire, book.id)  # the reading may be older than the other run's end
    changed, _ = change(wire, book, wanted, run_id)
    return changed


def release_claim(wire: Wire, book: BookNode, run_id: str) -> int:
    """Take the run's name off the node, if it is still there; the number of writes it took."""

    def wanted(fresh: BookNode) -> Row:
        mine = fresh.text("claim_run") == run_id
        return {"custom_fields": {"claim_run": None, "claim_until": None}} if mine else {}

    return change(wire, book, wanted, run_id)[1]


def refuse_held(book: BookNode, run_id: str) -> None:
    """Raise `LeaseHeld` when another run's claim holds, by NetBox's own clock."""
    if _held(book, run_id):
        since = book.last_updated.isoformat(timespec="seconds")
        until = book.text("claim_until") or "somebody clears claim_run"
        raise LeaseHeld(book.name, book.text("claim_run"), "claimed in NetBox", since, until)


def _held(book: BookNode, run_id: str) -> bool:
    holder, until = book.text("claim_run"), book.text("claim_until")
    if not holder or holder == run_id:
        return False
    return not until or datetime.fromisoformat(until.replace("Z", "+00:00")) > book.server_time


def set_status(wire: Wire, book: BookNode, status: str, run_id: str, fields: Mapping[str, Any]) -> int:
    """Move the life cycle on, by the allowed transitions only; the number of writes it took (0 = so already)."""

    def wanted(fresh: BookNode) -> Row:
        if fresh.status != status and (fresh.status, status) not in ALLOWED:
            do = "Set it in NetBox by hand if that is meant"
            raise ChangeRefused(fresh.name, f"NetBox status {fresh.status} → {status}", "not ours to change", do)
        custom = {name: value for name, value in fields.items() if fresh.custom_fields.get(name) != value}
        body: Row = {} if fresh.status == status else {"status": status}
        return {**body, "custom_fields": custom} if custom else body

    return change(wire, book, wanted, run_id)[1]


def change(wire: Wire, book: BookNode, wanted: Callable[[BookNode], Row], run_id: str) -> tuple[BookNode, int]:
    """PATCH what `wanted` says of the node, if it has not changed since it was read; read and ask again when it has."""
    for attempt in range(_TRIES):
        body = wanted(book)
        if not body:
            return book, 0
        if wire.patch_if("dcim/devices", book.id, {**body, "changelog_message": run_id}, book.etag, book.name):
            return read_one(wire, book.id), 1
        wire.wait(_JITTER_S * attempt)
        book = read_one(wire, book.id)
    raise ChangeRefused(book.name, "NetBox change", f"the device changed {_TRIES} times while we tried")


def read_one(wire: Wire, device_id: int) -> BookNode:
    """One node; raises `BadSettings` when NetBox shows none of this id."""
    found = read_nodes(wire, [device_id])
    if not found:
        raise BadSettings(f"NetBox has no device {device_id} that this token may see. Check the id and the permissions")
    return found[0]
