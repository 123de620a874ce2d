"""The lab NetBox's tables: rows of plain values, the database's rules, and the nested form people read."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.book.kinds import BY_OBJECT_TYPE, GENERIC, KINDS, LINK, TAGGED, Kind

Row = dict[str, Any]
WRITE_ONLY = frozenset({"replicate_components", "adopt_components", "changelog_message", "mac_address"})


_INDEXED = {
    path: frozenset(
        {name for names in kind.unique for name in names}
        | {name for name, what in kind.fields.items() if what == GENERIC or what.startswith(LINK) or name == "serial"}
    )
    for path, kind in KINDS.items()
}


class Refused(Exception):
    """The store said no: a field → sentences mapping, as NetBox's 400 carries it."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = dict(said)
        super().__init__(self.said)


class Store:
    """All rows by endpoint. Every write moves `last_updated`, even one that changes nothing, as NetBox does."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, Row]] = {path: {} for path in KINDS}
        self._ids = itertools.count(1)
        self._last = datetime.now(UTC)
        # (endpoint, field) → value → ids: 64 nodes have 4,000 modules, and each write looks for its like.
        self._index: dict[tuple[str, str], dict[Any, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))

    def every(self, path: str, **values: object) -> Iterator[Row]:
        """Rows whose fields have these values."""
        for row in self._candidates(path, values):
            if all(row.get(name) == value for name, value in values.items()):
                yield row

    def _candidates(self, path: str, values: Mapping[str, Any]) -> list[Row]:
        buckets = [self._index[path, name][_fold(v)] for name, v in values.items() if name in _INDEXED[path]]
        if not buckets:
            return list(self.rows[path].values())
        return [self.rows[path][row_id] for row_id in min(buckets, key=len)]

    def _note(self, path: str, row: Row, before: Mapping[str, Any]) -> None:
        for name in _INDEXED[path]:
            if before:
                self._index[path, name][_fold(before.get(name))].pop(row["id"], None)
            self._index[path, name][_fold(row.get(name))][row["id"]] = None

    def one(self, path: str, **values: object) -> Row:
        """The row with these values; a KeyError when there is none."""
        row = next(self.every(path, **values), None)
        if row is None:
            raise KeyError(f"{path} {values}")
        return row

    def add(self, path: str, body: Mapping[str, Any]) -> Row:
        """A new row, checked; device types bring their bays and interfaces along."""
        kind = KINDS[path]
        row: Row = {name: kind.defaults.get(name) for name in kind.fields}
        row["id"] = next(self._ids)
        row["custom_fields"] = dict.fromkeys(self._custom_fields(kind))
        row["tags"] = []
        missing = {name: ["This field is required."] for name in kind.required if body.get(name) in (None, "")}
        if missing:
            raise Refused(missing)
        self._take(kind, row, body)
        row["created"] = row["last_updated"] = self._tick()
        self.rows[path][row["id"]] = row
        self._note(path, row, {})
        self._after_add(path, row, body)
        return row

    def change(self, path: str, row: Row, body: Mapping[str, Any]) -> Row:
        """Changed fields taken over, checked first: a refused change changes nothing."""
        changed = {**row, "custom_fields": dict(row["custom_fields"]), "tags": list(row["tags"])}
        self._take(KINDS[path], changed, body)
        before = dict(row)
        row.update(changed, last_updated=self._tick())
        self._note(path, row, before)
        if path == "dcim/interfaces" and "mac_address" in body:
            self._set_mac(row, body["mac_address"])
        return row

    def drop(self, path: str, row_id: int) -> None:
        """Gone, with what hangs on it: a module takes its ports along."""
        row = self.rows[path].pop(row_id)
        for name in _INDEXED[path]:
            self._index[path, name][_fold(row.get(name))].pop(row_id, None)
        if path == "dcim/modules":
            for port in list(self.every("dcim/interfaces", module=row_id)):
                self.drop("dcim/interfaces", port["id"])

    def etag(self, row: Row) -> str:
        """What If-Match is compared with."""
        return f'W/"{row["last_updated"].isoformat()}"'

    def device_of(self, path: str, row: Row) -> Row | None:
        """The device a row belongs to, if it does."""
        if path == "dcim/devices":
            return row
        return self.rows["dcim/devices"].get(row.get("device") or 0)

    def _tick(self) -> datetime:
        # Strictly rising, so that two writes within the clock's resolution still have different ETags.
        self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
        return self._last

    def _custom_fields(self, kind: Kind) -> list[str]:
        return [f["name"] for f in self.every("extras/custom-fields") if kind.object_type in f["object_types"]]

    def _take(self, kind: Kind, row: Row, body: Mapping[str, Any]) -> None:
        for name, value in body.items():
            if name == "custom_fields":
                self._take_custom_fields(kind, row, value)
            elif name == "tags":
                row["tags"] = [self._related("extras/tags", "tags", tag) for tag in value]
            elif name in kind.fields:
                row[name] = self._value(kind, name, value)
        self._check_unique(kind, row)

    def _value(self, kind: Kind, name: str, value: Any) -> Any:
        what = kind.fields[name]
        if value is None:
            return None
        if what.startswith(LINK):
            return self._related(what.removeprefix(LINK), name, value)
        allowed = kind.choices.get(name)
        if allowed and value not in allowed:
            raise Refused({name: [f'"{value}" is not a valid choice.']})
        longest = kind.longest.get(name)
        if longest and len(str(value)) > longest:
            raise Refused({name: [f"Ensure this field has no more than {longest} characters."]})
        if what in ("text", GENERIC, "list"):
            return value
        return bool(value) if what == "bool" else int(value)

    def _related(self, path: str, name: str, value: Any) -> int:
        if isinstance(value, Mapping):
            found = list(self.every(path, **value))
            if len(found) != 1:
                raise Refused({name: [f"Related object not found using the provided attributes: {dict(value)}"]})
            return int(found[0]["id"])
        if int(value) not in self.rows[path]:
            raise Refused({name: [f"Related object not found using the provided numeric ID: {value}"]})
        return int(value)

    def _take_custom_fields(self, kind: Kind, row: Row, values: Mapping[str, Any]) -> None:
        known = self._custom_fields(kind)
        for name, value in values.items():
            if name not in known:
                said = f"Custom field '{name}' does not exist for this object type."
                raise Refused({"custom_fields": {name: [said]}})
            row["custom_fields"][name] = value

    def _check_unique(self, kind: Kind, row: Row) -> None:
        for names in kind.unique:
            mine = _folded(row, names)
            if None in mine:
                continue
            for other in self._candidates(kind.path, {name: row[name] for name in names}):
                if other["id"] != row["id"] and _folded(other, names) == mine:
                    said = f"{kind.word} with this {' and '.join(names)} already exists."
                    raise Refused({"non_field_errors": [said[0].upper() + said[1:]]})

    def _after_add(self, path: str, row: Row, body: Mapping[str, Any]) -> None:
        if path == "dcim/devices":
            self._unfold(row)
        if path == "dcim/interfaces" and body.get("mac_address"):
            self._set_mac(row, body["mac_address"])

    def _unfold(self, device: Row) -> None:
        for bay in self.every("dcim/module-bay-templates", device_type=device["device_type"]):
            self.add("dcim/module-bays", {"device": device["id"], "name": bay["name"], "position": bay["position"]})
        for port in self.every("dcim/interface-templates", device_type=device["device_type"]):
            body = {name: port[name] for name in ("name", "type", "mgmt_only")}
            self.add("dcim/interfaces", {"device": device["id"], **body})

    def _set_mac(self, port: Row, mac: str | None) -> None:
        if mac is None:
            port["primary_mac_address"] = None
            return
        where = {"assigned_object_type": "dcim.interface", "assigned_object_id": port["id"]}
        held = next(self.every("dcim/mac-addresses", mac_address=mac.upper(), **where), None)
        held = held or self.add("dcim/mac-addresses", {"mac_address": mac.upper(), **where})
        port["primary_mac_address"] = held["id"]


def _folded(row: Row, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(_fold(row.get(name)) for name in names)


def _fold(value: Any) -> Any:
    # Device names are unique without regard to case, so all text is compared so.
    return value.lower() if isinstance(value, str) else value


def shown(store: Store, path: str, row: Row) -> dict[str, Any]:
    """The full form of one row, with one level of nested objects."""
    kind = KINDS[path]
    full: dict[str, Any] = {"id": row["id"], "url": _url(path, row), "display": _display(store, path, row)}
    for name in kind.fields:
        full[name] = _shown_value(store, kind, name, row.get(name))
    if kind.object_type:
        full["custom_fields"] = dict(row["custom_fields"])
    if path in TAGGED:
        full["tags"] = [brief(store, "extras/tags", store.rows["extras/tags"][tag]) for tag in row["tags"]]
    full["created"], full["last_updated"] = (_zulu(row[name]) for name in ("created", "last_updated"))
    full.update(_computed(store, path, row))
    return full


def brief(store: Store, path: str, row: Row) -> dict[str, Any]:
    """The nested form of one row."""
    kind = KINDS[path]
    nested: dict[str, Any] = {"id": row["id"], "url": _url(path, row), "display": _display(store, path, row)}
    for name in kind.shown:
        if name in kind.fields:
            nested[name] = _shown_value(store, kind, name, row.get(name))
    return nested


def _shown_value(store: Store, kind: Kind, name: str, value: Any) -> Any:
    what = kind.fields[name]
    if value is None:
        return None
    if what.startswith(LINK):
        path = what.removeprefix(LINK)
        return brief(store, path, store.rows[path][value])
    if name in kind.choices:
        return {"value": value, "label": str(value).capitalize()}
    return float(value) if name == "position" and kind.path == "dcim/devices" else value


def _computed(store: Store, path: str, row: Row) -> dict[str, Any]:
    if path == "dcim/module-bays":
        module = next(store.every("dcim/modules", module_bay=row["id"]), None)
        return {"installed_module": module and {"id": module["id"], "serial": module["serial"]}}
    if path == "dcim/interfaces":
        primary = store.rows["dcim/mac-addresses"].get(row["primary_mac_address"] or 0)
        return {"mac_address": primary["mac_address"] if primary else None}
    if path == "dcim/devices":
        return {"primary_ip": _shown_value(store, KINDS[path], "primary_ip4", row["primary_ip4"])}
    return {}


def _display(store: Store, path: str, row: Row) -> str:
    for name in ("name", "model", "address", "mac_address"):
        if row.get(name):
            return str(row[name])
    if path == "dcim/modules":
        return _display(store, "dcim/module-types", store.rows["dcim/module-types"][row["module_type"]])
    return f"{KINDS[path].word} {row['id']}"


def _url(path: str, row: Row) -> str:
    return f"/api/{path}/{row['id']}/"


def _zulu(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


__all__ = ["BY_OBJECT_TYPE", "WRITE_ONLY", "Refused", "Row", "Store", "brief", "shown"]
