"""Reports of racks and nodes for a terminal of 100 columns: the verdict, then its causes, then everything else."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.render import fold
from flows.render.text import about, names, plain
from inventory.findings import Finding, Outcome, Verdict
from inventory.report import NodeReport, RackReport, StageRecord

VERDICT_STYLE = {Verdict.ACCEPTED: "green", Verdict.REJECTED: "bold red", Verdict.UNDECIDED: "bold yellow"}
_OUTCOME_STYLE = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold yellow"}
_INDENT = "    "


def table(*columns: str, rows: Iterable[Iterable[str | Text]], right: tuple[str, ...] = ()) -> Table:
    """A plain table; text of machines is made harmless, `right` columns hold numbers."""
    made = Table(box=None, padding=(0, 1))
    for column in columns:
        made.add_column(column, overflow="fold", justify="right" if column in right else "left")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
    return made


def rack_report(report: RackReport) -> RenderableType:
    """The rack in one table, then the causes of what was not accepted, what was kept and why, and the sums."""
    rows = [
        (node.node.name, node.node.node_class, Text(node.verdict.value, style=VERDICT_STYLE[node.verdict]),
         str(node.posts), str(sum(not r.reused_from for r in node.records)),
         str(sum(bool(r.reused_from) for r in node.records)), node.certificate_id or "none")
        for node in report.nodes
    ]  # fmt: skip
    columns = ("node", "class", "verdict", "POSTs", "stages run", "kept", "certificate")
    told = table(*columns, rows=rows, right=columns[3:6])
    return Group(told, *_spaced(_causes(report)), *_spaced(_kept(report)), _sums(report))


def _spaced(lines: list[Text]) -> list[Text]:
    return [Text(""), *lines] if lines else []


def _causes(report: RackReport) -> list[Text]:
    lines: list[Text] = []
    for node in report.nodes:
        if node.verdict is not Verdict.ACCEPTED:
            name, cause = plain(node.node.name, 32), about(node.node.name, node.cause)
            lines.append(Text(f"{name}: {cause}", style=VERDICT_STYLE[node.verdict]))
            remedy = next((f.remedy for f in node.findings if f.sentence == node.cause), "")
            if plain(remedy) not in cause:
                lines.append(Text(f"{_INDENT}{plain(remedy)}"))
    for finding in report.rack_findings:
        if finding.outcome is not Outcome.PASS:
            lines.append(Text(f"rack: {plain(finding.sentence)}", style=_OUTCOME_STYLE.get(finding.outcome, "")))
    lines += [Text(f"note: {plain(note)}", style="yellow") for note in report.notes]
    return lines


def _kept(report: RackReport) -> list[Text]:
    """Which stages were not run again and why, nodes that say the same folded into one line."""
    told: dict[tuple[str, str], dict[str, list[str]]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.reused_from:
                nodes = told.setdefault((plain(record.reason), record.reused_from), {})
                nodes.setdefault(_words(record), []).append(node.node.name)
    return [
        Text(f"kept {stage} of {names(nodes)} from run {plain(run)}; {why}", style="dim")
        for (why, run), stages in told.items()
        for stage, nodes in stages.items()
    ]


def _words(record: StageRecord) -> str:
    return record.stage.value.replace("_", " ")


def _sums(report: RackReport) -> Text:
    took_s = (report.ended_at - report.started_at).total_seconds()
    parts = [f"{report.count(v)} {v.value}" for v in Verdict if report.count(v)] or ["no nodes"]
    return Text(
        f"\nRack {plain(report.rack, 40)}, run {report.run_id}: {', '.join(parts)}; {report.posts} POSTs; "
        f"{report.book_writes} NetBox writes; {took_s:.0f} s",
        style="bold",
    )


def node_report(report: NodeReport, *, all_findings: bool = False) -> RenderableType:
    """One node: each stage with its reason, then its findings, bad ones first."""
    head = Text(f"{plain(report.node.name, 32)}: {report.verdict.value}", style=VERDICT_STYLE[report.verdict])
    if report.cause and report.verdict is not Verdict.ACCEPTED:
        head.append(f": {about(report.node.name, report.cause)}")
    columns = ("stage", "outcome", "seconds", "POSTs", "why it ran or was kept")
    stages = table(*columns, rows=map(_stage, report.records), right=columns[2:4])
    did = [Text(f"{_words(r)}: {plain(said)}") for r in report.records if not r.reused_from for said in r.did]
    gaps = fold.gaps((gap.fact, gap.reason) for gap in report.inventory.missing)
    unread = [Text(f"not read: {gap_in_words(*gap)}", style="dim") for gap in gaps]
    return Group(
        head, Text(""), stages, *_spaced(did), Text(""), *findings(report.findings, all_findings=all_findings),
        *(_spaced(unread) if all_findings else []),
    )  # fmt: skip


def _stage(record: StageRecord) -> tuple[str | Text, ...]:
    took_s = (record.ended_at - record.started_at).total_seconds()
    kept = bool(record.reused_from)
    said = "kept" if kept else record.outcome.value.replace("_", " ")
    outcome = Text(said, style=_OUTCOME_STYLE.get(record.outcome, ""))
    why = f"{record.reason}; from run {record.reused_from}" if kept else record.reason
    return _words(record), outcome, "" if kept else f"{took_s:.1f}", str(record.posts), why


def findings(found: tuple[Finding, ...], *, all_findings: bool = False) -> list[Text]:
    """Findings, worst first; passes only when asked for."""
    shown = [f for f in found if all_findings or f.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)]
    passed = sum(f.outcome is Outcome.PASS for f in found)
    apart = sum(f.outcome is Outcome.NOT_APPLICABLE for f in found)
    lines = [line for finding, subjects in fold.findings(shown) for line in _finding(finding, subjects)]
    return [*lines, Text(f"{len(found)} findings: {passed} pass, {apart} do not apply.", style="dim")]


def _finding(finding: Finding, subjects: list[str]) -> list[Text]:
    """One line for what passed; for the rest also what to do, where the limit comes from and what it rests on."""
    style = _OUTCOME_STYLE.get(finding.outcome, "")
    head = Text(f"{finding.outcome.value.replace('_', ' '):<8}", style=style)
    expected = plain(finding.expected)
    head.append(f" {plain(finding.metric)} of {names(subjects)}: {plain(finding.observed)}; expected {expected}", "")
    if finding.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE):
        return [head]
    evidence = finding.evidence
    more = {
        "": finding.cause,
        "follows from ": finding.explained_by,
        "do: ": finding.remedy,
        "limit from: ": finding.source,
        "seen in: ": f"{evidence.asked} ({evidence.status}), kept as {evidence.sha256[:12]}" if evidence else "",
    }
    return [head, *(Text(f"{_INDENT}{label}{plain(said)}") for label, said in more.items() if said)]


def gap_in_words(fact: str, count: int, why: str) -> str:
    """A folded gap in one line: gpus[*].uuid ×8: null."""
    return f"{plain(fact)}{f' ×{count}' if count > 1 else ''}: {plain(why)}"
