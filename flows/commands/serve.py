"""`serve`: schedules. Re-validation and audits by cron, started from NetBox's racks, until it is stopped."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click

from flows.commands.options import answer, as_json
from flows.local_server import start_server
from flows.settings import load_settings, prefect_api_url, ship_prefect_settings
from flows.site import Site


@click.command()
@click.option(
    "--revalidate-cron", default="17 2 * * 0", show_default=True, help="When due certificates are renewed (UTC)."
)
@click.option("--audit-cron", default="43 * * * *", show_default=True, help="When the books are compared (UTC).")
@as_json
@click.pass_obj
def serve(settings_file: str, revalidate_cron: str, audit_cron: str, as_json: bool) -> int:
    """Re-validate and audit by schedule.

    Also provisions when Prefect asks for it. Runs until it is stopped with Ctrl-C; while nobody serves, the schedules
    pause.
    """
    settings = load_settings(settings_file)
    Site.open(settings).close()  # settings, ledger and keys are good before anything is promised
    ship_prefect_settings(settings.state)
    signal.signal(signal.SIGTERM, _end)  # until Prefect's runner, which then ends its flows, takes the signal over
    server = start_server(settings.state, settings.secret_variables)
    try:
        said = server.wait()
        if said:
            click.echo(f"note: {said}", err=True)
        from flows.deployments import serve_all

        answer(
            as_json,
            f"Serving {settings.site}: due certificates are renewed at `{revalidate_cron}`, "
            f"the books are compared at `{audit_cron}` (UTC).\nPrefect: {prefect_api_url()}",
            site=settings.site, revalidate=revalidate_cron, audit=audit_cron, prefect=prefect_api_url(),
        )  # fmt: skip

        serve_all(settings, revalidate_cron=revalidate_cron, audit_cron=audit_cron)
    finally:
        server.stop()
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    """Leave through the door, so that our server ends with us."""
    sys.exit(0)
