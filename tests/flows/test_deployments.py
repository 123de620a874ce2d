"""`rackmint serve`: three deployments with their schedules, a run that Prefect starts, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from flows.settings import load_settings
from inventory.ledger import Ledger
from lab.rack import LabHandle
from tests.flows.conftest import run_line

ROOT = Path(__file__).resolve().parents[2]
_MOST_S = 120.0  # our choice: a Prefect server and a runner start within 10 s alone, within 60 s on two busy cores


@contextmanager
def served(lab: LabHandle, *argv: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`rackmint serve` as an operator starts it: the process, and what it said it serves."""
    command = [sys.executable, "-m", "flows.cli", "--settings", str(lab.settings_file), "serve", "--json", *argv]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    folder, env = lab.settings_file.parent, {**env, "PYTHONPATH": str(ROOT)}  # from anywhere but where the code lies
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield process, _document(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The first JSON document on standard output."""
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        if line.startswith("}"):
            break
    found: dict[str, Any] = json.loads(text)
    return found


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """The first answer that is not empty."""
    ends = time.monotonic() + _MOST_S
    while time.monotonic() < ends:
        found = look()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {_MOST_S:g} s")


def _unpaused(api: str) -> list[dict[str, Any]]:
    return [deployment for deployment in _all(api, "deployments") if not deployment["paused"]]


def _all(api: str, kind: str) -> list[dict[str, Any]]:
    answer = requests.post(f"{api}/{kind}/filter", json={}, timeout=10)
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()
    return found


def _paused(lab: LabHandle) -> list[tuple[str, int]]:
    """Which flows' deployments Prefect's own store has as paused, when no server runs."""
    file = Path(load_settings(str(lab.settings_file)).state) / "prefect" / "prefect.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return sorted(database.execute("select entrypoint, paused from deployment").fetchall())


def _three(api: str) -> dict[str, dict[str, Any]]:
    """The deployments by flow function, once all three are there."""
    found = _all(api, "deployments")
    return {d["entrypoint"].rpartition(":")[2]: d for d in found} if len(found) == 3 else {}


def _run(api: str, deployment: dict[str, Any], **parameters: str) -> str:
    """Have Prefect start a run now, and wait for how it ended."""
    address = f"{api}/deployments/{deployment['id']}/create_flow_run"
    asked = requests.post(address, json={"parameters": parameters}, timeout=10)
    asked.raise_for_status()

    def ended() -> str:
        state = requests.get(f"{api}/flow_runs/{asked.json()['id']}", timeout=10).json()["state"]["type"]
        return str(state) if state in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else ""

    return str(wait_for("the end of the run", ended))


@pytest.mark.slow
def test_serve_schedules_runs_and_ends(make_lab: Callable[..., LabHandle]) -> None:
    """Three deployments, two cron schedules; an audit started through the API completes; SIGTERM ends and pauses."""
    lab = make_lab(nodes=1)
    assert ["accepted"] == [node.verdict.value for node in run_line(lab).nodes]
    state = Path(load_settings(str(lab.settings_file)).state)
    with served(lab, "--audit-cron", "5 4 * * *") as (process, said):
        deployments = wait_for("three deployments", lambda: _three(said["prefect"]))
        assert {
            "provision_rack": [],
            "revalidate_rack": [("17 2 * * 0", "UTC", True)],
            "audit_site": [("5 4 * * *", "UTC", True)],
        } == {
            name: [(s["schedule"]["cron"], s["schedule"]["timezone"], s["active"]) for s in d["schedules"]]
            for name, d in deployments.items()
        }
        assert {str(lab.settings_file)} == {d["parameters"]["settings_file"] for d in deployments.values()}
        assert "COMPLETED" == _run(said["prefect"], deployments["audit_site"], rack="R1")
        server = json.loads((state / "prefect" / "server.json").read_text())
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60), (lab.settings_file.parent / "serve.log").read_text()[-2000:]
    assert not Path(f"/proc/{server['pid']}").exists()
    assert [1, 1, 1] == [paused for _, paused in _paused(lab)]
    ledger = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    newest = ledger.runs(1)[0]
    ledger.close()
    assert ("audit", "R1", "clean") == (newest.purpose, newest.rack, newest.outcome)
    with served(lab) as (process, said):
        assert wait_for("nothing paused", lambda: 3 == len(_unpaused(said["prefect"])))
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60)


_EMBEDDED = """
import os, sys
from pathlib import Path
from flows.local_server import start_server
from flows.settings import ship_prefect_settings
ship_prefect_settings(Path(sys.argv[1]))
server = start_server(Path(sys.argv[1]), frozenset({"BMC_PASSWORD"}))
import prefect
server.child.kill()
said = server.wait()
children = []
@prefect.flow
def look():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"uvicorn" in (folder / "cmdline").read_bytes():
                children.append(b"canary-7f" in (folder / "environ").read_bytes())
        except OSError:
            continue
look()
print(said, children, "BMC_PASSWORD" in os.environ)
"""


@pytest.mark.slow
def test_an_embedded_server_is_the_fall_back_and_inherits_no_secret(tmp_path: Path) -> None:
    """When our server dies at once, Prefect's own one takes its place, and no password goes with it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env = {**env, "BMC_PASSWORD": "canary-7f", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _EMBEDDED, str(tmp_path)],
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.endswith("this run shows in an embedded one. [False] False\n"), done
