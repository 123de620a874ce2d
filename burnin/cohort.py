"""Compares like with like: each part against the others of its kind, by medians that one bad part cannot move.

Limits find what is slow by the book; this finds the one that is slower than its siblings. Eight equally slow GPUs
are no outliers here: that is what absolute limits are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Literal

from inventory.findings import Evidence, Finding, Outcome
from inventory.model import Frozen

_MAD_TO_SIGMA = 1.4826  # of a normal distribution; the usual constant of robust statistics
_NOISE_FLOOR = 0.01  # repeats of one healthy part differ by up to 1 %: a smaller spread is luck, no precision
_Z = 4.0  # one in 30,000 healthy parts; our choice
_WATCH = 0.02  # deficit from which an outlier is worth a remark
_FAIL = 0.05  # deficit that slows a synchronous job enough to send the part back; SuperBench's rule is 5 % too
_FEWEST = 4  # below this a median of the others says little; our choice


class Standing(Frozen):
    """One value against the others of its cohort."""

    subject: str
    value: float
    of_others: float  # median of all the others
    z: float  # negative = worse
    deficit: float  # share by which it is worse than the others

    @property
    def stands_out(self) -> bool:
        """Beyond noise and worth a remark."""
        return self.z < -_Z and self.deficit > _WATCH

    @property
    def fails(self) -> bool:
        """Beyond noise and too far from the others."""
        return self.stands_out and self.deficit > _FAIL


def standings(values: Mapping[str, float], *, worse: Literal["low", "high"] = "low") -> tuple[Standing, ...]:
    """Each value against the median and spread of all the others (leave one out)."""
    return tuple(_standing(subject, values, 1.0 if worse == "low" else -1.0) for subject in values)


def _standing(subject: str, values: Mapping[str, float], sign: float) -> Standing:
    value, others = values[subject], [other for name, other in values.items() if name != subject]
    middle = median(others)
    spread = max(_MAD_TO_SIGMA * median(abs(other - middle) for other in others), _NOISE_FLOOR * abs(middle), 1e-12)
    return Standing(
        subject=subject,
        value=value,
        of_others=middle,
        z=round(sign * (value - middle) / spread, 2),
        deficit=round(sign * (middle - value) / abs(middle), 4) if middle else 0.0,
    )


def outliers(
    metric: str,
    values: Mapping[str, float | None],
    *,
    unit: str,
    of: str,
    worse: Literal["low", "high"] = "low",
    evidence: Evidence | None = None,
) -> tuple[Finding, ...]:
    """One finding per part that fails its cohort or gave no figure, else one that all are alike.

    `of` says what the cohort is: "GPUs of this node", "nodes of rack R1".
    """
    figures = {subject: value for subject, value in values.items() if value is not None}
    silent = [_silent(metric, subject, of) for subject, value in values.items() if value is None]
    if len(figures) < _FEWEST:
        return (*silent, _too_few(metric, len(figures), of))
    all_of_them = standings(figures, worse=worse)
    failed = [_failed(metric, standing, unit, of, evidence) for standing in all_of_them if standing.fails]
    return (*silent, *failed) if silent or failed else (_alike(metric, all_of_them, unit, of, evidence),)


def _failed(metric: str, standing: Standing, unit: str, of: str, evidence: Evidence | None) -> Finding:
    said = f"{standing.value:g} {unit}, {standing.deficit:.1%} worse than"
    return Finding(
        metric=f"{metric}_cohort",
        subject=standing.subject,
        outcome=Outcome.FAIL,
        observed=f"{standing.value:g} {unit} (z {standing.z:g})",
        expected=f"within {_FAIL:.0%} of the median of the other {of}, {standing.of_others:g} {unit}",
        remedy="Compare its clocks, power, temperature and links with a sibling's; swap the two to see what moves.",
        source="median and MAD of the others, noise floor 1 %, z below -4 and more than 5 % worse",
        cause=f"{standing.subject}: {metric} is {said} the other {of}",
        evidence=evidence,
        value=standing.value,
        unit=unit,
    )


def _alike(metric: str, all_of_them: tuple[Standing, ...], unit: str, of: str, evidence: Evidence | None) -> Finding:
    last = max(all_of_them, key=lambda standing: standing.deficit)
    remark = f"; watch {last.subject}" if last.stands_out else ""
    return Finding(
        metric=f"{metric}_cohort",
        subject=of,
        outcome=Outcome.PASS,
        observed=f"{len(all_of_them)} alike, the last is {last.subject} with {last.value:g} {unit} "
        f"against {last.of_others:g}{remark}",
        expected=f"none more than {_FAIL:.0%} worse than the others",
        source="median and MAD of the others, noise floor 1 %, z below -4 and more than 5 % worse",
        evidence=evidence,
    )


def _silent(metric: str, subject: str, of: str) -> Finding:
    return Finding(
        metric=f"{metric}_cohort",
        subject=subject,
        outcome=Outcome.ERROR,
        observed="no answer",
        expected=f"a figure, as the other {of} give",
        cause=f"{subject}: {metric} gave no figure",
        remedy="Run the test by hand on this part.",
    )


def _too_few(metric: str, count: int, of: str) -> Finding:
    return Finding(
        metric=f"{metric}_cohort",
        subject=of,
        outcome=Outcome.NOT_APPLICABLE,
        observed=f"{count} figures",
        expected=f"at least {_FEWEST} to compare",
    )
