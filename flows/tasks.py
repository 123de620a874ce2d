"""What Prefect sees of a run: a task per node or per stage, an event per stage, artifacts at the end. Nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from prefect import task
from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.exceptions import TerminationSignal
from prefect.logging.handlers import APILogWorker

from flows.render.markdown import node_page, rack_rows
from flows.render.text import plain
from flows.running import Run
from inventory.findings import Verdict
from inventory.report import NodeReport, RackReport, StageRecord

T = TypeVar("T")

# What SIGTERM becomes while a flow runs. It breaks out of the event loop, which then cancels all that ran in it.
Terminated = TerminationSignal

_LAST_WORDS_S = 5.0  # our choice: longer than any queue takes that a server still empties


async def shown(name: str, work: Callable[[], Awaitable[T]], *, show: bool) -> T:
    """Await `work`, as one Prefect task of this name when it is to be shown; Prefect caches and stores nothing of it.

    `work` takes no argument on purpose: Prefect walks through every argument of a task, and a report is large.
    """
    if not show:
        return await work()
    stage = name.partition(":")[2]
    traced: Any = task(
        name=stage or "node",
        task_run_name=name,
        cache_policy=NO_CACHE,
        persist_result=False,
    )(work)
    result: T = await traced()
    return result


def show_in_prefect(run: Run) -> None:
    """Let Prefect see a run: an event per stage transition, and a task per node or per stage as the settings say."""
    run.told.append(tell_stage)
    run.shown = shown


def tell_stage(report: NodeReport, record: StageRecord) -> None:
    """One event per stage transition: it shows in the event feed and can trigger automations."""
    emit_event(
        event=f"rackmint.stage.{'reused' if record.reused_from else record.outcome.value}",
        resource={"prefect.resource.id": f"rackmint.node.{report.node.key}", "prefect.resource.name": report.node.name},
        payload={
            "stage": record.stage.value,
            "run": report.run_id,
            "took_s": round((record.ended_at - record.started_at).total_seconds(), 3),
            "reason": record.reason,
            "cause": "" if record.passed else plain(report.plus(record).cause),
        },
    )


def tell_the_rest() -> None:
    """Hand over the logs and events that still wait, before the server that takes them is stopped."""
    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=_LAST_WORDS_S)


async def show_rack(report: RackReport) -> None:
    """The rack as a table, and one page for each node that was not accepted."""
    await acreate_table_artifact(
        table=rack_rows(report), key=_key(f"rack-{report.rack}"), description=f"{report.purpose} {report.rack}"
    )
    for node in report.nodes:
        if node.verdict is not Verdict.ACCEPTED:
            await acreate_markdown_artifact(markdown=node_page(node), key=_key(f"node-{node.node.name}"))


def _key(text: str) -> str:
    """Artifact keys are lower case letters, digits and dashes. Source: Prefect 3 artifact key rule."""
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
