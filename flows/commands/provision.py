"""`plan`, `provision`, `revalidate`: the commands that start a flow, with a plan before every act."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import click
from rich.console import Console

from flows.board import WATCHING, Board
from flows.local_server import start_server
from flows.plan import RackPlan, plan_rack
from flows.rack import new_run_id, nodes_of, outcome_of
from flows.render.grid import watching
from flows.render.terminal import rack_plan, rack_report, show
from flows.settings import Settings, load_settings, ship_prefect_settings
from flows.site import Site
from inventory.errors import Cancelled, RackmintError
from inventory.findings import Verdict
from inventory.report import RackReport

EXIT = {Verdict.ACCEPTED: 0, Verdict.REJECTED: 1, Verdict.UNDECIDED: 2}

Flow = Callable[[], Awaitable[Any]]

_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
_nodes = click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node; may be repeated.")
_reimage = click.option("--reimage", multiple=True, metavar="NAME", help="Wipe this node though it is in service.")


@click.command()
@click.argument("rack")
@_nodes
@_reimage
@_as_json
@click.pass_obj
def plan(settings_file: str, rack: str, nodes: tuple[str, ...], reimage: tuple[str, ...], as_json: bool) -> int:
    """Say what `provision RACK` would do to each node and why; nothing is changed."""
    site = Site.open(load_settings(settings_file))
    try:
        made = _plan(site, rack, nodes, reimage)
    finally:
        site.close()
    _show_plan(made, as_json)
    return 0 if made.able else 2


@click.command()
@click.argument("rack")
@_nodes
@_reimage
@click.option("--yes", is_flag=True, help="Do not ask: the plan, wiped disks included, is agreed to.")
@_as_json
@click.pass_obj
def provision(
    settings_file: str, rack: str, nodes: tuple[str, ...], reimage: tuple[str, ...], yes: bool, as_json: bool
) -> int:
    """Take a rack from cold to certified: discover, inspect, image, tune, burn in, record, join."""
    settings = load_settings(settings_file)
    site = Site.open(settings)
    ship_prefect_settings(settings.state)
    server = start_server(settings.state)  # it comes up while the plan is made
    try:
        try:
            made = _plan(site, rack, nodes, reimage)
        finally:
            site.close()
        if not as_json:
            _show_plan(made, as_json)
        if not made.able:
            raise RackmintError(f"rack {rack}: nothing to do: every node is refused by the plan")
        if not yes:
            click.confirm("Go on?", abort=True, err=as_json)
        _note(server.wait())
        run_id = new_run_id()

        def flow() -> Awaitable[Any]:
            from flows.provision import provision_rack

            return provision_rack(rack, settings.file, run_id, made.able, made.wipe, reimage, return_state=True)

        return _run(settings, run_id, flow, as_json)
    finally:
        server.stop()


@click.command()
@click.argument("rack", required=False, default="")
@click.option("--due", is_flag=True, help="Only nodes whose certificate is due or stale.")
@_as_json
@click.pass_obj
def revalidate(settings_file: str, rack: str, due: bool, as_json: bool) -> int:
    """Prove joined nodes again: cordon, the stages that change nothing, then renew or quarantine."""
    if not rack and not due:
        raise click.UsageError("name a rack, or use --due")
    settings = load_settings(settings_file)
    Site.open(settings).close()
    ship_prefect_settings(settings.state)
    server = start_server(settings.state)
    try:
        _note(server.wait())
        run_id = new_run_id()

        def flow() -> Awaitable[Any]:
            from flows.revalidate import revalidate_rack

            return revalidate_rack(rack, settings.file, run_id, due, return_state=True)

        return _run(settings, run_id, flow, as_json)
    finally:
        server.stop()


def _plan(site: Site, rack: str, nodes: tuple[str, ...], reimage: tuple[str, ...]) -> RackPlan:
    return plan_rack(site, rack, nodes_of(site, rack, nodes), frozenset(reimage))


def _show_plan(made: RackPlan, as_json: bool) -> None:
    if as_json:
        click.echo(made.model_dump_json(indent=1))
    else:
        show(Console(), rack_plan(made))


def _run(settings: Settings, run_id: str, flow: Flow, as_json: bool) -> int:
    """Watch a flow to its end and print its report."""
    board = Board()
    WATCHING.set(board)
    console = Console(stderr=as_json)
    with watching(board, console):
        state = asyncio.run(_awaited(flow))
    report = _report(settings, run_id)
    if report is None:
        raise Cancelled(f"run {run_id} ended as {state.name}: {state.message}")
    if as_json:
        click.echo(json.dumps(report.model_dump(mode="json"), indent=1))
    else:
        show(Console(), rack_report(report))
        click.echo(f"The whole report: rackmint report {run_id} --html report.html")
    return EXIT[outcome_of(report)]


async def _awaited(flow: Flow) -> Any:
    return await flow()


def _report(settings: Settings, run_id: str) -> RackReport | None:
    site = Site.open(settings)
    try:
        text = site.ledger.run_report(run_id)
    finally:
        site.close()
    return RackReport.model_validate_json(text) if text else None


def _note(text: str) -> None:
    if text:
        click.echo(f"note: {text}", err=True)
