"""What the flows share: open a site, name the nodes, keep a run going, write its report."""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

from flows.board import WATCHING, Board
from flows.outbox import replay
from flows.running import Mandate, Run
from flows.settings import load_settings
from flows.site import Site
from inventory.certificate import due
from inventory.errors import BadSettings, LedgerUnavailable
from inventory.findings import Finding, Verdict
from inventory.model import NodeRef, now
from inventory.redact import REDACTOR
from inventory.report import NodeReport, RackReport

DUE = "due"  # what a re-validation calls the nodes of any rack whose certificates are due

# Our choice: what a first run over 64 nodes leaves (2 MiB a node: evidence, ledger, Prefect's history), and some air.
_ROOM_MIB = 200


def new_run_id() -> str:
    """A run's name: sortable by time, unique, short enough to type."""
    return f"{now():%y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def nodes_of(site: Site, rack: str, names: tuple[str, ...] = ()) -> tuple[NodeRef, ...]:
    """The rack's nodes as NetBox names them, or those of `names`; raises `BadSettings` for what is not there."""
    nodes = site.netbox().nodes_in(rack)
    unknown = sorted(set(names) - {node.name for node in nodes})
    if unknown:
        raise BadSettings(f"rack {rack} has no node {', '.join(unknown)}. It has: {', '.join(n.name for n in nodes)}")
    chosen = tuple(node for node in nodes if not names or node.name in names)
    for node in chosen:
        site.class_of(node)  # every class is known before the first node is touched
    return chosen


def due_nodes(site: Site, among: tuple[NodeRef, ...] | None = None) -> tuple[NodeRef, ...]:
    """Nodes whose newest certificate's term is over or that was revoked, as the book has them now.

    Of all nodes the ledger knows, or of `among`.
    """
    if among is not None:
        return tuple(node for node in among if _is_due(site, node))
    due_ids = [node.netbox_id for node in site.ledger.nodes() if node.netbox_id is not None and _is_due(site, node)]
    return tuple(book.ref for book in site.netbox().read_many(due_ids)) if due_ids else ()


def _is_due(site: Site, node: NodeRef) -> bool:
    certificates = site.ledger.certificates(node.key)
    return bool(certificates) and (
        due(certificates[0], now()) or site.ledger.revocation(certificates[0].certificate_id) is not None
    )


class _Discreet(logging.Formatter):
    """Lines, and the traces below them, without known secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The line as it is written."""
        return REDACTOR.clean(super().format(record))


def keep_log(state: Path) -> None:
    """What we log, traces of our own faults above all, goes to a file: a terminal shows the rack."""
    logger = logging.getLogger("rackmint")
    if not logger.handlers:
        handler = logging.FileHandler(state / "rackmint.log", delay=True)
        handler.setFormatter(_Discreet("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False


def check_room(state: Path) -> None:
    """Refuse to begin what could not be noted to its end."""
    free_mib = shutil.disk_usage(state).free / 2**20
    if free_mib < _ROOM_MIB:
        raise LedgerUnavailable(
            f"state folder {state}: {free_mib:.0f} MiB are free on its disk, a run needs {_ROOM_MIB}. Make room, then "
            "run the same command again"
        )


@asynccontextmanager
async def running(settings_file: str, run_id: str, purpose: str, rack: str, may: Mandate) -> AsyncIterator[Run]:
    """A run with its leases kept warm; however it ends, stages have ended and leases are given back."""
    site = Site.open(load_settings(settings_file))
    check_room(site.settings.state)
    keep_log(site.settings.state)
    board = WATCHING.get() or Board()
    run = Run(site, run_id, purpose, board, may)
    site.images.start()
    site.ledger.begin_run(run_id, purpose, rack, {"rack": rack, "wipe": sorted(may.wipe)})
    keeper = asyncio.create_task(run.keep_leases())
    try:
        await run.in_thread(replay, run)
        yield run
    except BaseException:
        with suppress(LedgerUnavailable):  # then it is the very reason, and is raised
            site.ledger.finish_run(run_id, "interrupted", "")
        raise
    finally:
        try:
            await run.close()  # the leases are kept warm meanwhile: a farewell writes to BMCs and may take minutes
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
            site.close()


def finish(
    run: Run, rack: str, started_at: datetime, reports: tuple[NodeReport, ...], rack_findings: tuple[Finding, ...] = ()
) -> RackReport:
    """The rack's report, kept in the ledger."""
    report = RackReport(
        rack=rack,
        run_id=run.run_id,
        purpose=run.purpose,
        started_at=started_at,
        ended_at=now(),
        nodes=tuple(sorted(reports, key=lambda r: r.node.name)),
        rack_findings=rack_findings,
        notes=(*run.breaker.values(), *run.notes),
        book_writes=run.site.book_writes,
    )
    run.site.ledger.finish_run(run.run_id, outcome_of(report).value, report.model_dump_json())
    return report


def outcome_of(report: RackReport) -> Verdict:
    """The rack in one word: undecided while any node is, else rejected when any is."""
    verdicts = {node.verdict for node in report.nodes}
    if not verdicts and report.rack == DUE:
        return Verdict.ACCEPTED  # nothing was due
    if Verdict.UNDECIDED in verdicts or not verdicts:
        return Verdict.UNDECIDED
    return Verdict.REJECTED if Verdict.REJECTED in verdicts else Verdict.ACCEPTED
