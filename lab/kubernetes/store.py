"""Keeps objects with uids and revisions, and tells watchers what changed since when."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lab.kubernetes.kinds import Body, Kind, Refused, not_found, stale

_FIRST_REVISION = 100  # our choice: what is older is compacted, so that "too old" can be asked for
_REMEMBERED = 5000  # our choice: changes kept for watchers; etcd keeps five minutes' worth


class Change(NamedTuple):
    """One change, as a watcher may have to replay it."""

    revision: int
    plural: str
    before: Body | None
    after: Body | None


class Store:
    """All objects of one cluster. Used from one event loop only."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Body] = {}
        self.revision = _FIRST_REVISION
        self._log: deque[Change] = deque(maxlen=_REMEMBERED)
        self._oldest = _FIRST_REVISION
        self._watchers: set[asyncio.Queue[Change]] = set()
        self.on_change: list[Callable[[Change], None]] = []  # the controllers

    def get(self, kind: Kind, namespace: str, name: str) -> Body:
        """A copy of one object; 404 when there is none."""
        found = self._objects.get((kind.plural, namespace, name))
        if found is None:
            raise not_found(kind, name)
        return copy.deepcopy(found)

    def peek(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """The object itself, to be looked at and not touched; None when there is none."""
        return self._objects.get((kind.plural, namespace, name))

    def all(self, kind: Kind, namespace: str = "") -> list[Body]:
        """Copies of all objects of a kind, by namespace and name."""
        keys = sorted(key for key in self._objects if key[0] == kind.plural and namespace in ("", key[1]))
        return [copy.deepcopy(self._objects[key]) for key in keys]

    def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        """Store a new object; 409 when the name is taken."""
        name = body["metadata"]["name"]
        if (kind.plural, namespace, name) in self._objects:
            raise Refused(409, f'{kind.plural} "{name}" already exists', reason="AlreadyExists")
        metadata = {**body["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
        if kind.namespaced:
            metadata["namespace"] = namespace
        metadata.pop("resourceVersion", None)
        return self._keep(kind, namespace, name, None, {**body, "metadata": metadata})

    def replace(self, kind: Kind, namespace: str, name: str, body: Body) -> Body:
        """Store a newer state; 409 when it was made from an older revision than the one that stands."""
        before = self.get(kind, namespace, name)
        asked = body["metadata"].get("resourceVersion")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise stale(kind, name)
        body = copy.deepcopy(body)
        for fixed in ("uid", "creationTimestamp", "name", "namespace", "resourceVersion"):
            if fixed in before["metadata"]:
                body["metadata"][fixed] = before["metadata"][fixed]
        return before if body == before else self._keep(kind, namespace, name, before, body)

    def delete(self, kind: Kind, namespace: str, name: str) -> Body:
        """Remove an object and hand back its last state."""
        before = self.get(kind, namespace, name)
        del self._objects[kind.plural, namespace, name]
        self.revision += 1
        before["metadata"]["resourceVersion"] = str(self.revision)
        self._tell(Change(self.revision, kind.plural, before, None))
        return before

    def _keep(self, kind: Kind, namespace: str, name: str, before: Body | None, body: Body) -> Body:
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        self._objects[kind.plural, namespace, name] = body
        self._tell(Change(self.revision, kind.plural, before, copy.deepcopy(body)))
        return copy.deepcopy(body)

    def _tell(self, change: Change) -> None:
        if len(self._log) == self._log.maxlen:
            self._oldest = self._log[0].revision
        self._log.append(change)
        for queue in self._watchers:
            queue.put_nowait(change)
        for react in self.on_change:
            react(change)

    def compact(self) -> None:
        """Forget all changes so far, as a restarted API server has: older watches get 410."""
        self._log.clear()
        self._oldest = self.revision

    def watch(self, since: int) -> tuple[list[Change], asyncio.Queue[Change]]:
        """What happened after a revision, and a queue for what comes; 410 when that is no longer known."""
        if since < self._oldest:
            raise Refused(410, f"too old resource version: {since} ({self._oldest})")
        queue: asyncio.Queue[Change] = asyncio.Queue()
        self._watchers.add(queue)
        return [change for change in self._log if change.revision > since], queue

    def unwatch(self, queue: asyncio.Queue[Change]) -> None:
        """The watcher went away."""
        self._watchers.discard(queue)


def timestamp(moment: datetime | None = None) -> str:
    """A time as the API writes it: UTC, whole seconds."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def seen_as(change: Change, matches: Callable[[Body], bool]) -> Iterator[tuple[str, Body]]:
    """A change as a watcher with a selector sees it: an object that stops matching is gone for it."""
    was = change.before is not None and matches(change.before)
    after = change.after
    if after is not None and matches(after):
        yield ("MODIFIED" if was else "ADDED"), after
    elif was and change.before is not None:
        yield "DELETED", {**change.before, **({"metadata": after["metadata"]} if after else {})}
