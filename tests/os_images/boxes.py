"""Machines with real files for disks, and attempts at them."""

from __future__ import annotations

import contextlib
import hashlib
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from inventory.classes import BootDisk
from inventory.ledger import AttemptEvent, Ledger
from inventory.model import Identity, NodeRef
from os_images.agent import DiskFacts, Facts, embed_area, run_agent
from os_images.installers.agent_image import Login, build_job, new_attempt
from os_images.manifest import ImageManifest
from os_images.service import ImageService

MIB = 1 << 20
UUID = "0f5ac3a1-70bb-4d0e-9f2e-5c1d2a3b4c5d"
OTHER_UUID = "11111111-2222-4333-8444-555555555555"
NODE = NodeRef(name="r1-n01", node_class="lab-hgx", serial="CH12345678")
VERSIONS = {"os": "ubuntu 24.04", "kernel": "6.8.0", "driver": "570.1.2", "cuda": "12.8", "nccl": "2.26.2"}


def manifest_for(file: Path, *, sha256: str = "", **artifact: Any) -> ImageManifest:
    """A manifest that describes a file as it is, or as told."""
    content = file.read_bytes()
    return ImageManifest.model_validate(
        {
            "name": "test-image",
            "version": "1",
            "source": "made by this test",
            "artifact": {
                "file": str(file),
                "sha256": sha256 or hashlib.sha256(content).hexdigest(),
                "size": len(content),
                **artifact,
            },
            "versions": VERSIONS,
        }
    )


@dataclass
class Box:
    """A machine: its disks are files, its seeds are kept, and power can be cut."""

    folder: Path
    uuid: str = UUID
    signature: str = ""
    sizes: Mapping[str, int] = field(default_factory=lambda: {"nvme-small": 64 * MIB, "nvme-large": 256 * MIB})
    seeds: dict[str, dict[str, str]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    power: bool = True
    on_write: Callable[[int], None] = lambda _: None  # told the position before each write

    def facts(self) -> Facts:
        """What the ramdisk finds."""
        disks = tuple(DiskFacts(name, size, signature=self.signature) for name, size in self.sizes.items())
        return Facts(self.uuid, "CH12345678", ("02:00:00:00:00:01",), disks)

    @contextlib.contextmanager
    def open_disk(self, by_path: str) -> Iterator[BinaryIO]:
        """The disk as a file that calls back at each write."""
        self.opened.append(by_path)
        path = self.disk(by_path)
        path.touch()
        with path.open("r+b") as file:
            yield _Watched(file, self.on_write)  # type: ignore[misc]

    def write_seed(self, by_path: str, seed: Mapping[str, str]) -> None:
        """Keep the seed."""
        self.seeds[by_path] = dict(seed)

    def disk(self, by_path: str = "nvme-small") -> Path:
        """Where a disk's content lies."""
        return self.folder / f"{self.uuid}-{by_path}"

    def run(self, credential: Mapping[str, str], *, retry_s: float = 60.0, sleep: Callable[[float], None]) -> str:
        """Boot the deploy agent."""
        return run_agent(
            credential,
            self.facts(),
            self.open_disk,
            self.write_seed,
            tell=self.told.append,
            cancelled=lambda: not self.power,
            retry_s=retry_s,
            sleep=sleep,
        )


@dataclass
class _Watched:
    file: BinaryIO
    on_write: Callable[[int], None]

    def seek(self, offset: int) -> int:
        return self.file.seek(offset)

    def write(self, data: bytes) -> int:
        self.on_write(self.file.tell())
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def free_port() -> int:
    """A port nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def fill(folder: Path) -> Path:
    """Boot artifacts with an embed area somewhere inside, and an image of a little over 5 MiB."""
    folder.mkdir()
    chance = random.Random(5)
    (folder / "agent.iso").write_bytes(chance.randbytes(300_001) + embed_area() + chance.randbytes(77_777))
    (folder / "agent.efi").write_bytes(embed_area())
    (folder / "image.raw").write_bytes(chance.randbytes(5 * MIB + 123))
    return folder


class Site:
    """A ledger, an image folder, and as many services as a test starts."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.image = manifest_for(folder / "image.raw")
        self.services: list[ImageService] = []

    def start(self, *, book: Ledger | None = None) -> ImageService:
        """Start a service for the image as it is described now."""
        images = {self.image.name: self.image}
        service = ImageService(book or self.ledger, f"127.0.0.1:{self.port}", self.url, images, self.folder)
        self.services.append(service)
        service.start()
        return service

    def begin(self, *, url: str = "", rule: BootDisk | None = None, wipe: bool = False) -> dict[str, str]:
        """A new attempt at the node: the credential its boot artifact carries."""
        job = build_job(
            self.image,
            rule or BootDisk(),
            Login(user="root", authorized_key="ssh-ed25519 AAAA test"),
            host_name="r1-n01",
            service_url=url or self.url,
            identity=Identity(uuid=UUID, serial="CH12345678"),
            wipe=wipe,
        )
        made = new_attempt(self.ledger, NODE, job)
        return {"service": url or self.url, "attempt": made.attempt_id, "token": made.token, "node": NODE.name}

    def events(self, credential: Mapping[str, str]) -> tuple[AttemptEvent, ...]:
        """What was said in an attempt."""
        return self.ledger.attempt_events(credential["attempt"])

    def kinds(self, credential: Mapping[str, str]) -> list[str]:
        """What was said, in order, repeated progress once."""
        said = [event.kind for event in self.events(credential)]
        return [kind for kind, before in zip(said, ["", *said], strict=False) if kind != before]


class Scissors:
    """A relay in front of the service that cuts each connection after so many bytes of answer."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._to, self._cuts = port, cuts
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop taking connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                inside, _ = self._listener.accept()
            except OSError:
                return
            with inside, socket.create_connection(("127.0.0.1", self._to)) as outside:
                self._relay(inside, outside)

    def _relay(self, inside: socket.socket, outside: socket.socket) -> None:
        asked = self._request(inside)
        self.requests.append(asked)
        outside.sendall(asked)
        left = self._cuts.pop(0) if asked.startswith(b"GET /images/") and self._cuts else 1 << 40
        while left > 0 and (piece := outside.recv(min(65536, left))):
            inside.sendall(piece)
            left -= len(piece)

    @staticmethod
    def _request(inside: socket.socket) -> bytes:
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += inside.recv(65536)
        head, _, body = asked.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < sum(int(length) for length in lengths):
            body += inside.recv(65536)
        return head + b"\r\n\r\n" + body
