"""A run as one HTML file: works offline, readable on a phone, light and dark; every limit with its source."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from flows.render import fold
from flows.render.text import about, names, plain
from inventory.findings import Evidence, Finding, Outcome, Verdict
from inventory.report import NodeReport, RackReport, Stage, StageRecord

_WORST_FIRST = (Verdict.UNDECIDED, Verdict.REJECTED, Verdict.ACCEPTED)  # an open question first: somebody must act
_BAD = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN)
_WIDE, _HIGH = 320.0, 120.0  # of a curve, in SVG units; our choice: two side by side on a phone held upright


class Row(NamedTuple):
    """One finding, with all subjects that say the very same, and what they rest on."""

    finding: Finding
    subjects: str
    evidence: tuple[Evidence, ...]


class Curve(NamedTuple):
    """One measured curve: bandwidth over message size, and the limit if the pack has one."""

    name: str
    points: str  # of an SVG polyline
    limit_y: float | None
    said: str


def page(report: RackReport, *, evidence_url: str = "", beside: Path | None = None) -> str:
    """The whole report. Escaping is on for every value; nothing is fetched from anywhere.

    `beside` is where the page will lie: links to evidence in a local folder are relative to it.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("flows.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    where = _evidence_at(evidence_url, beside)
    environment.filters["plain"] = lambda value: plain(str(value), 2000)
    environment.filters["breaks"] = lambda value: escape(value).replace("_", Markup("_<wbr>"))
    environment.globals.update(
        about=lambda node, text: about(node, text, 2000), rows=_rows, worst=_worst, bad=_bad, curves=_curves,
        gaps=lambda missing: fold.gaps((gap.fact, gap.reason) for gap in missing), stages=tuple(Stage),
        href=lambda evidence: f"{where}/{evidence.sha256[:2]}/{evidence.sha256}" if where else "", remedy=_remedy,
        names=names,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        report=report,
        counts=[(v.value, report.count(v)) for v in _WORST_FIRST if report.count(v)],
        nodes=sorted(report.nodes, key=lambda node: _WORST_FIRST.index(node.verdict)),
        took=_span((report.ended_at - report.started_at).total_seconds()),
        evidence_at=evidence_url,
    )


def _evidence_at(url: str, beside: Path | None) -> str:
    """What stands before the name of a raw answer in a link; empty where a browser could not follow it."""
    if url.startswith(("http://", "https://")):
        return url.rstrip("/")
    if "://" in url or not url or beside is None:
        return ""
    return quote(os.path.relpath(Path(url).resolve(), beside.resolve().parent))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _rows(findings: Iterable[Finding]) -> list[Row]:
    """Worst first; findings that differ by their subject only are one row that keeps all their evidence."""
    found = list(findings)
    by_key: dict[tuple[str, str], list[Evidence]] = {}
    for finding in found:
        if finding.evidence:
            by_key.setdefault((finding.metric, finding.subject), []).append(finding.evidence)
    rows = []
    for finding, subjects in fold.findings(found):
        kept = {e.sha256: e for subject in subjects for e in by_key.get((finding.metric, subject), ())}
        rows.append(Row(finding, names(subjects), tuple(kept.values())))
    return rows


def _bad(report: NodeReport) -> list[Row]:
    return _rows(finding for finding in report.findings if finding.outcome in _BAD)


def _worst(record: StageRecord) -> str:
    return "kept" if record.reused_from else record.outcome.value


def _remedy(report: NodeReport) -> str:
    """What to do about a node's cause, unless the cause says it itself."""
    found = next((f.remedy for f in report.findings if f.sentence == report.cause), "")
    return "" if found in report.cause else found


# -- curves ---------------------------------------------------------------------------------------------------------


def _curves(record: StageRecord) -> list[Curve]:
    """Each test's bandwidth over message size, as it was measured."""
    tests = record.details.get("tests", {})
    curves = {name: told.get("curve") for name, told in tests.items() if isinstance(told, dict)}
    return [_curve(name, points, record.findings) for name, points in curves.items() if points and len(points) > 1]


def _curve(name: str, measured: list[tuple[float, float]], findings: tuple[Finding, ...]) -> Curve:
    judged = next((f for f in findings if f.metric == f"{name}_busbw_gb_s"), None)
    least = re.search(r"at least ([\d.]+)", judged.expected) if judged else None
    limit = float(least[1]) if least else None
    top = 1.1 * max(limit or 0.0, *(busbw for _, busbw in measured)) or 1.0
    first, last = (math.log2(max(1.0, size)) for size in (measured[0][0], measured[-1][0]))
    points = " ".join(
        f"{_WIDE * (math.log2(max(1.0, size)) - first) / ((last - first) or 1.0):.1f},{_HIGH * (1 - busbw / top):.1f}"
        for size, busbw in measured
    )
    said = f"{judged.observed} GB/s, expected {judged.expected}" if judged else f"up to {measured[-1][1]:g} GB/s"
    sizes = f"{_bytes(measured[0][0])} to {_bytes(measured[-1][0])}"
    return Curve(name, points, None if limit is None else _HIGH * (1 - limit / top), f"{said}; {sizes}")


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"
