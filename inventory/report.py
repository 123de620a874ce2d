"""What happened to one node and one rack. Reports grow by replacement, never by mutation."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from inventory.findings import Finding, Outcome, Verdict, good, root_cause, worst
from inventory.model import Frozen, Inventory, NodeRef, Software, now


class Stage(StrEnum):
    """The seven stages, in the order of the line."""

    DISCOVER = "discover"
    INSPECT = "inspect"
    IMAGE = "image"
    TUNE = "tune"
    BURN_IN = "burn_in"
    RECORD = "record"
    JOIN = "join"


class StageRecord(Frozen):
    """What one stage came to on one node: observed, planned, done, proven."""

    stage: Stage
    findings: tuple[Finding, ...] = ()
    started_at: datetime = Field(default_factory=now)
    ended_at: datetime = Field(default_factory=now)
    attempt: int = 1
    posts: int = 0  # power-on self tests this stage cost
    did: tuple[str, ...] = ()  # what was changed, one sentence each; empty = "already so"
    key: str = ""  # digest of what the result depends on
    inputs: dict[str, str] = Field(default_factory=dict)  # name → digest or value of each input, to say what changed
    run_id: str = ""  # the run that produced it
    reused_from: str = ""  # run id the result was taken from
    reason: str = ""  # why it ran or was reused: "first run", "gpu serials changed", …
    inventory: Inventory | None = None  # as known after this stage, when the stage learnt about parts
    software: Software | None = None
    address: str = ""  # where SSH answers, once known
    details: dict[str, Any] = Field(default_factory=dict)  # JSON-able extras for the report, such as curves

    @property
    def outcome(self) -> Outcome:
        """The worst of its findings; a stage without findings looked at nothing."""
        return worst(finding.outcome for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether the line may go on."""
        return good(self.findings)


class NodeReport(Frozen):
    """Everything learnt about one node in one run."""

    node: NodeRef
    run_id: str
    required: tuple[Stage, ...] = tuple(Stage)
    records: tuple[StageRecord, ...] = ()
    certificate_id: str = ""
    note: str = ""  # why the node was not worked on: "held by run … since …"

    def plus(self, record: StageRecord) -> NodeReport:
        """A copy with one more stage record; a record of the same stage is replaced."""
        kept = tuple(r for r in self.records if r.stage is not record.stage)
        return self.model_copy(update={"records": (*kept, record)})

    def record(self, stage: Stage) -> StageRecord | None:
        """The record of one stage, if it was reached."""
        return next((r for r in self.records if r.stage is stage), None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the line."""
        return tuple(f for r in self.records for f in r.findings)

    @property
    def inventory(self) -> Inventory:
        """The parts as last read."""
        return next((r.inventory for r in reversed(self.records) if r.inventory), Inventory())

    @property
    def software(self) -> Software:
        """The software as last read."""
        return next((r.software for r in reversed(self.records) if r.software), Software())

    @property
    def address(self) -> str:
        """Where SSH answers, as the image phoned home or as the book says."""
        return next((r.address for r in reversed(self.records) if r.address), self.node.address)

    @property
    def posts(self) -> int:
        """Power-on self tests this run cost."""
        return sum(r.posts for r in self.records)

    @property
    def verdict(self) -> Verdict:
        """Accepted only when every required stage is there and passed."""
        return verdict_of(self.records, self.required)

    @property
    def passed_last(self) -> bool:
        """Whether the stage that came last lets the line go on."""
        return bool(self.records) and self.records[-1].passed

    @property
    def cause(self) -> str:
        """The first line an operator reads when the node was not accepted."""
        root = root_cause(self.findings)
        if root:
            return root.sentence
        if self.note:
            return self.note
        done = {r.stage for r in self.records if r.passed}
        lacking = [s.value for s in self.required if s not in done]
        return f"not run: {', '.join(lacking)}" if lacking else ""


def verdict_of(records: tuple[StageRecord, ...], required: tuple[Stage, ...]) -> Verdict:
    """A failure rejects; anything short of all required stages passed is undecided."""
    outcomes = {f.outcome for r in records for f in r.findings}
    if Outcome.FAIL in outcomes:
        return Verdict.REJECTED
    passed = {r.stage for r in records if r.passed}
    if outcomes & {Outcome.ERROR, Outcome.NOT_RUN} or not set(required) <= passed:
        return Verdict.UNDECIDED
    return Verdict.ACCEPTED


class RackReport(Frozen):
    """One run over one rack."""

    rack: str
    run_id: str
    purpose: str  # provision | revalidate
    started_at: datetime
    ended_at: datetime
    nodes: tuple[NodeReport, ...] = ()
    rack_findings: tuple[Finding, ...] = ()  # fabric tests over the nodes that passed alone
    notes: tuple[str, ...] = ()  # breaker, outbox, book unreachable …
    book_writes: int = 0  # requests that were meant to change something in NetBox

    def count(self, verdict: Verdict) -> int:
        """How many nodes came to this verdict."""
        return sum(n.verdict is verdict for n in self.nodes)

    @property
    def posts(self) -> int:
        """Power-on self tests of all nodes."""
        return sum(n.posts for n in self.nodes)
