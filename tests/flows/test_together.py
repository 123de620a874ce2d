"""The real command, Prefect and all: killed and typed again, and typed twice at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.settings import load_settings
from inventory.ledger import Ledger
from lab.machine import POST_S
from lab.rack import LabHandle, LabPlan, start_lab
from lab.shell.jobs import running_commands
from tests.flows.test_local_server import servers

ROOT = Path(__file__).resolve().parents[2]
SCALE = 300.0  # a POST takes a second
WITHIN_S = 120.0  # our choice: far more than anything here takes on two busy cores

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Three racks of two, in which a POST takes a second and all loads together three."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(racks=("R1", "R2", "R3"), nodes=2, scale=SCALE)) as lab:
        yield lab


@pytest.fixture
def provision(lab: LabHandle) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Types the command, which starts a Prefect server of its own or shares one."""
    begun: list[subprocess.Popen[str]] = []
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}

    def typed(rack: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "flows.cli", "--settings", str(lab.settings_file), "provision", rack, "--yes"]
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        begun.append(subprocess.Popen(argv, env={**env, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}, **out))
        return begun[-1]

    yield typed
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """The first answer that is not empty."""
    ends = time.monotonic() + WITHIN_S
    while time.monotonic() < ends:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {WITHIN_S:g} s")


def holders(lab: LabHandle, rack: str) -> set[str]:
    """Who holds the rack's nodes."""
    ledger = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    try:
        return {lease.holder for lease in ledger.leases() if lease.node_name.startswith(f"{rack.lower()}-")}
    finally:
        ledger.close()


def imaging(lab: LabHandle, rack: str) -> bool:
    """Both nodes POST with the agent armed, or are further."""
    return all(machine.posts for machine in machines(lab, rack))


def under_load(lab: LabHandle, rack: str) -> bool:
    """A test program runs on a node."""
    return any("nccl" in line for machine in machines(lab, rack) for line in running_commands(machine))


def machines(lab: LabHandle, rack: str) -> list[Any]:
    """The rack's machines."""
    return [machine for machine in lab.machines.values() if machine.state.rack == rack]


def came_to(lab: LabHandle, rack: str) -> list[tuple[int, list[str]]]:
    """(wipes, boots that booted something) of each node."""
    return [
        (sum(drive.writes_begun for drive in m.state.drives), [boot for boot in m.boots if boot != "nothing"])
        for m in machines(lab, rack)
    ]


@pytest.mark.parametrize(("rack", "moment"), [("R1", imaging), ("R2", under_load)])
def test_killed_and_typed_again(
    lab: LabHandle,
    provision: Callable[[str], subprocess.Popen[str]],
    rack: str,
    moment: Callable[[LabHandle, str], bool],
) -> None:
    """The second takes the dead one's leases and Prefect server over at once, wipes nothing again, leaves nothing."""
    first = provision(rack)
    wait_for(moment.__name__, lambda: moment(lab, rack))
    first.kill()
    first.communicate()
    assert 1 == len(holders(lab, rack))
    second = provision(rack)
    said, _ = second.communicate(timeout=WITHIN_S)
    assert 0 == second.returncode, said
    assert "2 accepted" in said
    assert [(1, ["agent", "disk"])] * 2 == came_to(lab, rack)
    assert set() == holders(lab, rack)
    wait_for("the server's end", lambda: not servers(load_settings(str(lab.settings_file)).state))


def test_typed_twice_at_once(lab: LabHandle, provision: Callable[[str], subprocess.Popen[str]]) -> None:
    """One works; the other names the holder and ends undecided, and the first one never notices."""
    for machine in machines(lab, "R3"):
        lab.call(partial(setattr, machine, "post_s", 36 * SCALE))  # the first is busy until the second is through
    first = provision("R3")
    (holder,) = wait_for("a lease", lambda: holders(lab, "R3"))
    second = provision("R3")
    told, _ = second.communicate(timeout=WITHIN_S)
    assert first.poll() is None, "the first had ended before the second was through"
    assert 2 == second.returncode, told
    assert f"held by run {holder.partition('@')[0]}" in told, told
    for machine in machines(lab, "R3"):
        lab.call(partial(setattr, machine, "post_s", POST_S))
    said, _ = first.communicate(timeout=WITHIN_S)
    assert 0 == first.returncode, said
    assert "2 accepted" in said
    assert [(1, ["agent", "disk"])] * 2 == came_to(lab, "R3")
    wait_for("the server's end", lambda: not servers(load_settings(str(lab.settings_file)).state))
