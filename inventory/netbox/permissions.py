"""The least a token must be allowed for a run to be recorded; everything else may be refused to it."""

from __future__ import annotations

from typing import NamedTuple


class Permission(NamedTuple):
    """One object permission of NetBox: on which types, to do what, on which objects."""

    object_types: tuple[str, ...]
    actions: tuple[str, ...]
    only: dict[str, str] | None = None  # NetBox's constraint; None = on all objects


_NODES_ONLY = {"device__role__slug": "gpu-node"}
_READ = (
    "dcim.site", "dcim.location", "dcim.rack", "dcim.devicerole", "dcim.manufacturer", "dcim.devicetype",
    "dcim.platform", "dcim.moduletype", "dcim.moduletypeprofile", "dcim.modulebay", "ipam.ipaddress", "extras.tag",
)  # fmt: skip

# Seen to be enough against NetBox 4.7.3, with module types refused (tests/inventory/netbox/test_permissions.py).
RECORDER: tuple[Permission, ...] = (
    Permission(_READ, ("view",)),
    Permission(("dcim.device",), ("view", "change"), {"role__slug": "gpu-node"}),
    Permission(("dcim.module",), ("view", "add", "change"), _NODES_ONLY),
    Permission(("dcim.interface",), ("view", "add", "change"), _NODES_ONLY),
    Permission(("dcim.macaddress",), ("view", "add", "change")),  # hangs on ports generically: cannot be narrowed
    Permission(("extras.journalentry",), ("view", "add")),
)
