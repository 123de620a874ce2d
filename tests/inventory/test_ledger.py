"""The ledger: one owner a node, intents before acts, results never lost, and clear words when its store fails."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import Engine, create_engine, event

from inventory import ledger_database
from inventory.errors import BadSettings, LeaseHeld, LeaseLost, LedgerUnavailable
from inventory.findings import Finding, Outcome
from inventory.ledger import Lease, Ledger
from inventory.ledger_schema import TABLES
from inventory.model import NodeRef
from inventory.report import Stage, StageRecord

_T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.at = _T0

    def __call__(self) -> datetime:
        """The time it shows."""
        return self.at

    def pass_s(self, seconds: float) -> None:
        """Let it go on."""
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """The time of the test."""
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock):
    """A fresh ledger in a file."""
    opened = Ledger.open(f"sqlite:///{tmp_path}/ledger.db", clock=clock)
    yield opened
    opened.close()


def record(stage: Stage = Stage.IMAGE, outcome: Outcome = Outcome.PASS) -> StageRecord:
    """A stage with one finding."""
    finding = Finding(metric="m", subject="node", outcome=outcome, observed="1", expected="1")
    return StageRecord(stage=stage, findings=(finding,), started_at=_T0, ended_at=_T0, key="k1")


# --- leases


def test_a_held_node_names_its_holder(ledger: Ledger) -> None:
    """The second run learns who works on the node, at what, since when and until when."""
    ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    with pytest.raises(LeaseHeld) as held:
        ledger.take_lease("CH1", "r1-n01", "run-b", "audit", 60)
    expected = (
        "r1-n01: held by run run-a (provision) since 2026-03-01T12:00:00+00:00, lease until 2026-03-01T12:01:00+00:00"
    )
    assert expected == str(held.value)


def test_a_lease_that_ran_out_is_taken_over_and_the_old_owner_is_told(ledger: Ledger, clock: Clock) -> None:
    """After a kill the next run goes on with a higher fence, and the late writer may not write."""
    old = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    clock.pass_s(61)
    new = ledger.take_lease("CH1", "r1-n01", "run-b", "provision", 60)
    assert (1, 1, 2, 2) == (old.fence, old.attempt, new.fence, new.attempt)
    for late in (lambda: ledger.check(old), lambda: ledger.renew(old, 60)):
        with pytest.raises(LeaseLost, match=r"run run-b \(provision\) owns the node since .*, fence 2"):
            late()
    ledger.check(new)


def test_a_lease_that_ran_out_and_nobody_took_may_be_renewed_but_not_used(ledger: Ledger, clock: Clock) -> None:
    """Writing needs a lease that holds; a slow heartbeat alone does not lose the node."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    clock.pass_s(61)
    with pytest.raises(LeaseLost, match="ran out at 2026-03-01T12:01:00"):
        ledger.check(lease)
    ledger.check(ledger.renew(lease, 60))


def test_after_a_release_the_next_attempt_is_the_first(ledger: Ledger) -> None:
    """A clean end is no failed attempt, and yet the fence grows."""
    ledger.release(ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60))
    assert () == ledger.leases()
    lease = ledger.take_lease("CH1", "r1-n01", "run-b", "provision", 60)
    assert (2, 1) == (lease.fence, lease.attempt)
    assert (lease,) == ledger.leases()


def test_a_late_release_does_not_end_the_new_owners_lease(ledger: Ledger, clock: Clock) -> None:
    """The clean-up of a run that lost the node leaves its successor alone."""
    old = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    ledger.end_lease_of("CH1", "run-a")
    new = ledger.take_lease("CH1", "r1-n01", "run-b", "provision", 60)
    ledger.release(old)
    assert (new,) == ledger.leases()


def test_of_many_that_ask_at_once_one_gets_the_node(ledger: Ledger) -> None:
    """Sixteen threads ask for the same node; fifteen are told who has it."""
    gate = threading.Barrier(16)

    def ask(number: int) -> Lease | None:
        gate.wait()
        try:
            return ledger.take_lease("CH1", "r1-n01", f"run-{number}", "provision", 60)
        except LeaseHeld:
            return None

    with ThreadPoolExecutor(16) as pool:
        got = [lease for lease in pool.map(ask, range(16)) if lease]
    assert [1] == [lease.fence for lease in got]


class LeaseRules(RuleBasedStateMachine):
    """Any order of take, renew, release and waiting: never two valid owners, and the fence only grows."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger.open(f"sqlite:///{self.folder.name}/ledger.db", clock=self.clock)
        self.given: list[Lease] = []

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.ledger.close()
        self.folder.cleanup()

    @rule(run=st.sampled_from("abc"), ttl_s=st.integers(1, 50))
    def take(self, run: str, ttl_s: int) -> None:
        """Somebody wants the node."""
        valid = [lease.holder for lease in self.given if self.holds(lease)]
        try:
            lease = self.ledger.take_lease("CH1", "n", run, "provision", ttl_s)
        except LeaseHeld as held:
            assert [held.holder] == valid
            return
        assert all(lease.fence > earlier.fence for earlier in self.given)
        assert valid in ([], [run])
        self.given.append(lease)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), ttl_s=st.integers(1, 50))
    def renew(self, data: st.DataObject, ttl_s: int) -> None:
        """Somebody who had the node once says that they live."""
        number = data.draw(st.integers(0, len(self.given) - 1))
        newest = self.given[-1].fence
        try:
            self.given[number] = self.ledger.renew(self.given[number], ttl_s)
        except LeaseLost:
            return
        assert newest == self.given[number].fence

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Somebody who had the node once gives it back."""
        self.ledger.release(data.draw(st.sampled_from(self.given)))

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        """Nothing happens for a while."""
        self.clock.pass_s(seconds)

    @invariant()
    def one_owner_at_most(self) -> None:
        """The rule."""
        assert sum(self.holds(lease) for lease in self.given) <= 1

    def holds(self, lease: Lease) -> bool:
        """Whether this lease may write now."""
        try:
            self.ledger.check(lease)
        except LeaseLost:
            return False
        return True


TestLeaseRules = LeaseRules.TestCase
TestLeaseRules.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


# --- stage records


def test_intent_steps_and_outcome_are_found_again(ledger: Ledger) -> None:
    """What was begun, what it was about to do, and what came of it."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    number = ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {"image": "d1"})
    ledger.note_step(number, "boot_once", {"target": "Cd"})
    (open_,) = ledger.unfinished("CH1")
    assert (number, Stage.IMAGE, "run-a", ["boot_once"]) == (*open_[:3], [step.step for step in open_.steps])
    ledger.finish_stage(number, record())
    assert () == ledger.unfinished("CH1")
    assert record().model_copy(update={"reused_from": "run-a"}) == ledger.last_passing("CH1", Stage.IMAGE)
    assert [(number, "run-a", record())] == [(k.record_id, k.run_id, k.record) for k in ledger.history("CH1")]


def test_an_older_pass_is_not_reused_behind_a_newer_failure(ledger: Ledger) -> None:
    """What failed since may not be taken as passed."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    for outcome in (Outcome.PASS, Outcome.FAIL):
        ledger.finish_stage(ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {}), record(outcome=outcome))
    assert None is ledger.last_passing("CH1", Stage.IMAGE)


def test_an_older_pass_is_not_reused_behind_an_act_without_an_end(ledger: Ledger) -> None:
    """A killed imaging may have half written the disk; one that was killed before it acted has not."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    ledger.finish_stage(ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {}), record())
    number = ledger.begin_stage(lease, "run-b", Stage.IMAGE, "k1", {})
    assert None is not ledger.last_passing("CH1", Stage.IMAGE)
    ledger.note_step(number, "write", {})
    assert None is ledger.last_passing("CH1", Stage.IMAGE)


def test_what_a_killed_try_had_noted_is_found_until_a_try_really_ends(ledger: Ledger) -> None:
    """Killed and stopped tries are gone on with; behind a failure or a pass nothing is."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    for step, end in (("old", Outcome.FAIL), ("first", None), ("second", Outcome.NOT_RUN), ("third", None)):
        number = ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {})
        ledger.note_step(number, step, {"attempt": "a1"})
        if end:
            ledger.finish_stage(number, record(outcome=end))
    assert ["first", "second", "third"] == [step.step for step in ledger.cut_off("CH1", Stage.IMAGE)]
    assert () == ledger.cut_off("CH1", Stage.JOIN)
    ledger.finish_stage(number, record())
    assert () == ledger.cut_off("CH1", Stage.IMAGE)


def test_records_of_several_nodes_are_kept_together(ledger: Ledger, clock: Clock) -> None:
    """All that are still ours; one that was taken over is left out."""
    first, second = (ledger.take_lease(key, key, "run-a", "provision", 60) for key in ("CH1", "CH2"))
    clock.pass_s(61)
    ledger.take_lease("CH2", "CH2", "run-b", "provision", 60)
    ledger.put_stages("run-a", [(first, record(Stage.BURN_IN)), (second, record(Stage.BURN_IN))])
    assert [record(Stage.BURN_IN)] == [kept.record for kept in ledger.history("CH1")]
    assert () == ledger.history("CH2")


def test_a_result_taken_over_keeps_the_name_of_the_run_that_earned_it(ledger: Ledger) -> None:
    """Reused twice, it still points at the run that did the work."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    ledger.finish_stage(ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {}), record())
    reused = ledger.last_passing("CH1", Stage.IMAGE)
    assert reused is not None
    ledger.finish_stage(ledger.begin_stage(lease, "run-b", Stage.IMAGE, "k1", {}), reused)
    again = ledger.last_passing("CH1", Stage.IMAGE)
    assert again is not None
    assert "run-a" == again.reused_from


def test_a_late_writer_can_note_nothing(ledger: Ledger, clock: Clock) -> None:
    """Neither a new intent, nor a step, nor an outcome."""
    lease = ledger.take_lease("CH1", "r1-n01", "run-a", "provision", 60)
    number = ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k1", {})
    clock.pass_s(61)
    ledger.take_lease("CH1", "r1-n01", "run-b", "provision", 60)
    for late in (
        lambda: ledger.begin_stage(lease, "run-a", Stage.TUNE, "k", {}),
        lambda: ledger.note_step(number, "write", {}),
        lambda: ledger.finish_stage(number, record()),
    ):
        with pytest.raises(LeaseLost, match="run-b"):
            late()


def test_runs_are_listed_newest_first_with_their_report(ledger: Ledger, clock: Clock) -> None:
    """A run that is still going has no outcome."""
    ledger.begin_run("run-a", "provision", "R1", {"rack": "R1"})
    ledger.finish_run("run-a", "accepted", '{"rack":"R1"}')
    clock.pass_s(1)
    ledger.begin_run("run-b", "revalidate", "R1", {})
    assert [("run-b", None), ("run-a", "accepted")] == [(run.run_id, run.outcome) for run in ledger.runs(10)]
    assert ('{"rack":"R1"}', None) == (ledger.run_report("run-a"), ledger.run_report("run-b"))


def test_figures_are_found_by_name_node_and_run(ledger: Ledger) -> None:
    """For comparison with the cohort and with the part's own past."""
    for node, value, run in (("CH1", 480.5, "a"), ("CH2", 470.0, "a"), ("CH1", 479.0, "b")):
        ledger.put_metric(node, "165001", "nccl_busbw_gb_s", value, run)
    assert [480.5, 479.0] == [m.value for m in ledger.metrics("nccl_busbw_gb_s", node_key="CH1")]
    assert [480.5, 470.0] == [m.value for m in ledger.metrics("nccl_busbw_gb_s", run_id="a")]
    assert () == ledger.metrics("other")


# --- nodes and pins, outbox, attempts


def test_nodes_and_pins_are_replaced_by_what_was_seen_last(ledger: Ledger) -> None:
    """One row a chassis, one value a pin."""
    ref = NodeRef(name="r1-n01", node_class="lab-hgx", serial="CH1")
    ledger.remember_node(ref)
    ledger.remember_node(ref.model_copy(update={"unit": 7}))
    ledger.set_pin("bmc", "https://127.0.0.1", "aa")
    ledger.set_pin("bmc", "https://127.0.0.1", "bb")
    assert 7 == ledger.node("CH1").unit
    assert (None, "bb", None) == (
        ledger.node("CH2"),
        ledger.pin("bmc", "https://127.0.0.1"),
        ledger.pin("ssh", "https://127.0.0.1"),
    )


def test_owed_writes_are_tried_in_order_and_never_doubled(ledger: Ledger, clock: Clock) -> None:
    """A failed write holds back those of its own node only; a done one stays done."""
    ledger.put_outbox("netbox", "CH1", "record/run-a/CH1", {"v": 1})
    ledger.put_outbox("netbox", "CH1", "status/run-a/CH1", {"v": 2})
    ledger.put_outbox("netbox", "CH2", "record/run-a/CH2", {"v": 3})
    ledger.put_outbox("netbox", "CH1", "record/run-a/CH1", {"v": 4})
    assert [4, 2, 3] == [owed.payload["v"] for owed in ledger.due_outbox()]
    first, *_ = ledger.due_outbox()
    ledger.fail_outbox(first.id, "HTTP 503")
    assert [3] == [owed.payload["v"] for owed in ledger.due_outbox()]
    clock.pass_s(15)
    assert ["HTTP 503", "", ""] == [owed.said for owed in ledger.due_outbox()]
    ledger.done_outbox(first.id)
    ledger.put_outbox("netbox", "CH1", "record/run-a/CH1", {"v": 5})
    assert [2, 3] == [owed.payload["v"] for owed in ledger.owed()]


def test_an_attempt_is_served_by_whoever_opens_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    """A second process sees the job and what was said, and a token is used up once for both."""
    ledger.put_attempt("a1", "CH1", "r1-n01", "5ha", {"image": "d1"})
    other = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    assert {"image": "d1"} == other.attempt("a1").job
    assert (True, False) == (
        ledger.attempt_event("a1", "registered", {"uuid": "u"}, only_once=True),
        other.attempt_event("a1", "registered", {"uuid": "v"}, only_once=True),
    )
    assert [("registered", {"uuid": "u"})] == [(e.kind, e.detail) for e in other.attempt_events("a1")]
    assert ("a1", None, None) == (
        other.last_attempt("CH1").attempt_id,
        other.last_attempt("CH2"),
        other.attempt("a2"),
    )
    assert False is other.attempt_event("a2", "registered", {})
    other.close()


def test_of_giving_up_and_registering_one_comes_first(ledger: Ledger) -> None:
    """An attempt that is given up has no agent with a job, and one whose agent has the job is not given up."""
    ledger.put_attempt("a1", "CH1", "r1-n01", "5ha", {})
    ledger.put_attempt("a2", "CH1", "r1-n01", "5ha", {})
    assert (True, False) == (
        ledger.attempt_event("a1", "failed", {}, unless=("done", "failed", "registered")),
        ledger.attempt_event("a1", "registered", {}, unless=("done", "failed")),
    )
    assert (True, False) == (
        ledger.attempt_event("a2", "registered", {}, unless=("done", "failed")),
        ledger.attempt_event("a2", "failed", {}, unless=("done", "failed", "registered")),
    )


# --- the store itself


def test_the_migrations_lead_to_the_tables_the_code_knows(tmp_path: Path) -> None:
    """No table, column or index differs between the two."""
    Ledger.open(f"sqlite:///{tmp_path}/ledger.db").close()
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.connect() as connection:
        assert [] == compare_metadata(MigrationContext.configure(connection), TABLES)
    engine.dispose()


def test_a_newer_ledger_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """An old rackmint must not write into a store it does not understand."""
    path = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    store = sqlite3.connect(path)
    store.execute("UPDATE alembic_version SET version_num = '9999'")
    store.commit()
    store.close()
    with pytest.raises(BadSettings, match=r"written by a newer rackmint \(schema 9999, this one knows 0001\)"):
        Ledger.open(f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "not a database URL"),
        ("mysql://u:geheim@h/db", "not supported. Use sqlite or postgresql"),
        ("sqlite:////proc/nowhere/ledger.db", "Check the folder's permissions"),
        ("postgresql+psycopg://u:geheim@127.0.0.1:1/db", "refused"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_in_one_sentence(url: str, sentence: str) -> None:
    """Before any node is touched, and without the password."""
    with pytest.raises(BadSettings, match=sentence) as refused:
        Ledger.open(url)
    assert "geheim" not in str(refused.value)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    """It is left as it is."""
    (tmp_path / "ledger.db").write_text("these are my notes, not a database at all\n" * 50)
    with pytest.raises(BadSettings, match="the file is not a ledger"):
        Ledger.open(f"sqlite:///{tmp_path}/ledger.db")


def test_a_full_disk_is_named_and_nothing_is_half_written(tmp_path: Path) -> None:
    """The store's own limit stands in for the disk's: SQLite answers both with the same code."""
    Ledger.open(f"sqlite:///{tmp_path}/ledger.db").close()

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 60")

    event.listen(Engine, "connect", limit)
    try:
        ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
        with pytest.raises(LedgerUnavailable, match=r"the disk is full\. Make room and run the same command again"):
            ledger.put_attempt("a1", "CH1", "n", "s", {"x": "y" * 1_000_000})
        assert None is ledger.attempt("a1")
        ledger.close()
    finally:
        event.remove(Engine, "connect", limit)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere; somebody without rights may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_ledger_that_may_not_be_written_is_refused_at_the_start() -> None:
    """Before any node is touched: a file that is only readable, one that is not even that, a folder in its place."""
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own, which is closed to others
        path = Path(folder) / "ledger.db"
        Ledger.open(f"sqlite:///{path}").close()
        (path.parent / "folder.db").mkdir()
        path.parent.chmod(0o555)
        said = []
        for name, mode in (("ledger.db", 0o444), ("ledger.db", 0o000), ("folder.db", 0o555)):
            (path.parent / name).chmod(mode)
            with as_nobody(), pytest.raises(BadSettings) as refused:
                Ledger.open(f"sqlite:///{path.parent}/{name}")
            said.append(str(refused.value))
        path.parent.chmod(0o755)
    expected = ["it is not writable", "it cannot be opened", "it cannot be opened"]
    assert expected == [sentence.split(": ")[1].split(".")[0] for sentence in said]


def test_a_ledger_locked_by_others_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that hangs, say."""
    monkeypatch.setattr(ledger_database, "_BUSY_S", 0.05)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    other = sqlite3.connect(tmp_path / "ledger.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="another process has kept it locked"):
        ledger.set_pin("bmc", "u", "x")
    other.close()
    ledger.set_pin("bmc", "u", "x")
    ledger.close()


def test_a_ledger_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """It names every machine and serial of the site."""
    Ledger.open(f"sqlite:///{tmp_path}/state/ledger.db").close()
    assert "0o600" == oct((tmp_path / "state" / "ledger.db").stat().st_mode & 0o777)


def test_sixty_four_threads_may_write_at_once(ledger: Ledger) -> None:
    """None is turned away, none waits for ever."""

    def work(number: int) -> None:
        lease = ledger.take_lease(f"CH{number}", f"n{number}", "run-a", "provision", 60)
        for stage in Stage:
            ledger.finish_stage(ledger.begin_stage(lease, "run-a", stage, "k", {}), record(stage))
            ledger.check(lease)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))
    assert 64 * 7 == sum(len(ledger.history(f"CH{number}")) for number in range(64))


@pytest.mark.benchmark
def test_what_a_begin_and_finish_pair_costs(ledger: Ledger) -> None:
    """About a millisecond: printed, not asserted."""
    lease = ledger.take_lease("CH1", "n", "run-a", "provision", 3600)
    started = time.perf_counter()
    for _ in range(200):
        ledger.finish_stage(ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k", {}), record())
    print(f"begin + finish: {(time.perf_counter() - started) / 200 * 1000:.2f} ms")
