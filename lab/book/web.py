"""The stand-in NetBox over HTTP: token, lists with filters and pages, bulk writes, ETag and If-Match, GraphQL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Any

from aiohttp import web

from lab.book.filters import matching
from lab.book.graphql import QueryError, answer
from lab.book.kinds import KINDS
from lab.book.state import LabBook
from lab.book.store import Refused, Row, shown

_PAGE, _PAGE_MOST = 50, 1000  # NetBox's PAGINATE_COUNT and MAX_PAGE_SIZE as shipped
_TYPES = ("dcim/module-types", "dcim/manufacturers")  # what only a catalogue token may add
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BookFace:
    """The HTTP face of one `LabBook`. `faults` is read at every request: `netbox_down`, `netbox_conflict`."""

    def __init__(self, book: LabBook, faults: Set[str]) -> None:
        self.book = book
        self.faults = faults

    def app(self) -> web.Application:
        """The aiohttp application."""

        @web.middleware
        async def gate(request: web.Request, handler: Served) -> web.StreamResponse:
            return await self._gate(request, handler)

        # 2.5 MB: DATA_UPLOAD_MAX_MEMORY_SIZE as NetBox has it.
        app = web.Application(middlewares=[gate], client_max_size=2_500_000)
        app.router.add_get("/api/", _root)
        app.router.add_get("/api/status/", self._status)
        app.router.add_post("/graphql/", self._graphql)
        app.router.add_route("OPTIONS", "/api/{app}/{endpoint}/", self._options)
        app.router.add_get("/api/{app}/{endpoint}/", self._list)
        app.router.add_post("/api/{app}/{endpoint}/", self._add)
        app.router.add_patch("/api/{app}/{endpoint}/", self._change_many)
        app.router.add_get("/api/{app}/{endpoint}/{id:\\d+}/", self._one)
        app.router.add_patch("/api/{app}/{endpoint}/{id:\\d+}/", self._change_one)
        return app

    async def _gate(self, request: web.Request, handler: Served) -> web.StreamResponse:
        answered = await self._gated(request, handler)
        answered.headers["X-Request-ID"] = str(uuid.uuid4())
        answered.headers["API-Version"] = self.book.version.rpartition(".")[0]
        return answered

    async def _gated(self, request: web.Request, served: Served) -> web.StreamResponse:
        self.book.requests.append((request.method, request.path))
        if "netbox_down" in self.faults or await self._about_a_lost_device(request):
            return web.Response(
                status=503, text="<html><h1>503 Service Unavailable</h1></html>", content_type="text/html"
            )
        refused = self._refused(request)
        if refused:
            return web.json_response({"detail": refused}, status=403)
        try:
            return await served(request)
        except Refused as no:
            return web.json_response(no.said, status=400)
        except json.JSONDecodeError as error:
            return web.json_response({"detail": f"JSON parse error - {error}"}, status=400)

    def _refused(self, request: web.Request) -> str:
        keyword, _, token = request.headers.get("Authorization", "").partition(" ")
        if keyword not in ("Token", "Bearer"):
            return "Authentication credentials were not provided."
        return "" if token == self.book.token else "Invalid v1 token"

    async def _about_a_lost_device(self, request: web.Request) -> bool:
        """Whether this request is for a device whose node has `netbox_down`: others are answered."""
        lost = {self.book.device(node.name)["id"] for node in self.book.nodes if "netbox_down" in node.faults}
        return bool(lost) and bool(lost & await _devices_meant(request))

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response({"netbox-version": self.book.version, "netbox-full-version": self.book.version})

    async def _graphql(self, request: web.Request) -> web.Response:
        if not self.book.graphql_on:
            raise web.HTTPNotFound
        asked = await request.json()
        try:
            data = answer(self.book.store, asked["query"], asked.get("variables") or {})
        except QueryError as error:
            return web.json_response({"data": None, "errors": [{"message": str(error)}]})
        return web.json_response({"data": data})

    async def _options(self, request: web.Request) -> web.Response:
        may = self.book.may_add_types or _path(request) not in _TYPES
        return web.json_response({"name": _path(request), "actions": {"POST": {}} if may else {}})

    async def _list(self, request: web.Request) -> web.Response:
        path = _path(request)
        found = list(matching(self.book.store, path, request.query))
        if path == "extras/journal-entries":
            found.reverse()  # the newest entry first
        limit = int(request.query.get("limit", _PAGE)) or _PAGE_MOST
        limit, offset = min(limit, _PAGE_MOST), int(request.query.get("offset", 0))
        page = found[offset : offset + limit]
        following = None
        if offset + limit < len(found):
            following = str(request.url.update_query(limit=limit, offset=offset + limit))
        rows = [self._trim(path, row, request.query.get("fields")) for row in page]
        return web.json_response({"count": len(found), "next": following, "previous": None, "results": rows})

    def _trim(self, path: str, row: Row, fields: str | None) -> dict[str, Any]:
        full = shown(self.book.store, path, row)
        return {name: full[name] for name in fields.split(",") if name in full} if fields else full

    async def _one(self, request: web.Request) -> web.Response:
        return self._shown(_path(request), self._row(request))

    async def _add(self, request: web.Request) -> web.Response:
        path, body = _path(request), await request.json()
        if path in _TYPES and not self.book.may_add_types:
            said = "You do not have permission to perform this action."
            return web.json_response({"detail": said}, status=403)
        self.book.writes += 1
        if isinstance(body, Mapping):
            return self._shown(path, self.book.store.add(path, body), status=201)
        made = self._all_or_nothing(path, body, lambda item: self.book.store.add(path, item))
        return web.json_response([shown(self.book.store, path, row) for row in made], status=201)

    async def _change_many(self, request: web.Request) -> web.Response:
        path, body, store = _path(request), await request.json(), self.book.store
        self.book.writes += 1
        for item in body:
            if item.get("id") not in store.rows[path]:
                said = [{"id": item.get("id"), "errors": {"id": ["Object not found."]}}]
                return web.json_response({"errors": said}, status=400)
        changed = [store.change(path, store.rows[path][item["id"]], item) for item in body]
        return web.json_response([shown(store, path, row) for row in changed])

    async def _change_one(self, request: web.Request) -> web.Response:
        path, row, body = _path(request), self._row(request), await request.json()
        self._somebody_edits(path, row)
        wanted = request.headers.get("If-Match")
        if wanted not in (None, "*", self.book.store.etag(row)):
            said = "The object has been modified since it was last read."
            return web.json_response({"detail": said}, status=412, headers={"ETag": self.book.store.etag(row)})
        self.book.writes += 1
        return self._shown(path, self.book.store.change(path, row, body))

    def _somebody_edits(self, path: str, row: Row) -> None:
        """The fault `netbox_conflict`: a person edits the device just before the PATCH arrives, once per device."""
        if path != "dcim/devices" or row["id"] in self.book.edited:
            return
        node = next((n for n in self.book.nodes if n.name == row["name"]), None)
        if "netbox_conflict" in self.faults or (node and "netbox_conflict" in node.faults):
            self.book.edited.add(row["id"])
            self.book.store.change(path, row, {"description": "checked the cabling, all fine"})

    def _all_or_nothing(self, path: str, bodies: Iterable[Row], act: Callable[[Row], Row]) -> list[Row]:
        done: list[Row] = []
        for index, body in enumerate(bodies):
            try:
                done.append(act(body))
            except Refused as no:
                for row in done:
                    self.book.store.drop(path, row["id"])
                raise Refused({"errors": [{"index": index, "errors": no.said}]}) from no
        return done

    def _row(self, request: web.Request) -> Row:
        path, row_id = _path(request), int(request.match_info["id"])
        row = self.book.store.rows[path].get(row_id)
        if row is None:
            said = {"detail": f"No {KINDS[path].word} matches the given query."}
            raise web.HTTPNotFound(text=json.dumps(said), content_type="application/json")
        return row

    def _shown(self, path: str, row: Row, status: int = 200) -> web.Response:
        tag = {"ETag": self.book.store.etag(row)}
        return web.json_response(shown(self.book.store, path, row), status=status, headers=tag)


async def _root(request: web.Request) -> web.Response:
    return web.json_response({"dcim": "/api/dcim/", "status": "/api/status/"})


def _path(request: web.Request) -> str:
    path = f"{request.match_info['app']}/{request.match_info['endpoint']}"
    if path not in KINDS:
        raise web.HTTPNotFound
    return path


async def _devices_meant(request: web.Request) -> set[int]:
    """The ids of the devices a request is about; nothing for lists over a rack."""
    if request.path == "/graphql/":
        ids = ((await request.json()).get("variables") or {}).get("ids", ())
        return {int(i) for i in ids}
    meant = {int(i) for name in ("device_id", "assigned_object_id") for i in request.query.getall(name, ())}
    if request.path.startswith("/api/dcim/devices/") and request.match_info.get("id"):
        meant.add(int(request.match_info["id"]))
    if request.method in ("POST", "PATCH"):
        body = await request.json()
        for item in body if isinstance(body, list) else [body]:
            meant |= {item[name] for name in ("device", "assigned_object_id") if isinstance(item.get(name), int)}
    return meant
