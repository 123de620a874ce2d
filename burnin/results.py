"""What one burn-in test came to: findings, readings for the cohort, and details for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from burnin.cohort import outliers
from inventory.findings import Evidence, Finding, Outcome, Reading
from inventory.model import Frozen

_BAD = (Outcome.FAIL, Outcome.ERROR)


class TestResult(Frozen):
    """The outcome of one test on one node. Grows by replacement."""

    __test__: ClassVar[bool] = False  # a noun, nothing for pytest to collect

    test: str
    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)  # JSON-able: curves, transport, the runs before a re-test
    notes: tuple[str, ...] = ()
    took_s: float = 0.0

    @classmethod
    def of(
        cls,
        test: str,
        findings: tuple[Finding, ...],
        *,
        figures: Mapping[str, float | None],
        metric: str,
        unit: str,
        evidence: Evidence | None,
        details: Mapping[str, Any] | None = None,
    ) -> TestResult:
        """A result with one reading per subject."""
        readings = tuple(
            Reading(metric=metric, subject=subject, value=value, unit=unit, evidence=evidence)
            for subject, value in figures.items()
        )
        return cls(test=test, findings=findings, readings=readings, details=dict(details or {}))

    def plus(self, findings: tuple[Finding, ...]) -> TestResult:
        """A copy with more findings."""
        return self.model_copy(update={"findings": self.findings + findings})

    def merged(self, other: TestResult) -> TestResult:
        """A copy with another result's findings, readings and details."""
        return self.model_copy(
            update={
                "findings": self.findings + other.findings,
                "readings": self.readings + other.readings,
                "details": self.details | other.details,
            }
        )

    def noted(self, note: str) -> TestResult:
        """A copy with one more remark for the report."""
        return self.model_copy(update={"notes": (*self.notes, note)})

    def figures(self, metric: str) -> dict[str, float | None]:
        """Subject → figure of one metric."""
        return {
            reading.subject: reading.value if isinstance(reading.value, int | float) else None
            for reading in self.readings
            if reading.metric == metric
        }

    def with_cohort(self, metric: str, *, unit: str, of: str) -> TestResult:
        """A copy in which each part's figure was also held against its siblings'."""
        evidence = next((reading.evidence for reading in self.readings if reading.metric == metric), None)
        return self.plus(outliers(metric, self.figures(metric), unit=unit, of=of, evidence=evidence))


# A collective runs at the pace of its slowest part, so a sick part explains it. An adapter explains only what went
# through it.
_SICK_GPU = ("_throttle", "gemm_tflops", "gemm_errors", "hbm_gb_s", "h2d_gb_s", "d2h_gb_s", "gemm_tflops_cohort")
_SICK_ADAPTER = ("ib_write_bw_gbit_s", "ib_write_bw_gbit_s_cohort")


def explained(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Followers name their root; works on one test's findings and on all findings of a stage together.

    A throttling GPU explains its low figures, a low figure its place in the cohort, a sick part the slow collective.
    """
    found = _by_subject(findings)
    sick = [f for f in found if f.outcome is Outcome.FAIL and not f.explained_by and f.metric.endswith(_SICK_GPU)]
    lame = [f for f in found if f.outcome is Outcome.FAIL and not f.explained_by and f.metric in _SICK_ADAPTER]
    return tuple(_by_part(finding, sick, lame) for finding in found)


def _by_part(finding: Finding, sick: list[Finding], lame: list[Finding]) -> Finding:
    slow = finding.metric.endswith("_busbw_gb_s") and finding.outcome is Outcome.FAIL and not finding.explained_by
    parts = [*sick, *lame] if finding.metric.startswith("nccl_loopback_net") else sick
    return finding.model_copy(update={"explained_by": parts[0].key}) if slow and parts else finding


def _by_subject(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    roots: dict[str, Finding] = {}
    for finding in findings:
        if finding.outcome in _BAD and not finding.explained_by:
            best = roots.get(finding.subject)
            if best is None or _rank(finding) < _rank(best):
                roots[finding.subject] = finding
    return tuple(_explained(finding, roots.get(finding.subject)) for finding in findings)


def _rank(finding: Finding) -> int:
    order = ("_completeness", "_errors", "_transport", "_curve", "_throttle")
    place = next((i for i, ending in enumerate(order) if finding.metric.endswith(ending)), len(order))
    return len(order) + 1 if finding.metric.endswith("_cohort") else place


def _explained(finding: Finding, root: Finding | None) -> Finding:
    free = root is None or root.key == finding.key or finding.outcome not in _BAD or finding.explained_by
    # Wrong results are never a mere consequence of slowness.
    if free or root is None or finding.metric.endswith(("_wrong_values", "_errors")):
        return finding
    return finding.model_copy(update={"explained_by": root.key})
