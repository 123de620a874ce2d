"""The HTTPS face of one BMC."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from lab.bmc import tree, writes
from lab.bmc.answers import ROOT, Answer, error
from lab.bmc.bmc import Bmc, Login
from lab.bmc.certificates import tls_for
from lab.machine import Machine

_OPEN = frozenset({("GET", ""), ("POST", "/SessionService/Sessions")})  # what needs no login. DSP0266 section 13.3.3
_BODY_LIMIT = 1 << 20  # bytes; our choice


@dataclass
class BmcServer:
    """A BMC that listens."""

    bmc: Bmc
    url: str
    server: asyncio.Server
    web: web.Server

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        self.server.close()
        await self.web.shutdown(timeout=0.1)


async def start_bmc(
    machine: Machine, host: str, port: int = 0, *, login: Login, certificates: Path, latency_s: float = 0.0
) -> BmcServer:
    """Serve one machine's BMC on `https://host:port`; port 0 takes a free one."""
    bmc = Bmc(machine, login)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if latency_s:
            await asyncio.sleep(latency_s)
        return await _answer(bmc, request)

    server = web.Server(answer, access_log=None)
    tls = tls_for(machine.name, host, certificates)
    listening = await asyncio.get_running_loop().create_server(server, host, port, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    return BmcServer(bmc, f"https://{host}:{port}", listening, server)


async def _answer(bmc: Bmc, request: web.BaseRequest) -> web.StreamResponse:
    bmc.requests += 1
    method, path = request.method, request.path.rstrip("/")
    if path == "/redfish":
        return web.json_response({"v1": f"{ROOT}/"})
    if not path.startswith(ROOT):
        return _written(error("ResourceMissingAtURI", request.path))
    path = path.removeprefix(ROOT)
    if (method, path) not in _OPEN and (refusal := _unknown(bmc, request)):
        return _written(refusal)
    if method in {"GET", "HEAD"}:
        return _written(tree.read(bmc, path, request.query))
    if method not in writes.TABLES:
        return _written(error("OperationNotAllowed"))
    body = await request.content.read(_BODY_LIMIT)
    return _written(writes.write(bmc, method, path, body, request.headers.get("If-Match", "")))


def _written(answer: Answer) -> web.Response:
    headers = {"OData-Version": "4.0", "Cache-Control": "no-cache", **answer.headers}
    kind = "application/json" if answer.body is not None else None
    return web.Response(status=answer.status, body=answer.raw, headers=headers, content_type=kind)


def _unknown(bmc: Bmc, request: web.BaseRequest) -> Answer | None:
    """401 for who is not logged in, by session or Basic."""
    token = request.headers.get("X-Auth-Token")
    if token is not None:
        return None if bmc.session_of(token) else error("NoValidSession")
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Basic":
        return error("NoValidSession", headers={"WWW-Authenticate": 'Basic realm="redfish"'})
    try:
        username, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return error("NoValidSession")
    return None if (username, password) == (bmc.login.username, bmc.login.password) else error("NoValidSession")
