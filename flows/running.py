"""A run over many nodes: leases kept warm, stages in threads, limits, and the breaker. No Prefect here."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flows.board import Board
from flows.site import NodeSite, Site
from flows.step import StageModule, run_stage
from inventory.deadline import Deadline
from inventory.errors import Cancelled, LeaseHeld, LeaseLost, LedgerUnavailable
from inventory.findings import Finding, Outcome, root_cause
from inventory.ledger import Lease
from inventory.model import NodeRef
from inventory.report import NodeReport, Stage, StageRecord

T = TypeVar("T")
Told = Callable[[NodeReport, StageRecord], None]
_LOG = logging.getLogger("rackmint")


class Shown(Protocol):
    """Awaits a piece of work so that somebody who watches (Prefect) sees it under a name."""

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]], *, show: bool) -> T:
        """The work's own result."""
        ...


async def _unseen(name: str, work: Callable[[], Awaitable[T]], *, show: bool) -> T:
    return await work()


def name_of(node: NodeRef | NodeReport) -> str:
    """The node's name, from either noun."""
    return node.node.name if isinstance(node, NodeReport) else node.name


def holder(run_id: str) -> str:
    """Who holds a lease: the run, and the process, so that a dead one on this host need not be waited for."""
    return f"{run_id}@{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_dead(lease_holder: str) -> bool:
    """Whether a holder was a process of this very host that is gone. Anybody else's is believed to live."""
    _, _, place = lease_holder.partition("@")
    host, _, rest = place.partition(":")
    pid, _, started = rest.partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; with the pid it names a process for ever. Source: proc(5).

    Empty when there is none: one that has ended and whose parent has not asked yet (state Z) does nothing any more.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in ("Z", "X") else rest[18]


@dataclass(frozen=True)
class Mandate:
    """What the operator, or the schedule's policy, allowed this run."""

    change: bool = True  # False: look and load only
    fresh: bool = False  # nothing proven earlier is reused
    wipe: frozenset[str] = frozenset()  # nodes whose boot disk may be laid
    reimage: frozenset[str] = frozenset()  # nodes for which even service or foreign data is no bar
    leave: frozenset[str] = frozenset()  # nodes in service that the plan left alone: reported, never touched


@dataclass
class NodeRun:
    """One node in this run: its lease and the token that stops it."""

    node: NodeRef
    lease: Lease
    cancel: threading.Event = field(default_factory=threading.Event)
    lost: str = ""  # who took the node over, in words: the run goes on without it


class Run:
    """One run: `stage()` is awaited by each node's coroutine and does the work in a thread of its own."""

    def __init__(
        self,
        site: Site,
        run_id: str,
        purpose: str,
        board: Board,
        may: Mandate = Mandate(),
    ) -> None:
        self.site, self.run_id, self.purpose, self.board, self.may = site, run_id, purpose, board, may
        self.holder = holder(run_id)
        self.nodes: dict[str, NodeRun] = {}
        self.told: list[Told] = []
        self.shown: Shown = _unseen
        self.notes: list[str] = []  # for the rack report
        self.cordoned: set[str] = set()  # nodes this run keeps work off and has not given back
        self.farewells: list[Callable[[], None]] = []  # done when all stages have ended, while the nodes are still ours
        self.breaker: dict[tuple[Stage, str], str] = {}  # (stage, class) → sentence
        self._failures: Counter[tuple[Stage, str, str]] = Counter()  # (stage, class, root metric)
        self._ended: Counter[tuple[Stage, str]] = Counter()  # (stage, class)
        self._threads = ThreadPoolExecutor(site.settings.limits.nodes_parallel + 4, thread_name_prefix="node")
        self._imaging = asyncio.Semaphore(site.settings.limits.image_parallel)

    # -- leases ----------------------------------------------------------------------------------------------------

    async def take(self, node: NodeRef) -> str:
        """Take the node's lease; returns why not: it was to be left alone, or somebody else works on it."""
        if node.name in self.may.leave:
            return f"{node.name}: left alone: in service, and not named by --reimage to be wiped or restarted"
        try:
            await self.in_thread(self._take, node)
        except LeaseHeld as error:
            self.board.note(node.name, str(error))
            return str(error)
        return ""

    def _take(self, node: NodeRef) -> None:
        """In one go in the node's thread: a lease that was taken is known, also when nobody awaits it any more."""
        self.nodes[node.name] = NodeRun(node, self.leased(node))
        self.site.ledger.remember_node(node)

    def leased(self, node: NodeRef) -> Lease:
        """The node's lease, taken over from a holder that is known to be dead; raises `LeaseHeld`."""
        ledger, ttl_s = self.site.ledger, self.site.settings.pace.lease_s
        try:
            return ledger.take_lease(node.key, node.name, self.holder, self.purpose, ttl_s)
        except LeaseHeld as error:
            if not is_dead(error.holder):
                raise
            ledger.end_lease_of(node.key, error.holder)
            return ledger.take_lease(node.key, node.name, self.holder, self.purpose, ttl_s)

    async def keep_leases(self) -> None:
        """Renew every lease at a third of its term; a lost one stops its node. Runs until cancelled."""
        lease_s = self.site.settings.pace.lease_s
        while True:
            await asyncio.sleep(lease_s / 3)
            for name, run in list(self.nodes.items()):
                if run.lost:
                    continue
                try:
                    # Not in the nodes' threads: these are being ended while the last stages still need their leases.
                    run.lease = await asyncio.to_thread(self.site.ledger.renew, run.lease, lease_s)
                except LeaseLost as error:
                    run.lost = str(error)
                    self.board.note(name, run.lost)
                    run.cancel.set()
                except LedgerUnavailable as error:  # two more tries before the lease runs out, and every write asks
                    self.board.note(name, str(error))

    def release(self) -> None:
        """Give all leases back; what a full ledger cannot note is taken over from this process once it is gone."""
        for run in self.nodes.values():
            with suppress(LedgerUnavailable):
                self.site.ledger.release(run.lease)

    def cancel(self) -> None:
        """Ask every stage to stop; they end their remote commands and leave BMCs in a known boot order."""
        for run in self.nodes.values():
            run.cancel.set()

    # -- stages ----------------------------------------------------------------------------------------------------

    async def for_each(
        self, work: Callable[[Any, Run], Awaitable[NodeReport]], nodes: Sequence[NodeRef | NodeReport]
    ) -> tuple[NodeReport, ...]:
        """`work` for every node side by side. What nobody foresaw in one node's line ends that line alone, loudly."""
        trace = self.site.settings.trace == "node"
        results = await asyncio.gather(
            *(self.shown(name_of(node), partial(work, node, self), show=trace) for node in nodes),
            return_exceptions=True,
        )
        return tuple(self._whole(node, result) for node, result in zip(nodes, results, strict=True))

    def _whole(self, node: NodeRef | NodeReport, result: NodeReport | BaseException) -> NodeReport:
        if isinstance(result, NodeReport):
            return result
        if isinstance(result, Cancelled | LedgerUnavailable | asyncio.CancelledError | KeyboardInterrupt | SystemExit):
            raise result
        _LOG.error("%s: the line broke", name_of(node), exc_info=result)
        report = node if isinstance(node, NodeReport) else NodeReport(node=node, run_id=self.run_id)
        said = f"{name_of(node)}: rackmint itself broke here: {type(result).__name__}: {result}. Please report it"
        self.board.note(name_of(node), said)
        return report.model_copy(update={"note": said})

    async def stage(self, module: StageModule, report: NodeReport) -> StageRecord:
        """Run or reuse one stage of one node; never raises for trouble of the node itself."""
        name = f"{report.node.name}:{module.STAGE.value}"
        return await self.shown(name, partial(self._stage, module, report), show=self.site.settings.trace == "stage")

    async def _stage(self, module: StageModule, report: NodeReport) -> StageRecord:
        async with self._imaging if module.STAGE is Stage.IMAGE else nullcontext():
            stopped = self._breaker_says(module.STAGE, report)  # asked when it is this node's turn, not before
            if stopped:
                return self._done(report, stopped)
            record = await self.in_thread(self._run, module, report)
            self._count(record, report)
        return self._done(report, record)

    def site_for(self, report: NodeReport, stage: Stage, budget_s: float) -> NodeSite:
        """The site as this run may use it for one node: its lease, its cancel token, a budget, and a voice."""
        name, run = report.node.name, self.nodes[report.node.name]
        return NodeSite(
            site=self.site,
            node=report.node,
            run_id=self.run_id,
            lease=run.lease,
            deadline=Deadline(
                name,
                budget_s,
                cancel=run.cancel,
                tell=lambda what, left_s: self.board.waiting(name, stage, what, left_s),
            ),
            may_change=self.may.change,
            may_wipe=name in self.may.wipe,
            reimage=self.may.reimage,
        )

    def _run(self, module: StageModule, report: NodeReport) -> StageRecord:
        budget_s = self.site.budget_s(report.node, module.STAGE)
        self.board.begin(report.node.name, module.STAGE, budget_s)
        site = self.site_for(report, module.STAGE, budget_s)
        try:
            return run_stage(module, report, site, fresh=self.may.fresh)
        except LeaseLost as error:
            return _not_run(module.STAGE, str(error), "Ask the other run; this one has stopped touching the node.")
        except Cancelled:
            lost = self.nodes[report.node.name].lost
            if lost:
                return _not_run(module.STAGE, lost, "Ask the other run; this one has stopped touching the node.")
            self.board.end(report.node.name, module.STAGE, Outcome.NOT_RUN.value, "stopped")
            raise

    def _done(self, report: NodeReport, record: StageRecord) -> StageRecord:
        root = root_cause(record.findings)
        state = "reused" if record.reused_from else record.outcome.value
        self.board.end(report.node.name, record.stage, state, root.sentence if root else "")
        for told in self.told:
            told(report, record)
        return record

    # -- breaker ---------------------------------------------------------------------------------------------------

    def _count(self, record: StageRecord, report: NodeReport) -> None:
        """Most nodes of a class failing one stage the same way: it is the image, the switch or our limit."""
        root, node_class = root_cause(record.findings), report.node.node_class
        self._ended[record.stage, node_class] += 1
        if root is None or record.passed:
            return
        self._failures[record.stage, node_class, root.metric] += 1
        count = self._failures[record.stage, node_class, root.metric]
        # Three bad GPUs in a rack of seventy are three bad GPUs; three of the first four are no coincidence.
        if count >= self.site.settings.limits.breaker_nodes and 2 * count > self._ended[record.stage, node_class]:
            self.breaker[(record.stage, node_class)] = (
                f"{count} nodes of class {node_class} failed {record.stage.value} the same way ({root.metric}): "
                "no more are started; suspect the image, the switch or the limit, not the nodes"
            )

    def _breaker_says(self, stage: Stage, report: NodeReport) -> StageRecord | None:
        said = self.breaker.get((stage, report.node.node_class))
        if not said or stage in (Stage.DISCOVER, Stage.RECORD):
            return None
        return _not_run(stage, said, "Mend the common cause, then run the same command again.")

    # -- threads ---------------------------------------------------------------------------------------------------

    async def in_thread(self, work: Callable[..., T], *args: object) -> T:
        """Run blocking work in one of the run's own threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    async def close(self) -> None:
        """Wait until every stage thread has ended, then release the leases."""
        self.cancel()
        await asyncio.to_thread(self._threads.shutdown, wait=True)
        for farewell in self.farewells:
            await asyncio.to_thread(farewell)
        self.release()


def _not_run(stage: Stage, cause: str, remedy: str) -> StageRecord:
    finding = Finding(
        metric=f"{stage.value}_completed", subject="node", outcome=Outcome.NOT_RUN, observed="not run",
        expected="the stage runs", remedy=remedy, source="rackmint", cause=cause,
    )  # fmt: skip
    return StageRecord(stage=stage, findings=(finding,))
