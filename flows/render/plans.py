"""A plan for a terminal: what will run on which node and why, and in red what cannot be undone."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.plan import NodePlan, PlannedStage, RackPlan
from flows.render.text import about, names, plain
from inventory.report import Stage


def rack_plan(plan: RackPlan) -> RenderableType:
    """The rack in one table, then the reasons, then what is lost for ever, then the sums."""
    return Group(_table(plan), *_notes(plan), _sums(plan))


def _table(plan: RackPlan) -> Table:
    table = Table(box=None, padding=(0, 1))
    for column in ("node", *map(_words, Stage), "POSTs", "min"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("POSTs", "min") else "left")
    for node in plan.nodes:
        stages = {stage.stage: stage for stage in node.stages}
        posts, minutes = (0, 0.0) if node.refused else (node.posts, node.minutes)
        cells = [_cell(node, stages.get(stage)) for stage in Stage]
        table.add_row(Text(plain(node.node.name, 32)), *cells, str(posts), f"{minutes:.0f}")
    return table


def _words(stage: Stage) -> str:
    return stage.value.replace("_", " ")


def _cell(node: NodePlan, stage: PlannedStage | None) -> Text:
    if node.refused or stage is None:
        return Text("-", style="dim")
    action = "keep" if stage.action == "reuse" else stage.action
    return Text(action, style="red" if stage.destructive else "dim" if action == "keep" else "")


def _notes(plan: RackPlan) -> list[Text]:
    able = [node for node in plan.nodes if not node.refused]
    lines = [Text(f"{names(nodes)}: {why}") for why, nodes in _reasons(able).items()]
    for node in plan.nodes:
        for said in filter(None, (node.refused, node.unread)):
            lines.append(Text(f"{plain(node.node.name, 32)}: {about(node.node.name, said)}", style="bold yellow"))
    lost: dict[str, list[str]] = {}
    for node in able:
        for said in node.destructive:
            lost.setdefault(about(node.node.name, said), []).append(node.node.name)
    lines += [Text(f"{names(nodes)}: {what}", style="bold red") for what, nodes in lost.items()]
    return [Text(""), *lines]


def _reasons(able: list[NodePlan]) -> dict[str, list[str]]:
    """Why stages run, or that nothing changed; nodes for which the same holds share a line."""
    folded: dict[str, list[str]] = {}
    for node in able:
        if not node.unread:
            folded.setdefault(_why(node), []).append(node.node.name)
    return folded


def _why(node: NodePlan) -> str:
    """Each reason once, before all the stages it holds for."""
    reasons: dict[str, list[str]] = {}
    for stage in node.stages:
        if stage.action == "run":
            for reason in stage.why.split("; "):
                reasons.setdefault(plain(reason), []).append(_words(stage.stage))
    kept = [_words(stage.stage) for stage in node.stages if stage.action == "reuse"]
    parts = [f"{', '.join(stages)}: {why}" for why, stages in reasons.items()]
    if kept:
        parts.append(f"{', '.join(kept)}: proven earlier, and nothing they depend on has changed")
    record = next((stage for stage in node.stages if stage.stage is Stage.RECORD), None)
    return "; ".join([*parts, *([plain(record.why)] if record else [])])


def _sums(plan: RackPlan) -> Text:
    able = [node for node in plan.nodes if not node.refused]
    longest = max((node.minutes for node in able), default=0.0)
    posts, disks = sum(node.posts for node in able), len(plan.wipe)
    return Text(
        f"\n{len(able)} of {len(plan.nodes)} nodes, {posts} POSTs, about {longest:.0f} minutes side by side, "
        f"{disks} {'disk' if disks == 1 else 'disks'} wiped.",
        style="bold",
    )
