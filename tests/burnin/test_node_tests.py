"""The burn-in tests of one node, run over SSH on simulated nodes: healthy ones pass, each fault is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burnin.limits import LimitsPack
from burnin.node_tests import NODE_TESTS, run_node_test
from burnin.results import TestResult
from inventory.classes import NodeClass, load_classes
from inventory.deadline import Deadline
from inventory.errors import BadSettings, CommandFailed
from inventory.findings import Finding, Outcome, root_cause, worst
from lab.hardware import Shape

if TYPE_CHECKING:
    from .conftest import Bay

_CLASSES = {Shape.HGX: "lab-hgx", Shape.PCIE: "lab-pcie", Shape.PROCESSORS: "lab-processors"}


@pytest.fixture(scope="module")
def classes() -> dict[str, NodeClass]:
    """The shipped node classes."""
    return load_classes()


def _run(bay: Bay, name: str, pack: LimitsPack, classes: dict[str, NodeClass]) -> TestResult:
    return run_node_test(name, bay.shell, bay.store, pack, classes[pack.name], Deadline(bay.state.name, 120))


def _first(result: TestResult) -> Finding:
    root = root_cause(result.findings)
    assert root is not None
    return root


@pytest.mark.parametrize("shape", list(Shape))
def test_a_healthy_node_passes_every_test_of_its_class(
    make_bay: Callable[[Shape], Bay], packs: dict[str, LimitsPack], classes: dict[str, NodeClass], shape: Shape
) -> None:
    """All three shapes reach their own limits, with transport and throttle reasons looked at."""
    bay, pack = make_bay(shape), packs[_CLASSES[shape]]
    results = [_run(bay, name, pack, classes) for name in classes[pack.name].tests]
    bad = [f for r in results for f in r.findings if f.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)]
    assert [] == bad
    assert list(NODE_TESTS) == [result.test for result in results]
    throttles = {f.metric for r in results for f in r.findings if f.metric.endswith("_throttle")}
    assert 5 == len(throttles)


def test_a_straggler_is_named_by_limit_and_cohort(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """A GPU at 85 % fails its limit; its place among its siblings follows from that; both runs are kept."""
    bay.state.gpus[3].speed = 0.85
    result = _run(bay, "gemm", pack, classes)
    assert ("gemm_tflops", "GPU 3", Outcome.FAIL) == (
        _first(result).metric,
        _first(result).subject,
        _first(result).outcome,
    )
    cohort = next(f for f in result.findings if f.metric == "gemm_tflops_cohort")
    assert ("GPU 3", "gemm_tflops/GPU 3") == (cohort.subject, cohort.explained_by)
    assert 2 == len(result.details["runs"])


def test_a_six_percent_straggler_is_found_by_the_cohort_alone(
    bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]
) -> None:
    """Within its limit and still 6 % behind seven siblings."""
    bay.state.gpus[5].speed = 0.94
    result = _run(bay, "gemm", pack, classes)
    assert ("gemm_tflops_cohort", "GPU 5") == (_first(result).metric, _first(result).subject)


def test_eight_equally_slow_gpus_fail_the_limit(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """No one stands out among them, and none reaches its limit."""
    for gpu in bay.state.gpus:
        gpu.speed = 0.8
    result = _run(bay, "gemm", pack, classes)
    failed = {f.subject for f in result.findings if f.metric == "gemm_tflops" and f.outcome is Outcome.FAIL}
    assert {f"GPU {index}" for index in range(8)} == failed


def test_a_throttling_gpu_is_named_with_its_reason(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """Throttling is the root though the figure is reached; the temperature follows from it."""
    bay.state.gpus[2].throttles_under_load = True
    result = _run(bay, "gemm", pack, classes)
    assert ("gemm_throttle", "GPU 2") == (_first(result).metric, _first(result).subject)
    assert "slowdown" in _first(result).observed
    hot = next(f for f in result.findings if f.metric == "gpu_temperature_c" and f.subject == "GPU 2")
    assert "gemm_throttle/GPU 2" == hot.explained_by


def test_a_slow_collective_follows_from_its_sick_gpu(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """All GPUs wait for the one that throttles: that one is the cause, not NVLink."""
    bay.state.gpus[2].throttles_under_load, bay.state.gpus[2].speed = True, 0.7
    result = _run(bay, "nccl_all_reduce", pack, classes)
    slow = next(f for f in result.findings if f.metric == "nccl_all_reduce_busbw_gb_s")
    assert ("fail", "nccl_all_reduce_throttle/GPU 2") == (slow.outcome, slow.explained_by)
    assert "GPU 2" == _first(result).subject


def test_slots_are_named_where_they_are_known(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """The report speaks of slots when the inventory knows them, never of indices alone."""
    bay.state.gpus[0].speed = 0.5
    names = {gpu.index: f"GPU_SXM_{gpu.module}" for gpu in bay.state.gpus}
    result = run_node_test("gemm", bay.shell, bay.store, pack, classes["lab-hgx"], Deadline("n", 60), gpu_names=names)
    assert "GPU_SXM_7" == _first(result).subject


def test_half_a_pcie_link_is_seen_by_copies(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """A GPU on eight lanes copies at half the pace of its siblings."""
    bay.state.gpus[6].pcie_width = 8
    result = _run(bay, "nvbandwidth", pack, classes)
    assert ("h2d_gb_s", "GPU 6") == (_first(result).metric, _first(result).subject)


@pytest.mark.parametrize(
    ("fault", "metric", "says"),
    [
        ("nccl_slow", "nccl_all_reduce_busbw_gb_s", "expected at least 446.4 GB/s"),
        ("nccl_socket_fallback", "nccl_loopback_net_transport", "fell back to TCP sockets"),
        ("gdr_missing", "nccl_loopback_net_transport", "without GPUDirect RDMA"),
    ],
)
def test_nccl_faults_are_named(  # noqa: PLR0917
    bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass], fault: str, metric: str, says: str
) -> None:
    """The first line an operator reads is the planted cause."""
    bay.state.faults.add(fault)
    results = [_run(bay, name, pack, classes) for name in ("nccl_all_reduce", "nccl_loopback_net")]
    root = root_cause(f for result in results for f in result.findings)
    assert root is not None
    assert metric == root.metric
    assert says in root.sentence


def test_a_half_rate_adapter_is_named(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """One adapter at 200 of 400 Gbit/s fails by itself; the other seven pass."""
    bay.state.nics[4].rate_gbit_s = 200
    result = _run(bay, "ib_write_bw", pack, classes)
    assert ("ib_write_bw_gbit_s", "mlx5_4") == (_first(result).metric, _first(result).subject)
    passed = {f.subject for f in result.findings if f.metric == "ib_write_bw_gbit_s" and f.outcome is Outcome.PASS}
    assert 7 == len(passed)


def test_a_dead_port_takes_nothing_from_the_others(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """The adapter whose port is down gives an error of its own, the others their figures."""
    bay.state.nics[1].link_up = False
    result = _run(bay, "ib_write_bw", pack, classes)
    assert ("mlx5_1", Outcome.ERROR) == (_first(result).subject, _first(result).outcome)
    assert 7 == sum(reading.value is not None for reading in result.readings)


def test_a_lost_gpu_is_told_in_the_tools_own_words(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """No measurement: the exception carries what nccl-tests said, for the stage's one error finding."""
    bay.state.gpus[7].present = False
    with pytest.raises(CommandFailed, match="only 7 were found"):
        _run(bay, "nccl_all_reduce", pack, classes)


def test_seven_gpus_burning_well_are_no_pass(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """Fewer GPUs than the class has is a failure of the node."""
    bay.state.gpus[7].present = False
    result = _run(bay, "gemm", pack, classes)
    assert "gemm saw 7 of 8 GPUs" == _first(result).sentence


def test_an_unknown_test_is_refused_by_name(bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass]) -> None:
    """A typing error in a class is settings trouble and names what exists."""
    with pytest.raises(BadSettings, match=r"'warp_drive' does not exist\. Known are nvbandwidth"):
        _run(bay, "warp_drive", pack, classes)


def test_evidence_is_kept_for_every_figure(
    bay: Bay, pack: LimitsPack, classes: dict[str, NodeClass], tmp_path: Path
) -> None:
    """Each reading points to the raw answer it was read from."""
    result = _run(bay, "nccl_all_gather", pack, classes)
    (reading,) = result.readings
    assert reading.evidence is not None
    assert b"# Out of bounds values : 0 OK" in bay.store.read(reading.evidence.sha256)
    assert Outcome.PASS is worst(f.outcome for f in result.findings)
