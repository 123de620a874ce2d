"""record: put the node on the books in NetBox, whatever its verdict. Nothing changed = nothing written."""

from __future__ import annotations

from flows.site import NodeSite
from inventory.errors import BookUnreachable
from inventory.findings import Finding, Outcome
from inventory.netbox import RecordPlan
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.RECORD


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Nothing: the book is compared with the truth in every run."""
    return {}


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Compare the book with the report and write the difference; a book that is down gets it from the outbox."""
    certificate = site.site.ledger.certificate(report.certificate_id) if report.certificate_id else None
    try:
        netbox = site.site.netbox()
        plan = netbox.plan_record(netbox.read(_book_id(site)), report, certificate)
        if plan.writes:
            site.step("netbox_write", writes=len(plan.writes))
        written = netbox.record(plan, fence=site.fence)
    except BookUnreachable:
        site.site.ledger.put_outbox(
            "netbox", site.node.key, f"{report.run_id}/{site.node.key}", {"report": report.model_dump(mode="json")}
        )
        raise
    return StageRecord(
        stage=STAGE,
        findings=(_on_the_books(plan), *plan.findings),
        did=plan.sentences,
        details={"writes": written},
    )


def _book_id(site: NodeSite) -> int:
    if site.node.netbox_id is None:
        return site.site.netbox().find(serial=site.node.serial, uuid=site.node.uuid, name=site.node.name)
    return site.node.netbox_id


def _on_the_books(plan: RecordPlan) -> Finding:
    return Finding(
        metric="netbox_record",
        subject="node",
        outcome=Outcome.PASS,
        observed=f"{len(plan.writes)} changes written and read back" if plan.writes else "already so",
        expected="the book says what was found",
        source="NetBox read back after writing",
    )
