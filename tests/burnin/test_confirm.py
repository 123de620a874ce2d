"""Two runs together: a failure is never repeated into a pass, and what follows from what is said once."""

from __future__ import annotations

import pytest

from burnin.confirm import confirmed, worth_a_retest
from burnin.limits import LimitsPack
from burnin.results import TestResult, explained
from inventory.findings import Finding, Outcome

_F, _P, _E = Outcome.FAIL, Outcome.PASS, Outcome.ERROR


def _finding(metric: str, outcome: Outcome, subject: str = "node", observed: str = "1") -> Finding:
    return Finding(metric=metric, subject=subject, outcome=outcome, observed=observed, expected="x")


def _result(*findings: Finding) -> TestResult:
    return TestResult(test="gemm", findings=findings)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(_F, _F, _F), (_F, _P, _E), (_F, _E, _F), (_P, _F, _F), (_P, _P, _P), (_P, _E, _E)],
)
def test_what_two_runs_come_to(first: Outcome, second: Outcome, both: Outcome) -> None:
    """Failed twice fails; failed once is not repeatable, which is no pass."""
    one, two = (_finding("gemm_tflops", outcome) for outcome in (first, second))
    (finding,) = confirmed(_result(one), _result(two)).findings
    assert both is finding.outcome


def test_both_figures_are_told() -> None:
    """The report shows what the first run gave and what the second."""
    one = _finding("gemm_tflops", _F, observed="640")
    two = _finding("gemm_tflops", _P, observed="741")
    result = confirmed(_result(one), _result(two))
    assert "640, then 741 on the re-test" == result.findings[0].observed
    assert "not repeatable" in result.findings[0].cause
    assert ["fail", "pass"] == [run["findings"][0]["outcome"] for run in result.details["runs"]]


def test_an_outlier_that_is_gone_is_not_repeatable() -> None:
    """A cohort finding has no passing twin of its own name."""
    one = _finding("gemm_tflops_cohort", _F, "GPU 3")
    two = _finding("gemm_tflops_cohort", _P, "GPUs of this node")
    outcomes = {f.subject: f.outcome for f in confirmed(_result(one), _result(two)).findings}
    assert {"GPU 3": _E, "GPUs of this node": _P} == outcomes


@pytest.mark.parametrize(
    ("findings", "again"),
    [
        ((("gemm_tflops", _F), ("gemm_throttle", _P)), True),
        ((("gemm_tflops", _F), ("gemm_tflops_cohort", _F)), True),
        ((("gemm_tflops", _F), ("gemm_throttle", _F)), False),  # the cause is known
        ((("gemm_errors", _F),), False),  # wrong results are never noise
        ((("gemm_tflops", _E),), False),  # no figure: nothing to confirm
        ((("gemm_tflops", _P),), False),
    ],
)
def test_only_a_low_figure_by_itself_is_run_again(
    pack: LimitsPack, findings: tuple[tuple[str, Outcome], ...], again: bool
) -> None:
    """Noise can lower a figure; it does nothing else."""
    assert again is worth_a_retest(_result(*(_finding(metric, outcome) for metric, outcome in findings)), pack)


def test_a_lame_adapter_explains_only_what_went_through_it() -> None:
    """The loopback follows from the adapter; the collective over NVLink has its own cause."""
    found = explained(
        (
            _finding("ib_write_bw_gbit_s", _F, "mlx5_4"),
            _finding("nccl_loopback_net_busbw_gb_s", _F),
            _finding("nccl_all_reduce_busbw_gb_s", _F, "other"),
        )
    )
    assert ["", "ib_write_bw_gbit_s/mlx5_4", ""] == [finding.explained_by for finding in found]


def test_wrong_values_are_never_explained_away() -> None:
    """Slow and wrong are two causes."""
    found = explained((_finding("nccl_all_reduce_transport", _F), _finding("nccl_all_reduce_wrong_values", _F)))
    assert ["", ""] == [finding.explained_by for finding in found]
