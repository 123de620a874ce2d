"""What nccl-tests prints, read and judged: every layout, every way to be incomplete, every way data may go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnin import nccl
from burnin.fabric import pair_asked
from burnin.limits import LimitsPack
from burnin.nccl import NcclAsked, judge_nccl, parse_nccl
from inventory.findings import Finding, Outcome, root_cause

Read = Callable[[str], str]


def _judged(read: Read, name: str, asked: NcclAsked, pack: LimitsPack) -> dict[str, Finding]:
    findings = judge_nccl(parse_nccl(read(f"nccl/{name}.txt"), collective=asked.collective), asked, pack)
    return {finding.metric.removeprefix(f"{asked.test}_"): finding for finding in findings}


def _bad(findings: dict[str, Finding]) -> dict[str, str]:
    return {name: f.outcome.value for name, f in findings.items() if f.outcome is not Outcome.PASS}


@pytest.mark.parametrize(
    ("name", "rows", "plateau_gb_s", "ranks"),
    [
        ("all_reduce_8xh100_nvls", 11, 475.60, 8),
        ("all_gather_8xh100", 11, 357.20, 8),
        ("pair_ring_gdr", 4, 368.96, 16),
        ("old_all_reduce_error_column", 11, 232.97, 8),
        ("old_all_gather_no_redop", 11, 228.94, 8),
        ("old_all_gather_blank_redop", 11, 227.88, 8),
        ("labelled_and_interleaved", 11, 476.97, 8),
        ("srun_labels", 11, 476.43, 8),
        ("kubectl_timestamps", 11, 475.95, 8),
        ("zero_rows", 11, 476.81, 8),
        ("iteration_columns_and_date", 11, 475.89, 8),
    ],
)
def test_every_layout_gives_its_figure(transcript: Read, name: str, rows: int, plateau_gb_s: float, ranks: int) -> None:
    """Columns are found by the header, whatever stands before, between or behind them."""
    run = parse_nccl(transcript(f"nccl/{name}.txt"), collective="all_gather" if "gather" in name else "all_reduce")
    assert (rows, plateau_gb_s, ranks, ()) == (len(run.rows), run.plateau_gb_s, run.rank_count, run.problems)


def test_the_sweep_mean_is_not_the_figure(transcript: Read) -> None:
    """A healthy node whose printed mean is far lower is judged by its plateau."""
    text = transcript("nccl/all_reduce_8xh100_nvls.txt")
    printed = float(text.partition("# Avg bus bandwidth    :")[2].split()[0])
    assert printed < 440 < parse_nccl(text, collective="all_reduce").plateau_gb_s


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("two_tables_no_mpi", "2 tables where one was asked"),
        ("launcher_never_started", "There are not enough slots available"),
        ("abort_after_header", "unhandled system error"),
    ],
)
def test_no_single_measurement_is_not_understood(transcript: Read, name: str, says: str) -> None:
    """Without one table with rows there is nothing to judge, and the machine's own words are kept."""
    with pytest.raises(ValueError, match=says):
        parse_nccl(transcript(f"nccl/{name}.txt"), collective="all_reduce")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the answer is empty"),
        ("Fri Mar  6 10:00:00 2026\n| NVIDIA-SMI 570.86  |\n", "NVIDIA-SMI 570.86"),
        ("sh: 1: all_reduce_perf: command not found\n", "command not found"),
        ("Invalid number of GPUs: 8 requested but only 7 were found.\n", "only 7 were found"),
        ("#  bytes  N  type  op  time  algbw  busbw  res\n", "before 2.0"),
    ],
)
def test_other_text_is_not_understood(text: str, says: str) -> None:
    """Nothing, another tool's output and an error sentence are refused by name."""
    with pytest.raises(ValueError, match=says):
        parse_nccl(text, collective="all_reduce")


def test_another_collective_is_refused(transcript: Read) -> None:
    """The answer of all_gather is none to a question for all_reduce."""
    with pytest.raises(ValueError, match="all_gather_perf where all_reduce_perf was asked"):
        parse_nccl(transcript("nccl/all_gather_8xh100.txt"), collective="all_reduce")


def test_any_beginning_of_a_transcript_is_refused_or_incomplete(transcript: Read) -> None:
    """Cut anywhere before its closing lines, a good transcript never passes."""
    text = transcript("nccl/all_reduce_8xh100_nvls.txt")
    end = text.index("# Avg bus bandwidth")
    for at in range(0, end, 97):
        try:
            run = parse_nccl(text[:at], collective="all_reduce")
        except ValueError:
            continue
        assert () != run.problems


@pytest.mark.parametrize(
    ("name", "outcome", "says"),
    [
        ("cut_tail", Outcome.ERROR, "the closing lines are missing"),
        ("cut_in_row", Outcome.ERROR, "a row was cut off"),
        ("sizes_repeat", Outcome.ERROR, "sizes do not grow"),
        ("reduced_for_memory", Outcome.ERROR, "reduced to 4294967296 bytes"),
        ("figure_contradicts_time", Outcome.ERROR, "yet 912.44 is printed"),
        ("one_rank_alone", Outcome.FAIL, "1 of 8 ranks took part"),
        ("all_reduce_seven_ranks", Outcome.FAIL, "7 of 8 ranks took part"),
    ],
)
def test_an_incomplete_run_passes_nothing(
    transcript: Read, pack: LimitsPack, name: str, outcome: Outcome, says: str
) -> None:
    """Its figure is not judged, and the completeness finding says what is lacking."""
    found = _judged(transcript, name, nccl.all_reduce(8), pack)
    assert (outcome, Outcome.ERROR) == (found["completeness"].outcome, found["busbw_gb_s"].outcome)
    assert says in found["completeness"].observed
    assert found["completeness"] == root_cause(found.values())


def test_a_healthy_node_passes_all_five(transcript: Read, pack: LimitsPack) -> None:
    """Completeness, transport, curve, wrong values and bandwidth are five findings."""
    found = _judged(transcript, "all_reduce_8xh100_nvls", nccl.all_reduce(8), pack)
    assert {"completeness", "transport", "curve", "wrong_values", "busbw_gb_s"} == set(found)
    assert {} == _bad(found)


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("loopback_net_socket", nccl.loopback_net(8), "NCCL fell back to TCP sockets"),
        ("loopback_net_no_gdr", nccl.loopback_net(8), "without GPUDirect RDMA"),
        ("all_reduce_8xh100_no_nvls", nccl.all_reduce(8), "NVLS was not used, the data went over P2P"),
        ("all_reduce_8xh100_nvls", nccl.loopback_net(8), "NET/IB/GDRDMA was not used"),
    ],
)
def test_the_wrong_way_is_the_cause(transcript: Read, pack: LimitsPack, name: str, asked: NcclAsked, says: str) -> None:
    """A low figure follows from the way the data went, though the run ended well and found nothing out of bounds."""
    found = _judged(transcript, name, asked, pack)
    assert Outcome.FAIL is found["transport"].outcome
    assert says in found["transport"].cause
    bandwidth = found["busbw_gb_s"]
    assert bandwidth.outcome is Outcome.PASS or bandwidth.explained_by == found["transport"].key


def test_the_right_way_passes(transcript: Read, pack: LimitsPack) -> None:
    """Through the adapters with GPUDirect, alone and as a pair."""
    assert {} == _bad(_judged(transcript, "loopback_net_gdr", nccl.loopback_net(8), pack))
    assert {} == _bad(_judged(transcript, "pair_ring_gdr", pair_asked(8), pack))


def test_a_figure_without_its_log_is_not_proven(transcript: Read, pack: LimitsPack) -> None:
    """A good bandwidth whose way is not known leaves the node undecided."""
    found = _judged(transcript, "all_reduce_without_log", nccl.all_reduce(8), pack)
    assert {"transport": "error"} == _bad(found)


def test_wrong_values_fail_at_full_speed(transcript: Read, pack: LimitsPack) -> None:
    """Fast and wrong is wrong."""
    found = _judged(transcript, "all_reduce_wrong_values", nccl.all_reduce(8), pack)
    assert {"wrong_values": "fail"} == _bad(found)


def test_unchecked_values_are_not_right(transcript: Read, pack: LimitsPack) -> None:
    """A run without validation proves no correctness."""
    assert {"wrong_values": "error"} == _bad(_judged(transcript, "not_validated", nccl.all_reduce(8), pack))


def test_a_flow_control_cliff_is_a_finding_of_its_own(transcript: Read, pack: LimitsPack) -> None:
    """29 GB/s at 32 MiB and 5 at 64 MiB: the switches drop, and the low plateau follows."""
    found = _judged(transcript, "pair_flow_control_cliff", pair_asked(8), pack)
    assert {"curve": "fail", "busbw_gb_s": "fail"} == _bad(found)
    assert "28.74 GB/s at 32 MiB, 4.98 GB/s at 64 MiB" == found["curve"].observed
    assert found["curve"].key == found["busbw_gb_s"].explained_by


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "collective", "rows", "plateau_gb_s"),
    [
        ("nccl_allreduce_8xA100_40GB_oldformat.log", "all_reduce", 32, 233.06),
        ("nccl_allgather_8xA100_40GB_oldformat.log", "all_gather", 29, 218.93),
        ("nccl_reduce_8xA100_40GB_oldformat.log", "reduce", 32, 229.36),
    ],
)
def test_recorded_runs_of_real_machines(
    sample: Read, name: str, collective: str, rows: int, plateau_gb_s: float
) -> None:
    """Old columns, zero-size rows, a log line in the table; correctness was not checked and the mean is not used."""
    run = parse_nccl(sample(name), collective=collective)
    assert (rows, plateau_gb_s, 8, None) == (len(run.rows), run.plateau_gb_s, run.rank_count, run.wrong)


@pytest.mark.shared
def test_a_recorded_launcher_abort_is_no_measurement(sample: Read) -> None:
    """An MPI abort is refused with its own words."""
    with pytest.raises(ValueError, match="mpirun detected"):
        parse_nccl(sample("gpcnet_mpi_abort.log"))
