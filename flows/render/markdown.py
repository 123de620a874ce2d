"""A run as Prefect shows it: the rack as a table, a node as a Markdown page. Hostile text stays text."""

from __future__ import annotations

from flows.render import fold
from flows.render.text import about, cell, markdown, names
from inventory.findings import Outcome, Verdict
from inventory.report import NodeReport, RackReport


def rack_rows(report: RackReport) -> list[dict[str, str]]:
    """One row a node; safe where somebody exports the table to a spreadsheet."""
    return [
        {
            "node": cell(node.node.name),
            "class": cell(node.node.node_class),
            "verdict": node.verdict.value,
            "POSTs": str(node.posts),
            "cause": "" if node.verdict is Verdict.ACCEPTED else cell(about(node.node.name, node.cause)),
        }
        for node in report.nodes
    ]


def node_page(report: NodeReport) -> str:
    """The cause, then every finding that is no pass, worst first."""
    lines = [f"# {markdown(report.node.name)}: {report.verdict.value}", "", markdown(report.cause), ""]
    for finding, subjects in fold.findings(f for f in report.findings if f.outcome is not Outcome.PASS):
        said = finding.cause or (
            f"{finding.metric} of {names(subjects)}: {finding.observed}, expected {finding.expected}"
        )
        remedy = f" {markdown(finding.remedy)}" if finding.remedy else ""
        lines.append(f"- **{finding.outcome.value.replace('_', ' ')}**: {markdown(said)}.{remedy}")
    return "\n".join(lines)
