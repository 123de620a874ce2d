"""What earlier runs owe the book: records that waited for NetBox are written, in order, before anything new begins."""

from __future__ import annotations

from collections.abc import Callable

from flows.running import Run
from inventory.errors import BadSettings, BookUnreachable, LeaseHeld, NodeTrouble
from inventory.ledger import Owed
from inventory.report import NodeReport, Stage


def replay(run: Run) -> None:
    """Write what is due. A book that still does not answer is not asked again in this round; the rest waits."""
    written = 0
    failed: set[str] = set()
    for owed in run.site.ledger.due_outbox():
        if owed.kind != "netbox" or owed.node_key in failed:
            continue
        try:
            written += _settle(owed, run)
        except LeaseHeld:
            failed.add(owed.node_key)  # whoever works on the node now will record a newer truth
        except (NodeTrouble, BadSettings, BookUnreachable) as error:
            run.site.ledger.fail_outbox(owed.id, str(error))
            failed.add(owed.node_key)
            if isinstance(error, BookUnreachable):
                break
    if written:
        run.notes.append(f"records of earlier runs that waited for NetBox were written: {written}")


def _settle(owed: Owed, run: Run) -> bool:
    """Write one record, or close it because something newer was recorded since; True when it was written."""
    ledger, report = run.site.ledger, NodeReport.model_validate(owed.payload["report"])
    outdated = _outdated(owed, report, run)
    if outdated:
        ledger.done_outbox(owed.id, outdated)
        return False
    lease = run.leased(report.node)
    try:
        writes = _write(report, run, lambda: ledger.check(lease))
    finally:
        ledger.release(lease)
    ledger.done_outbox(owed.id, f"written by run {run.run_id}: {writes} writes")
    return True


def _outdated(owed: Owed, report: NodeReport, run: Run) -> str:
    """Why this record is not the truth any more; empty when it is."""
    ledger = run.site.ledger
    if report.certificate_id and ledger.revocation(report.certificate_id):
        return f"superseded: its certificate {report.certificate_id} was revoked since"
    newer = [kept for kept in ledger.history(owed.node_key) if kept.stage is Stage.RECORD and kept.record]
    by = next((k.run_id for k in newer if k.record and k.record.passed and k.record.ended_at > owed.put_at), "")
    return f"superseded: run {by} recorded the node since" if by else ""


def _write(report: NodeReport, run: Run, fence: Callable[[], None]) -> int:
    """As the record stage would have done it: compared with the book as it is now, and conditional."""
    netbox, node = run.site.netbox(), report.node
    book_id = node.netbox_id
    if book_id is None:
        book_id = netbox.find(serial=node.serial, uuid=node.uuid, name=node.name)
    certificate = run.site.ledger.certificate(report.certificate_id) if report.certificate_id else None
    return netbox.record(netbox.plan_record(netbox.read(book_id), report, certificate), fence=fence)
