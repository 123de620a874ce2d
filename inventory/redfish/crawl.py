"""Reading resources as raw JSON, field by field: what is not there is noted with its reason, and the rest goes on."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import TypeVar

from inventory.errors import NodeBusy, NodeUnreachable, OutputNotUnderstood
from inventory.model import Evidence, Missing, Source, now
from inventory.redfish.client import READ_S, Json, Reply, Wire

T = TypeVar("T")

# Words BMCs write where they have nothing to say. Sources: "nil" and blanks on a DGX H100, "N/A" on a Lenovo SR670 V2,
# "NA" in NVIDIA's OEM fields, "Default string" and "To be filled by O.E.M." from unset SMBIOS tables.
_PLACEHOLDERS = frozenset(
    {"nil", "n/a", "na", "null", "none", "(null)", "unknown", "not available", "not specified", "default string"}
    | {"to be filled by o.e.m.", "no dimm", "no module installed"}
)
_ALL_ZERO = re.compile(
    r"[0x\-:. ]*"
)  # a serial, UUID or MAC of zeros is none; HPE Cray EX235a, HGX chassis of a DGX H100
NOT_OFFERED = "not offered"
_LOST_IN_A_ROW = 2  # our choice: one resource may hang for ever, two in a row is a BMC that is gone


class Notes:
    """What could not be read, and why."""

    def __init__(self) -> None:
        self._missing: dict[str, Missing] = {}

    @property
    def missing(self) -> tuple[Missing, ...]:
        """All that is missing so far."""
        return tuple(self._missing.values())

    def lack(self, fact: str, uri: str, reason: str) -> None:
        """Note one missing fact; the first reason that says more than "not offered" stands."""
        known = self._missing.get(fact)
        if fact and (known is None or known.reason == NOT_OFFERED):
            self._missing[fact] = Missing(fact=fact, uri=uri, reason=reason)

    def had(self, fact: str) -> None:
        """Forget a reason noted on the way, since another place had the fact after all."""
        self._missing.pop(fact, None)

    def knows(self, fact: str) -> bool:
        """Whether a reason has been noted."""
        return fact in self._missing


class Resource:
    """One Redfish resource, or a part of one, with its source; every accessor tolerates anything."""

    def __init__(self, body: dict[str, Json], source: Source, notes: Notes, about: str = "") -> None:
        self.body, self.source, self.about = body, source, about
        self._notes = notes

    @property
    def uri(self) -> str:
        """Where it was read."""
        return self.source.uri

    @property
    def id(self) -> str:
        """Its Id, else the last part of its URI."""
        return str(self.body.get("Id") or self.uri.rstrip("/").rpartition("/")[2])

    def renamed(self, about: str) -> Resource:
        """The same resource, its missing facts noted under another name."""
        return Resource(self.body, self.source, self._notes, about)

    def raw(self, *path: str | int) -> Json:
        """The value at a path, `None` when any step is not there."""
        here: Json = self.body
        for step in path:
            if isinstance(step, int):
                here = here[step] if isinstance(here, list) and -len(here) <= step < len(here) else None
            else:
                here = here.get(step) if isinstance(here, dict) else None
        return here

    def text(self, fact: str, *path: str | int) -> str | None:
        """A non-empty string that is no placeholder."""
        return self._take(fact, path, _text)

    def serial(self, fact: str, *path: str | int) -> str | None:
        """As `text`, and not made of zeros alone."""
        return self._take(fact, path, _serial)

    def number(self, fact: str, *path: str | int) -> float | None:
        """A number, also one written as a string."""
        return self._take(fact, path, _number)

    def whole(self, fact: str, *path: str | int) -> int | None:
        """A whole number, also one written as a string."""
        value = self._take(fact, path, _number)
        return None if value is None else int(value)

    def flag(self, fact: str, *path: str | int) -> bool | None:
        """Yes or no."""
        return self._take(fact, path, _flag)

    def link(self, *path: str | int) -> str:
        """The URI a link names; empty when there is no such link."""
        target = self.raw(*path)
        if isinstance(target, dict):
            target = target.get("@odata.id")
        return target if isinstance(target, str) else ""

    def links(self, *path: str | int) -> tuple[str, ...]:
        """The URIs in a list of links."""
        entries = self.raw(*path)
        found = (e.get("@odata.id") if isinstance(e, dict) else e for e in entries) if isinstance(entries, list) else ()
        return tuple(uri for uri in found if isinstance(uri, str) and uri)

    def texts(self, *path: str | int) -> tuple[str, ...] | None:
        """A list of strings; `None` when it is not offered."""
        entries = self.raw(*path)
        return tuple(str(e) for e in entries if e is not None) if isinstance(entries, list) else None

    def parts(self, *path: str | int) -> tuple[Resource, ...]:
        """Objects embedded in a list."""
        entries = self.raw(*path)
        return tuple(
            Resource(entry, self.source, self._notes, self.about)
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        )

    def _take(self, fact: str, path: tuple[str | int, ...], read: Callable[[Json], T]) -> T | None:
        value = self.raw(*path)
        name = f"{self.about}.{fact}" if self.about and fact else fact
        try:
            if value is None:
                raise ValueError("null" if self._offered(path) else NOT_OFFERED)
            taken = read(value)
        except ValueError as error:
            self._notes.lack(name, self.uri, str(error))
            return None
        self._notes.had(name)
        return taken

    def _offered(self, path: tuple[str | int, ...]) -> bool:
        parent = self.raw(*path[:-1]) if len(path) > 1 else self.body
        return isinstance(parent, dict) and path[-1] in parent


def _text(value: Json) -> str:
    if isinstance(value, (dict, list)):
        raise ValueError(f"malformed: {type(value).__name__} where text belongs")
    text = str(value).strip()
    if not text:
        raise ValueError("empty")
    if text.lower() in _PLACEHOLDERS:
        raise ValueError(f"placeholder {text!r}")
    return text


def _serial(value: Json) -> str:
    text = _text(value)
    if _ALL_ZERO.fullmatch(text):
        raise ValueError(f"placeholder {text!r}")
    return text


def _number(value: Json) -> float:
    if isinstance(value, bool):
        raise ValueError("malformed: yes/no where a number belongs")
    try:
        number = value if isinstance(value, (int, float)) else float(_text(value))
    except ValueError as error:
        raise ValueError(f"malformed: {value!r} where a number belongs") from error
    if not math.isfinite(number):
        raise ValueError(f"malformed: {value!r} where a number belongs")
    return number


def _flag(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "enabled", "yes"):
        return True
    if word in ("false", "disabled", "no"):
        return False
    raise ValueError(f"malformed: {value!r} where yes or no belongs")


class Reader:
    """Reads resources of one BMC once each and remembers the raw answers."""

    def __init__(self, wire: Wire, notes: Notes) -> None:
        self.wire, self.notes = wire, notes
        self.offers_expand = False  # what the BMC says of itself
        self.expands = False  # and no quirk forbids it
        self.deep = False  # also what costs a request a link
        self.host_on = True
        self.answers: dict[str, Reply] = {}
        self._lost = 0
        self.kept: dict[str, Evidence] = {}  # URI → the piece of evidence its answer stands in

    @classmethod
    def afresh(cls, wire: Wire) -> Reader:
        """A reader that remembers nothing, for looking at what holds now."""
        return cls(wire, Notes())

    def need(self, uri: str) -> Resource:
        """One resource without which there is no going on."""
        resource = self.get(uri, uri)
        if resource is not None:
            return resource
        reason = next((m.reason for m in self.notes.missing if m.fact == uri), "not read")
        busy = uri in self.answers and self.answers[uri].status == 503
        raise (NodeBusy if busy else OutputNotUnderstood)(self.wire.node, f"GET {self.wire.origin}{uri}", reason)

    def get(self, uri: str, about: str = "", *, read_s: float = READ_S) -> Resource | None:
        """One resource, or `None` and a note why not."""
        reply = self._ask(uri, about, read_s)
        if reply is None:
            return None
        if reply.status >= 400 or reply.body is None:
            self.notes.lack(about, uri, self._reason(reply))
            return None
        source = Source(uri=reply.uri.partition("?")[0], read_at=reply.at, took_ms=round(reply.took_ms, 1))
        return Resource(reply.body, source, self.notes, about)

    def forget(self, part: str) -> None:
        """Let resources whose URI contains this be asked for again."""
        self.answers = {uri: reply for uri, reply in self.answers.items() if part not in uri}

    def collection(self, uri: str, about: str, *, read_s: float = READ_S) -> tuple[str, ...] | None:
        """The URIs of a collection's members over all its pages; `None` when it could not be read."""
        found: list[str] = []
        pages: set[str] = set()
        while uri and uri not in pages:
            pages.add(uri)
            page = self.get(uri, about, read_s=read_s)
            if page is None:
                return None
            found += page.links("Members")
            uri = page.link("Members@odata.nextLink")
        return tuple(dict.fromkeys(found))

    def members(
        self,
        uri: str,
        about: str,
        name: str,
        needs: tuple[str, ...] = (),
        *,
        read_s: float = READ_S,
        only: bool = False,
    ) -> tuple[Resource, ...] | None:
        """All members of a collection, in one request where `$expand` holds what it promises.

        `needs` names the fields every expanded member must have; without any, or with `only` members that came
        expanded, no `$expand` is trusted and the members are read singly.
        """
        ask = bool(needs) and (self.expands or (only and self.offers_expand))
        expanded = self._expanded(uri, about, name, needs, read_s) if ask else None
        if expanded is not None or only:
            return expanded
        uris = self.collection(uri, about, read_s=read_s)
        if uris is None:
            return None
        read = (self.get(member, f"{name}[{member.rstrip('/').rpartition('/')[2]}]", read_s=read_s) for member in uris)
        return tuple(member for member in read if member is not None)

    def _expanded(
        self, uri: str, about: str, name: str, needs: tuple[str, ...], read_s: float
    ) -> tuple[Resource, ...] | None:
        asked = f"{uri}?$expand=.($levels=1)"
        page = self.get(asked, about, read_s=read_s) if uri not in self.answers else None
        if page is None:
            self.notes.had(about)
            return None
        members = page.parts("Members")
        count = page.raw("Members@odata.count")
        whole = isinstance(count, int) and count == len(members) and not page.link("Members@odata.nextLink")
        if not whole or not all(set(needs) <= member.body.keys() for member in members):
            if all(member.body.keys() <= {"@odata.id"} for member in members):
                self.answers[uri] = self.answers[asked]  # not expanded, it serves as the plain collection
            del self.answers[asked]
            return None
        return tuple(self._embedded(member, name) for member in members)

    def _embedded(self, member: Resource, name: str) -> Resource:
        source = member.source.model_copy(update={"uri": member.link("@odata.id") or member.uri})
        return Resource(member.body, source, self.notes, f"{name}[{member.id}]")

    def _ask(self, uri: str, about: str, read_s: float) -> Reply | None:
        if uri in self.answers:
            return self.answers[uri]
        try:
            reply = self.wire.get(uri, read_s=read_s)
        except OutputNotUnderstood as error:
            self.wire.deadline.check(f"GET {uri}")
            self.notes.lack(about, uri, f"malformed: {error.failed}: {error.said}")
            return None
        except NodeUnreachable as error:
            self._lost += 1
            if self._lost >= _LOST_IN_A_ROW or not self.answers:
                raise
            self.notes.lack(about, uri, f"no answer: {error.said}")
            return None
        self._lost = 0
        self.answers[uri] = reply
        return reply

    def _reason(self, reply: Reply) -> str:
        if reply.status == 404:
            return "not offered (HTTP 404)"
        if reply.status >= 400:
            off = " while host is off" if not self.host_on else ""
            return f"HTTP {reply.status}{off}: {reply.said}"
        return "malformed: no JSON object"

    def keep(self, lane: str, *also: Resource) -> None:
        """Store the raw answers read since the last time, and those of `also`, as one piece of evidence."""
        fresh = {uri: reply for uri, reply in self.answers.items() if uri.partition("?")[0] not in self.kept}
        bundle = {uri: {"status": r.status, "at": r.at.isoformat(), "body": r.body} for uri, r in fresh.items()}
        bundle |= {r.uri: {"status": 200, "at": r.source.read_at.isoformat(), "body": r.body} for r in also}
        took_s = sum(reply.took_ms for reply in fresh.values()) / 1000
        raw = json.dumps(bundle, sort_keys=True).encode()
        kept = self.wire.keep(raw, f"GET {len(bundle)} resources, {lane} lane", now(), took_s, "read")
        self.kept |= {uri.partition("?")[0]: kept for uri in bundle}
