"""Which rows a REST list shows. An unknown filter is ignored and the whole table comes back, as in NetBox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from multidict import MultiMapping

from lab.book.kinds import GENERIC, KINDS, LINK
from lab.book.store import Row, Store

Test = Callable[[Row], bool]
_NOT_FILTERS = frozenset({"limit", "offset", "fields", "omit", "brief", "ordering", "format"})


def matching(store: Store, path: str, query: MultiMapping[str]) -> Iterator[Row]:
    """The rows that pass every known filter, in id order."""
    asked = dict.fromkeys(name for name in query if name not in _NOT_FILTERS)
    tests = [test for name in asked if (test := _test(store, path, name, query.getall(name)))]
    for row in list(store.rows[path].values()):
        if all(test(row) for test in tests):
            yield row


def _test(store: Store, path: str, name: str, values: list[str]) -> Test | None:
    fields = KINDS[path].fields
    link = fields.get(name.removesuffix("_id"), "").startswith(LINK)
    if name == "id" or fields.get(name) == GENERIC or (link and name.endswith("_id")):
        return _one_of(name if name in fields or name == "id" else name.removesuffix("_id"), {int(v) for v in values})
    if link:
        return _by_slug(store, fields[name].removeprefix(LINK), name, set(values))
    if name == "mac_address":
        return _one_of("id", _with_mac(store, path, {v.upper() for v in values}))
    if name.startswith("cf_"):
        return _custom(name.removeprefix("cf_"), values)
    if name == "q":
        return _search(values)
    return _text(name, {v.lower() for v in values}) if fields.get(name) == "text" else None


def _one_of(name: str, wanted: set[int]) -> Test:
    return lambda row: row[name] in wanted


def _text(name: str, wanted: set[str]) -> Test:
    return lambda row: str(row[name] or "").lower() in wanted


def _by_slug(store: Store, path: str, name: str, wanted: set[str]) -> Test:
    ids = {row["id"] for row in store.every(path) if row.get("slug") in wanted}
    return _one_of(name, ids)


def _custom(name: str, values: list[str]) -> Test:
    # Text fields filter "loosely" unless set otherwise: a part of the value is enough.
    return lambda row: any(v.lower() in str(row["custom_fields"].get(name) or "").lower() for v in values)


def _search(values: list[str]) -> Test:
    def found(row: Row) -> bool:
        text = " ".join(str(v) for v in row.values() if isinstance(v, str)).lower()
        return all(v.lower() in text for v in values)

    return found


def _with_mac(store: Store, path: str, macs: set[str]) -> set[Any]:
    ports = {row["assigned_object_id"] for row in store.every("dcim/mac-addresses") if row["mac_address"] in macs}
    if path == "dcim/interfaces":
        return ports
    return {store.rows["dcim/interfaces"][port]["device"] for port in ports if port in store.rows["dcim/interfaces"]}
