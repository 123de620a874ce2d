"""The burn-in tests of one node, declared like sentences, cheap ones first, and how one of them is run.

A test that cannot be run raises (`CommandFailed`, `OutputNotUnderstood`); the stage turns that into its one error
finding. The only exception is ib_write_bw, where one adapter's trouble becomes that adapter's error finding so that
the other adapters are still tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from burnin import nccl
from burnin.confirm import confirmed, worth_a_retest
from burnin.gpu import gpu_burn_command, nvbandwidth_command
from burnin.gpu_judge import judge_copies, judge_gemm
from burnin.limits import LimitsPack
from burnin.link_judge import judge_adapter, judge_adapters_count
from burnin.load import judge_load, watching
from burnin.perftest import adapters_command, ib_write_bw_command
from burnin.results import TestResult, explained
from inventory.classes import NodeClass
from inventory.command import Answer, Command, Shell, ask
from inventory.deadline import Deadline
from inventory.errors import BadSettings, CommandFailed, NodeTrouble, OutputNotUnderstood
from inventory.evidence import EvidenceStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bench:
    """One node on the test bench: how to talk to it, what it must reach, and what its parts are called."""

    shell: Shell
    store: EvidenceStore
    pack: LimitsPack
    node_class: NodeClass
    deadline: Deadline
    gpu_names: Mapping[int, str] = field(default_factory=dict)  # nvidia-smi index → slot name
    adapters: tuple[str, ...] = ()  # RDMA device names to test; empty = all that ibstat lists

    def gpu(self, index: int) -> str:
        """What an operator calls the GPU with this index."""
        return self.gpu_names.get(index, f"GPU {index}")

    def ask(self, command: Command[T]) -> Answer[T]:
        """Run a command within the deadline."""
        limit_s = self.deadline.timeout_s(command.timeout_s, command.name)
        self.deadline.tell(command.name, self.deadline.left_s)
        return ask(self.shell, replace(command, timeout_s=limit_s), self.store)


@dataclass(frozen=True, slots=True)
class NodeTest:
    """One test: what it shows, what it needs, how long it takes, and what it leaves open."""

    name: str
    what: str
    needs: tuple[str, ...]  # tools the image must have
    minutes: float  # for the plan; a healthy 8-GPU node
    leaves_open: str
    run: Callable[[Bench], TestResult]


def _copies(bench: Bench) -> TestResult:
    with watching(bench.shell, bench.store) as watch:
        answer = bench.ask(nvbandwidth_command())
    return judge_copies(answer, bench.pack, bench.node_class.gpu.count, bench.gpu).plus(
        judge_load("nvbandwidth", watch, bench.gpu)
    )


def _gemm(bench: Bench) -> TestResult:
    with watching(bench.shell, bench.store) as watch:
        answer = bench.ask(gpu_burn_command())
    return judge_gemm(answer, bench.pack, bench.node_class.gpu.count, bench.gpu).plus(
        judge_load("gemm", watch, bench.gpu)
    )


def _nccl(asked_of: Callable[[int], nccl.NcclAsked]) -> Callable[[Bench], TestResult]:
    def run(bench: Bench) -> TestResult:
        asked = asked_of(bench.node_class.gpu.count)
        with watching(bench.shell, bench.store) as watch:
            answer = bench.ask(nccl.nccl_command(asked))
        return nccl_result(asked, answer, bench.pack).plus(judge_load(asked.test, watch, bench.gpu))

    return run


def nccl_result(asked: nccl.NcclAsked, answer: Answer[nccl.NcclRun], pack: LimitsPack) -> TestResult:
    """A NCCL answer with its findings, its figure and its curve."""
    run = answer.value
    return TestResult.of(
        asked.test,
        nccl.judge_nccl(run, asked, pack, evidence=answer.evidence),
        figures={"node": run.plateau_gb_s},
        metric=asked.metric,
        unit="GB/s",
        evidence=answer.evidence,
        details={
            "curve": [list(point) for point in run.curve],
            "transport": run.transport.words,
            "adapters": list(run.transport.adapters),
            "nccl": run.nccl_version,
        },
    )


def _write_bandwidth(bench: Bench) -> TestResult:
    adapters = bench.adapters or bench.ask(adapters_command()).value
    wanted = sum(nic.count * nic.ports for nic in bench.node_class.nics if nic.role == "compute")
    result = TestResult(test="ib_write_bw").plus(judge_adapters_count(adapters, wanted))
    for number, adapter in enumerate(adapters):
        try:
            answer = bench.ask(ib_write_bw_command(adapter, number))
        except (CommandFailed, OutputNotUnderstood) as trouble:
            result = result.merged(judge_adapter(adapter, trouble, bench.pack))
        else:
            result = result.merged(judge_adapter(adapter, answer, bench.pack))
    return result.with_cohort("ib_write_bw_gbit_s", unit="Gbit/s", of="adapters of this node")


_TESTS = (
    NodeTest(
        "nvbandwidth",
        "host to GPU, GPU to host and memory bandwidth of each GPU",
        ("nvbandwidth", "nvidia-smi"),
        1.0,
        "one copy engine at a time: no contention between GPUs",
        _copies,
    ),
    NodeTest(
        "gemm",
        "arithmetic of each GPU at full power, compared bit by bit, with throttle reasons",
        ("gpu_burn", "nvidia-smi"),
        1.5,
        "one minute of heat: what fails only after ten needs a soak",
        _gemm,
    ),
    NodeTest(
        "nccl_all_reduce",
        "all GPUs reduce over NVLink, with the switch's help where it has any",
        ("all_reduce_perf", "nvidia-smi"),
        1.0,
        "which link is slow: the collective runs at the pace of the slowest",
        _nccl(nccl.all_reduce),
    ),
    NodeTest(
        "nccl_all_gather",
        "all GPUs gather over NVLink",
        ("all_gather_perf", "nvidia-smi"),
        1.0,
        "which link is slow: the collective runs at the pace of the slowest",
        _nccl(nccl.all_gather),
    ),
    NodeTest(
        "nccl_loopback_net",
        "all GPUs reduce through their own adapters, NVLink and shared memory off",
        ("all_reduce_perf", "nvidia-smi"),
        1.0,
        "cables and switches: adapters of one node may talk below the switch",
        _nccl(nccl.loopback_net),
    ),
    NodeTest(
        "ib_write_bw",
        "RDMA writes through each adapter by itself",
        ("ib_write_bw", "ibstat"),
        1.0,
        "cables and switches: the traffic turns round in the adapter",
        _write_bandwidth,
    ),
)
NODE_TESTS: Mapping[str, NodeTest] = {test.name: test for test in _TESTS}


def run_node_test(  # noqa: PLR0917 (the six things a test cannot be without)
    name: str,
    shell: Shell,
    store: EvidenceStore,
    pack: LimitsPack,
    node_class: NodeClass,
    deadline: Deadline,
    *,
    gpu_names: Mapping[int, str] | None = None,
    adapters: tuple[str, ...] = (),
) -> TestResult:
    """Run one test, and once more if nothing but a figure was too low; both runs are kept.

    Raises `BadSettings` for an unknown test, `CommandFailed` or `OutputNotUnderstood` when there was no measurement.
    """
    test = find_test(name)
    bench = Bench(shell, store, pack, node_class, deadline, gpu_names or {}, adapters)
    left_s = deadline.left_s
    first = _once(test, bench)
    result = _retest(test, bench, first) if worth_a_retest(first, pack) else first
    return result.model_copy(update={"took_s": round(left_s - deadline.left_s, 2)})


def find_test(name: str) -> NodeTest:
    """The declared test; `BadSettings` naming those that exist."""
    if name not in NODE_TESTS:
        raise BadSettings(f"node test {name!r} does not exist. Known are {', '.join(NODE_TESTS)}")
    return NODE_TESTS[name]


def _once(test: NodeTest, bench: Bench) -> TestResult:
    left_s = bench.deadline.left_s
    result = test.run(bench)
    took_s = round(left_s - bench.deadline.left_s, 2)
    return result.model_copy(update={"findings": explained(result.findings), "took_s": took_s})


def _retest(test: NodeTest, bench: Bench, first: TestResult) -> TestResult:
    """The one confirming run. Trouble in it takes nothing from the first run, whose failure stands."""
    if bench.deadline.left_s < 1.5 * first.took_s:
        return first.noted("no time left for a confirming run")
    try:
        return confirmed(first, _once(test, bench))
    except NodeTrouble as trouble:
        return first.noted(f"the confirming run came to nothing: {trouble}")
