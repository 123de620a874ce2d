"""The kinds of object the lab's NetBox knows: their fields, what must be unique, what may be filtered by.

Only what rackmint touches is here. Behaviour follows NetBox 4.7 as its documentation and answers show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LINK = "→"  # a field whose kind begins with this holds the id of an object of that endpoint
GENERIC = "generic"  # assigned_object_id, beside assigned_object_type

_DEVICE_STATUS = ("planned", "staged", "active", "failed", "offline", "inventory", "decommissioning")
_MODULE_STATUS = tuple(status for status in _DEVICE_STATUS if status != "inventory")


@dataclass(frozen=True)
class Kind:
    """One kind of object: its endpoint, its fields and the database's rules about them."""

    path: str
    word: str  # as error messages say it
    fields: Mapping[str, str]  # name → text | int | bool | list | json | generic | →endpoint
    required: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # allowed values; () = any
    defaults: Mapping[str, object] = field(default_factory=dict)
    shown: tuple[str, ...] = ("name", "slug")  # in the nested form
    longest: Mapping[str, int] = field(default_factory=dict)
    object_type: str = ""  # as custom fields name it, "dcim.device"; empty = takes no custom fields


def _kind(path: str, word: str, fields: str, **more: object) -> Kind:
    """A kind from a short listing: `name`, `count:int`, `site:→dcim/sites`; a `!` marks a required one."""
    pairs = [item.partition(":") for item in fields.split()]
    required = tuple(name.rstrip("!") for name, _, _ in pairs if name.endswith("!"))
    return Kind(path, word, {name.rstrip("!"): what or "text" for name, _, what in pairs}, required, **more)  # type: ignore[arg-type]


_ALL = (
    _kind("dcim/sites", "site", "name! slug! status description", unique=(("name",), ("slug",)),
          choices={"status": ("planned", "staging", "active", "decommissioning", "retired")},
          defaults={"status": "active"}),
    _kind("dcim/racks", "rack", "name! site!:→dcim/sites status u_height:int",
          choices={"status": ("reserved", "available", "planned", "active", "deprecated")},
          defaults={"status": "active", "u_height": 42}, shown=("name",)),
    _kind("dcim/manufacturers", "manufacturer", "name! slug!", unique=(("name",), ("slug",))),
    _kind("dcim/device-roles", "device role", "name! slug! color", unique=(("name",), ("slug",))),
    _kind("dcim/device-types", "device type",
          "manufacturer!:→dcim/manufacturers model! slug! part_number u_height:int",
          unique=(("manufacturer", "model"), ("manufacturer", "slug")), defaults={"u_height": 1},
          shown=("model", "slug", "manufacturer")),
    _kind("dcim/module-bay-templates", "module bay template", "device_type!:→dcim/device-types name! position",
          unique=(("device_type", "name"),), shown=("name",)),
    _kind("dcim/interface-templates", "interface template",
          "device_type!:→dcim/device-types name! type! mgmt_only:bool",
          unique=(("device_type", "name"),), shown=("name",), choices={"type": ()}, defaults={"mgmt_only": False}),
    _kind("dcim/devices", "device",
          "name site!:→dcim/sites rack:→dcim/racks position:int face status serial asset_tag description comments "
          "device_type!:→dcim/device-types role!:→dcim/device-roles "
          "oob_ip:→ipam/ip-addresses primary_ip4:→ipam/ip-addresses",
          unique=(("name", "site"), ("asset_tag",), ("rack", "position", "face")),
          choices={"status": _DEVICE_STATUS, "face": ("front", "rear")},
          defaults={"status": "active", "serial": "", "description": "", "comments": ""},
          shown=("name",), longest={"name": 64, "serial": 50, "description": 200}, object_type="dcim.device"),
    _kind("dcim/module-type-profiles", "module type profile", "name!", unique=(("name",),), shown=("name",)),
    _kind("dcim/module-types", "module type",
          "manufacturer!:→dcim/manufacturers model! part_number profile:→dcim/module-type-profiles",
          unique=(("manufacturer", "model"),), defaults={"part_number": ""}, shown=("model", "manufacturer"),
          longest={"model": 100, "part_number": 50}),
    _kind("dcim/module-bays", "module bay", "device!:→dcim/devices name! position enabled:bool",
          unique=(("device", "name"),), defaults={"enabled": True, "position": ""}, shown=("name",)),
    _kind("dcim/modules", "module",
          "device!:→dcim/devices module_bay!:→dcim/module-bays module_type!:→dcim/module-types "
          "status serial asset_tag description",
          unique=(("module_bay",), ("asset_tag",)), choices={"status": _MODULE_STATUS},
          defaults={"status": "active", "serial": "", "description": ""}, shown=("device", "module_bay"),
          longest={"serial": 50}, object_type="dcim.module"),
    _kind("dcim/interfaces", "interface",
          "device!:→dcim/devices module:→dcim/modules name! type! label description wwn speed:int "
          "enabled:bool mgmt_only:bool primary_mac_address:→dcim/mac-addresses",
          unique=(("device", "name"),), choices={"type": ()},
          defaults={"enabled": True, "mgmt_only": False, "label": "", "description": ""}, shown=("device", "name"),
          longest={"name": 64, "label": 64}, object_type="dcim.interface"),
    _kind("dcim/mac-addresses", "MAC address", "mac_address! assigned_object_type assigned_object_id:generic",
          shown=("mac_address",)),
    _kind("ipam/ip-addresses", "IP address", "address! status assigned_object_type assigned_object_id:generic",
          unique=(("address",),), choices={"status": ("active", "reserved", "deprecated", "dhcp", "slaac")},
          defaults={"status": "active"}, shown=("address",)),
    _kind("extras/journal-entries", "journal entry", "assigned_object_type! assigned_object_id!:generic kind comments!",
          choices={"kind": ("info", "success", "warning", "danger")}, defaults={"kind": "info"}),
    _kind("extras/tags", "tag", "name! slug! color", unique=(("name",), ("slug",)), shown=("name", "slug", "color"),
          defaults={"color": "9e9e9e"}),
    _kind("extras/custom-fields", "custom field",
          "name! label type! object_types!:list description unique:bool group_name ui_editable",
          unique=(("name",),), choices={"type": ("text", "longtext", "integer", "boolean", "datetime", "url", "json")},
          defaults={"label": "", "unique": False}, shown=("name",)),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.path: kind for kind in _ALL}
BY_OBJECT_TYPE: Mapping[str, Kind] = {kind.object_type: kind for kind in _ALL if kind.object_type}
TAGGED = frozenset({"dcim/devices", "dcim/modules", "dcim/interfaces", "dcim/module-types", "dcim/device-types"})
