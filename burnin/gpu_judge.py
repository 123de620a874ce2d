"""What nvbandwidth's and gpu-burn's answers mean for each GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burnin.gpu import GpuBurn
from burnin.limits import LimitsPack
from burnin.results import TestResult
from inventory.command import Answer
from inventory.findings import Evidence, Finding, Outcome, Reading

Named = Callable[[int], str]
_GPUS = "GPUs of this node"


def judge_copies(
    answer: Answer[dict[str, tuple[float | None, ...]]], pack: LimitsPack, count: int, name: Named
) -> TestResult:
    """Each GPU's copies against the limit and against its siblings."""
    result = TestResult(test="nvbandwidth")
    for metric, figures in answer.value.items():
        readings = _readings(metric, "GB/s", figures, name, answer.evidence)
        result = result.merged(TestResult(test="nvbandwidth", readings=readings, findings=_judged(readings, pack)))
        result = result.plus(_all_there("nvbandwidth", metric, len(figures), count, answer.evidence))
        result = result.with_cohort(metric, unit="GB/s", of=_GPUS)
    return result


def judge_gemm(answer: Answer[tuple[GpuBurn, ...]], pack: LimitsPack, count: int, name: Named) -> TestResult:
    """Correctness first, then speed and temperature; work that was not done passes nothing."""
    burns, evidence = answer.value, answer.evidence
    speeds = _readings("gemm_tflops", "TFLOP/s", [burn.gemm_tflops for burn in burns], name, evidence)
    heat = _readings("gpu_temperature_c", "C", [burn.temperature_c for burn in burns], name, evidence)
    findings = (
        *_all_there("gemm", "gemm_tflops", len(burns), count, evidence),
        *(_correct(burn, name(burn.index), evidence) for burn in burns),
        *_judged(speeds, pack),
        *_judged(heat, pack),
    )
    result = TestResult(test="gemm", findings=findings, readings=speeds + heat, details={"tool": "gpu-burn -tc"})
    return result.with_cohort("gemm_tflops", unit="TFLOP/s", of=_GPUS)


def _readings(
    metric: str, unit: str, figures: Sequence[float | None], name: Named, evidence: Evidence
) -> tuple[Reading, ...]:
    return tuple(
        Reading(metric=metric, subject=name(index), value=figure, unit=unit, evidence=evidence)
        for index, figure in enumerate(figures)
    )


def _judged(readings: tuple[Reading, ...], pack: LimitsPack) -> tuple[Finding, ...]:
    return tuple(pack.judge(reading, cause=_cause(reading, pack)) for reading in readings)


def _cause(reading: Reading, pack: LimitsPack) -> str:
    threshold = pack.threshold(reading.metric)
    expected = threshold.expected if threshold else "a limit"
    seen = "gave no figure" if reading.value is None else f"is at {reading.value:g} {reading.unit}"
    return f"{reading.subject} {seen} in {reading.metric}, expected {expected}"


def _all_there(test: str, metric: str, seen: int, count: int, evidence: Evidence) -> tuple[Finding, ...]:
    """Fewer GPUs than the class has is a failure of the node, not a smaller test."""
    whole = seen == count
    return (
        Finding(
            metric=f"{test}_completeness",
            subject=metric,
            outcome=Outcome.PASS if whole else Outcome.FAIL,
            observed=f"{seen} GPUs",
            expected=f"{count} GPUs",
            cause="" if whole else f"{test} saw {seen} of {count} GPUs",
            remedy="" if whole else "Count the GPUs in lspci and nvidia-smi; read the kernel log for the lost one.",
            source="the node class",
            evidence=evidence,
        ),
    )


def _correct(burn: GpuBurn, subject: str, evidence: Evidence) -> Finding:
    outcome, seen = _correctness(burn)
    return Finding(
        metric="gemm_errors",
        subject=subject,
        outcome=outcome,
        observed=seen,
        expected="work done, 0 errors, OK",
        cause="" if outcome is Outcome.PASS else f"{subject}: gpu-burn {seen}",
        remedy="" if outcome is Outcome.PASS else "Wrong results: replace the GPU. No work: run gpu_burn by hand.",
        source="gpu-burn compares each product bit by bit with the first",
        evidence=evidence,
        value=burn.errors,
    )


def _correctness(burn: GpuBurn) -> tuple[Outcome, str]:
    if burn.died:
        return Outcome.FAIL, "died while working"
    if burn.errors or burn.status == "FAULTY":
        return Outcome.FAIL, f"found {burn.errors} wrong results"
    if burn.processed <= 0 or burn.gemm_tflops is None:
        return Outcome.ERROR, "did no work, whatever it says at the end"
    if burn.status != "OK":
        return Outcome.ERROR, "did not reach its closing lines"
    return Outcome.PASS, f"did {burn.processed} products, 0 errors"
