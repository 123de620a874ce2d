"""Simulated nodes over SSH for the burn-in tests, our own transcripts, and recorded samples."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burnin.limits import LimitsPack, load_limits
from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.secrets import Secret
from inventory.ssh import SshLogin, SshShell
from lab.clock import LabClock
from lab.hardware import NodeState, Shape, build_node
from lab.hostkey import make_host_key, public_part
from lab.image import LAB_SOFTWARE
from lab.shell import serve_shells

_ROOT = Path(__file__).parents[2]


@dataclass(eq=False)
class BootedNode:
    """A simulated machine whose OS is up, without power or BMC around it."""

    state: NodeState
    key: str
    clock: LabClock = field(default_factory=lambda: LabClock(1000.0))
    software: dict[str, str] = field(default_factory=lambda: dict(LAB_SOFTWARE))
    boot_id: str = "5f5e1000-0000-4000-8000-000000000001"
    kernel_log: list[str] = field(default_factory=list)
    joined: dict[str, Any] | None = None
    running: bool = True
    ssh_host_key: str = field(default_factory=make_host_key)
    ssh_address: str = ""

    @property
    def seed(self) -> dict[str, str]:
        """What the installer left."""
        return {"authorized_key": public_part(self.key), "user": "root", "host_name": self.state.name}

    def fault(self, name: str) -> bool:
        """Whether a fault is planted."""
        return name in self.state.faults


@dataclass
class Bay:
    """Two simulated nodes and shells to them."""

    nodes: list[BootedNode]
    shells: list[SshShell]
    store: EvidenceStore
    addresses: list[str]

    @property
    def state(self) -> NodeState:
        """The first node's hardware."""
        return self.nodes[0].state

    @property
    def shell(self) -> SshShell:
        """The first node's shell."""
        return self.shells[0]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in its own thread, where the simulated nodes live."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever, name="lab", daemon=True)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join(10)
    running.close()


@pytest.fixture
def make_bay(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[Callable[[Shape], Bay]]:
    """Brings up two nodes of a shape, and takes them down."""
    ends: list[Callable[[], None]] = []

    def make(shape: Shape = Shape.HGX) -> Bay:
        key = make_host_key()
        nodes = [BootedNode(build_node("R7", number, shape), key) for number in (1, 2)]
        where = {(f"127.78.70.{number}", 0): node for number, node in enumerate(nodes, 1)}
        server = asyncio.run_coroutine_threadsafe(serve_shells(where), loop).result(10)
        addresses = [server.addresses[node.state.name] for node in nodes]
        for node, address in zip(nodes, addresses, strict=True):
            node.ssh_address = address
        login = SshLogin("root", Secret(key))
        shells = [
            SshShell.open(node.state.name, address, login, host_key=None, deadline=Deadline(node.state.name, 60))
            for node, address in zip(nodes, addresses, strict=True)
        ]
        ends.extend(shell.close for shell in shells)
        ends.append(lambda: asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10))
        return Bay(nodes, shells, EvidenceStore(str(tmp_path / "evidence")), addresses)

    yield make
    for end in ends:
        end()


@pytest.fixture
def bay(make_bay: Callable[[Shape], Bay]) -> Bay:
    """Two healthy HGX nodes."""
    return make_bay(Shape.HGX)


@pytest.fixture(scope="session")
def packs() -> dict[str, LimitsPack]:
    """The shipped limits packs."""
    return load_limits()


@pytest.fixture(scope="session")
def pack(packs: dict[str, LimitsPack]) -> LimitsPack:
    """The simulated HGX node's limits."""
    return packs["lab-hgx"]


@pytest.fixture(scope="session")
def transcript() -> Callable[[str], str]:
    """Reads one of our own transcripts."""
    return lambda name: (_ROOT / "tests/transcripts" / name).read_text()


@pytest.fixture(scope="session")
def sample() -> Callable[[str], str]:
    """Reads one recorded output of a real machine; skips where the recordings are absent."""

    def read(name: str) -> str:
        file = _ROOT.parent / "shared/samples" / name
        if not file.exists():
            pytest.skip(f"recorded samples are not here: {file}")
        return file.read_text(errors="replace")

    return read
