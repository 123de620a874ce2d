"""One stage on one node: reuse what is proven, else run it, with the ledger before and after.

This is the one place where trouble at a door becomes an `error` finding.
"""

from __future__ import annotations

import hashlib
import json
from typing import Protocol

from flows.certify import outdated
from flows.site import NodeSite
from inventory.errors import BadSettings, BookUnreachable, Cancelled, LeaseLost, NodeTrouble
from inventory.findings import Finding, Outcome
from inventory.model import now
from inventory.redact import REDACTOR
from inventory.report import NodeReport, Stage, StageRecord


class StageModule(Protocol):
    """What each module in `flows/stages` offers."""

    STAGE: Stage

    def inputs(self, report: NodeReport, site: NodeSite) -> dict[str, str]:
        """What the result depends on, by name; empty = always looked at afresh."""
        ...

    def run(self, report: NodeReport, site: NodeSite) -> StageRecord:
        """Observe, plan, act on the difference, prove by reading back."""
        ...


def digest(value: object) -> str:
    """A short, stable digest of anything JSON can say."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def choose(stage: StageModule, report: NodeReport, site: NodeSite) -> tuple[StageRecord | None, dict[str, str], str]:
    """Whether a proven result may be reused: (that record or None, the inputs, the reason in words)."""
    inputs = stage.inputs(report, site)
    if not inputs:
        return None, inputs, "always looked at afresh"
    previous = site.site.ledger.last_passing(site.node.key, stage.STAGE)
    if previous is None:
        return None, inputs, "never passed on this node"
    if previous.key != digest(inputs):
        return None, inputs, "changed: " + ", ".join(_changed(previous.inputs, inputs))
    why = outdated(previous, site.node, site.site)
    return None if why else previous, inputs, why or "unchanged: " + ", ".join(sorted(inputs))


def run_stage(stage: StageModule, report: NodeReport, site: NodeSite, *, fresh: bool = False) -> StageRecord:
    """Run one stage, or reuse its proven result unless everything is to be proven afresh.

    Raises `Cancelled` and `LeaseLost`, after the ledger has been told; all other trouble is in the record.
    """
    previous, inputs, reason = choose(stage, report, site)
    if fresh:
        reason = "proven afresh"
    elif previous is not None:
        # What was observed afresh in this run stands; a reused record must not hide it behind an old inventory.
        return previous.model_copy(
            update={
                "reused_from": previous.reused_from or previous.run_id,
                "reason": reason,
                "posts": 0,
                "inventory": None,
            }
        )
    started = now()
    ledger = site.site.ledger
    record_id = ledger.begin_stage(site.lease, site.run_id, stage.STAGE, digest(inputs) if inputs else "", inputs)
    own = NodeSite(**{**vars(site), "record_id": record_id})
    try:
        record = stage.run(report, own)
    except (Cancelled, LeaseLost) as error:
        ledger.finish_stage(record_id, _ended(stage.STAGE, error, Outcome.NOT_RUN))
        raise
    except (NodeTrouble, BookUnreachable, BadSettings) as error:
        record = _ended(stage.STAGE, error, Outcome.ERROR)
        record = record.model_copy(update={"posts": _posts(own)})
    if record.passed:
        inputs = stage.inputs(report.plus(record), own)  # as they stand now that the stage has acted
    record = without_secrets(record).model_copy(
        update={
            "started_at": started,
            "ended_at": now(),
            "key": digest(inputs) if inputs else "",
            "inputs": inputs,
            "reason": reason,
            "run_id": site.run_id,
            "attempt": site.lease.attempt,
        }
    )
    ledger.finish_stage(record_id, record)
    return record


def without_secrets(record: StageRecord) -> StageRecord:
    """What machines and libraries said may carry a token, as part of a URL for one; none is kept or shown."""
    said = record.model_dump_json()
    clean = REDACTOR.clean_json(said)
    return record if clean == said else StageRecord.model_validate_json(clean)


# Steps a stage notes before it lets the node POST.
_POSTING = frozenset({"power_on", "boot_disk", "restart"})


def _posts(site: NodeSite) -> int:
    """POSTs a stage had begun when it broke off, as it noted them."""
    return sum(step.step in _POSTING for step in site.site.ledger.steps(site.record_id))


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _ended(stage: Stage, error: Exception, outcome: Outcome) -> StageRecord:
    finding = Finding(
        metric=f"{stage.value}_completed",
        subject="node",
        outcome=outcome,
        observed=type(error).__name__,
        expected="the stage runs to its end",
        remedy=getattr(error, "do", "") or "Look at the evidence, mend the cause and run the same command again.",
        source="the stage itself",
        cause=str(error),
    )
    return StageRecord(stage=stage, findings=(finding,))
