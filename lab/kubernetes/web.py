"""The HTTP face of the lab's Kubernetes: paths, verbs, patches, pages, watches."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from lab.kubernetes import access, pods
from lab.kubernetes.access import User, Wish
from lab.kubernetes.cluster import LabCluster
from lab.kubernetes.kinds import KINDS, Body, Kind, Refused, stale
from lab.kubernetes.patches import json_patch, merge, server_side_apply, strategic_merge
from lab.kubernetes.rules import admit
from lab.kubernetes.selectors import selected
from lab.kubernetes.store import seen_as

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PARTS = ("status", "approval", "eviction")  # subresources we serve
_WATCH_S = 300.0  # our choice within the real server's random 30-60 min: long enough for any wait of ours
_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2",
    "gitCommit": "lab",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go",
    "compiler": "gc",
    "platform": "linux/amd64",
}


class Target(NamedTuple):
    """What a path points at."""

    kind: Kind
    namespace: str
    name: str
    part: str


def make_app(cluster: LabCluster) -> web.Application:
    """The API server of a cluster."""
    app = web.Application(middlewares=[_as_status])
    face = Face(cluster)
    for path in ("/healthz", "/livez", "/readyz"):
        app.router.add_get(path, _ok)
    app.router.add_get("/version", _version)
    app.router.add_get("/version/", _version)
    app.router.add_route("*", "/api/v1/{rest:.+}", face.answer)
    app.router.add_route("*", "/apis/{group}/{version}/{rest:.+}", face.answer)
    return app


@web.middleware
async def _as_status(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refused as refused:
        return web.json_response(refused.body, status=refused.code)


async def _ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _version(_: web.Request) -> web.Response:
    return web.json_response(_VERSION)


class Face:
    """Answers for one cluster."""

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request, authenticated, authorised and served."""
        self._cluster.requests += 1
        if "api_down" in self._cluster.faults:
            raise Refused(503, "the server is currently unable to handle the request")
        user = self._cluster.user_of(request.headers.get("Authorization", ""))
        target = _target(request)
        verb = _VERBS.get(request.method) or ("get" if target.name else "list")
        body = await _body(request) if verb in _VERBS.values() else {}
        named = target.name or (body.get("metadata", {}).get("name", "") if isinstance(body, dict) else "")
        access.check(user, Wish(verb, target.kind, target.namespace, named, target.part))
        if verb == "list" and request.query.get("watch") in ("true", "1"):
            return await self._watch(request, target)
        if verb not in ("get", "list"):
            self._cluster.writes += 1
        status = 201 if verb == "create" else 200
        return web.json_response(self._serve(request, verb, target, body, user), status=status)

    def _serve(self, request: web.Request, verb: str, target: Target, body: Any, user: User) -> Body:
        dry_run = request.query.get("dryRun") == "All"
        if verb == "get":
            return self._store.get(target.kind, target.namespace, target.name)
        if verb == "list":
            return self._list(request, target)
        if target.part == "eviction":
            return pods.evict(self._cluster, target.namespace, target.name, body, dry_run=dry_run)
        act: dict[str, Callable[..., Body]] = {
            "create": self._create,
            "delete": self._delete,
            "update": self._change,
            "patch": partial(self._patch, request),
        }
        return act[verb](target, body, user, dry_run=dry_run)

    def _create(self, target: Target, body: Body, user: User, *, dry_run: bool) -> Body:
        if target.kind.plural == "certificatesigningrequests":
            body = {**body, "spec": {**body["spec"], "username": user.name, "groups": list(user.groups)}}
        body = admit(target.kind, body)
        if target.kind.plural == "nodes":
            access.check_node_change(user, None, body)
        return body if dry_run else self._store.create(target.kind, target.namespace, body)

    def _delete(self, target: Target, options: Any, user: User, *, dry_run: bool) -> Body:
        body = self._store.get(target.kind, target.namespace, target.name)
        options = options if isinstance(options, dict) else {}
        pods.check_preconditions(body, options)
        if dry_run:
            return body
        if target.kind.plural == "pods":
            return pods.remove(self._cluster, body, options)
        self._store.delete(target.kind, target.namespace, target.name)
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": target.name, "kind": target.kind.plural, "uid": body["metadata"]["uid"]},
        }

    def _patch(self, request: web.Request, target: Target, patch: Any, user: User, *, dry_run: bool) -> Body:
        kind_of_patch = request.content_type
        if kind_of_patch == "application/apply-patch+yaml":
            return self._apply(request, target, patch, user, dry_run=dry_run)
        old = self._store.get(target.kind, target.namespace, target.name)
        match kind_of_patch:
            case "application/json-patch+json":
                new = json_patch(old, patch)
            case "application/merge-patch+json":
                new = merge(old, patch)
            case "application/strategic-merge-patch+json":
                new = strategic_merge(old, patch)
            case _:
                raise Refused(415, f"the body of the request was in an unknown format: {kind_of_patch}")
        return self._change(target, new, user, dry_run=dry_run)

    def _apply(self, request: web.Request, target: Target, body: Body, user: User, *, dry_run: bool) -> Body:
        manager, force = request.query.get("fieldManager", ""), request.query.get("force") == "true"
        if not manager:
            raise Refused(400, "fieldManager is required for apply patch")
        try:
            old = self._store.get(target.kind, target.namespace, target.name)
        except Refused:
            fresh = {"metadata": {"name": target.name}}
            new = server_side_apply({**fresh}, body, manager, force=force)
            return self._create(target, new, user, dry_run=dry_run)
        return self._change(target, server_side_apply(old, body, manager, force=force), user, dry_run=dry_run)

    def _change(self, target: Target, new: Body, user: User, *, dry_run: bool) -> Body:
        """Store a new state of an object: of its status, of its approval, or of all but those."""
        old = self._store.get(target.kind, target.namespace, target.name)
        asked = new["metadata"].get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise stale(target.kind, target.name)
        if target.part in ("status", "approval"):
            new = {**old, "status": new.get("status", {})}
        elif "status" in old:
            new = {**new, "status": old["status"]}
        new = admit(target.kind, new)
        if target.kind.plural == "nodes":
            access.check_node_change(user, old, new)
        return new if dry_run else self._store.replace(target.kind, target.namespace, target.name, new)

    def _list(self, request: web.Request, target: Target) -> Body:
        matches = _selected(request)
        found = [body for body in self._store.all(target.kind, target.namespace) if matches(body)]
        page, after = _page(found, request.query)
        metadata: Body = {"resourceVersion": str(self._store.revision)}
        if after:
            metadata |= {"continue": after, "remainingItemCount": len(found) - found.index(page[-1]) - 1}
        return {
            "kind": f"{target.kind.name}List",
            "apiVersion": target.kind.group_version,
            "metadata": metadata,
            "items": page,
        }

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        matches = _selected(request)
        since = int(request.query.get("resourceVersion") or self._store.revision)
        try:
            missed, queue = self._store.watch(since)
        except Refused as refused:
            await response.write(_line("ERROR", refused.body))
            return response
        ends = asyncio.get_running_loop().time() + float(request.query.get("timeoutSeconds") or _WATCH_S)
        try:
            while True:
                for change in missed:
                    if change.plural == target.kind.plural and _in(change.after or change.before, target.namespace):
                        for event, body in seen_as(change, matches):
                            await response.write(_line(event, body))
                missed = [await asyncio.wait_for(queue.get(), ends - asyncio.get_running_loop().time())]
        except (TimeoutError, ConnectionResetError):  # its time is over, or the watcher left
            return response
        finally:
            self._store.unwatch(queue)


def _target(request: web.Request) -> Target:
    """The kind, namespace, name and subresource of a path; 404 for what is not served."""
    group = request.match_info.get("group")
    version = f"{group}/{request.match_info['version']}" if group else "v1"
    steps = request.match_info["rest"].strip("/").split("/")
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2:
        namespace, steps = steps[1], steps[2:]
    plural, name, part = (*steps, "", "")[:3]
    kind = KINDS.get(plural)
    if kind is None or kind.group_version != version or len(steps) > 3 or (part and part not in _PARTS):
        raise Refused(404, "the server could not find the requested resource")
    return Target(kind, namespace, name, part)


async def _body(request: web.Request) -> Any:
    text = await request.text()
    if not text.strip():
        return {}
    try:
        return json.loads(text)  # also for apply-patch+yaml: JSON is YAML, and all our clients send it
    except ValueError as error:
        raise Refused(400, f"the object provided is unrecognized: {error}") from error


def _selected(request: web.Request) -> Callable[[Body], bool]:
    return selected(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def _page(found: list[Body], query: Any) -> tuple[list[Body], str]:
    """The next `limit` objects after the one named in `continue`, and how to ask for more."""
    after = base64.b64decode(query.get("continue", "")).decode()
    rest = [body for body in found if _place(body) > after]
    limit = int(query.get("limit") or 0)
    if not limit or len(rest) <= limit:
        return rest, ""
    return rest[:limit], base64.b64encode(_place(rest[limit - 1]).encode()).decode()


def _place(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"


def _in(body: Body | None, namespace: str) -> bool:
    return namespace in ("", (body or {"metadata": {}})["metadata"].get("namespace", ""))


def _line(event: str, body: Body) -> bytes:
    return json.dumps({"type": event, "object": body}).encode() + b"\n"
