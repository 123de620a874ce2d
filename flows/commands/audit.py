"""`audit`: what differs between the books and the hall, who is right, and the command that mends it. Read-only."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Awaitable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.local_server import start_server
from flows.rack import new_run_id
from flows.render.text import plain
from flows.settings import load_settings, ship_prefect_settings
from flows.site import Site
from inventory.errors import BookUnreachable

_COLUMNS = ("node", "kind", "subject", "book", "seen", "right", "since", "fix", "rule")


@click.command()
@click.argument("rack", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, safe to open in a spreadsheet.")
@click.pass_obj
def audit(settings_file: str, rack: str, as_json: bool, as_csv: bool) -> int:
    """Compare NetBox, Redfish, in-band, Kubernetes and certificates of RACK, or of all racks; nothing is changed.

    Exit codes: 0 no difference, 1 differences, 2 something could not be looked at, 3 usage or settings.
    """
    settings = load_settings(settings_file)
    site = Site.open(settings)
    ship_prefect_settings(settings.state)
    server = start_server(settings.state)
    run_id = new_run_id()
    try:
        server.wait()
        from flows.audit import AuditReport, audit_site

        state: Any = asyncio.run(_awaited(audit_site(rack, settings.file, run_id, return_state=True)))
        text = site.ledger.run_report(run_id)
    finally:
        server.stop()
        site.close()
    if not text:
        raise BookUnreachable(str(state.message or "the audit did not end"))
    report = AuditReport.model_validate_json(text)
    rows = [tuple(str(getattr(d, column)) for column in _COLUMNS) for d in report.differences]
    if as_json:
        click.echo(report.model_dump_json(indent=1))
    elif as_csv:
        click.echo(_csv(rows), nl=False)
    else:
        Console().print(_table(rows, report.nodes), highlight=False)
    return 2 if report.blind else 1 if rows else 0


async def _awaited(flow: Awaitable[Any]) -> Any:
    return await flow


def _table(rows: list[tuple[str, ...]], nodes: int) -> Table | Text:
    if not rows:
        return Text(f"{nodes} nodes: books and hall agree.", style="green")
    table = Table(box=None, padding=(0, 1), title=f"{len(rows)} differences on {nodes} nodes", title_justify="left")
    for column in _COLUMNS[:-1]:
        table.add_column(column, overflow="fold", no_wrap=column in ("node", "right"))
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row[:-1]))
    return table


def _csv(rows: list[tuple[str, ...]]) -> str:
    """A cell that begins like a formula is quoted with an apostrophe, as spreadsheets ask for."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow([f"'{cell}" if cell[:1] in "=+-@\t\r" else cell for cell in map(plain, row)])
    return out.getvalue()
