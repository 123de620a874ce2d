"""BMCs to talk to: the lab's over real HTTPS, and small odd ones that misbehave on purpose over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.redfish import Bmc, BmcLogin, PinStore
from inventory.secrets import Secret
from lab.background import BackgroundLoop
from lab.bmc.bmc import Login
from lab.bmc.serve import BmcServer, start_bmc
from lab.clock import LabClock
from lab.hardware import Shape, build_node
from lab.machine import Machine

LOGIN = BmcLogin("lab", Secret("a-password"))
Body = Mapping[str, Any] | bytes | list[Any] | None
Reply = tuple[int, Body] | tuple[int, Body, Mapping[str, str]]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    body: Any
    headers: Mapping[str, str]


@dataclass
class OddBmc:
    """A BMC of a few resources, each a body or a function of what was asked; it remembers every request."""

    url: str
    tree: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    actions: dict[tuple[str, str], Callable[[Asked], Reply]] = field(default_factory=dict)

    def on(self, method: str, path: str) -> Callable[[Callable[[Asked], Reply]], None]:
        """Answer a method on a path by a function."""

        def remember(act: Callable[[Asked], Reply]) -> None:
            self.actions[method, path] = act

        return remember

    def answer(self, asked: Asked) -> Reply:
        """What this request is answered with."""
        self.asked.append(asked)
        path = asked.path.partition("?")[0].rstrip("/")
        if (asked.method, path) in self.actions:
            return self.actions[asked.method, path](asked)
        if asked.method == "GET" and path in self.tree:
            return 200, self.tree[path]
        return 404, {"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "not here"}}

    def count(self, method: str, path: str) -> int:
        """How often a method was used on a path."""
        return sum(one.method == method and one.path == path for one in self.asked)


def a_tree() -> dict[str, Any]:
    """The least tree a node can have."""
    return {
        "/redfish/v1": {"Id": "RootService", "Systems": {"@odata.id": "/redfish/v1/Systems"}},
        "/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}], "Members@odata.count": 1},
        "/redfish/v1/Systems/1": {
            "@odata.id": "/redfish/v1/Systems/1",
            "Id": "1",
            "SerialNumber": "N1",
            "PowerState": "On",
            "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
            "Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"},
            "Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}},
        },
    }


def _handler(odd: OddBmc) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, json.loads(raw) if raw else None, dict(self.headers))
            status, body, *more = odd.answer(asked)
            if status == 0:  # hang up without a word
                self.close_connection = True
                return
            sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
            self.send_response(status)
            for name, value in {"Content-Length": str(len(sent)), **(more[0] if more else {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815 (http.server's names)

    return Handler


@pytest.fixture
def odd() -> Iterator[OddBmc]:
    """A misbehaving BMC over plain HTTP on loopback."""
    bmc = OddBmc("", tree=a_tree())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(bmc))
    server.daemon_threads = True
    bmc.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield bmc
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def store() -> EvidenceStore:
    """Evidence in memory."""
    return EvidenceStore("memory://redfish-tests")


OpenBmc = Callable[..., AbstractContextManager[Bmc]]


@pytest.fixture
def connect(store: EvidenceStore) -> OpenBmc:
    """Open a BMC with a short budget and quick polling; not yet entered."""

    def open_it(
        url: str,
        login: BmcLogin | None = None,
        *,
        pins: PinStore | None = None,
        budget_s: float = 20.0,
        deadline: Deadline | None = None,
        **more: Any,
    ) -> Bmc:
        return Bmc(
            "n1",
            url,
            login,
            pins=pins or PinStore.in_memory(),
            deadline=deadline or Deadline("n1", budget_s),
            evidence=store,
            poll_s=0.02,
            **more,
        )

    return open_it


@pytest.fixture(scope="session")
def loop() -> Iterator[BackgroundLoop]:
    """An event loop in a thread."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture
def lab_bmc(loop: BackgroundLoop, tmp_path: Path) -> Iterator[Callable[[Shape], BmcServer]]:
    """Start the lab's BMC of one shape over HTTPS; time runs a thousand times faster."""
    servers: list[BmcServer] = []

    def start(shape: Shape) -> BmcServer:
        machine = Machine(build_node("R1", 1, shape), LabClock(1000))
        login = Login(LOGIN.username, LOGIN.password.reveal())
        coming = start_bmc(machine, "127.0.0.1", login=login, certificates=tmp_path)
        servers.append(loop.run(coming))
        return servers[-1]

    yield start
    for server in servers:
        loop.run(server.bmc.machine.stop())
        loop.run(server.stop())


@pytest.fixture
def login() -> BmcLogin:
    """The lab BMC's account."""
    return LOGIN
