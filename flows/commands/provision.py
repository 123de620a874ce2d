"""`plan`, `provision`, `revalidate`: the commands that start a flow, with a plan before every act."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from flows.board import WATCHING, Board
from flows.commands.options import as_json as _as_json
from flows.commands.options import document
from flows.local_server import start_server
from flows.plan import RackPlan, plan_rack
from flows.rack import check_room, new_run_id, nodes_of, outcome_of
from flows.render.console import console, show
from flows.render.grid import watching
from flows.render.plans import rack_plan
from flows.render.terminal import rack_report
from flows.render.text import about
from flows.settings import Settings, load_settings, ship_prefect_settings
from flows.site import Site
from inventory.errors import Cancelled, LedgerUnavailable, RackmintError
from inventory.findings import Verdict
from inventory.report import RackReport

EXIT = {Verdict.ACCEPTED: 0, Verdict.REJECTED: 1, Verdict.UNDECIDED: 2}

Flow = Callable[[], Awaitable[Any]]

_nodes = click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node; may be repeated.")
_reimage = click.option("--reimage", multiple=True, metavar="NAME",
                        help="Wipe this node though in service or with foreign data; may be repeated.")  # fmt: skip


@click.command()
@click.argument("rack")
@_nodes
@_reimage
@_as_json
@click.pass_obj
def plan(settings_file: str, rack: str, nodes: tuple[str, ...], reimage: tuple[str, ...], as_json: bool) -> int:
    """Say what provisioning a rack would do.

    For each node: which stages would run and why, how many POSTs and minutes they cost, and what would be lost for
    ever. Every node is looked at; nothing is changed. Exit code 2 when every node would be left alone.
    """
    site = Site.open(load_settings(settings_file))
    try:
        made = _plan(site, rack, nodes, reimage)
    finally:
        site.close()
    if as_json:
        document(made.model_dump(mode="json"))
    else:
        show(rack_plan(made))
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
    """Take a rack from cold to certified.

    Discover, inspect, image, tune, burn in, record and join every node, after showing the plan and asking. What was
    proven before and has not changed is kept. Interrupted or killed, the same command goes on where it stopped.
    """
    settings = load_settings(settings_file)
    site = Site.open(settings)
    check_room(settings.state)
    ship_prefect_settings(settings.state)
    server = start_server(settings.state, settings.secret_variables)  # it comes up while the plan is made
    try:
        try:
            made = _plan(site, rack, nodes, reimage)
        finally:
            site.close()
        if not as_json:
            show(rack_plan(made))
        _agree(made, yes)
        from flows.provision import provision_rack  # takes a second or two, in which the server comes up further

        run_id, refused = new_run_id(), tuple(node.node.name for node in made.nodes if node.refused)
        _note(server.wait())
        return _run(
            settings,
            run_id,
            lambda: provision_rack(
                rack, settings.file, run_id, (*made.able, *refused), made.wipe, reimage, refused, return_state=True
            ),
            as_json,
        )
    finally:
        server.stop()


def _agree(made: RackPlan, yes: bool) -> None:
    """The operator's word, before anything is changed."""
    if not made.able:
        said = "; ".join(f"{node.node.name}: {about(node.node.name, node.refused)}" for node in made.nodes)
        raise RackmintError(f"rack {made.rack}: nothing to do: {said or 'NetBox names no node in it'}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked. Look at `rackmint plan`, then agree with --yes")
    disks = len(made.wipe)
    question = f"Wipe {disks} {'disk' if disks == 1 else 'disks'} and go on?" if disks else "Go on?"
    if not click.confirm(question, err=True):
        raise Cancelled("not agreed to: nothing was changed")


@click.command()
@click.argument("rack", required=False, default="")
@_nodes
@click.option("--due", is_flag=True, help="Only nodes whose certificate is due or revoked.")
@_as_json
@click.pass_obj
def revalidate(settings_file: str, rack: str, nodes: tuple[str, ...], due: bool, as_json: bool) -> int:
    """Prove joined nodes again.

    Cordon, run the stages that change nothing, then renew the certificate or quarantine the node. Only what was
    cordoned here is uncordoned.
    """
    if not rack and (nodes or not due):
        raise click.UsageError("name a rack, or use --due")
    settings = load_settings(settings_file)
    Site.open(settings).close()
    check_room(settings.state)
    ship_prefect_settings(settings.state)
    server = start_server(settings.state, settings.secret_variables)
    try:
        from flows.revalidate import revalidate_rack

        run_id = new_run_id()
        _note(server.wait())
        return _run(
            settings,
            run_id,
            lambda: revalidate_rack(rack, settings.file, run_id, due, nodes, return_state=True),
            as_json,
        )
    finally:
        server.stop()


def _plan(site: Site, rack: str, nodes: tuple[str, ...], reimage: tuple[str, ...]) -> RackPlan:
    return plan_rack(site, rack, nodes_of(site, rack, nodes), frozenset(reimage))


def _run(settings: Settings, run_id: str, flow: Flow, as_json: bool) -> int:
    """Watch a flow to its end and print its report; what broke it off is raised here."""
    board = Board()
    WATCHING.set(board)
    with watching(board, console(stderr=as_json)):
        broke = to_the_end(flow)
    if isinstance(broke, LedgerUnavailable):
        raise broke  # where nothing can be noted, no report was kept
    report = _report(settings, run_id)
    if report is None:
        raise broke or Cancelled(f"run {run_id} was stopped before it had a report")
    if as_json:
        document(report.model_dump(mode="json"))
    else:
        show(rack_report(report))
        click.echo(f"The whole report: rackmint {_settings_option(settings)}report {run_id} --html report.html")
    return EXIT[outcome_of(report)]


def _settings_option(settings: Settings) -> str:
    """What a command needs that is typed in this folder; nothing where ./rackmint.toml is meant."""
    return "" if Path("rackmint.toml").resolve() == Path(settings.file) else f"--settings {settings.file} "


def to_the_end(flow: Flow) -> BaseException | None:
    """Run a flow and tell Prefect all of it; what broke it off, if anything did."""
    from flows.tasks import Terminated, tell_the_rest

    try:
        return asyncio.run(_awaited(flow))
    except Terminated:  # the leases are back by now: the loop was not left before its tasks had ended
        raise KeyboardInterrupt from None
    finally:
        tell_the_rest()


async def _awaited(flow: Flow) -> BaseException | None:
    state = await flow()
    broke = await state.aresult(raise_on_failure=False)
    return broke if isinstance(broke, BaseException) else None


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
