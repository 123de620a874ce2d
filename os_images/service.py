"""The image service: serves boot artifacts and images, and hears what agents and fresh nodes say. One thread, one loop.

It keeps nothing itself: attempts live in the ledger, so whichever rackmint process holds the port serves all of them,
and when that one dies the next takes the port over.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web

from inventory.errors import BadSettings, RackmintError
from inventory.ledger import Ledger
from os_images.attempts import AttemptDesk, Denied
from os_images.boot_files import BootFile, boot_file
from os_images.manifest import ImageManifest, artifact_trouble, load_manifests
from os_images.messages import Event, Message, NotUnderstood, PhoneHome, Register, understand

_MOST_BODY = 64 << 10  # bytes; our choice: a register call of a machine with 100 disks has about 20 KiB
_BODY_S = 30.0  # our choice: a body that takes longer is not an agent
_BIND_AGAIN_S = 0.2  # our choice: how long nobody serves after the serving process died
_START_S = 10.0  # our choice
_ASK_AGAIN_S = 0.2  # our choice: how often we ask who has the port while nobody answers there
_READ_AGAIN_S = 1.0  # our choice: how often a digest that nobody knows makes us look for new manifests
_KINDS = ("iso", "efi")


class ImageService:
    """Serves one site's images. `start` returns at once when another rackmint of the same ledger has the port."""

    def __init__(
        self, ledger: Ledger, listen: str, public_url: str, images: Mapping[str, ImageManifest], folder: Path
    ) -> None:
        self._host, self._port = _address(listen)
        self._ledger, self._folder = ledger, folder
        self._url = public_url.rstrip("/")
        self._desk = AttemptDesk(ledger, self._url)
        self._by_digest = {manifest.digest: manifest for manifest in images.values()}
        self._read_again_at = 0.0
        self._answer = threading.Event()  # the first try to bind has ended, well or not
        self._trouble: OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="image-service", daemon=True)
        self.serving = False

    # ---- from outside -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Serve, or stand by while another process of the same ledger does.

        Raises `BadSettings` when the address cannot be had or the port belongs to somebody else.
        """
        self._thread.start()
        if not self._answer.wait(_START_S):
            raise BadSettings(f"image service: no answer from {self._host}:{self._port} in {_START_S:g} s")
        if self.serving:
            return
        told = self._trouble and self._trouble.strerror
        if self._trouble is not None and self._trouble.errno != errno.EADDRINUSE:
            self.stop()
            raise BadSettings(f"image service cannot listen on {self._host}:{self._port}: {told}. Mend images.listen")
        ends = time.monotonic() + _START_S
        while not self.serving and not self._same_service(last_try=time.monotonic() > ends):
            time.sleep(_ASK_AGAIN_S)

    def stop(self) -> None:
        """End serving; a transfer in progress is cut and taken up again by whoever serves next."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive():
            self._thread.join(_START_S)

    def boot_url(self, attempt_id: str, token: str, kind: str) -> str:
        """Where a node's BMC finds its own boot artifact: `kind` is "iso" for virtual media, "efi" for HTTP boot."""
        if kind not in _KINDS:
            raise ValueError(f"boot artifact {kind!r}: one of {', '.join(_KINDS)}")
        return f"{self._url}/boot/{attempt_id}/{token}/agent.{kind}"

    @property
    def port(self) -> int:
        """The port in use; the one asked for until it is bound."""
        return self._port

    def _same_service(self, *, last_try: bool) -> bool:
        """Whether the one who has the port is rackmint with our ledger; False while nobody there answers.

        One that is just ending has the port and says nothing; it is ours a moment later. Raises `BadSettings` when
        somebody else answers, or nobody does at the last try.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=5)
        try:
            connection.request("GET", "/health")
            said = json.loads(connection.getresponse().read(_MOST_BODY))
        except (OSError, http.client.RemoteDisconnected):
            if not last_try:
                return False
            said = None
        except (http.client.HTTPException, ValueError):
            said = None
        finally:
            connection.close()
        if isinstance(said, dict) and said.get("ledger") == self._ledger_mark:
            return True
        self.stop()
        raise BadSettings(
            f"image service: port {self._host}:{self._port} is taken by something that is not rackmint with this "
            "ledger. Stop it or choose another images.listen"
        )

    @property
    def _ledger_mark(self) -> str:
        return hashlib.sha256(self._ledger.name.encode()).hexdigest()[:16]

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self._application(), access_log=None, handle_signals=False, shutdown_timeout=0.5)
        await runner.setup()
        try:
            if await self._bind(runner):
                await self._stop.wait()
        finally:
            self.serving = False
            await runner.cleanup()

    async def _bind(self, runner: web.AppRunner) -> bool:
        """Try until the port is ours; False when stopped before."""
        assert self._stop is not None  # noqa: S101 (for the type checker)
        while not self._stop.is_set():
            try:
                await web.SockSite(runner, self._socket()).start()
            except OSError as error:
                self._trouble = error
            else:
                self.serving = True
                self._answer.set()
                return True
            self._answer.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _BIND_AGAIN_S)
        return False

    def _socket(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.create_server((self._host, self._port), family=family, backlog=256)
        self._port = bound.getsockname()[1]
        return bound

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=_MOST_BODY, middlewares=[_no_tracebacks])
        application.router.add_get("/health", self._health)
        application.router.add_get("/boot/{attempt}/{token}/agent.{kind:iso|efi}", self._boot)
        application.router.add_get("/images/{sha256}", self._image)
        application.router.add_post("/agent/v1/register", self._register)
        application.router.add_post("/agent/v1/events", self._event)
        application.router.add_post("/agent/v1/phone-home", self._phone_home)
        return application

    # ---- the answers ------------------------------------------------------------------------------------------------

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"service": "rackmint images", "ledger": self._ledger_mark, "pid": os.getpid()})

    async def _register(self, request: web.Request) -> web.Response:
        said = await _body(request, Register)
        return web.json_response(await asyncio.to_thread(self._desk.register, said))

    async def _event(self, request: web.Request) -> web.Response:
        said = await _body(request, Event)
        await asyncio.to_thread(self._desk.event, said)
        return web.Response(status=204)

    async def _phone_home(self, request: web.Request) -> web.Response:
        said = await _body(request, PhoneHome)
        await asyncio.to_thread(self._desk.phone_home, said)
        return web.Response(status=204)

    async def _image(self, request: web.Request) -> web.StreamResponse:
        manifest = await asyncio.to_thread(self._manifest, request.match_info["sha256"])
        if manifest is None or not manifest.artifact.file:
            raise Denied(404, "no image of this digest is served here")
        trouble = await asyncio.to_thread(artifact_trouble, manifest)
        if trouble:
            raise Denied(404, trouble)
        return web.FileResponse(manifest.artifact.file)

    def _manifest(self, digest: str) -> ImageManifest | None:
        """An image by digest; one that came into the folder after this process began is found as well."""
        if digest not in self._by_digest and time.monotonic() >= self._read_again_at:
            self._read_again_at = time.monotonic() + _READ_AGAIN_S
            self._by_digest.update({manifest.digest: manifest for manifest in load_manifests(self._folder).values()})
        return self._by_digest.get(digest)

    async def _boot(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        found = await asyncio.to_thread(self._boot_file, where["attempt"], where["token"], where["kind"])
        return await _send(request, found)

    def _boot_file(self, attempt_id: str, token: str, kind: str) -> BootFile:
        attempt = self._desk.admit_boot(attempt_id, token, kind)
        credential = {"service": self._url, "attempt": attempt_id, "token": token, "node": attempt.node_name}
        try:
            return boot_file(self._folder / f"agent.{kind}", credential)
        except (OSError, ValueError) as error:
            raise Denied(404, f"agent.{kind} in {self._folder}: {error}") from error


async def _body(request: web.Request, kind: type[Message]) -> Message:
    async with asyncio.timeout(_BODY_S):
        return understand(kind, await request.read())


async def _send(request: web.Request, found: BootFile) -> web.StreamResponse:
    """The artifact, or the range of it that was asked for: BMCs read virtual media piece by piece."""
    try:
        asked = request.http_range
    except ValueError as error:
        raise Denied(416, "range not understood") from error
    start, stop, _ = asked.indices(found.size)
    if start >= stop:
        raise Denied(416, f"range outside of {found.size} bytes")
    whole = asked.start is None and asked.stop is None
    answer = web.StreamResponse(status=200 if whole else 206, headers={"Accept-Ranges": "bytes"})
    answer.content_type, answer.content_length = "application/octet-stream", stop - start
    if not whole:
        answer.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{found.size}"
    await answer.prepare(request)
    if request.method != "HEAD":
        for piece in found.read(start, stop):
            await answer.write(piece)
    await answer.write_eof()
    return answer


@web.middleware
async def _no_tracebacks(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Every "no" as one JSON sentence. A ledger in trouble is "try again", which agents do."""
    try:
        return await handler(request)
    except Denied as no:
        return web.json_response({"error": no.reason}, status=no.status)
    except NotUnderstood as error:
        return web.json_response({"error": str(error)}, status=400)
    except TimeoutError:
        return web.json_response({"error": "the body did not come"}, status=408)
    except RackmintError as error:
        return web.json_response({"error": str(error)}, status=503, headers={"Retry-After": "2"})


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise BadSettings(f"images.listen {listen!r}: not an address. Write HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 (an empty host is the operator's own word for it)
