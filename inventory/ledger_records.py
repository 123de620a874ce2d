"""What was begun on each node and what came of it: runs, stage records with their steps, and figures for cohorts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert, select, update

from inventory.errors import LeaseLost
from inventory.findings import Outcome
from inventory.ledger_leases import Lease, Leases
from inventory.ledger_schema import METRICS, RUNS, STAGES, STEPS
from inventory.report import Stage, StageRecord


class Run(NamedTuple):
    """One run of the line; `finished_at` is None while it runs, and for ever when it was killed."""

    run_id: str
    purpose: str
    rack: str
    parameters: dict[str, Any]
    begun_at: datetime
    finished_at: datetime | None
    outcome: str | None


class Step(NamedTuple):
    """What a stage was about to do, noted before it did."""

    step: str
    detail: dict[str, Any]
    at: datetime


class Unfinished(NamedTuple):
    """A stage that was begun and whose end nobody noted: killed, or still running."""

    record_id: int
    stage: Stage
    run_id: str
    steps: tuple[Step, ...]


class Kept(NamedTuple):
    """One stage of one run on one node as the ledger has it; `record` is None when its end was never noted."""

    record_id: int
    run_id: str
    stage: Stage
    key: str
    begun_at: datetime
    finished_at: datetime | None
    record: StageRecord | None


class Metric(NamedTuple):
    """One figure of one part in one run."""

    node_key: str
    subject_serial: str
    metric: str
    value: float
    run_id: str
    at: datetime


class Records(Leases):
    """The records' part of the ledger."""

    def begin_run(self, run_id: str, purpose: str, rack: str, parameters: dict[str, Any]) -> None:
        """Note a run before it does anything; the same id again begins it anew."""
        with self._writing() as connection:
            row = {"run_id": run_id, "purpose": purpose, "rack": rack, "parameters": parameters}
            fresh = {"begun_at": self._now(connection), "finished_at": None, "outcome": None, "report": None}
            self._put(connection, RUNS, ("run_id",), {**row, **fresh})

    def finish_run(self, run_id: str, outcome: str, report_json: str) -> None:
        """Note how a run ended, with its report."""
        with self._writing() as connection:
            ended = {"finished_at": self._now(connection), "outcome": outcome, "report": report_json}
            connection.execute(update(RUNS).where(RUNS.c.run_id == run_id).values(ended))

    def runs(self, limit: int = 20) -> tuple[Run, ...]:
        """The newest runs first."""
        columns = [RUNS.c[name] for name in Run._fields]
        with self._reading() as connection:
            rows = connection.execute(select(*columns).order_by(RUNS.c.begun_at.desc()).limit(limit)).all()
        return tuple(Run(*row) for row in rows)

    def run_report(self, run_id: str) -> str | None:
        """A run's report as JSON; None when there is no such run, or it has not ended."""
        with self._reading() as connection:
            return connection.execute(select(RUNS.c.report).where(RUNS.c.run_id == run_id)).scalar()

    def begin_stage(self, lease: Lease, run_id: str, stage: Stage, key: str, inputs: dict[str, str]) -> int:
        """Note the intent before acting; raises `LeaseLost` when the node is no longer ours."""
        with self._writing() as connection:
            self._check_fence(connection, lease.node_key, lease.fence)
            row = {"node_key": lease.node_key, "run_id": run_id, "stage": stage.value, "key": key, "inputs": inputs}
            begun = {"fence": lease.fence, "begun_at": self._now(connection)}
            done = connection.execute(insert(STAGES).values({**row, **begun}).returning(STAGES.c.id))
            return int(done.scalar_one())

    def note_step(self, record_id: int, step: str, detail: dict[str, Any]) -> None:
        """Note one step of a stage before it is done; raises `LeaseLost` when the node is no longer ours."""
        with self._writing() as connection:
            self._check_owner(connection, record_id)
            row = {"record_id": record_id, "step": step, "detail": detail, "at": self._now(connection)}
            connection.execute(insert(STEPS).values(row))

    def steps(self, record_id: int) -> tuple[Step, ...]:
        """The steps of a stage, oldest first."""
        with self._reading() as connection:
            return _steps(connection, record_id)

    def finish_stage(self, record_id: int, record: StageRecord) -> None:
        """Note what a stage came to; raises `LeaseLost` when another run has taken the node over meanwhile."""
        with self._writing() as connection:
            self._check_owner(connection, record_id)
            ended = {"finished_at": self._now(connection), "passed": record.passed, "record": record.model_dump_json()}
            connection.execute(update(STAGES).where(STAGES.c.id == record_id).values(ended))

    def put_stages(self, run_id: str, records: Sequence[tuple[Lease, StageRecord]]) -> None:
        """Note whole records of several nodes, all or none, so that a kill leaves no node told and its partner not.

        One of a node that another run has taken over meanwhile is left out.
        """
        with self._writing() as connection:
            moment = self._now(connection)
            for lease, record in records:
                with suppress(LeaseLost):
                    self._check_fence(connection, lease.node_key, lease.fence)
                    row = {"node_key": lease.node_key, "run_id": run_id, "stage": record.stage.value}
                    made = {"key": record.key, "inputs": record.inputs, "fence": lease.fence, "passed": record.passed}
                    when = {"begun_at": moment, "finished_at": moment, "record": record.model_dump_json()}
                    connection.execute(insert(STAGES).values({**row, **made, **when}))

    def last_passing(self, node_key: str, stage: Stage) -> StageRecord | None:
        """The record a stage may reuse, with `reused_from` naming the run that earned it.

        None when the newest one did not pass, or when a later try acted on the node and its end was never noted:
        an older pass says nothing about what stands there now.
        """
        of_stage = select(STAGES).where(STAGES.c.node_key == node_key, STAGES.c.stage == stage.value)
        with self._reading() as connection:
            for row in connection.execute(of_stage.order_by(STAGES.c.id.desc())):
                if row.record is not None:
                    return _reusable(row) if row.passed else None
                if _steps(connection, row.id):
                    return None
        return None

    def unfinished(self, node_key: str) -> tuple[Unfinished, ...]:
        """Stages begun on a node after its last finished one of the same name, oldest first."""
        of_node = select(STAGES).where(STAGES.c.node_key == node_key).order_by(STAGES.c.id)
        open_: dict[int, Row[Any]] = {}
        with self._reading() as connection:
            for row in connection.execute(of_node):
                open_[row.id] = row
                if row.record is not None:
                    open_ = {i: r for i, r in open_.items() if r.stage != row.stage}
            return tuple(Unfinished(i, Stage(r.stage), r.run_id, _steps(connection, i)) for i, r in open_.items())

    def cut_off(self, node_key: str, stage: Stage) -> tuple[Step, ...]:
        """What tries at a stage that were killed or stopped had noted, each before it did it, since its last real end.

        A try that failed is a real end: what it did is not gone on with.
        """
        of_stage = select(STAGES).where(STAGES.c.node_key == node_key, STAGES.c.stage == stage.value)
        found: list[Step] = []
        with self._reading() as connection:
            for row in connection.execute(of_stage.order_by(STAGES.c.id.desc())):
                if row.record and (row.passed or _reusable(row).outcome is not Outcome.NOT_RUN):
                    break
                found[:0] = _steps(connection, row.id)
        return tuple(found)

    def history(self, node_key: str) -> tuple[Kept, ...]:
        """All that was ever begun on a node, oldest first."""
        with self._reading() as connection:
            rows = connection.execute(select(STAGES).where(STAGES.c.node_key == node_key).order_by(STAGES.c.id)).all()
        return tuple(_kept(row) for row in rows)

    def put_metric(self, node_key: str, subject_serial: str, metric: str, value: float, run_id: str) -> None:
        """Remember one figure of one part, to compare it with its cohort and its own past."""
        with self._writing() as connection:
            row = Metric(node_key, subject_serial, metric, value, run_id, self._now(connection))
            connection.execute(insert(METRICS).values(row._asdict()))

    def metrics(self, metric: str, *, node_key: str = "", run_id: str = "") -> tuple[Metric, ...]:
        """All figures of one name, oldest first; of one node or one run when asked."""
        chosen = select(METRICS).where(METRICS.c.metric == metric).order_by(METRICS.c.id)
        if node_key:
            chosen = chosen.where(METRICS.c.node_key == node_key)
        if run_id:
            chosen = chosen.where(METRICS.c.run_id == run_id)
        with self._reading() as connection:
            rows = connection.execute(chosen).all()
        return tuple(Metric(*row[1:]) for row in rows)

    def _check_owner(self, connection: Connection, record_id: int) -> None:
        row = connection.execute(select(STAGES.c.node_key, STAGES.c.fence).where(STAGES.c.id == record_id)).first()
        if row is None:
            raise LeaseLost("node", f"the ledger has no stage record {record_id}", do="Was the ledger replaced?")
        self._check_fence(connection, row.node_key, row.fence)


def _steps(connection: Connection, record_id: int) -> tuple[Step, ...]:
    rows = connection.execute(select(STEPS).where(STEPS.c.record_id == record_id).order_by(STEPS.c.id)).all()
    return tuple(Step(row.step, row.detail, row.at) for row in rows)


def _reusable(row: Row[Any]) -> StageRecord:
    record = StageRecord.model_validate_json(row.record)
    return record.model_copy(update={"reused_from": record.reused_from or row.run_id})


def _kept(row: Row[Any]) -> Kept:
    record = StageRecord.model_validate_json(row.record) if row.record else None
    return Kept(row.id, row.run_id, Stage(row.stage), row.key, row.begun_at, row.finished_at, record)
