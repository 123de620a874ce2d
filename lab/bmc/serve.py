"""The HTTPS face of one BMC."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from pathlib import Path

from aiohttp import web

from lab.bmc import tree, trouble, writes
from lab.bmc.answers import ROOT, Answer, error
from lab.bmc.bmc import Bmc, Login
from lab.bmc.certificates import tls_for
from lab.machine import Machine

_OPEN = frozenset({("GET", ""), ("POST", "/SessionService/Sessions")})  # what needs no login. DSP0266 section 13.3.3
_BODY_LIMIT = 1 << 20  # bytes; our choice


class BmcServer:
    """A BMC that listens, unless the fault `bmc_dead` keeps it from it."""

    def __init__(self, bmc: Bmc, host: str, tls: ssl.SSLContext, latency_s: float) -> None:
        self.bmc, self.host, self.port = bmc, host, 0
        self._tls, self._latency_s = tls, latency_s
        self._web = web.Server(self._answer, access_log=None)
        self._listening: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://{self.host}:{self.port}"

    async def listen(self, port: int) -> None:
        """Open the port; 0 takes a free one."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._web, self.host, port, ssl=self._tls, ssl_shutdown_timeout=0.5)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._listening:
            self._listening.close()
            self._listening = None
        transports = [connection.transport for connection in self._web.connections]
        await self._web.shutdown(timeout=0.1)
        for transport in transports:
            if transport:
                transport.abort()  # TLS would wait for the other side's goodbye
        await asyncio.sleep(0)

    def obey_faults(self) -> None:
        """Die or come back, as `bmc_dead` says now."""
        dead = self.bmc.machine.fault("bmc_dead")
        if dead and self._listening:
            self.bmc.machine.keep(self.stop())
        elif not dead and not self._listening:
            self.bmc.machine.keep(self.listen(self.port))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bmc.requests += 1
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if request.method == "GET" and request.transport and trouble.resets(self.bmc):
            request.transport.abort()
            return web.Response()
        busy = trouble.busy(self.bmc)
        return _written(busy) if busy else await _answer(self.bmc, request)


async def start_bmc(
    machine: Machine, host: str, port: int = 0, *, login: Login, certificates: Path, latency_s: float = 0.0
) -> BmcServer:
    """Serve one machine's BMC on `https://host:port`; port 0 takes a free one."""
    server = BmcServer(Bmc(machine, login), host, tls_for(machine.name, host, certificates), latency_s)
    await server.listen(port)
    machine.watchers.append(server.obey_faults)
    return server


async def _answer(bmc: Bmc, request: web.BaseRequest) -> web.StreamResponse:
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
