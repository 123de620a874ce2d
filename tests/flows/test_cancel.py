"""Stopped in the middle by Ctrl-C, SIGTERM or Prefect: leases given back, a known boot order, nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from flows.local_server import LocalServer, start_server
from flows.settings import load_settings
from inventory.findings import Outcome
from inventory.ledger import Ledger
from inventory.report import Stage
from lab.machine import Machine
from lab.rack import LabHandle, LabPlan, start_lab
from lab.shell.jobs import running_commands
from tests.flows.conftest import run_line

ROOT = Path(__file__).resolve().parents[2]
SAID = "interrupted. Leases are given back; the same command goes on from here"
WITHIN_S = 90.0  # our choice: a command with all its imports comes to its first stage within 5 s alone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A Prefect server as an operator would run one."""
    server = start_server(tmp_path_factory.mktemp("server"))
    assert server.wait() == ""
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Racks of one node each, slow enough (a POST of 2 s, loads of 0.4 s) that there is a middle to stop in."""
    racks = tuple(f"R{number}" for number in range(1, 9))
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(racks=racks, nodes=1, scale=150.0)) as lab:
        yield lab


@contextmanager
def command(lab: LabHandle, *argv: str, api: str = "") -> Iterator[subprocess.Popen[str]]:
    """A command as a shell with job control starts it: leader of a process group of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env = {**env, "PYTHONPATH": str(ROOT), **({"PREFECT_API_URL": api} if api else {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "--settings", str(lab.settings_file), *argv],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(what: str, look: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """The first answer that is not empty, as long as the process lives."""
    ends = time.monotonic() + WITHIN_S
    while time.monotonic() < ends and process.poll() is None:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"{what}: not within {WITHIN_S:g} s:\n{process.communicate()[0][-3000:]}")


@contextmanager
def ledger_of(lab: LabHandle) -> Iterator[Ledger]:
    """The site's ledger."""
    ledger = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    try:
        yield ledger
    finally:
        ledger.close()


def in_post(lab: LabHandle, machine: Machine) -> bool:
    """Imaging: the node POSTs with the agent armed."""
    return machine.power == "On" and machine.posts == 1 and bool(machine.media.image or machine.override.http_uri)


def agent_at_work(lab: LabHandle, machine: Machine) -> bool:
    """Imaging: the agent has its job."""
    return bool(machine.agent_log)


def under_load(lab: LabHandle, machine: Machine) -> bool:
    """Burn-in: a test program runs on the node."""
    return any("nccl" in line or "gpu" in line for line in running_commands(machine))


def first_boot(lab: LabHandle, machine: Machine) -> bool:
    """Imaging: the disk boots for the first time."""
    return machine.posts == 2 and not machine.running


def assert_nothing_left(lab: LabHandle, machine: Machine, stage: Stage) -> None:
    """Stopped in this stage. No owner, no medium, no override, no remote command; the run is noted as interrupted."""
    with ledger_of(lab) as ledger:
        last = ledger.history(machine.state.serial)[-1]
        assert (stage, Outcome.NOT_RUN) == (last.stage, last.record and last.record.outcome)
        assert () == tuple(lease for lease in ledger.leases() if lease.node_name == machine.name)
        outcome = next(run.outcome for run in ledger.runs(50) if run.rack == machine.state.rack)
        assert "interrupted" == outcome
    assert ("", "None", "Disabled") == (machine.media.image, machine.override.target, machine.override.enabled)
    assert () == running_commands(machine)


Moment = Callable[[LabHandle, Machine], bool]
GROUP, ALONE, TERM = "Ctrl-C", "SIGINT to the process", "SIGTERM"


def stop(process: subprocess.Popen[str], how: str) -> None:
    """As a terminal does it, as `kill -INT` does it, as a service manager does it."""
    if how == GROUP:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT if how == ALONE else signal.SIGTERM)


class Stop(NamedTuple):
    """How and when a rack's run is stopped, and in which stage that is."""

    rack: str
    how: str
    moment: Moment
    stage: Stage


@pytest.mark.parametrize(
    "wanted",
    [
        Stop("R1", GROUP, in_post, Stage.IMAGE),
        Stop("R2", ALONE, under_load, Stage.BURN_IN),
        Stop("R3", TERM, agent_at_work, Stage.IMAGE),
        Stop("R4", TERM, under_load, Stage.BURN_IN),
        Stop("R5", GROUP, first_boot, Stage.IMAGE),
    ],
    ids=lambda wanted: f"{wanted.how}, {wanted.moment.__name__}",
)
def test_the_command_stopped_in_the_middle(lab: LabHandle, server: LocalServer, wanted: Stop) -> None:
    """Exit 130 with one sentence; nobody owns the node, its BMC boots the disk, nothing runs; the next run goes on."""
    rack, how, moment, stage = wanted
    machine = lab.machines[f"{rack.lower()}-n01"]
    with command(lab, "provision", rack, "--yes", api=server.url) as process:
        wait_for(f"{rack}: {moment.__name__}", lambda: moment(lab, machine), process)
        stop(process, how)
        said, _ = process.communicate(timeout=60)
    assert 130 == process.returncode, said
    assert SAID in said, said
    assert "Traceback" not in said, said
    assert_nothing_left(lab, machine, stage)
    print(rack, how, machine.boots, machine.power)
    report = run_line(lab, rack)
    assert ["accepted"] == [node.verdict.value for node in report.nodes], [node.cause for node in report.nodes]
    assert ("disk", ()) == (machine.boots[-1], running_commands(machine))


@pytest.fixture(scope="module")
def slow_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Prefect's runner looks every 10 s whether a run is to be cancelled: a POST takes 12 s here, all loads longer."""
    with start_lab(tmp_path_factory.mktemp("slow"), LabPlan(racks=("R1", "R2"), nodes=1, scale=25.0)) as lab:
        yield lab


@pytest.fixture(scope="module")
def serving(slow_lab: LabHandle) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rackmint serve`, which runs what Prefect is asked for in processes of its own: (the process, its Prefect)."""
    lab = slow_lab
    note = Path(load_settings(str(lab.settings_file)).state) / "prefect" / "server.json"
    with command(lab, "serve") as process:
        api = str(json.loads(wait_for("a Prefect server", lambda: note.exists() and note.read_text(), process))["url"])
        wait_for("deployments", lambda: len(_asked(api, "deployments/filter")) == 3, process)
        yield process, api
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _asked(api: str, what: str, **body: Any) -> Any:
    try:
        answer = requests.post(f"{api}/{what}", json=body, timeout=10)
    except requests.ConnectionError:
        return []
    if answer.status_code == 503:  # its SQLite is locked for a moment
        return []
    answer.raise_for_status()
    return answer.json()


def _begun(api: str, rack: str, process: subprocess.Popen[str]) -> str:
    """A provisioning that Prefect starts, as an operator asks for it in its page: the flow run's id."""
    deployment = next(d for d in _asked(api, "deployments/filter") if d["entrypoint"].endswith("provision_rack"))
    node = f"{rack.lower()}-n01"
    asked = {"rack": rack, "nodes": [node], "wipe": [node]}
    path = f"deployments/{deployment['id']}/create_flow_run"
    return str(wait_for("a flow run", lambda: _asked(api, path, parameters=asked), process)["id"])


@pytest.mark.parametrize(("rack", "moment", "stage"), [("R1", in_post, Stage.IMAGE), ("R2", under_load, Stage.BURN_IN)])
def test_cancelled_by_prefect(
    slow_lab: LabHandle, serving: tuple[subprocess.Popen[str], str], rack: str, moment: Moment, stage: Stage
) -> None:
    """`prefect flow-run cancel` under a runner: the run ends as Cancelled, and all else is as after Ctrl-C."""
    lab, (process, api) = slow_lab, serving
    machine = lab.machines[f"{rack.lower()}-n01"]
    run = _begun(api, rack, process)
    wait_for(f"{rack}: {moment.__name__}", lambda: moment(lab, machine), process)
    began = time.monotonic()
    argv = [sys.executable, "-m", "prefect", "flow-run", "cancel", run]
    cancelled = subprocess.run(
        argv, env={**os.environ, "PREFECT_API_URL": api}, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert 0 == cancelled.returncode, cancelled
    state = wait_for("the end of the run", lambda: _ended(api, run), process)
    took_s = time.monotonic() - began
    assert ("CANCELLED", "Cancelled") == state
    assert_nothing_left(lab, machine, stage)
    print(f"{rack} cancelled in {took_s:.0f} s: {machine.boots} {machine.power}")
    report = run_line(lab, rack)
    assert ["accepted"] == [node.verdict.value for node in report.nodes], [node.cause for node in report.nodes]
    assert ("disk", ()) == (machine.boots[-1], running_commands(machine))


def _ended(api: str, run: str) -> tuple[str, str] | None:
    state = requests.get(f"{api}/flow_runs/{run}", timeout=10).json()["state"]
    return (state["type"], state["name"]) if state["type"] in ("CANCELLED", "CRASHED", "COMPLETED", "FAILED") else None
