"""A small GraphQL face over the store: devices by id, rack or serial, with the nested objects the product asks for.

Unknown fields and unknown filters are refused, as NetBox does over GraphQL (and does not over REST).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.book.kinds import KINDS, LINK
from lab.book.store import Row, Store

_TOKEN = re.compile(r'[{}()\[\]:!$]|"[^"]*"|-?\d+|[A-Za-z_]\w*')
_LIST_OPENS, _VARIABLE = "[", "$"
# NetBox's own names for "the other side" of a link, as its schema lists them on DeviceType and so on.
_REVERSE = {
    ("dcim/devices", "modulebays"): ("dcim/module-bays", "device"),
    ("dcim/devices", "modules"): ("dcim/modules", "device"),
    ("dcim/devices", "interfaces"): ("dcim/interfaces", "device"),
    ("dcim/interfaces", "mac_addresses"): ("dcim/mac-addresses", "assigned_object_id"),
    ("dcim/interfaces", "ip_addresses"): ("ipam/ip-addresses", "assigned_object_id"),
}


class QueryError(Exception):
    """The query was not understood; NetBox answers 200 with `errors`."""


@dataclass
class Ask:
    """One field of a query with its arguments and what is asked below it."""

    name: str
    alias: str
    args: dict[str, Any] = field(default_factory=dict)
    below: list[Ask] = field(default_factory=list)


def answer(store: Store, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The `data` of a query; raises `QueryError`."""
    return {ask.alias: _root(store, ask) for ask in _Reader(query, variables).read()}


def _root(store: Store, ask: Ask) -> list[dict[str, Any]]:
    if ask.name != "device_list":
        raise QueryError(f"Cannot query field '{ask.name}' on type 'Query'.")
    rows = store.every("dcim/devices")
    for name, lookup in ask.args.get("filters", {}).items():
        rows = filter(_device_filter(name, lookup), rows)
    limit = ask.args.get("pagination", {}).get("limit", 1000)  # 1000: NetBox's own silent bound
    return [_select(store, "dcim/devices", row, ask.below) for row in list(rows)[:limit]]


def _device_filter(name: str, lookup: Mapping[str, Any]) -> Callable[[Row], bool]:
    if name == "id":
        wanted = {int(i) for i in _values(lookup)}
        return lambda row: row["id"] in wanted
    if name == "rack":
        racks = {int(i) for i in _values(lookup["id"])}
        return lambda row: row["rack"] in racks
    if name in ("serial", "name", "status"):
        texts = set(_values(lookup))
        return lambda row: row[name] in texts
    raise QueryError(f"Field '{name}' is not defined by type 'DeviceFilter'.")


def _values(lookup: Mapping[str, Any]) -> Iterable[Any]:
    return lookup["in_list"] if "in_list" in lookup else (lookup["exact"],)


def _select(store: Store, path: str, row: Row, asks: list[Ask]) -> dict[str, Any]:
    return {ask.alias: _value(store, path, row, ask) for ask in asks}


def _value(store: Store, path: str, row: Row, ask: Ask) -> Any:
    kind = KINDS[path]
    if ask.name in ("id", "last_updated", "custom_fields"):
        return _plain(row, ask.name)
    if ask.name == "tags":
        return [{below.alias: store.rows["extras/tags"][tag][below.name] for below in ask.below} for tag in row["tags"]]
    if (path, ask.name) in _REVERSE:
        return _reverse(store, path, row, ask)
    if (path, ask.name) == ("dcim/module-bays", "installed_module"):
        module = next(store.every("dcim/modules", module_bay=row["id"]), None)
        return module and _select(store, "dcim/modules", module, ask.below)
    if ask.name in kind.fields:
        return _own(store, kind.fields[ask.name], row[ask.name], ask)
    raise QueryError(f"Cannot query field '{ask.name}' on type '{kind.word}'.")


def _plain(row: Row, name: str) -> Any:
    if name == "custom_fields":
        return dict(row["custom_fields"])
    return str(row["id"]) if name == "id" else row["last_updated"].isoformat()


def _own(store: Store, what: str, value: Any, ask: Ask) -> Any:
    if not what.startswith(LINK) or value is None:
        return value
    path = what.removeprefix(LINK)
    return _select(store, path, store.rows[path][value], ask.below)


def _reverse(store: Store, path: str, row: Row, ask: Ask) -> list[dict[str, Any]]:
    there, link = _REVERSE[path, ask.name]
    return [_select(store, there, other, ask.below) for other in store.every(there, **{link: row["id"]})]


class _Reader:
    """Reads one query into a tree; only what clients here send: no fragments, no directives."""

    def __init__(self, query: str, variables: Mapping[str, Any]) -> None:
        self._tokens: list[str] = _TOKEN.findall(query)
        self._variables = variables
        self._at = 0

    def read(self) -> list[Ask]:
        if self._tokens[:1] == ["query"]:
            while self._tokens[self._at] != "{":
                self._at += 1
        return self._block()

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise QueryError("Syntax Error: Unexpected <EOF>.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise QueryError(f"Syntax Error: Expected '{token}', found '{found}'.")

    def _block(self) -> list[Ask]:
        self._expect("{")
        asks = []
        while self._peek() != "}":
            asks.append(self._ask())
        self._expect("}")
        return asks

    def _ask(self) -> Ask:
        name = alias = self._next()
        if self._peek() == ":":
            self._expect(":")
            name = self._next()
        args = self._pairs("(", ")") if self._peek() == "(" else {}
        below = self._block() if self._peek() == "{" else []
        return Ask(name, alias, args, below)

    def _pairs(self, opens: str, closes: str) -> dict[str, Any]:
        self._expect(opens)
        pairs = {}
        while self._peek() != closes:
            name = self._next()
            self._expect(":")
            pairs[name] = self._literal()
        self._expect(closes)
        return pairs

    def _literal(self) -> Any:
        if self._peek() == "{":
            return self._pairs("{", "}")
        token = self._next()
        if token == _LIST_OPENS:
            values = []
            while self._peek() != "]":
                values.append(self._literal())
            self._expect("]")
            return values
        if token == _VARIABLE:
            return self._variables.get(self._next())
        return token.strip('"') if not token.lstrip("-").isdigit() else int(token)
