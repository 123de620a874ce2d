"""What was read and what follows: reading, threshold, finding, the five outcomes and the derived verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field, model_validator

from inventory.model import Evidence, Frozen

__all__ = [
    "Evidence",
    "Finding",
    "Outcome",
    "Reading",
    "Threshold",
    "Value",
    "Verdict",
    "good",
    "root_cause",
    "worst",
]

Value = float | int | bool | str | None


class Outcome(StrEnum):
    """Five words, five meanings. Only `pass` is a pass."""

    PASS = "pass"  # noqa: S105 (a word, not a password)
    FAIL = "fail"
    ERROR = "error"  # could not be measured
    NOT_RUN = "not_run"
    NOT_APPLICABLE = "not_applicable"


# The worse one wins when outcomes are folded into one. Our choice: a proven fault outranks an open question.
_WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.PASS, Outcome.NOT_APPLICABLE)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome that decides; `not_run` when there is none, since nothing looked at is nothing passed."""
    return min(outcomes, key=_WORST_FIRST.index, default=Outcome.NOT_RUN)


class Verdict(StrEnum):
    """What becomes of a node. Always derived, never stored beside what it is derived from."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


class Reading(Frozen):
    """One number or version with unit, subject and evidence. `None` = asked and not answered."""

    metric: str  # unit in the name: "nccl_all_reduce_busbw_gb_s"
    subject: str  # "GPU_SXM_3", "mlx5_0/1", "node"
    value: Value
    unit: str = ""
    evidence: Evidence | None = None


class Finding(Frozen):
    """A reading held against its threshold: what was seen, what was expected, what to do."""

    metric: str
    subject: str
    outcome: Outcome
    observed: str
    expected: str
    remedy: str = ""
    source: str = ""  # where the limit comes from
    cause: str = ""  # one sentence an operator reads first, "GPU_SXM_3 is missing"
    explained_by: str = ""  # "metric/subject" of the root finding this one follows from
    evidence: Evidence | None = None
    value: Value = None
    unit: str = ""

    @property
    def key(self) -> str:
        """How other findings refer to this one."""
        return f"{self.metric}/{self.subject}"

    @property
    def sentence(self) -> str:
        """The finding in one line."""
        return self.cause or f"{self.subject}: {self.metric} is {self.observed}, expected {self.expected}"


class Threshold(Frozen):
    """One limit for one metric on one class. Refused at load if it limits nothing or has no source."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] = ()
    equals: Value = None
    remedy: str = Field(min_length=5)
    source: str = Field(min_length=10)
    unit: str = ""

    @model_validator(mode="after")
    def _limits_something(self) -> Threshold:
        if self.at_least is None and self.at_most is None and not self.one_of and self.equals is None:
            raise ValueError(f"threshold {self.metric} limits nothing and would always pass")
        return self

    @property
    def expected(self) -> str:
        """The limit in words."""
        parts = []
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        if self.one_of:
            parts.append("one of " + ", ".join(self.one_of))
        if self.equals is not None:
            parts.append(_said(self.equals))
        return " and ".join(parts) + (f" {self.unit}" if self.unit else "")

    def judge(self, reading: Reading, *, cause: str = "") -> Finding:
        """Hold one reading against this limit. No answer is an error, never a pass."""
        outcome = self._outcome(reading.value)
        return Finding(
            metric=reading.metric,
            subject=reading.subject,
            outcome=outcome,
            observed="no answer" if reading.value is None else _said(reading.value),
            expected=self.expected,
            remedy="" if outcome is Outcome.PASS else self.remedy,
            source=self.source,
            cause="" if outcome is Outcome.PASS else cause,
            evidence=reading.evidence,
            value=reading.value,
            unit=reading.unit or self.unit,
        )

    def _outcome(self, value: Value) -> Outcome:
        if value is None:
            return Outcome.ERROR
        if self.one_of:
            return Outcome.PASS if str(value) in self.one_of else Outcome.FAIL
        if self.equals is not None:
            return Outcome.PASS if value == self.equals else Outcome.FAIL
        if isinstance(value, str) or math.isnan(value):  # a word or a NaN where a number belongs
            return Outcome.ERROR
        low = self.at_least is None or value >= self.at_least
        high = self.at_most is None or value <= self.at_most
        return Outcome.PASS if low and high else Outcome.FAIL


def _said(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def good(findings: Iterable[Finding]) -> bool:
    """Whether one may go on: something was looked at, and all of it passes or does not apply."""
    return worst(finding.outcome for finding in findings) in (Outcome.PASS, Outcome.NOT_APPLICABLE)


def root_cause(findings: Iterable[Finding]) -> Finding | None:
    """The finding to show first: a root failure, else a root error, else what was not run, else none."""
    bad = [f for f in findings if f.outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN) and not f.explained_by]
    return min(bad, key=lambda f: _WORST_FIRST.index(f.outcome), default=None)
