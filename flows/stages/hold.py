"""hold: keep new work off a node while it is proven again, under an owner's mark that only we may lift."""

from __future__ import annotations

from flows.running import Run
from inventory.errors import BookUnreachable, ChangeRefused
from inventory.model import NodeRef
from inventory.report import NodeReport


def cordon(node: NodeRef, run: Run) -> str:
    """Cordon the node with our mark; returns why the node must be left alone, empty when it is ours to test."""
    fleet = run.site.fleet()
    try:
        known = fleet.node(node.name)
        if known is None:
            return ""
        pods = fleet.working_pods(node.name)
        if pods:
            return f"{node.name}: runs {len(pods)} pods ({', '.join(pods[:3])}): drain it first, nothing was touched"
        fleet.cordon(node.name, run.run_id)
    except (BookUnreachable, ChangeRefused) as error:
        return str(error)
    return ""


def revoke(report: NodeReport, run: Run) -> None:
    """A node that failed to prove itself again holds no certificate any longer."""
    for certificate in run.site.ledger.certificates(report.node.key):
        run.site.ledger.revoke(certificate.certificate_id, report.cause or "re-validation failed", f"run {run.run_id}")
