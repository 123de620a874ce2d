"""No fact is left out in silence: whatever a part lacks has a reason, and whatever it has needs none."""

from __future__ import annotations

from inventory.model import Frozen, Inventory, Missing
from inventory.redfish.crawl import NOT_OFFERED, Notes

# Facts only the operating system on the node can tell; Redfish is not asked for them.
_IN_BAND = frozenset(
    {
        "ecc_pending_enabled", "ecc_volatile_uncorrectable", "fabric_state", "temperature_c", "power_w",
        "power_limit_w", "power_limit_default_w", "persistence", "name", "mtu", "lldp_neighbour", "source",
    }
)  # fmt: skip
_PARTS = ("gpus", "nics", "dimms", "drives", "cpus", "psus", "firmware")


def explained(inventory: Inventory, notes: Notes) -> tuple[Missing, ...]:
    """The notes, less what was found after all, plus a reason for every fact that is simply not offered."""
    for kind in _PARTS:
        for part in getattr(inventory, kind):
            _explain(notes, f"{kind}[{part.id}]", part)
    for kind in ("identity", "bios", "boot"):
        _explain(notes, kind, getattr(inventory, kind))
    for fact in ("power", "bmc_version"):
        _settle(notes, fact, getattr(inventory, fact), "")
    return tuple(notes.missing)


def _explain(notes: Notes, name: str, part: Frozen) -> None:
    source = getattr(part, "source", None)
    for fact, value in part:
        if fact == "ports":
            for port in value:
                _explain(notes, f"{name}.ports[{port.id}]", port)
        elif fact not in _IN_BAND:
            _settle(notes, f"{name}.{fact}", value, source.uri if source else "")


def _settle(notes: Notes, fact: str, value: object, uri: str) -> None:
    if value is None:
        notes.lack(fact, uri, NOT_OFFERED)
    elif value not in ((), {}):
        notes.had(fact)
