"""One among its siblings: found when it is slower, left alone when it is only noisy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnin.cohort import outliers, standings
from inventory.findings import Outcome


def _gpus(*values: float | None) -> dict[str, float | None]:
    return {f"GPU {index}": value for index, value in enumerate(values)}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((740, 741, 739, 742, 740, 738, 741, 696), ["GPU 7"]),  # 6 % behind
        ((740, 741, 739, 742, 740, 738, 741, 720), []),  # 2.7 %: within four noise floors
        ((740, 741, 739, 742, 740, 738, 741, 790), []),  # a lucky one harms nobody
        ((600, 600, 600, 600, 600, 600, 600, 600), []),  # all slow: the limit's business
        ((740, 741, 500, 742, 740, 510, 741, 739), ["GPU 2", "GPU 5"]),
        ((740, 700, 760, 720, 780, 690, 750, 690), []),  # wide spread: nobody stands out
    ],
)
def test_who_stands_out(values: tuple[float, ...], named: list[str]) -> None:
    """Median and MAD of the others, with a noise floor of 1 %."""
    found = outliers("gemm_tflops", _gpus(*values), unit="TFLOP/s", of="GPUs of this node")
    assert named == [f.subject for f in found if f.outcome is Outcome.FAIL]


def test_the_failing_finding_says_how_much() -> None:
    """Its own figure, the others' median, and by how much it is worse."""
    (finding,) = outliers("gemm_tflops", _gpus(*[740.0] * 7, 666.0), unit="TFLOP/s", of="GPUs of this node")
    wanted = "GPU 7: gemm_tflops is 666 TFLOP/s, 10.0% worse than the other GPUs of this node"
    assert wanted == finding.cause


def test_more_is_worse_where_said() -> None:
    """The hottest stands out when high is bad."""
    values = _gpus(60, 61, 60, 62, 61, 60, 61, 80)
    (finding,) = outliers("gpu_temperature_c", values, unit="C", of="GPUs of this node", worse="high")
    assert ("GPU 7", Outcome.FAIL) == (finding.subject, finding.outcome)


def test_a_missing_figure_is_an_error() -> None:
    """A part that gave no figure is not left out of the comparison."""
    found = outliers("h2d_gb_s", _gpus(55, 55, 55, 55, 55, 55, 55, None), unit="GB/s", of="GPUs of this node")
    assert [("GPU 7", Outcome.ERROR)] == [(f.subject, f.outcome) for f in found]


def test_three_are_too_few_to_compare() -> None:
    """A median of two others proves nothing, and that is said."""
    (finding,) = outliers("h2d_gb_s", _gpus(55, 54, 20), unit="GB/s", of="GPUs of this node")
    assert Outcome.NOT_APPLICABLE is finding.outcome


@given(st.lists(st.floats(99.0, 101.0), min_size=4, max_size=72))
def test_one_percent_of_noise_never_fails_anybody(values: list[float]) -> None:
    """Whatever the draw, healthy spread is no outlier."""
    assert not any(standing.fails for standing in standings(_gpus(*values)))  # type: ignore[arg-type]


@given(st.lists(st.floats(99.0, 101.0), min_size=7, max_size=71), st.floats(10.0, 90.0))
def test_one_sick_part_is_always_found_and_alone(values: list[float], sick: float) -> None:
    """Ten percent behind healthy siblings never hides, and never makes a sibling look bad."""
    found = standings({**{f"n{index}": value for index, value in enumerate(values)}, "sick": sick})
    assert ["sick"] == [standing.subject for standing in found if standing.fails]
