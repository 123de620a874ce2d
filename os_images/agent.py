"""The deploy agent: lays one image on one disk of the machine it runs on, proves the digest, and tells the service.

Standard library only, so that any ramdisk with a Python can carry it; `ramdisk.py` beside it knows real disks, and
`credential.py` how a node's own credential gets into a boot artifact.
It asks the service for its job, holds the image's first MiB back until the sha256 is right (a disk cut off in the
middle is never bootable), writes the seed last, and writes nothing at all when the service says no.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import lzma
import ssl
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from os_images.credential import embed_area, read_credential

__all__ = ["DiskFacts", "Facts", "Refused", "Stopped", "embed_area", "read_credential", "run_agent"]

MIB = 1 << 20
SEED_PARTITION = "rackmint-seed"  # GPT partition name an image reserves for its seed; our choice, so that none is taken

_ANSWER_S = 30.0  # our choice: a service on the same site that needs longer is as good as gone
_PAUSE_MOST_S = 10.0  # our choice: a restarted service is met again within this time
_PROGRESS_STEP, _PROGRESS_EVERY_S = 10, 2.0  # per cent and seconds between two progress events; our choice
_JOB_KEYS = {"image": ("url", "sha256", "size"), "disk": ("by_path",), "seed": ()}


@dataclass(frozen=True)
class DiskFacts:
    """One disk as the ramdisk sees it. `signature` names what lies on it already; empty = nothing known to us."""

    by_path: str  # name under /dev/disk/by-path
    size_bytes: int
    wwn: str = ""
    serial: str = ""
    model: str = ""
    signature: str = ""


@dataclass(frozen=True)
class Facts:
    """Which machine this is, for the service to compare with what Redfish told."""

    uuid: str
    serial: str
    macs: tuple[str, ...] = ()
    disks: tuple[DiskFacts, ...] = ()


OpenDisk = Callable[[str], AbstractContextManager[BinaryIO]]  # by_path → a file to seek and write; closed = on the disk
WriteSeed = Callable[[str, Mapping[str, str]], None]  # (by_path, seed); called once, after the image is whole
Cancelled = Callable[[], bool]


class Refused(Exception):
    """The service, or the agent's own sense, says no; nothing more is written."""


class Stopped(Exception):
    """Power is gone or somebody asked to stop; nothing more is done, not even telling."""


def _never() -> bool:
    return False


def run_agent(
    credential: Mapping[str, str],
    facts: Facts,
    open_disk: OpenDisk,
    write_seed: WriteSeed,
    *,
    tell: Callable[[str], None] = print,
    cancelled: Cancelled = _never,
    retry_s: float = 300.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Do the one job this credential stands for; the result is "done" or "failed: …" and never an exception."""
    service = Service(credential, cancelled, retry_s, sleep, tell)
    try:
        job = _job(service, facts)
        _lay(service, job, open_disk, write_seed)
    except Stopped:
        return "failed: stopped"
    except (Refused, OSError) as error:
        return _give_up(service, str(error))
    return "done"


def _job(service: Service, facts: Facts) -> dict[str, Any]:
    """Register, and believe only a whole job for a disk that is here and large enough."""
    job = service.post("register", **asdict(facts))
    for part, keys in _JOB_KEYS.items():
        if not isinstance(job.get(part), dict) or any(key not in job[part] for key in keys):
            raise Refused(f"the job has no usable {part!r}")
    wanted = job["disk"]["by_path"]
    disk = next((d for d in facts.disks if d.by_path == wanted), None)
    if disk is None:
        raise Refused(f"the job names disk {wanted}, which this machine does not have")
    if disk.size_bytes < int(job["image"].get("size_raw") or job["image"]["size"]):
        raise Refused(f"disk {wanted} has {disk.size_bytes} bytes, too few for the image")
    return job


def _lay(service: Service, job: Mapping[str, Any], open_disk: OpenDisk, write_seed: WriteSeed) -> None:
    image, by_path = job["image"], str(job["disk"]["by_path"])
    service.event("booted", f"disk {by_path}")
    with open_disk(by_path) as disk:
        _write_image(service, image, disk)
    service.event("written", str(image["sha256"]))
    write_seed(by_path, job["seed"])
    service.event("seeded", by_path)
    service.event("done", "")


def _give_up(service: Service, reason: str) -> str:
    """Report the failure; a service that cannot be told changes nothing about the result."""
    service.tell(f"failed: {reason}")
    try:
        service.event("failed", reason)
    except Stopped:
        return "failed: stopped"
    except (Refused, OSError):
        service.tell("the service could not be told")
    return f"failed: {reason}"


def _write_image(service: Service, image: Mapping[str, Any], disk: BinaryIO) -> None:
    """Stream, hash and write; the first MiB goes last, and only when the digest is right."""
    size, wanted = int(image["size"]), str(image["sha256"]).lower()
    unpack = _unpacker(str(image.get("format", "raw")))
    digest, head, progress = hashlib.sha256(), bytearray(), _Progress(service, size)
    progress.at(0)
    _wipe_head(disk)
    for chunk in service.stream(str(image["url"]), size):
        digest.update(chunk)
        _write_past_head(disk, head, unpack(chunk))
        progress.add(len(chunk))
    if digest.hexdigest() != wanted:
        _wipe_head(disk)
        raise Refused(f"image checksum mismatch: expected sha256 {wanted}, received sha256 {digest.hexdigest()}")
    disk.seek(0)
    disk.write(head)
    disk.flush()


def _wipe_head(disk: BinaryIO) -> None:
    disk.seek(0)
    disk.write(bytes(MIB))
    disk.flush()


def _write_past_head(disk: BinaryIO, head: bytearray, data: bytes) -> None:
    """Fill `head` up to one MiB first; everything behind it goes to the disk, which stands there already."""
    missing = MIB - len(head)
    head += data[:missing]
    if data[missing:]:
        disk.write(data[missing:])


def _unpacker(image_format: str) -> Callable[[bytes], bytes]:
    if image_format == "raw":
        return bytes
    if image_format == "raw.gz":
        return zlib.decompressobj(wbits=31).decompress  # 31: a gzip header is expected; zlib manual, inflateInit2
    if image_format == "raw.xz":
        return lzma.LZMADecompressor().decompress
    raise Refused(f"image format {image_format!r} is not one of raw, raw.gz, raw.xz")


class _Progress:
    """Tells how far the writing is, not more often than somebody would read it."""

    def __init__(self, service: Service, size: int) -> None:
        self._service, self._size, self._done, self._told, self._told_at = service, size, 0, 0, 0.0

    def at(self, percent: int) -> None:
        self._told, self._told_at = percent, time.monotonic()
        self._service.event("writing", f"{percent} %")

    def add(self, count: int) -> None:
        self._done += count
        percent = 100 * self._done // max(1, self._size)
        if percent >= self._told + _PROGRESS_STEP and time.monotonic() >= self._told_at + _PROGRESS_EVERY_S:
            self.at(percent)


class Service:
    """The image service as the agent speaks to it: transport trouble is ridden out, a "no" is final."""

    def __init__(
        self,
        credential: Mapping[str, str],
        cancelled: Cancelled,
        retry_s: float,
        sleep: Callable[[float], None],
        tell: Callable[[str], None],
    ) -> None:
        self._url = str(credential["service"]).rstrip("/")
        self._who = {"attempt": credential["attempt"], "token": credential["token"]}
        self._cancelled, self._retry_s, self._sleep, self.tell = cancelled, retry_s, sleep, tell
        self._opener = _opener(credential.get("ca", ""), https=self._url.startswith("https:"))

    def post(self, what: str, **body: Any) -> dict[str, Any]:
        """One call of the agent protocol, repeated until it is answered; raises `Refused` on a "no"."""
        data = json.dumps({**self._who, **body}).encode()
        request = urllib.request.Request(  # noqa: S310 (the scheme is the credential's)
            f"{self._url}/agent/v1/{what}", data=data, headers={"Content-Type": "application/json"}, method="POST"
        )
        patience = self._patience(f"{what} at {self._url}")
        while True:
            try:
                with self._open(request) as answer:
                    return _as_object(answer.read())
            except (OSError, http.client.HTTPException) as error:
                patience.spend(error)

    def event(self, kind: str, detail: str) -> None:
        """Report how far the job is."""
        self.tell(f"{kind} {detail}".strip())
        self.post("events", kind=kind, detail=detail)

    def stream(self, url: str, size: int) -> Iterator[bytes]:
        """Exactly `size` bytes of the image, taken up again where a connection broke."""
        at, patience = 0, self._patience(f"image {url}")
        while at < size:
            try:
                with self._open(urllib.request.Request(url, headers={"Range": f"bytes={at}-"})) as answer:  # noqa: S310
                    _skip(answer, at)
                    while at < size and (chunk := answer.read(min(MIB, size - at))):
                        self._look_up()
                        yield chunk
                        at += len(chunk)
                        patience.renew()
                if at < size:
                    raise ConnectionError(f"the answer ended at byte {at} of {size}")
            except (OSError, http.client.HTTPException) as error:
                patience.spend(error)

    def _open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        self._look_up()
        try:
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=_ANSWER_S)
        except urllib.error.HTTPError as error:
            if error.code >= 500:  # the service is starting or its ledger is busy
                error.close()
                raise ConnectionError(f"HTTP {error.code}") from error
            raise Refused(f"the service says HTTP {error.code}: {_reason(error)}") from error
        return answer

    def _patience(self, what: str) -> _Patience:
        return _Patience(what, self._retry_s, self._sleep, self.tell, self._look_up)

    def _look_up(self) -> None:
        if self._cancelled():
            raise Stopped


def _opener(ca: str, *, https: bool) -> urllib.request.OpenerDirector:
    """No proxy and no redirect: the token goes to the service the credential names and nowhere else."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    if https:  # certificates are read only where they are needed: it takes longer than all of a small job
        opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=ca or None)))
    return opener


class _Patience:
    """How much longer transport trouble is ridden out; progress renews it."""

    def __init__(
        self,
        what: str,
        budget_s: float,
        sleep: Callable[[float], None],
        tell: Callable[[str], None],
        look_up: Callable[[], None],
    ) -> None:
        self._what, self._budget_s, self._sleep, self._tell, self._look_up = what, budget_s, sleep, tell, look_up
        self.renew()

    def renew(self) -> None:
        self._left_s, self._pause_s, self._since = self._budget_s, 1.0, time.monotonic()

    def spend(self, error: Exception) -> None:
        """Wait before the next try; raises `Refused` with the last error when patience ends."""
        self._left_s -= self._pause_s + (time.monotonic() - self._since)
        if self._left_s < 0:
            raise Refused(f"{self._what}: no success in {self._budget_s:g} s: {error}") from error
        self._tell(f"{self._what}: {error}; trying again in {self._pause_s:g} s")
        self._look_up()
        self._sleep(self._pause_s)
        self._look_up()
        self._pause_s, self._since = min(2 * self._pause_s, _PAUSE_MOST_S), time.monotonic()


def _as_object(raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw or b"{}")
    except ValueError as error:
        raise Refused(f"the service answered something that is not JSON: {raw[:80]!r}") from error
    return answer if isinstance(answer, dict) else {}


def _reason(error: urllib.error.HTTPError) -> str:
    with error:
        raw = error.read(MIB).decode(errors="replace")
    try:
        return str(json.loads(raw)["error"])
    except (ValueError, KeyError, TypeError):
        return raw[:200] or str(error.reason)


def _skip(answer: http.client.HTTPResponse, at: int) -> None:
    """A server that ignores Range sends everything again; read over what is there already."""
    while at > 0 and answer.status != http.client.PARTIAL_CONTENT and (seen := answer.read(min(MIB, at))):
        at -= len(seen)
