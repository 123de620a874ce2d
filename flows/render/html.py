"""A run as one HTML file: works offline, readable on a phone, light and dark; every limit with its source."""

from __future__ import annotations

from pathlib import Path

import jinja2

from flows.render.text import plain
from inventory.findings import Outcome, Verdict
from inventory.report import RackReport

_ORDER = [Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.NOT_APPLICABLE, Outcome.PASS]


def page(report: RackReport, *, evidence_url: str = "", beside: Path | None = None) -> str:
    """The whole report. Escaping is on for every value; nothing is fetched from anywhere."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("flows.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = lambda value: plain(str(value), 2000)
    environment.filters["worst_first"] = lambda findings: sorted(findings, key=lambda f: _ORDER.index(f.outcome))
    template = environment.get_template("report.html.j2")
    return template.render(
        report=report,
        counts={v.value: report.count(v) for v in Verdict},
        took_s=(report.ended_at - report.started_at).total_seconds(),
        evidence_url=evidence_url.rstrip("/"),
    )
