"""The network between a node and the image service, for nodes whose network is bad: it flips one bit of the image."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aiohttp
from aiohttp import web

from lab.machine import Machine

_KEPT = ("Content-Type", "Content-Range", "Accept-Ranges")
_CLIENT = web.AppKey("client", aiohttp.ClientSession)


class BadWire:
    """A relay on loopback that only nodes with `image_checksum_mismatch` are led through."""

    def __init__(self) -> None:
        self.url = ""  # known once it listens
        self._origins: list[str] = []

    def lead(self, machine: Machine) -> None:
        """Let a machine's deploy agent reach its image service through here while the fault is on."""

        def wire(credential: Mapping[str, str]) -> Mapping[str, str]:
            if not machine.fault("image_checksum_mismatch"):
                return credential
            return {**credential, "service": self._through(credential["service"].rstrip("/"))}

        machine.wire = wire

    def _through(self, origin: str) -> str:
        if origin not in self._origins:
            self._origins.append(origin)
        return f"{self.url}/{self._origins.index(origin)}"

    def app(self) -> web.Application:
        """The relay's HTTP face."""
        app = web.Application()
        app.router.add_route("*", "/{origin:\\d+}/{path:.*}", self._relay)
        app.cleanup_ctx.append(_client)
        return app

    async def _relay(self, request: web.Request) -> web.Response:
        origin = self._origins[int(request.match_info["origin"])]
        path = request.match_info["path"]
        headers = {name: value for name, value in request.headers.items() if name in {"Range", "Content-Type"}}
        async with request.app[_CLIENT].request(
            request.method, f"{origin}/{path}", data=await request.read(), headers=headers
        ) as answer:
            body = self._bent(path, origin, await answer.read())
            kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            return web.Response(status=answer.status, body=body, headers=kept)

    def _bent(self, path: str, origin: str, body: bytes) -> bytes:
        """An image with its last bit flipped; a job that leads the image through here too."""
        if path.startswith("images/") and body:
            return body[:-1] + bytes([body[-1] ^ 1])
        if path.endswith("/register") and body:
            job = json.loads(body)
            if "image" in job:
                job["image"]["url"] = str(job["image"]["url"]).replace(origin, self._through(origin))
            return json.dumps(job).encode()
        return body


async def _client(app: web.Application):  # type: ignore[no-untyped-def]  # an aiohttp cleanup context
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app[_CLIENT] = session
        yield
