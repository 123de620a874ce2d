"""The real command against a real Prefect server: what a person sees there, and what is never there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from flows.local_server import LocalServer, start_server
from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.conftest import SCALE, shorten

RECORDED_WITHIN_S = 60.0  # Prefect's recorder lags behind the flow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server as an operator would run one."""
    server = start_server(tmp_path_factory.mktemp("server"))
    assert server.wait() == ""
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Two racks of two, one of them with a node that must be rejected."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(racks=("R1", "R2"), nodes=2, scale=SCALE)) as lab:
        shorten(lab)
        lab.inject("r1-n01", "remap_pending")
        yield lab


@pytest.fixture(scope="module")
def ran(lab: LabHandle, server: LocalServer) -> dict[str, subprocess.CompletedProcess[str]]:
    """Both racks provisioned by the command, each with another trace."""
    done = {}
    for rack, trace in (("R1", "stage"), ("R2", "node")):
        environment = {**os.environ, "PREFECT_API_URL": server.url, "RACKMINT_TRACE": trace}
        argv = [sys.executable, "-m", "flows.cli", "--settings", str(lab.settings_file), "provision", rack, "--yes"]
        done[rack] = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=180, check=False)
    return done


def asked(server: LocalServer, what: str, **body: Any) -> list[dict[str, Any]]:
    """Everything of one kind that the server has on record."""
    answer = requests.post(f"{server.url}/{what}/filter", json=body, timeout=10)
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()
    return found


def recorded(look: Callable[[], list[dict[str, Any]]], count: int) -> list[dict[str, Any]]:
    """What is on record, once the recorder has caught up."""
    ends = time.monotonic() + RECORDED_WITHIN_S
    while len(found := look()) < count and time.monotonic() < ends:
        time.sleep(0.2)
    return found


def test_the_run_ends_in_the_state_its_verdicts_say(server: LocalServer, ran: dict[str, Any]) -> None:
    """One node rejected: exit 1 and Completed, named so. All accepted: exit 0 and Completed."""
    assert {"R1": 1, "R2": 0} == {rack: done.returncode for rack, done in ran.items()}, ran
    states = {run["parameters"]["rack"]: run["state"] for run in asked(server, "flow_runs")}
    assert ("COMPLETED", "NodesRejected", "1 accepted, 1 rejected, 0 undecided") == tuple(
        states["R1"][field] for field in ("type", "name", "message")
    )
    assert ("COMPLETED", "Completed") == (states["R2"]["type"], states["R2"]["name"])


def test_parameters_are_names_only(server: LocalServer, ran: dict[str, Any], lab: LabHandle) -> None:
    """What Prefect stores of a run is which rack, which nodes and which settings file."""
    for run in asked(server, "flow_runs"):
        names = {"rack", "settings_file", "run_id", "nodes", "wipe", "reimage"}
        assert names <= run["parameters"].keys()
        assert str(lab.settings_file.resolve()) == run["parameters"]["settings_file"]
        assert all(isinstance(v, str | list) for v in run["parameters"].values())


def test_trace_chooses_how_much_is_seen(server: LocalServer, ran: dict[str, Any]) -> None:
    """A task per stage and node on one rack, a task per node on the other."""
    runs = {run["parameters"]["rack"]: run["id"] for run in asked(server, "flow_runs")}

    def tasks(rack: str) -> list[dict[str, Any]]:
        return asked(server, "task_runs", flow_runs={"id": {"any_": [runs[rack]]}})

    by_stage = {run["name"] for run in recorded(lambda: tasks("R1"), 10)}
    assert {"r1-n01:inspect", "r1-n02:image", "r1-n02:burn_in", "r1-n01:record", "r1-n02:join"} <= by_stage
    assert {"r2-n01", "r2-n02"} == {run["name"] for run in recorded(lambda: tasks("R2"), 2)}


def test_the_rack_and_the_rejected_node_are_artifacts(server: LocalServer, ran: dict[str, Any]) -> None:
    """A table of the rack, and a page for each node that was not accepted."""
    artifacts = {artifact["key"]: artifact for artifact in asked(server, "artifacts")}
    assert {"rack-r1", "rack-r2", "node-r1-n01"} <= artifacts.keys()
    assert "row remapping pending" in str(artifacts["node-r1-n01"]["data"])


def test_each_stage_is_an_event(server: LocalServer, ran: dict[str, Any]) -> None:
    """Stage transitions stand in the event feed, by node, and can trigger automations."""

    def events() -> list[dict[str, Any]]:
        body = {"filter": {"event": {"prefix": ["rackmint.stage."]}}, "limit": 50}
        answer = requests.post(f"{server.url}/events/filter", json=body, timeout=10)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["events"]
        return found

    seen = {(event["resource"]["prefect.resource.name"], event["event"]) for event in recorded(events, 24)}
    assert ("r1-n01", "rackmint.stage.fail") in seen
    assert ("r2-n02", "rackmint.stage.pass") in seen


def test_the_server_is_left_running(server: LocalServer, ran: dict[str, Any], tmp_path: Path) -> None:
    """A server the operator chose is used as it is, and none of our own is started beside it."""
    assert requests.get(f"{server.url}/health", timeout=5).ok
