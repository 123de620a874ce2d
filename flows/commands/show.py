"""`status` and `report`: what the ledger remembers. Nothing is asked of any node."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.render.html import page
from flows.render.terminal import node_report, rack_report, show
from flows.render.text import plain
from flows.settings import load_settings
from inventory.errors import BadSettings
from inventory.ledger import Ledger
from inventory.report import RackReport


def _ledger(settings_file: str) -> Ledger:
    return Ledger.open(load_settings(settings_file).ledger_url)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.pass_obj
def status(settings_file: str, as_json: bool) -> int:
    """What runs now, who holds which node, what is owed to the books, and the last runs."""
    ledger = _ledger(settings_file)
    try:
        leases, owed, runs = ledger.leases(), ledger.owed(), ledger.runs()
    finally:
        ledger.close()
    if as_json:
        told = {
            "leases": [lease._asdict() for lease in leases],
            "owed": [{"kind": o.kind, "node_key": o.node_key} for o in owed],
            "runs": [run._asdict() for run in runs],
        }
        click.echo(json.dumps(told, indent=1, default=str))
        return 0
    console = Console()
    console.print(_table("node", "held by", "purpose", "since", "until", rows=[
        (lease.node_name, lease.holder, lease.purpose, f"{lease.taken_at:%H:%M:%S}", f"{lease.expires_at:%H:%M:%S}")
        for lease in leases
    ]) if leases else Text("No node is held by a run."))  # fmt: skip
    if owed:
        console.print(Text(f"{len(owed)} records wait for NetBox or Kubernetes to answer again.", style="yellow"))
    console.print(_table("run", "purpose", "rack", "begun", "outcome", rows=[
        (run.run_id, run.purpose, run.rack, f"{run.begun_at:%Y-%m-%d %H:%M}", run.outcome or "running or killed")
        for run in runs
    ]) if runs else Text("No run yet."))  # fmt: skip
    return 0


def _table(*columns: str, rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


@click.command()
@click.argument("run_id", required=False, default="")
@click.option("--node", default="", metavar="NAME", help="One node in full.")
@click.option("--all", "all_findings", is_flag=True, help="Passes too.")
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), help="Write one self-contained page."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.pass_obj
def report(
    settings_file: str, run_id: str, node: str, all_findings: bool, html_file: Path | None, as_json: bool
) -> int:
    """A run's report: the newest, or the one named."""
    from flows.commands.provision import EXIT
    from flows.rack import outcome_of

    settings = load_settings(settings_file)
    found = _find(Ledger.open(settings.ledger_url), run_id)
    if html_file:
        html_file.write_text(page(found, evidence_url=settings.evidence_url))
        click.echo(f"{html_file} written", err=True)
    if as_json:
        click.echo(json.dumps(found.model_dump(mode="json"), indent=1))
    elif node:
        chosen = [n for n in found.nodes if n.node.name == node]
        if not chosen:
            raise BadSettings(
                f"run {found.run_id} has no node {node}. It has: {', '.join(n.node.name for n in found.nodes)}"
            )
        show(Console(), node_report(chosen[0], all_findings=all_findings))
    elif not html_file:
        show(Console(), rack_report(found))
    return EXIT[outcome_of(found)]


def _find(ledger: Ledger, run_id: str) -> RackReport:
    try:
        ids = [run_id] if run_id else [run.run_id for run in ledger.runs() if run.outcome]
        text = next((text for i in ids if (text := ledger.run_report(i))), None)
    finally:
        ledger.close()
    if not text:
        raise BadSettings(f"no report of run {run_id or '(any)'}. `rackmint status` lists the runs")
    return RackReport.model_validate_json(text)
