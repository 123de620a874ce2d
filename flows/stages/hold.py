"""hold: keep new work off a node while it is proven again, under an owner's mark that only we may lift."""

from __future__ import annotations

from flows.running import Run
from inventory.errors import BadSettings, BookUnreachable, NodeTrouble
from inventory.fleet import Fleet
from inventory.model import NodeRef
from inventory.report import NodeReport


def cordon(node: NodeRef, run: Run, scheduled: bool = False) -> str:
    """Cordon the node with our mark; returns why the node must be left alone, empty when it is ours to test.

    A schedule leaves what others have cordoned alone: somebody may be at work on it. An operator named it.
    """
    try:
        fleet = run.site.fleet()
        known = fleet.node(node.name)
        if known is None:
            return ""
        if scheduled and known.cordoned_by_others:
            return f"{node.name}: somebody else has cordoned it: left alone"
        return _busy(node, fleet) or _ours(node, fleet, run)
    except (BadSettings, BookUnreachable, NodeTrouble) as error:
        return str(error)


def _busy(node: NodeRef, fleet: Fleet) -> str:
    pods = fleet.working_pods(node.name)
    if not pods:
        return ""
    return f"{node.name}: runs {len(pods)} pods ({', '.join(pods[:3])}): drain it first, nothing was touched"


def _ours(node: NodeRef, fleet: Fleet, run: Run) -> str:
    """Cordoned, and looked at again: a pod that came between our look and our cordon is not tested under."""
    run.site.ledger.check(run.nodes[node.name].lease)
    run.cordoned.add(node.name)  # before it is so: a stop in this moment must lift it
    if not fleet.cordon(node.name, run.run_id):
        run.cordoned.discard(node.name)  # theirs
    busy = _busy(node, fleet)
    if busy and node.name in run.cordoned:
        fleet.uncordon(node.name, run.run_id)
        run.cordoned.discard(node.name)
    return busy


def keep(node: NodeRef, run: Run) -> None:
    """Something was found, or the node was given back: its cordon is not to be lifted when the run ends."""
    run.cordoned.discard(node.name)


def lift(run: Run) -> None:
    """Lift what this run has cordoned and not given back: it was stopped, and nothing was shown against the node."""
    for name in sorted(run.cordoned):
        try:
            run.site.ledger.check(run.nodes[name].lease)
            run.site.fleet().uncordon(name, run.run_id)
        except (BookUnreachable, NodeTrouble) as error:
            run.board.note(name, f"{error} Its cordon stays, with our mark: the next run takes it over.")
    run.cordoned.clear()


def revoke(report: NodeReport, run: Run) -> None:
    """A node that failed to prove itself again holds no certificate any longer."""
    run.site.ledger.check(run.nodes[report.node.name].lease)
    for certificate in run.site.ledger.certificates(report.node.key):
        run.site.ledger.revoke(certificate.certificate_id, report.cause, f"run {run.run_id}")
