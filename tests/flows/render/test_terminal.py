"""Reports and plans on a terminal of 100 columns: each thing said once, alike things folded."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from flows.plan import NodePlan, PlannedStage, RackPlan
from flows.render import fold
from flows.render.plans import rack_plan
from flows.render.terminal import node_report, rack_report
from flows.render.text import about, names
from inventory.findings import Outcome
from inventory.model import NodeRef
from inventory.report import Stage, StageRecord
from tests.flows.render.reports import finding, node, rack


def printed(what: RenderableType) -> list[str]:
    """Lines as they stand on a screen."""
    out = io.StringIO()
    Console(file=out, width=100, markup=False, highlight=False).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (["r1-n01", "r1-n02", "r1-n03", "r1-n05"], "r1-n01…r1-n03, r1-n05"),
        (["GPU slot 10", "GPU slot 8", "GPU slot 9"], "GPU slot 8…10"),
        (["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"], "mlx5_0/1…mlx5_2/1"),
        (["a-1-1", "a-1-2", "a-2-2"], "a-1-1, a-1-2, a-2-2"),  # two different numbers went up
        (["node", "node"], "node, node"),
        ([], ""),
    ],
)
def test_names_are_folded(of: list[str], said: str) -> None:
    """Consecutive names are one range, in the order people count."""
    assert said == names(of)


def test_a_line_that_names_the_node_does_not_name_it_twice() -> None:
    """Errors carry their node; a line about the node drops it."""
    assert "no answer" == about("r1-n01", "r1-n01: no answer")
    assert "r1-n02: no answer" == about("r1-n01", "r1-n02: no answer")


def test_a_rejected_node_has_its_cause_and_what_to_do_under_the_table() -> None:
    """Cause first, remedy under it, once."""
    lines = printed(rack_report(rack(node("r1-n01", finding(cause="r1-n01: GPU 1 is an H20")))))
    assert ["r1-n01: GPU 1 is an H20", "    Swap the GPU"] == lines[3:5]


def test_a_remedy_that_the_cause_names_is_not_said_again() -> None:
    """No sentence twice."""
    lines = printed(rack_report(rack(node("r1-n01", finding(cause="an H20. Swap the GPU")))))
    assert 1 == sum("Swap the GPU" in line for line in lines)


def test_kept_stages_are_told_with_their_reason_for_all_nodes_at_once() -> None:
    """One line a stage, not one a node."""
    kept = StageRecord(
        stage=Stage.IMAGE, findings=(finding(Outcome.PASS),), reused_from="run1", reason="unchanged: image"
    )
    nodes = [node(f"r1-n0{number}", text="x").plus(kept) for number in (1, 2, 3)]
    assert "kept image of r1-n01…r1-n03 from run run1; unchanged: image" in printed(rack_report(rack(*nodes)))


def test_alike_findings_are_one_line_and_the_bad_ones_come_first() -> None:
    """Eight GPUs that pass alike are one line, after the one that failed with all that is known of it."""
    passes = [finding(Outcome.PASS, f"GPU slot {n}", observed=f"H100 (/redfish/v1/x/{n})") for n in range(2, 9)]
    lines = printed(node_report(node("r1-n01", *passes, finding()), all_findings=True))
    start = next(number for number, line in enumerate(lines) if line.startswith("fail"))
    assert [
        "fail     gpu_model of GPU slot 1: H20; expected H100",
        "    do: Swap the GPU",
        "    limit from: class x: the order of 2026",
        "    seen in: GET /redfish/v1 (HTTP 200), kept as abababababab",
    ] == lines[start : start + 4]
    assert "pass     gpu_model of GPU slot 2…8: H100; expected H100" in lines


def test_a_place_is_named_where_it_is_the_only_one() -> None:
    """Folding drops the URI only when several parts say the same from different places."""
    one = finding(Outcome.PASS, observed="H100 (/redfish/v1/x)")
    assert ["H100 (/redfish/v1/x)"] == [f.observed for f, _ in fold.findings([one])]


def test_gaps_are_folded_by_their_reason() -> None:
    """What differs by an index only is one row; a number that is no index is left alone."""
    facts = [("gpus[A].uuid", "null"), ("gpus[B].uuid", "null"), ("gpus[B].serial", "HTTP 404"), ("gemm", "no B200")]
    assert [("gpus[*].uuid", 2, "null"), ("gpus[B].serial", 1, "HTTP 404"), ("gemm", 1, "no B200")] == fold.gaps(facts)


def planned(name: str, *actions: str, refused: str = "") -> NodePlan:
    """A plan for one node: an action for each of the first stages."""
    wipes = {Stage.IMAGE: f"{name}: the boot disk is wiped"}
    stages = tuple(
        PlannedStage(
            stage=stage, action=action, why="never passed", destructive=wipes.get(stage, "") * (action == "run")
        )
        for stage, action in zip(Stage, actions, strict=False)
    )
    return NodePlan(node=NodeRef(name=name, node_class="class"), stages=stages, refused=refused)


def test_a_plan_says_each_reason_once_and_what_is_lost() -> None:
    """Nodes that run the same for the same reasons share a line; so do those whose disk is wiped."""
    nodes = [planned(f"r1-n0{n}", "look", "run", "run") for n in (1, 2, 3)]
    lines = printed(rack_plan(RackPlan(rack="R1", nodes=(*nodes, planned("r1-n04", refused="in service")))))
    assert "r1-n01…r1-n03: inspect, image: never passed" in lines
    assert "r1-n01…r1-n03: the boot disk is wiped" in lines
    assert "r1-n04: in service" in lines
    assert lines[-1].startswith("3 of 4 nodes, 0 POSTs, ")
    assert lines[-1].endswith("3 disks wiped.")
