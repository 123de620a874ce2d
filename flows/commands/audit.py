"""`audit`: what differs between the books and the hall, who is right, and the command that mends it. Read-only."""

from __future__ import annotations

import click

from flows.commands.options import as_json
from flows.commands.provision import to_the_end
from flows.local_server import start_server
from flows.rack import new_run_id
from flows.render.audit import audit_csv, audit_table
from flows.render.console import show
from flows.settings import Settings, load_settings, ship_prefect_settings
from flows.site import Site
from inventory.errors import Cancelled


@click.command()
@click.argument("rack", required=False, default="")
@as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, safe to open in a spreadsheet.")
@click.pass_obj
def audit(settings_file: str, rack: str, as_json: bool, as_csv: bool) -> int:
    """Compare the books with the hall.

    NetBox, Redfish, the nodes themselves, Kubernetes and the certificates side by side, for one rack or for all: what
    differs, who is right, and the command that mends it. Nothing is changed.

    Exit codes: 0 no difference, 1 differences, 2 something could not be looked at, 3 usage or settings.
    """
    settings = load_settings(settings_file)
    Site.open(settings).close()  # settings, ledger and keys are good before a server is started
    ship_prefect_settings(settings.state)
    server = start_server(settings.state, settings.secret_variables)
    try:
        server.wait()
        text = _audited(settings, rack)
    finally:
        server.stop()
    from flows.audit import AuditReport

    report = AuditReport.model_validate_json(text)
    if as_json:
        click.echo(report.model_dump_json(indent=1))
    elif as_csv:
        click.echo(audit_csv(report.differences), nl=False)
    else:
        show(audit_table(report.differences, report.nodes, report.notes))
    return 2 if report.blind else 1 if report.differences else 0


def _audited(settings: Settings, rack: str) -> str:
    """Run the flow; its report as JSON. What kept it from looking at all is raised as it was."""
    from flows.audit import audit_site

    run_id = new_run_id()
    broke = to_the_end(lambda: audit_site(rack, settings.file, run_id, return_state=True))
    site = Site.open(settings)
    try:
        text = site.ledger.run_report(run_id)
    finally:
        site.close()
    if not text:
        raise broke or Cancelled(f"audit {run_id} was stopped before it had a report")
    return text
