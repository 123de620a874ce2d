"""The whole line in a process of its own, so that its seconds and bytes are its own.

`python rack_process.py SETTINGS FORM RUNS` prints one JSON object: what each phase cost this process, the lab's and the
Prefect server's. FORM is "ours" (traced as the settings say) or "plain" (`plain.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from flows.settings import Settings, load_settings, ship_prefect_settings  # noqa: E402 (as above)
from tests.benchmarks.measured import Measured  # noqa: E402 (the path is set above)

# After a burst Prefect's recorder lags behind for seconds; it has caught up when two looks at its count agree.
_RECORDED_WITHIN_S, _LOOK_EVERY_S = 90.0, 3.0


@contextmanager
def prefect_server(settings: Settings) -> Iterator[int]:
    """A Prefect server of this process's own, as the commands start one: its pid."""
    ship_prefect_settings(settings.state)
    from flows.local_server import start_server

    server = start_server(settings.state)
    try:
        assert server.child, "PREFECT_API_URL is set: the server's cost could not be told"
        said = server.wait()
        assert not said, said
        yield _server_of(server.child.pid)
    finally:
        server.stop()


def _server_of(keeper: int) -> int:
    """The server itself: the one process that its keeper started. Source: proc(5), children."""
    (server,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return int(server)


async def recorded() -> int:
    """How many task runs the server has, once their number no longer grows."""
    from prefect import get_client

    seen, ends = -1, time.monotonic() + _RECORDED_WITHIN_S
    async with get_client() as client:
        while time.monotonic() < ends:
            count = int((await client.request("POST", "/task_runs/count", json={})).json())
            if count == seen:
                break
            seen = count
            await asyncio.sleep(_LOOK_EVERY_S)
    return seen


def main() -> None:
    """Run the line as often as asked and say what it cost."""
    settings_file, form, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    lab = json.loads(Path(settings_file).with_name("lab.json").read_text())
    with prefect_server(load_settings(settings_file)) as server:
        import flows.plan
        import flows.provision  # noqa: F401 (imports belong to no phase)

        measured = Measured({"rackmint": os.getpid(), "lab": int(lab["pid"]), "Prefect server": server})
        for number in range(1, runs + 1):
            _once(measured, settings_file, form, number)
        print(measured.to_json())


def _once(measured: Measured, settings_file: str, form: str, number: int) -> None:
    from flows.rack import new_run_id

    run_id = new_run_id()
    with measured.phase(f"plan {number}"):
        made = _plan(settings_file)
    with measured.phase(f"run {number}") as phase:
        report = asyncio.run(_flow(form, settings_file, run_id, made))
    phase.facts = _figures(report or _kept(settings_file, run_id))
    with measured.phase(f"recorder {number}") as phase:
        phase.facts = {"task_runs": asyncio.run(recorded())}


def _plan(settings_file: str) -> Any:
    from flows.plan import plan_rack
    from flows.rack import nodes_of
    from flows.site import Site

    site = Site.open(load_settings(settings_file))
    try:
        return plan_rack(site, "R1", nodes_of(site, "R1"))
    finally:
        site.close()


async def _flow(form: str, settings_file: str, run_id: str, made: Any) -> str:
    if form == "plain":
        from tests.benchmarks.plain import plain_rack

        return str(await plain_rack("R1", settings_file, run_id, made.able, made.wipe))
    from flows.provision import provision_rack

    await provision_rack("R1", settings_file, run_id, made.able, made.wipe, return_state=True)
    return ""


def _kept(settings_file: str, run_id: str) -> str:
    from inventory.ledger import Ledger

    ledger = Ledger.open(load_settings(settings_file).ledger_url)
    try:
        return ledger.run_report(run_id) or ""
    finally:
        ledger.close()


def _figures(report_json: str) -> dict[str, Any]:
    """What the run's report comes to."""
    from inventory.findings import Verdict
    from inventory.report import RackReport, Stage

    report = RackReport.model_validate_json(report_json)
    records = [record for node in report.nodes for record in node.records]
    took = [(r.stage, (r.ended_at - r.started_at).total_seconds()) for r in records if not r.reused_from]
    return {
        "verdicts": {v.value: report.count(v) for v in Verdict},
        "causes": sorted({node.cause for node in report.nodes if node.cause}),
        "posts": report.posts,
        "netbox_writes": report.book_writes,
        "reused": sum(bool(r.reused_from) for r in records),
        "slowest_s": {stage.value: max((s for at, s in took if at is stage), default=0.0) for stage in Stage},
    }


if __name__ == "__main__":
    main()
