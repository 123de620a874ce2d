"""What Prefect may start by itself: provisioning on demand, re-validation and audits by schedule."""

from __future__ import annotations

from typing import Any, cast

from prefect import Flow, serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron

from flows.audit import audit_site
from flows.provision import provision_rack
from flows.revalidate import revalidate_rack
from flows.settings import Settings

# A second run of the same schedule is dropped, not queued: the ledger makes it a no-op anyway.
_ONE = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


def serve_all(settings: Settings, *, revalidate_cron: str, audit_cron: str) -> None:
    """Serve the three flows until stopped; schedules pause while nobody serves."""
    where = {"settings_file": settings.file}
    every_due = {**where, "rack": "", "due": True}
    serve(
        _deployed(provision_rack, name=settings.site, parameters=where),
        _deployed(
            revalidate_rack,
            name=settings.site,
            parameters=every_due,
            schedules=[Cron(revalidate_cron, timezone="UTC", slug="revalidate-due")],
            concurrency_limit=_ONE,
        ),
        _deployed(
            audit_site,
            name=settings.site,
            parameters={**where, "rack": ""},
            schedules=[Cron(audit_cron, timezone="UTC", slug="audit-all")],
            concurrency_limit=_ONE,
        ),
        pause_on_shutdown=True,
        print_starting_message=False,  # the command has said what is served
    )


def _deployed(flow: Flow[Any, Any], **how: Any) -> RunnerDeployment:
    """A deployment of one flow; outside an event loop Prefect hands it back at once."""
    return cast(RunnerDeployment, flow.to_deployment(**how))
