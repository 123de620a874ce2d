"""Two simulated nodes against each other: the launcher on both over SSH, and what its answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnin.fabric import pair_argv, pair_asked, run_pair, run_rails
from burnin.limits import LimitsPack
from inventory.deadline import Deadline
from inventory.findings import Outcome, root_cause
from lab.shell import running_commands

if TYPE_CHECKING:
    from burnin.fabric import PairTest

    from .conftest import Bay


def _pair(bay: Bay, pack: LimitsPack, budget_s: float = 60.0) -> PairTest:
    a, b = bay.shells
    host = bay.addresses[0].partition(":")[0]
    return run_pair(a, b, bay.store, pack, Deadline("rack", budget_s), root_host=host, gpus=8, number=2)


def test_what_is_started_on_each_node() -> None:
    """The launcher's contract: rank, world, root, and the test behind two dashes."""
    argv = " ".join(pair_argv(pair_asked(8), 1, "10.0.0.1:29430"))
    wanted = (
        "NCCL_ALGO=Ring rackmint-nccl-pair --rank 1 --world 2 --root 10.0.0.1:29430 --wait 60 "
        "-- all_reduce_perf -b 1073741824 -e 8589934592 -f 2 -g 8 -w 5 -n 20 -c 1"
    )
    assert argv.endswith(wanted)


def test_two_healthy_nodes_pass(bay: Bay, pack: LimitsPack) -> None:
    """Sixteen ranks on two hosts, through the adapters with GPUDirect, clearly above the limit."""
    test = _pair(bay, pack)
    assert [] == [f for f in test.findings if f.outcome is not Outcome.PASS]
    assert (True, True, 2) == (test.result.passed, test.result.clear, test.result.round)
    assert "NET/IB/GDRDMA" in test.details["transport"]


def test_a_socket_fallback_on_either_side_fails_the_pair(bay: Bay, pack: LimitsPack) -> None:
    """The way is the cause, though the run ended well."""
    bay.nodes[1].state.faults.add("nccl_socket_fallback")
    test = _pair(bay, pack)
    root = root_cause(test.findings)
    assert root is not None
    assert ("nccl_pair_transport", False) == (root.metric, test.result.passed)
    assert "fell back to TCP sockets" in root.cause


def test_a_slow_adapter_fails_the_pair_and_its_rail_is_named(bay: Bay, pack: LimitsPack) -> None:
    """The pair cannot tell which rail; the rails one by one can."""
    bay.nodes[1].state.nics[3].speed = 0.5
    assert _pair(bay, pack).result.passed is False
    a, b = bay.shells
    host = bay.addresses[0].partition(":")[0]
    rails = run_rails(
        a, b, bay.store, pack, Deadline("rack", 60), root_host=host, adapters=["mlx5_2", "mlx5_3", "mlx5_4"]
    )
    assert {"mlx5_2": True, "mlx5_3": False, "mlx5_4": True} == rails


def test_a_node_without_its_gpus_makes_the_pair_not_measured(bay: Bay, pack: LimitsPack) -> None:
    """Nobody is blamed for a run that never was, and the finding says whose side said what."""
    bay.nodes[1].state.gpus[0].present = False
    test = _pair(bay, pack)
    assert test.result.passed is None
    assert [Outcome.ERROR] == [f.outcome for f in test.findings]
    assert "could not be measured" in test.findings[0].cause


def test_nothing_is_left_running(bay: Bay, pack: LimitsPack) -> None:
    """After a pair that could not meet, both nodes are idle again."""
    bay.nodes[0].state.gpus[0].present = False
    _pair(bay, pack)
    assert [(), ()] == [running_commands(node) for node in bay.nodes]
