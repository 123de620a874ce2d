"""Reads nodes from NetBox: one GraphQL query for any number of them, REST where GraphQL is switched off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from inventory.model import NodeRef
from inventory.netbox.book import BookBay, BookNode, BookPart, BookPort
from inventory.netbox.wire import Row, Wire

# Nested lists were not cut at 102 rows; the outer list is cut at 1,000 silently: at most 100 nodes are asked at once.
_NODES_AT_ONCE = 100
REF_FIELDS = (
    "id", "name", "status", "serial", "site", "rack", "position", "role", "device_type", "tags", "oob_ip",
    "primary_ip4", "custom_fields",
)  # fmt: skip
_QUERY = """
query RackmintNodes($ids: [ID!]) {
  device_list(filters: {id: {in_list: $ids}}, pagination: {limit: 100}) {
    id name status serial position last_updated custom_fields
    site { name } rack { name } role { slug } tags { slug }
    device_type { model manufacturer { name } }
    oob_ip { address } primary_ip4 { address }
    modulebays {
      id name
      installed_module {
        id status serial custom_fields
        module_type { model part_number manufacturer { name } profile { name } }
      }
    }
    interfaces {
      id name type wwn mgmt_only
      module { id } primary_mac_address { mac_address } mac_addresses { mac_address } ip_addresses { address }
    }
  }
}
"""


def read_nodes(wire: Wire, ids: Sequence[int]) -> tuple[BookNode, ...]:
    """The nodes of these ids that NetBox shows, in the order asked for."""
    found: dict[int, BookNode] = {}
    for start in range(0, len(ids), _NODES_AT_ONCE):
        found |= _some(wire, ids[start : start + _NODES_AT_ONCE])
    return tuple(found[i] for i in ids if i in found)


def _some(wire: Wire, ids: Sequence[int]) -> dict[int, BookNode]:
    data = wire.graphql(_QUERY, {"ids": [str(i) for i in ids]})
    if data is None:
        return {i: _by_rest(wire, i) for i in ids}
    nodes = (_node(row, wire.server_time) for row in data["device_list"])
    return {node.id: node for node in nodes}


def _node(row: Row, server_time: datetime) -> BookNode:
    updated = _moment(row["last_updated"])
    return BookNode(
        bays=tuple(_bay(bay) for bay in row["modulebays"]),
        ports=tuple(_port(port) for port in row["interfaces"]),
        last_updated=updated,
        etag=_etag(updated),
        server_time=server_time,
        **_device_fields(row),
    )


def _device_fields(row: Row) -> dict[str, Any]:
    """What GraphQL and REST show of a device in the same words."""
    return {
        "id": int(row["id"]),
        "name": row["name"] or "",
        "status": _value(row["status"]),
        "site": _in(row, "site", "name"),
        "rack": _in(row, "rack", "name"),
        "unit": int(float(row["position"])) if row["position"] is not None else None,
        "serial": row["serial"] or "",
        "manufacturer": _in(row, "device_type", "manufacturer", "name"),
        "model": _in(row, "device_type", "model"),
        "role": _in(row, "role", "slug"),
        "tags": tuple(tag["slug"] for tag in row["tags"]),
        "oob_ip": _host(_in(row, "oob_ip", "address")),
        "primary_ip": _host(_in(row, "primary_ip4", "address")),
        "custom_fields": {name: _plain(value) for name, value in (row["custom_fields"] or {}).items()},
    }


def _bay(row: Row, module: Row | None = None) -> BookBay:
    module = module or row.get("installed_module")
    return BookBay(id=int(row["id"]), name=row["name"], part=_part(module) if module else None)


def _part(row: Row) -> BookPart:
    return BookPart(
        id=int(row["id"]),
        status=_value(row["status"]),
        model=_in(row, "module_type", "model"),
        part_number=_in(row, "module_type", "part_number"),
        manufacturer=_in(row, "module_type", "manufacturer", "name"),
        kind=_in(row, "module_type", "profile", "name"),
        serial=row["serial"] or "",
        custom_fields={name: _plain(value) for name, value in (row["custom_fields"] or {}).items()},
    )


def _port(row: Row) -> BookPort:
    module = row.get("module")
    return BookPort(
        id=int(row["id"]),
        name=row["name"],
        type=_value(row["type"]),
        mac=_in(row, "primary_mac_address", "mac_address").upper(),
        macs=tuple(mac["mac_address"].upper() for mac in row.get("mac_addresses") or ()),
        wwn=(row["wwn"] or "").upper(),
        module_id=int(module["id"]) if module else None,
        mgmt_only=bool(row["mgmt_only"]),
        addresses=tuple(_host(ip["address"]) for ip in row.get("ip_addresses") or ()),
    )


def _by_rest(wire: Wire, device_id: int) -> BookNode:
    """Four requests in place of one; the IP addresses of ports are not asked for."""
    device, etag = wire.one("dcim/devices", device_id)
    modules = _by_bay(wire.listed("dcim/modules", device_id=device_id), _profiles(wire))
    bays = wire.listed("dcim/module-bays", device_id=device_id, fields=("id", "name"))
    return BookNode(
        bays=tuple(_bay(bay, modules.get(int(bay["id"]))) for bay in bays),
        ports=tuple(_port(port) for port in wire.listed("dcim/interfaces", device_id=device_id)),
        last_updated=_moment(device["last_updated"]),
        etag=etag,
        server_time=wire.server_time,
        **_device_fields(device),
    )


def _profiles(wire: Wire) -> dict[int, Row]:
    types = wire.listed("dcim/module-types", fields=("id", "model", "part_number", "manufacturer", "profile"))
    return {int(row["id"]): row for row in types}


def _by_bay(modules: Iterable[Row], types: Mapping[int, Row]) -> dict[int, Row]:
    """A module's nested type lacks part number and profile, so the type is put in whole."""
    return {
        int(module["module_bay"]["id"]): {**module, "module_type": types[int(module["module_type"]["id"])]}
        for module in modules
    }


def _etag(moment: datetime) -> str:
    """The ETag NetBox gives this row: seen to be made of `last_updated` in UTC."""
    return f'W/"{moment.astimezone(UTC).isoformat()}"'


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _in(row: Mapping[str, Any], *path: str) -> str:
    value: Any = row
    for name in path:
        value = value.get(name) if value else None
    return str(value or "")


def _value(field: Any) -> str:
    """A choice: plain text over GraphQL, {value, label} over REST."""
    return str(field["value"] if isinstance(field, Mapping) else field)


def _plain(value: Any) -> Any:
    """A custom field; a selection comes as {value, label} since 4.7 and is written as its value."""
    if isinstance(value, Mapping) and set(value) == {"value", "label"}:
        return value["value"]
    return value


def _host(address: str) -> str:
    return address.partition("/")[0]


def device_ref(row: Row) -> NodeRef:
    """A device of a REST list, as the rest of rackmint names it."""
    moment = datetime.now(UTC)  # not shown by the list, and not part of a reference
    return BookNode(last_updated=moment, etag="", server_time=moment, **_device_fields(row)).ref
