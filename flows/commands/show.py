"""`status` and `report`: what the ledger remembers. Nothing is asked of any node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Group
from rich.text import Text

from flows.commands.options import as_json, document
from flows.render.console import show
from flows.render.html import page
from flows.render.terminal import node_report, rack_report, table
from flows.running import is_dead
from flows.settings import Settings, load_settings
from inventory.errors import BadSettings
from inventory.ledger import Lease, Ledger, Run
from inventory.report import NodeReport, RackReport

_AUDIT = "audit"  # the one purpose whose report is not a rack's


@contextmanager
def _ledger(settings: Settings) -> Iterator[Ledger]:
    ledger = Ledger.open(settings.ledger_url)
    try:
        yield ledger
    finally:
        ledger.close()


@click.command()
@as_json
@click.pass_obj
def status(settings_file: str, as_json: bool) -> int:
    """What runs now and what ran last.

    Which run holds which node, what is still owed to NetBox or Kubernetes, and how the last runs ended.
    """
    with _ledger(load_settings(settings_file)) as ledger:
        leases, owed, runs = ledger.leases(), ledger.owed(), ledger.runs()
    if as_json:
        document({
            "leases": [lease._asdict() | {"dead": is_dead(lease.holder)} for lease in leases],
            "owed": [{"kind": o.kind, "node_key": o.node_key, "since": o.put_at, "said": o.said} for o in owed],
            "runs": [run._asdict() | {"outcome": _outcome(run, leases)} for run in runs],
        })  # fmt: skip
        return 0
    owes = [f"{o.kind} of {o.node_key}, since {o.put_at:%Y-%m-%d %H:%M} UTC: {o.said or 'not tried yet'}" for o in owed]
    show(Group(
        table("node", "held by run", "for", "since", "until", "alive", rows=map(_lease, leases)) if leases
        else Text("No node is held by a run."),
        *(Text(f"owed: {line}", style="yellow") for line in owes),
        Text(""),
        table("run", "purpose", "rack", "begun (UTC)", "outcome", rows=(
            (run.run_id, run.purpose, run.rack, f"{run.begun_at:%Y-%m-%d %H:%M}", _outcome(run, leases)) for run in runs
        )) if runs else Text("No run yet."),
    ))  # fmt: skip
    return 0


def _lease(lease: Lease) -> tuple[str, ...]:
    run, _, place = lease.holder.partition("@")
    alive = "no: the next run takes it" if is_dead(lease.holder) else ":".join(place.split(":")[:2])
    return lease.node_name, run, lease.purpose, f"{lease.taken_at:%H:%M:%S}", f"{lease.expires_at:%H:%M:%S}", alive


def _outcome(run: Run, leases: tuple[Lease, ...]) -> str:
    if run.outcome:
        return run.outcome
    own = [lease for lease in leases if lease.holder.partition("@")[0] == run.run_id and not is_dead(lease.holder)]
    return f"running, {len(own)} nodes" if own else "broken off; the same command goes on"


@click.command()
@click.argument("run_id", required=False, default="")
@click.option("--node", default="", metavar="NAME", help="One node in full.")
@click.option("--all", "all_findings", is_flag=True, help="Passes too, and what could not be read; with --node.")
@click.option("--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write one self-contained page.")  # fmt: skip
@as_json
@click.pass_obj
def report(
    settings_file: str, run_id: str, node: str, all_findings: bool, html_file: Path | None, as_json: bool
) -> int:
    """A run's report: the newest, or the one named.

    The verdict and its causes; with --node each stage and finding of one node; with --html everything in one page
    that opens without network. The exit code is the run's.
    """
    from flows.commands.provision import EXIT
    from flows.rack import outcome_of

    settings = load_settings(settings_file)
    found = _find(settings, run_id)
    chosen = _node(found, node) if node else None
    if html_file:
        html_file.write_text(page(found, evidence_url=settings.evidence_url, beside=html_file), encoding="utf-8")
        click.echo(f"{html_file} written", err=True)
    if as_json:
        document((chosen or found).model_dump(mode="json"))
    elif chosen:
        show(node_report(chosen, all_findings=all_findings))
    elif not html_file:
        show(rack_report(found))
    return EXIT[chosen.verdict if chosen else outcome_of(found)]


def _find(settings: Settings, run_id: str) -> RackReport:
    with _ledger(settings) as ledger:
        runs = [run for run in ledger.runs() if run.purpose != _AUDIT]
        ids = [run_id] if run_id else [run.run_id for run in runs]
        if any(run.run_id == run_id and run.purpose == _AUDIT for run in ledger.runs()):
            raise BadSettings(f"run {run_id} was an audit. `rackmint audit` shows what differs now")
        text = next((text for one in ids if (text := ledger.run_report(one))), None)
    if not text:
        raise BadSettings(f"no report of run {run_id or '(any)'}. `rackmint status` lists the runs")
    return RackReport.model_validate_json(text)


def _node(found: RackReport, name: str) -> NodeReport:
    chosen = [node for node in found.nodes if node.node.name == name]
    if not chosen:
        there = ", ".join(node.node.name for node in found.nodes)
        raise BadSettings(f"run {found.run_id} has no node {name}. It has: {there}")
    return chosen[0]
