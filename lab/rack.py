"""A whole simulated site in one process: BMCs, shells, NetBox, an API server, and levers to break it.

`python -m lab.rack --folder F --nodes 8` is the process; `start_lab(folder, plan)` runs the same in a thread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from aiohttp import web

from lab.apiserver import LabCluster
from lab.apiserver import make_app as make_api_server
from lab.background import BackgroundLoop
from lab.bmc.bmc import Login
from lab.bmc.serve import BmcServer, start_bmc
from lab.clock import LabClock
from lab.control import make_control
from lab.faults import FAULTS
from lab.folder import make_secrets, write_images, write_private, write_settings
from lab.hardware import Shape, build_node
from lab.kubelets import report_for_ever
from lab.machine import POST_S, Machine
from lab.netbox import LabBook
from lab.netbox import make_app as make_netbox
from lab.shell.server import ShellServer, serve_shells
from lab.wire import BadWire

T = TypeVar("T")
# Below Linux's default ip_local_port_range (32768 up), so that no outgoing connection takes the port meanwhile.
_FIXED_PORTS = (20000, 30000)
EVERY_NODE = "*"


@dataclass(frozen=True)
class LabPlan:
    """What the lab shall be."""

    racks: tuple[str, ...] = ("R1",)
    nodes: int = 8  # a rack
    shapes: tuple[Shape, ...] = (Shape.HGX, Shape.HGX, Shape.PCIE, Shape.PROCESSORS)  # taken in turn
    scale: float = 100.0
    seed: int = 7
    post_s: float = POST_S
    power: str = "On"  # how the nodes are found: "On" = powered, POSTed, nothing to boot; or "Off"
    image_bytes: int = 1_500_000
    latency_s: float = 0.0  # of every BMC answer
    site: str = "lab"


@dataclass
class LabRack:
    """The running lab; everything of it lives in one event loop."""

    folder: Path
    plan: LabPlan
    machines: dict[str, Machine] = field(default_factory=dict)  # by node name
    bmcs: dict[str, BmcServer] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)  # of the whole lab
    settings_file: Path = Path()
    netbox_url: str = ""
    control_url: str = ""

    async def up(self) -> None:
        """Start everything and write the folder's files; `lab.json` comes last."""
        self.folder = self.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ended = asyncio.Event()
        self.secrets = make_secrets(self.folder)
        self._runners: list[web.AppRunner] = []
        write_images(self.folder, self.plan.image_bytes)
        await self._start_nodes()
        await self._start_books()
        self._kubelets = asyncio.create_task(report_for_ever(self.machines.values(), self.cluster))
        self._write_files()

    async def _start_nodes(self) -> None:
        clock, login = LabClock(self.plan.scale), Login(self.secrets.bmc_user, self.secrets.bmc_password)
        self.wire = BadWire()
        self.wire.url = await self._serve(self.wire.app())
        shells: dict[tuple[str, int], Machine] = {}
        for r, rack in enumerate(self.plan.racks, 1):
            for number in range(1, self.plan.nodes + 1):
                shape = self.plan.shapes[(number - 1) % len(self.plan.shapes)]
                state = build_node(rack, number, shape, seed=self.plan.seed)
                machine = self.machines[state.name] = Machine(state, clock, post_s=self.plan.post_s)
                self.wire.lead(machine)
                if self.plan.power == "On":
                    machine.switch_on_idle()
                self.bmcs[state.name] = await start_bmc(
                    machine,
                    f"127.77.{r}.{number}",
                    login=login,
                    certificates=self.folder / "bmc",
                    latency_s=self.plan.latency_s,
                )
                shells[f"127.78.{r}.{number}", 0] = machine
        self.shells: ShellServer = await serve_shells(cast("Mapping[tuple[str, int], Any]", shells))
        for name, address in self.shells.addresses.items():
            self.machines[name].ssh_address = address

    async def _start_books(self) -> None:
        states = [machine.state for machine in self.machines.values()]
        urls = {name: bmc.url for name, bmc in self.bmcs.items()}
        self.book = LabBook(states, self.plan.site, self.secrets.netbox_token, urls)
        self.netbox_url = await self._serve(make_netbox(self.book, self.faults))
        self.cluster = LabCluster(self.secrets.fleet_token)
        self.cluster.open_at(await self._serve(make_api_server(self.cluster)))
        self.control_url = await self._serve(make_control(self))

    async def _serve(self, app: web.Application) -> str:
        """Serve an application on a free loopback port."""
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    def _write_files(self) -> None:
        write_private(self.folder / "secrets" / "kubeconfig", self.cluster.kubeconfig(self.secrets.fleet_token))
        self.settings_file = write_settings(
            self.folder, netbox_url=self.netbox_url, images_port=_free_port(), scale=self.plan.scale
        )
        facts = {
            "pid": os.getpid(),
            "control": self.control_url,
            "netbox": self.netbox_url,
            "kubernetes": self.cluster.url,
            "settings": str(self.settings_file),
            "bmcs": {name: bmc.url for name, bmc in self.bmcs.items()},
        }
        fresh = self.folder / "lab.json.new"
        fresh.write_text(json.dumps(facts, indent=1))
        fresh.replace(self.folder / "lab.json")

    async def down(self) -> None:
        """Stop everything; the folder keeps what rackmint itself remembers."""
        self._kubelets.cancel()
        await self.shells.stop()
        for machine in self.machines.values():
            await machine.stop()
        await asyncio.gather(*(bmc.stop() for bmc in self.bmcs.values()))
        for runner in self._runners:
            await runner.cleanup()
        (self.folder / "lab.json").unlink(missing_ok=True)

    # --- levers ----------------------------------------------------------------------------------------------------

    def machine(self, name: str) -> Machine:
        """One node's machine; raises `ValueError` naming the nodes there are."""
        if name not in self.machines:
            raise ValueError(f"{name}: no such node. One of {', '.join(self.machines)}")
        return self.machines[name]

    def inject(self, node: str, fault: str) -> list[str]:
        """Break a node, or every node that can have the fault; the names of those it has now."""
        if fault not in FAULTS:
            raise ValueError(f"{fault}: no such fault. One of {', '.join(sorted(FAULTS))}")
        row = FAULTS[fault]
        if node == EVERY_NODE and row.surface == "netbox":
            self.faults.add(fault)
            return [EVERY_NODE]
        able = [m for m in self.machines.values() if m.state.shape in row.shapes]
        chosen = able if node == EVERY_NODE else [self.machine(node)]
        for machine in chosen:
            row.apply(machine)
            if fault == "k8s_stale_node":
                self._plant_stale_node(machine)
        return [machine.name for machine in chosen]

    def _plant_stale_node(self, machine: Machine) -> None:
        self.cluster.drop_node(machine.name)
        self.cluster.plant_node(machine.name, serial=machine.state.serial, system_uuid=machine.state.uuid)

    def heal(self, node: str, fault: str = "") -> list[str]:
        """Mend a node, or every node, of one fault or of all; the names of the faults that were mended."""
        machines = list(self.machines.values()) if node == EVERY_NODE else [self.machine(node)]
        if node == EVERY_NODE:
            self.faults -= {fault} if fault else set(self.faults)
        healed = []
        for machine in machines:
            for name in sorted(machine.state.faults if not fault else machine.state.faults & {fault}):
                FAULTS[name].heal(machine)
                healed.append(name)
        return healed


def _free_port() -> int:
    """A port for the image service, which is started later by somebody else."""
    while True:
        port = random.randint(*_FIXED_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


# --- in a thread, and as a process ---------------------------------------------------------------------------------


class LabHandle:
    """A lab in a background thread, for tests and the demo."""

    def __init__(self, folder: Path, plan: LabPlan) -> None:
        self._loop = BackgroundLoop()
        self.rack = LabRack(folder, plan)
        self._loop.run(self.rack.up())

    @property
    def settings_file(self) -> Path:
        """The site settings the product is started with."""
        return self.rack.settings_file

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The machines by node name; to look at, not to change from another thread."""
        return self.rack.machines

    def inject(self, node: str, fault: str) -> list[str]:
        """Break a node ("*" = all)."""
        return self.call(lambda: self.rack.inject(node, fault))

    def heal(self, node: str, fault: str = "") -> list[str]:
        """Mend a node ("*" = all) of one fault, or of all."""
        return self.call(lambda: self.rack.heal(node, fault))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine in the lab's loop."""
        return self._loop.run(work)

    def call(self, act: Callable[[], T]) -> T:
        """Do something where the lab lives: the only place a machine may be changed from."""

        async def once() -> T:
            return act()

        return self._loop.run(once())

    def stop(self) -> None:
        """Take the lab down and end its thread."""
        self._loop.run(self.rack.down())
        self._loop.stop()

    def __enter__(self) -> LabHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_lab(folder: Path, plan: LabPlan | None = None) -> LabHandle:
    """Bring a lab up in a background thread; a context manager, or call `.stop()`."""
    return LabHandle(folder, plan or LabPlan())


async def _run(folder: Path, plan: LabPlan) -> None:
    rack = LabRack(folder, plan)
    await rack.up()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, rack.ended.set)
    await rack.ended.wait()
    await rack.down()


def main() -> None:
    """Run a lab until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m lab.rack", description="A simulated rack on loopback.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=LabPlan.nodes, help="nodes a rack")
    parser.add_argument("--racks", type=int, default=1)
    parser.add_argument("--scale", type=float, default=LabPlan.scale)
    parser.add_argument("--seed", type=int, default=LabPlan.seed)
    parser.add_argument("--power", choices=("On", "Off"), default=LabPlan.power)
    asked = parser.parse_args()
    racks = tuple(f"R{number}" for number in range(1, asked.racks + 1))
    plan = LabPlan(racks, asked.nodes, scale=asked.scale, seed=asked.seed, power=asked.power)
    asyncio.run(_run(asked.folder, plan))


if __name__ == "__main__":
    main()
