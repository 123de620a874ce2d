"""A book or a cluster that is down loses no result: what is owed is written by the next run, in order, or closed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from flows.board import WATCHING, Board, Cell
from flows.settings import load_settings
from inventory.findings import Verdict
from inventory.ledger import Ledger
from inventory.report import NodeReport, RackReport, Stage
from lab.rack import LabHandle
from tests.flows.conftest import run_line

NODE = "r1-n01"


@pytest.fixture
def lab(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """One node, and a NetBox that does not answer about it."""
    made = make_lab(nodes=1)
    made.inject(NODE, "netbox_down")
    return made


@contextmanager
def ledger(lab: LabHandle) -> Iterator[Ledger]:
    """The lab's ledger, opened."""
    opened = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    try:
        yield opened
    finally:
        opened.close()


def outbox(lab: LabHandle) -> list[tuple[bool, str]]:
    """Every row that ever was: (done, what was said last), oldest first."""
    file = Path(load_settings(str(lab.settings_file)).state) / "ledger.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        rows = database.execute("select done_at is not null, said from outbox order by id").fetchall()
    return [(bool(done), said) for done, said in rows]


def become_due(lab: LabHandle) -> None:
    """A quarter of an hour goes by."""
    file = Path(load_settings(str(lab.settings_file)).state) / "ledger.db"
    with closing(sqlite3.connect(file, timeout=10)) as database, database:
        database.execute("update outbox set due_at = put_at")


def only(report: RackReport) -> NodeReport:
    """The one node's report."""
    return report.nodes[0]


def test_a_record_that_waited_is_written_by_the_next_run(lab: LabHandle) -> None:
    """Accepted by everything but the book is undecided; when the book is back nothing is proven again."""
    first = run_line(lab)
    assert (Verdict.UNDECIDED, True, None) == (
        only(first).verdict, bool(only(first).certificate_id), only(first).record(Stage.JOIN),
    )  # fmt: skip
    assert "NetBox is down" in only(first).cause
    assert [(False, "")] == outbox(lab)
    assert [] == lab.rack.book.journal(NODE)
    lab.heal(NODE)
    second = run_line(lab)
    assert (Verdict.ACCEPTED, 0, only(first).certificate_id) == (
        only(second).verdict, only(second).posts, only(second).certificate_id,
    )  # fmt: skip
    assert 4 == sum(bool(record.reused_from) for record in only(second).records)
    assert ("records of earlier runs that waited for NetBox were written: 1",) == second.notes
    done, said = outbox(lab)[0]
    assert (True, True) == (done, said.startswith(f"written by run {second.run_id}: "))
    assert 1 == sum(first.run_id in entry for entry in lab.rack.book.journal(NODE))
    record = only(second).record(Stage.RECORD)
    assert record
    assert ((), 0) == (record.did, record.details["writes"])  # the waiting record had said it all


def test_what_stays_down_is_tried_again_and_never_doubled(lab: LabHandle) -> None:
    """A failed replay waits with what was said; once a newer run has recorded the node, old records are closed."""
    run_line(lab)
    run_line(lab)
    (first, said), second = outbox(lab)
    assert (False, True, (False, "")) == (first, "503" in said or "NetBox" in said, second)
    lab.heal(NODE)
    third = run_line(lab)  # the first one's next try is not due yet, and this run needs nobody's help
    assert Verdict.ACCEPTED is only(third).verdict
    assert [False, False] == [done for done, _ in outbox(lab)]
    become_due(lab)
    writes = lab.rack.book.writes
    assert () == run_line(lab).notes
    assert [(True, f"superseded: run {third.run_id} recorded the node since")] * 2 == outbox(lab)
    assert writes == lab.rack.book.writes


def test_a_record_whose_certificate_was_revoked_is_not_written(lab: LabHandle) -> None:
    """What waited may be wrong by now: an acceptance that was declared void never enters the book."""
    first = run_line(lab)
    with ledger(lab) as kept:
        assert kept.revoke(only(first).certificate_id, "the operator knows better", "a person")
    lab.heal(NODE)
    second = run_line(lab)
    assert [(True, f"superseded: its certificate {only(first).certificate_id} was revoked since")] == outbox(lab)
    assert not [entry for entry in lab.rack.book.journal(NODE) if first.run_id in entry]
    assert (Verdict.ACCEPTED, 0) == (only(second).verdict, only(second).posts)
    assert only(first).certificate_id != only(second).certificate_id


def test_a_node_that_another_run_holds_is_left_to_it(lab: LabHandle) -> None:
    """Nobody writes about a node that somebody else works on; the row waits without a mark against it."""
    run_line(lab)
    lab.heal(NODE)
    with ledger(lab) as kept:
        lease = kept.take_lease(lab.machines[NODE].state.serial, NODE, "another-run@elsewhere:1:1", "provision", 60)
        held = run_line(lab)
        kept.release(lease)
    assert (Verdict.UNDECIDED, [(False, "")]) == (only(held).verdict, outbox(lab))
    assert (Verdict.ACCEPTED, [True]) == (only(run_line(lab)).verdict, [done for done, _ in outbox(lab)])


def _down_from_record_on(lab: LabHandle, node: str, stage: Stage, cell: Cell) -> None:
    """The API server goes down while the node is being recorded."""
    if (stage, cell.state) == (Stage.RECORD, "running"):
        lab.call(lambda: lab.rack.cluster.faults.add("api_down"))


def test_a_cluster_that_is_down_at_the_join_is_joined_by_the_next_run(make_lab: Callable[..., LabHandle]) -> None:
    """The book has the node as staged and proven; when the API server answers again only the join is done."""
    lab = make_lab(nodes=1)
    watching = WATCHING.set(Board(listeners=[partial(_down_from_record_on, lab)]))
    first = run_line(lab)
    WATCHING.reset(watching)
    assert (Verdict.UNDECIDED, "staged") == (only(first).verdict, lab.rack.book.device(NODE)["status"])
    join = only(first).record(Stage.JOIN)
    assert join
    assert "BookUnreachable" == join.findings[0].observed
    lab.call(lambda: lab.rack.cluster.faults.discard("api_down"))
    second = run_line(lab)
    assert (Verdict.ACCEPTED, 0, "active") == (
        only(second).verdict, only(second).posts, lab.rack.book.device(NODE)["status"],
    )  # fmt: skip
    assert only(first).certificate_id == only(second).certificate_id
