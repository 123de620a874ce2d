"""`serve`: schedules. Re-validation and audits by cron, started from NetBox's racks, until it is stopped."""

from __future__ import annotations

import click

from flows.local_server import start_server
from flows.settings import load_settings, ship_prefect_settings
from flows.site import Site


@click.command()
@click.option(
    "--revalidate-cron", default="17 2 * * 0", show_default=True, help="When due certificates are renewed (UTC)."
)
@click.option("--audit-cron", default="43 * * * *", show_default=True, help="When the books are compared (UTC).")
@click.pass_obj
def serve(settings_file: str, revalidate_cron: str, audit_cron: str) -> int:
    """Serve provisioning on demand, re-validation and audits on schedule, until stopped with Ctrl-C."""
    settings = load_settings(settings_file)
    Site.open(settings).close()  # settings, ledger and keys are good before anything is promised
    ship_prefect_settings(settings.state)
    server = start_server(settings.state)
    try:
        said = server.wait()
        if said:
            click.echo(f"note: {said}", err=True)
        from flows.deployments import serve_all

        serve_all(settings, revalidate_cron=revalidate_cron, audit_cron=audit_cron)
    finally:
        server.stop()
    return 0
