"""nvbandwidth, gpu-burn, ib_write_bw and the look under load: read right, or refused in the machine's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from burnin.gpu import parse_gpu_burn, parse_nvbandwidth
from burnin.gpu_judge import judge_gemm
from burnin.limits import LimitsPack
from burnin.load import Watch, judge_load, load_command, parse_load
from burnin.perftest import parse_adapters, parse_ib_write_bw
from inventory.command import Answer, output
from inventory.findings import Evidence, Outcome
from inventory.model import now

Read = Callable[[str], str]
_COPIES = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy")


def _answer(value: Any) -> Answer[Any]:
    evidence = Evidence(asked="x", of="n1", at=now(), took_s=1.0, status="exit 0", sha256="0" * 64)
    return Answer(value, evidence, output(("x",), ""))


def _nvbandwidth(**changes: Any) -> str:
    cases: list[dict[str, Any]] = [
        {"name": name, "status": "Passed", "bandwidth_matrix": [["54.9", "55.2", "N/A"]], "sum": 110.1}
        for name in _COPIES
    ]
    cases[-1].update(changes)
    return "WARNING: {not json}\n" + json.dumps({"nvbandwidth": {"testcases": cases, "error": ""}}) + "\nWARNING: }}\n"


def test_nvbandwidth_gives_one_figure_per_gpu() -> None:
    """Warnings with braces stand around it; a local copy counts twice; N/A is no zero."""
    figures = parse_nvbandwidth(_nvbandwidth())
    assert {"h2d_gb_s", "d2h_gb_s", "hbm_gb_s"} == set(figures)
    assert (54.9, 55.2, None) == figures["h2d_gb_s"]
    assert (109.8, 110.4, None) == figures["hbm_gb_s"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the answer is empty"),
        (_nvbandwidth(status="Waived"), "device_local_copy was Waived"),
        (_nvbandwidth(name="another"), "device_local_copy was not run"),
        (_nvbandwidth(bandwidth_matrix=[]), "0 rows"),
        (_nvbandwidth()[:150], "cut off or broken"),
        ('{"nvbandwidth": {"error": "system not yet initialized"}}', "system not yet initialized"),
        ("Invalid value when setting device\n", "Invalid value"),
    ],
)
def test_nvbandwidth_without_a_measurement_is_refused(text: str, says: str) -> None:
    """Waived, missing, cut, failed or another tool: never a figure."""
    with pytest.raises(ValueError, match=says):
        parse_nvbandwidth(text)


def _burn(*steps: str, closing: str = "Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n") -> str:
    return "Burning for 60 seconds.\n" + "\r".join(steps) + "\n" + closing


_GOOD = (
    "25.0%  proc'd: 9000 (500000 Gflop/s) - 9000 (510000 Gflop/s)   errors: 0 - 0   temps: 50 C - 51 C ",
    "60.0%  proc'd: 20000 (738000 Gflop/s) - 20000 (741000 Gflop/s)   errors: 0 - 0   temps: 61 C - 60 C ",
    "100.0%  proc'd: 40000 (740000 Gflop/s) - 40000 (743000 Gflop/s)   errors: 0 - 0   temps: 63 C - 62 C ",
)


def _outcomes(text: str, pack: LimitsPack) -> dict[str, Outcome]:
    result = judge_gemm(_answer(parse_gpu_burn(text)), pack, 2, "GPU {}".format)
    return {f.key: f.outcome for f in result.findings if f.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)}


def test_gpu_burn_speed_is_that_of_its_second_half() -> None:
    """Progress is separated by carriage returns; the first steps are still warming up."""
    burns = parse_gpu_burn(_burn(*_GOOD))
    assert [(0, 739.0, 40000, 63.0, "OK"), (1, 742.0, 40000, 62.0, "OK")] == [
        (b.index, b.gemm_tflops, b.processed, b.temperature_c, b.status) for b in burns
    ]


def test_two_gpus_that_burn_well_pass(pack: LimitsPack) -> None:
    """Work done, no errors, figures reached."""
    assert {} == _outcomes(_burn(*_GOOD), pack)


def test_ok_with_zero_work_is_no_pass(pack: LimitsPack) -> None:
    """gpu-burn says OK for a GPU on which nothing ran."""
    idle = _GOOD[-1].replace("40000 (743000 Gflop/s)", "0 (0 Gflop/s)").replace("62 C", "33 C")
    wanted = {f"{metric}/GPU 1": Outcome.ERROR for metric in ("gemm_errors", "gemm_tflops", "gemm_tflops_cohort")}
    assert wanted == _outcomes(_burn(idle), pack)


@pytest.mark.parametrize(
    ("old", "new"),
    [("errors: 0 - 0", "errors: 0 - 7 (WARNING!)"), ("errors: 0 - 0", "errors: 0 - -1 (DIED!)")],
)
def test_wrong_results_and_death_fail(pack: LimitsPack, old: str, new: str) -> None:
    """Whatever the closing lines say."""
    assert {"gemm_errors/GPU 1": Outcome.FAIL} == _outcomes(_burn(*_GOOD[:2], _GOOD[2].replace(old, new)), pack)


def test_faulty_fails_and_missing_closing_lines_are_an_error(pack: LimitsPack) -> None:
    """The exit code is 0 in both cases."""
    faulty = "Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n"
    assert {"gemm_errors/GPU 1": Outcome.FAIL} == _outcomes(_burn(*_GOOD, closing=faulty), pack)
    cut = {"gemm_errors/GPU 0": Outcome.ERROR, "gemm_errors/GPU 1": Outcome.ERROR}
    assert cut == _outcomes(_burn(*_GOOD, closing=""), pack)


def test_gpu_burn_without_work_is_refused() -> None:
    """Its last words are kept."""
    with pytest.raises(ValueError, match="No CUDA devices"):
        parse_gpu_burn("Burning for 60 seconds.\nNo CUDA devices\n")


_TABLE = """
 Mtu             : 4096[B]
 Link type       : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 800.000000 != 3100.000000. CPU Frequency is not max.
 1048576    20000            {peak}             {average}             0.0467
---------------------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("unit", "average", "gbit_s"),
    [("Gb/sec", "391.84", 391.84), ("MB/sec", "46701.20", 391.76), ("MiB/sec", "23350.6", 195.88)],
)
def test_write_bandwidth_in_any_unit(unit: str, average: str, gbit_s: float) -> None:
    """A line about CPU frequency stands in the table; no peak is printed with -D."""
    found = parse_ib_write_bw(_TABLE.format(unit=unit, peak="0.00", average=average))
    assert (gbit_s, "IB", 4096) == (found.ib_write_bw_gbit_s, found.link_type, found.mtu)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the answer is empty"),
        (" Port number 1 state is Down\n Couldn't get context for the device\n", "state is Down"),
        (_TABLE.format(unit="Gb/sec", peak="1", average="2").partition("1048576")[0], "no ib_write_bw figure"),
        (_TABLE.format(unit="furlong", peak="1.0", average="2.0"), "unit furlong is not known"),
    ],
)
def test_no_write_bandwidth_is_refused(text: str, says: str) -> None:
    """A header alone is no figure."""
    with pytest.raises(ValueError, match=says):
        parse_ib_write_bw(text)


def test_adapter_names_one_a_line() -> None:
    """A sentence is no list of names."""
    assert ("mlx5_0", "mlx5_bond_0") == parse_adapters("mlx5_0\nmlx5_bond_0\n")
    with pytest.raises(ValueError, match="ibpanic"):
        parse_adapters("ibpanic: [1] main: stat of IB device failed\n")


def _watch(text: str) -> Watch:
    watch = Watch()
    watch.answers.append(_answer(parse_load(text)))
    return watch


@pytest.mark.parametrize(
    ("mask", "outcome", "seen"),
    [
        ("0x0000000000000004", Outcome.PASS, "none in 1 looks"),  # the software power cap is normal at full power
        ("0x0000000000000001", Outcome.PASS, "none in 1 looks"),
        ("0x0000000000000048", Outcome.FAIL, "hardware slowdown, hardware thermal slowdown"),
        ("0x0000000000000080", Outcome.FAIL, "power brake"),
        ("[N/A]", Outcome.ERROR, "nvidia-smi does not tell"),
    ],
)
def test_throttle_reasons(mask: str, outcome: Outcome, seen: str) -> None:
    """Which reasons a healthy GPU shows under load, which none does, and that silence is no pass."""
    (finding,) = judge_load("gemm", _watch(f"3, {mask}, 71, 690.10, 1755\n"), "GPU {}".format)
    assert (outcome, seen) == (finding.outcome, finding.observed)


@pytest.mark.parametrize("text", ["", "No devices were found\n", 'Field "x" is not a valid field.\n', "0, 0x0"])
def test_other_answers_to_the_look_are_refused(text: str) -> None:
    """Error sentences and cut rows are no samples."""
    with pytest.raises(ValueError, match="expected rows of index"):
        parse_load(text)


def test_the_look_asks_for_what_it_reads() -> None:
    """Five fields, no units."""
    assert load_command().argv[-1] == "--format=csv,noheader,nounits"


@pytest.mark.shared
def test_recorded_gpu_burn_passes(sample: Read) -> None:
    """Eight A100 in double precision: work done by all, no errors."""
    burns = parse_gpu_burn(sample("gpu_burn_8xA100_ok.log"))
    assert [(index, "OK", 0) for index in range(8)] == [(b.index, b.status, b.errors) for b in burns]
    assert all(b.processed > 0 and 16.0 < (b.gemm_tflops or 0) < 18.0 for b in burns)


@pytest.mark.shared
def test_recorded_loopback_reaches_line_rate(sample: Read) -> None:
    """An HDR port, in MiB/s, with two processes' lines mixed."""
    assert 201.8 == parse_ib_write_bw(sample("ib_write_bw_loopback_hdr.log")).ib_write_bw_gbit_s
