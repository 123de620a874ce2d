"""What ib_write_bw's answer, or its silence, means for one adapter."""

from __future__ import annotations

from burnin.limits import LimitsPack
from burnin.perftest import WriteBandwidth
from burnin.results import TestResult
from inventory.command import Answer
from inventory.errors import NodeTrouble
from inventory.findings import Finding, Outcome, Reading

_METRIC = "ib_write_bw_gbit_s"


def judge_adapters_count(adapters: tuple[str, ...], wanted: int) -> tuple[Finding, ...]:
    """At least as many adapters as the class has for compute."""
    enough = len(adapters) >= wanted
    return (
        Finding(
            metric="ib_write_bw_completeness",
            subject="node",
            outcome=Outcome.PASS if enough else Outcome.FAIL,
            observed=f"{len(adapters)} RDMA adapters: {', '.join(adapters)}",
            expected=f"at least {wanted}",
            cause="" if enough else f"{len(adapters)} of {wanted} RDMA adapters are there",
            remedy="" if enough else "Compare lspci with ibstat: a missing device or a driver that did not bind.",
            source="the node class",
        ),
    )


def judge_adapter(adapter: str, seen: Answer[WriteBandwidth] | NodeTrouble, pack: LimitsPack) -> TestResult:
    """The figure against its limit; trouble is this adapter's own error."""
    if isinstance(seen, NodeTrouble):
        reading = Reading(metric=_METRIC, subject=adapter, value=None, unit="Gbit/s")
        finding = pack.judge(reading, cause=f"{adapter}: ib_write_bw gave no figure: {seen.said or seen.failed}")
        return TestResult(test="ib_write_bw", findings=(finding,), readings=(reading,))
    figure = seen.value.ib_write_bw_gbit_s
    reading = Reading(metric=_METRIC, subject=adapter, value=figure, unit="Gbit/s", evidence=seen.evidence)
    threshold = pack.threshold(_METRIC)
    expected = threshold.expected if threshold else "a limit"
    finding = pack.judge(reading, cause=f"{adapter} writes {figure:g} Gbit/s, expected {expected}")
    return TestResult(test="ib_write_bw", findings=(finding,), readings=(reading,))
