"""Reports, plans and certificates as tables for a terminal of 100 columns."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.plan import RackPlan
from flows.render.text import plain
from inventory.findings import Finding, Outcome, Verdict
from inventory.report import NodeReport, RackReport, Stage

_VERDICT_STYLE = {Verdict.ACCEPTED: "green", Verdict.REJECTED: "bold red", Verdict.UNDECIDED: "bold yellow"}
_OUTCOME_STYLE = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold yellow"}


def rack_report(report: RackReport) -> RenderableType:
    """The rack in one table, then the causes of what was not accepted, then the sums."""
    table = Table(box=None, padding=(0, 1))
    for column in ("node", "class", "verdict", "POSTs", "stages run", "kept", "certificate"):
        table.add_column(column, justify="right" if column in ("POSTs", "stages run", "kept") else "left", no_wrap=True)
    for node in report.nodes:
        reused = sum(bool(r.reused_from) for r in node.records)
        table.add_row(
            Text(plain(node.node.name, 32)), Text(plain(node.node.node_class, 24)),
            Text(node.verdict.value, style=_VERDICT_STYLE[node.verdict]),
            str(node.posts), str(len(node.records) - reused), str(reused), node.certificate_id or "none",
        )  # fmt: skip
    return Group(table, *_causes(report), _sums(report))


def _causes(report: RackReport) -> list[Text]:
    lines: list[Text] = []
    for node in report.nodes:
        if node.verdict is not Verdict.ACCEPTED:
            cause = plain(node.cause).removeprefix(f"{node.node.name}: ")
            lines.append(Text(f"{plain(node.node.name, 32)}: {cause}", style=_VERDICT_STYLE[node.verdict]))
            remedy = next((f.remedy for f in node.findings if f.sentence == node.cause and f.remedy), "")
            if remedy:
                lines.append(Text(f"    {plain(remedy)}"))
    for finding in report.rack_findings:
        if finding.outcome is not Outcome.PASS:
            lines.append(Text(f"rack: {plain(finding.sentence)}", style=_OUTCOME_STYLE.get(finding.outcome, "")))
    lines += [Text(f"note: {plain(note)}", style="yellow") for note in report.notes]
    return [Text(""), *lines] if lines else []


def _sums(report: RackReport) -> Text:
    took_s = (report.ended_at - report.started_at).total_seconds()
    parts = [f"{report.count(v)} {v.value}" for v in Verdict if report.count(v)] or ["no nodes"]
    return Text(
        f"\nRack {plain(report.rack, 40)}, run {report.run_id}: {', '.join(parts)}; "
        f"{report.posts} POSTs; {took_s:.0f} s",
        style="bold",
    )


def node_report(report: NodeReport, *, all_findings: bool = False) -> RenderableType:
    """One node: each stage with its reason, then its findings, bad ones first."""
    head = Text(f"{plain(report.node.name, 32)}: {report.verdict.value}", style=_VERDICT_STYLE[report.verdict])
    if report.cause:
        head.append(f": {plain(report.cause)}")
    stages = Table(box=None, padding=(0, 1))
    for column in ("stage", "outcome", "s", "POSTs", "why"):
        stages.add_column(column, overflow="fold")
    for record in report.records:
        took_s = (record.ended_at - record.started_at).total_seconds()
        outcome = "kept" if record.reused_from else record.outcome.value
        stages.add_row(
            record.stage.value, Text(outcome, style=_OUTCOME_STYLE.get(record.outcome, "")), f"{took_s:.1f}",
            str(record.posts), Text(plain(record.reason)),
        )  # fmt: skip
    return Group(head, stages, findings(report.findings, all_findings=all_findings))


def findings(found: tuple[Finding, ...], *, all_findings: bool = False) -> RenderableType:
    """Findings as a table; passes only when asked for."""
    order = [Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.NOT_APPLICABLE, Outcome.PASS]
    shown = [f for f in found if all_findings or f.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)]
    if not shown:
        return Text(f"{len(found)} findings, all pass or do not apply.", style="green")
    table = Table(box=None, padding=(0, 1))
    for column in ("outcome", "metric", "subject", "observed", "expected", "what to do"):
        table.add_column(column, overflow="fold")
    for finding in sorted(shown, key=lambda f: (order.index(f.outcome), bool(f.explained_by))):
        texts = (finding.metric, finding.subject, finding.observed, finding.expected, finding.remedy)
        outcome = Text(finding.outcome.value, style=_OUTCOME_STYLE.get(finding.outcome, ""))
        table.add_row(outcome, *(Text(plain(text)) for text in texts))
    return table


def rack_plan(plan: RackPlan) -> RenderableType:
    """What will run and why; what cannot be undone in red."""
    table = Table(box=None, padding=(0, 1))
    for column in ("node", *(stage.value.replace("_", " ") for stage in Stage), "POSTs", "min"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("POSTs", "min") else "left")
    for node in plan.nodes:
        actions = {s.stage: s.action for s in node.stages}
        cells = [Text("-" if node.refused else actions.get(stage, "·")) for stage in Stage]
        for cell, stage in zip(cells, Stage, strict=True):
            cell.style = "red" if any(s.destructive and s.stage is stage for s in node.stages) else ""
        posts, minutes = (0, 0.0) if node.refused else (node.posts, node.minutes)
        table.add_row(Text(plain(node.node.name, 32)), *cells, str(posts), f"{minutes:.0f}")
    return Group(table, *_plan_notes(plan), _plan_sums(plan))


def _plan_notes(plan: RackPlan) -> list[Text]:
    lines = [Text("")]
    for why, nodes in _folded(plan).items():
        lines.append(Text(f"{', '.join(nodes)}: {why}"))
    for node in plan.nodes:
        if node.refused:
            lines.append(Text(f"{plain(node.node.name, 32)}: {plain(node.refused)}", style="bold yellow"))
        if node.unread:
            lines.append(Text(f"{plain(node.node.name, 32)}: {plain(node.unread)}", style="yellow"))
        lines += [Text(plain(text), style="bold red") for text in node.destructive if not node.refused]
    return lines


def _folded(plan: RackPlan) -> dict[str, list[str]]:
    """Nodes that run the same stages for the same reasons, folded into one line."""
    folded: dict[str, list[str]] = {}
    for node in plan.nodes:
        why = "; ".join(f"{s.stage.value}: {s.why}" for s in node.stages if s.action == "run")
        if why and not node.refused and not node.unread:
            folded.setdefault(plain(why), []).append(plain(node.node.name, 32))
    return folded


def _plan_sums(plan: RackPlan) -> Text:
    able = [node for node in plan.nodes if not node.refused]
    longest = max((node.minutes for node in able), default=0.0)
    posts = sum(node.posts for node in able)
    return Text(
        f"\n{len(able)} of {len(plan.nodes)} nodes, {posts} POSTs, about {longest:.0f} minutes side by side, "
        f"{len(plan.wipe)} disks wiped.",
        style="bold",
    )


def show(console: Console, what: RenderableType) -> None:
    """Print without guessing markup or highlighting in what machines said."""
    console.print(what, markup=False, highlight=False)
