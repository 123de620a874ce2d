"""A Kubernetes API server on loopback for each test, and a fleet that speaks to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from inventory.fleet import Fleet
from lab.apiserver import LabCluster, make_app
from lab.background import BackgroundLoop

ADMIN_TOKEN = "the-admins-own-token"


@dataclass
class Served:
    """A cluster being served; `on_loop` runs a change of its state where its state lives."""

    cluster: LabCluster
    loop: BackgroundLoop
    kubeconfig: Path

    def on_loop(self, act: Callable[[], Any]) -> Any:
        """The result of a change of state."""

        async def run() -> Any:
            return act()

        return self.loop.run(run())

    def kubelet(self, name: str, *, ready: bool | None = True, capacity: int = 8, allocatable: int = 8) -> bool:
        """One status report, as the machine of these tests gives it."""
        return self.on_loop(
            lambda: self.cluster.kubelet_status(
                name,
                ready=ready,
                gpus_capacity=capacity,
                gpus_allocatable=allocatable,
                system_uuid="AAAA-1",
                boot_id="boot-1",
            )
        )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A cluster with one administrator."""
    with BackgroundLoop() as loop:
        cluster = LabCluster(ADMIN_TOKEN, reacts_s=0.02)
        runner = web.AppRunner(make_app(cluster))

        async def start() -> None:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            cluster.open_at(f"http://{host}:{port}")

        loop.run(start())
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig(ADMIN_TOKEN))
        yield Served(cluster, loop, kubeconfig)
        loop.run(runner.cleanup())


@pytest.fixture
def fleet(served: Served) -> Iterator[Fleet]:
    """The administrator's door to it."""
    opened = Fleet(served.kubeconfig, poll_s=0.05, timeout_s=5)
    yield opened
    opened.close()
