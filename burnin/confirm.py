"""One confirming re-test at most, and what two runs say together. A failure is never repeated into a pass."""

from __future__ import annotations

from burnin.limits import LimitsPack
from burnin.results import TestResult
from inventory.findings import Finding, Outcome, worst


def worth_a_retest(result: TestResult, pack: LimitsPack) -> bool:
    """Only when figures are too low and nothing else is wrong: noise can do that, and nothing else."""
    bad = [f for f in result.findings if f.outcome in (Outcome.FAIL, Outcome.ERROR)]
    return bool(bad) and all(f.outcome is Outcome.FAIL and _is_figure(f, pack) for f in bad)


def _is_figure(finding: Finding, pack: LimitsPack) -> bool:
    return finding.metric in pack.thresholds or finding.metric.endswith("_cohort")


def confirmed(first: TestResult, second: TestResult) -> TestResult:
    """Both runs in one result: failed twice = fail; failed once = not repeatable, which is an error and no pass."""
    again = {finding.key: finding for finding in second.findings}
    before = {finding.key: finding for finding in first.findings}
    both = tuple(_both(f, again.get(f.key)) for f in first.findings if f.key in again or f.outcome is Outcome.FAIL)
    new = tuple(finding for finding in second.findings if finding.key not in before)
    runs = [_kept(first), _kept(second)]
    return second.model_copy(update={"findings": both + new, "details": second.details | {"runs": runs}})


def _both(first: Finding, second: Finding | None) -> Finding:
    if second is None:  # only a cohort finding can be gone: the part no longer stands out
        return _once_only(first, "no longer so on the re-test")
    if first.outcome is second.outcome:
        return second.model_copy(update={"observed": _two(first, second)})
    if first.outcome is Outcome.FAIL and second.outcome is Outcome.PASS:
        return _once_only(first, f"{second.observed} on the re-test")
    return second if worst((first.outcome, second.outcome)) is second.outcome else first


def _two(first: Finding, second: Finding) -> str:
    return first.observed if first.observed == second.observed else f"{first.observed}, then {second.observed}"


def _once_only(first: Finding, then: str) -> Finding:
    return first.model_copy(
        update={
            "outcome": Outcome.ERROR,
            "observed": f"{first.observed}, then {then}",
            "cause": f"{first.sentence}; not repeatable: {then}",
        }
    )


def _kept(result: TestResult) -> dict[str, object]:
    return {
        "findings": [{"key": f.key, "outcome": f.outcome.value, "observed": f.observed} for f in result.findings],
        "evidence": sorted({f.evidence.sha256 for f in result.findings if f.evidence}),
    }
