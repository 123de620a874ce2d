"""Orchestration alone: nodes × seven stages that do nothing, in a process of its own with a Prefect server of its own.

`python orchestration_process.py FOLDER NODES` prints one JSON object: what each form cost.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from flows.settings import load_settings  # noqa: E402 (as above)
from inventory.findings import Finding, Outcome  # noqa: E402 (as above)
from inventory.model import NodeRef  # noqa: E402 (as above)
from inventory.report import NodeReport, Stage, StageRecord  # noqa: E402 (as above)
from tests.benchmarks.measured import Measured  # noqa: E402 (the path is set above)
from tests.benchmarks.rack_process import prefect_server, recorded  # noqa: E402 (as above)

_SETTLE_S = 5.0  # for a server that has just answered its first call to end what it does at its start
_DONE = Finding(metric="nothing", subject="node", outcome=Outcome.PASS, observed="0", expected="0", source="none")


def _stage(stage: Stage) -> Any:
    """A stage that looks at nothing and has something to record all the same."""
    return SimpleNamespace(
        STAGE=stage,
        inputs=lambda report, site: {"run": site.run_id},
        run=lambda report, site: StageRecord(stage=stage, findings=(_DONE,)),
    )


LINE = tuple(_stage(stage) for stage in Stage)


def main() -> None:
    """Each form once, and an empty flow to take off."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    nodes = tuple(NodeRef(name=f"n{i}", serial=f"S{i}", rack="R1", node_class="lab-hgx") for i in range(count))
    file = _settings(folder)
    with prefect_server(load_settings(str(file))) as server:
        from flows.tasks import show_in_prefect

        time.sleep(_SETTLE_S)
        measured = Measured({"rackmint": os.getpid(), "Prefect server": server})
        asyncio.run(_as_flow("warm up", lambda: _plain(nodes[:1])))
        asyncio.run(_as_flow("warm up", lambda: _ours(file, nodes[:1], "stage", show_in_prefect)))
        _measure(measured, "empty flow", lambda: _as_flow("empty", _nothing))
        _measure(measured, "plain", lambda: _as_flow("plain", lambda: _plain(nodes)))
        _measure(measured, "stage", lambda: _as_flow("ours", lambda: _ours(file, nodes, "stage", show_in_prefect)))
        _measure(measured, "node", lambda: _as_flow("ours", lambda: _ours(file, nodes, "node", show_in_prefect)))
        _measure(measured, "no Prefect", lambda: _ours(file, nodes, "node", lambda run: None))
        print(measured.to_json())


def _settings(folder: Path) -> Path:
    """A site without any machine."""
    (folder / "images").mkdir(parents=True)
    file = folder / "rackmint.toml"
    file.write_text(
        f'site = "bench"\nstate = "{folder}/state"\n'
        f'[images]\nlisten = "127.0.0.1:0"\nurl = "http://127.0.0.1:1"\nfolder = "{folder}/images"\n'
    )
    return file


def _measure(measured: Measured, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """The form, and what its server still has to do afterwards."""
    before = asyncio.run(recorded())
    with measured.phase(name) as phase:
        began = time.monotonic()
        asyncio.run(work())  # type: ignore[arg-type]  # each form is a coroutine function
        phase.facts["seconds"] = time.monotonic() - began
        phase.facts["task_runs"] = asyncio.run(recorded()) - before


async def _as_flow(name: str, work: Callable[[], Awaitable[None]]) -> None:
    from prefect import flow

    @flow(name=name, persist_result=False)
    async def wrapped() -> None:
        await work()

    await wrapped()


async def _nothing() -> None:
    pass


async def _plain(nodes: tuple[NodeRef, ...]) -> None:
    """A Prefect task per stage, whose work is done in a thread as a real one's would be."""
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    @task(task_run_name="{node}:{stage}", cache_policy=NO_CACHE, persist_result=False)
    async def work(node: str, stage: str) -> int:
        return await asyncio.to_thread(threading.get_ident)

    async def one(node: NodeRef) -> None:
        for stage in Stage:
            await work(node.name, stage.value)

    await asyncio.gather(*(one(node) for node in nodes))


async def _ours(file: Path, nodes: tuple[NodeRef, ...], trace: str, tell: Callable[[Any], None]) -> None:
    """Lease, stage records before and after, events, reports: all that the line does around a stage."""
    from flows.rack import new_run_id, running
    from flows.running import Mandate, Run

    async def one(node: NodeRef, run: Run) -> NodeReport:
        await run.take(node)
        report = NodeReport(node=node, run_id=run.run_id)
        for module in LINE:
            report = report.plus(await run.stage(module, report))
        return report

    file.write_text(f'trace = "{trace}"\n' + "".join(_lines_without_trace(file)))
    async with running(str(file), new_run_id(), "bench", "R1", Mandate()) as run:
        tell(run)
        reports = await run.for_each(one, nodes)
    assert {report.verdict.value for report in reports} == {"accepted"}


def _lines_without_trace(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines(keepends=True) if not line.startswith("trace")]


if __name__ == "__main__":
    main()
