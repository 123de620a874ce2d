"""give back: after re-validation, lift the cordon that is ours, or quarantine what did not prove itself again."""

from __future__ import annotations

from flows.site import NodeSite
from inventory.findings import Finding, Outcome, good
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.JOIN


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Nothing: the fleet is looked at in every run."""
    return {}


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """A proven node goes back to work; any other keeps its cordon and gets the quarantine taint."""
    fleet = site.site.fleet()
    known = fleet.node(site.node.name)
    if known is None:
        return StageRecord(stage=STAGE, findings=(_absent(),))
    if not report.certificate_id:
        site.fence()
        fleet.quarantine(site.node.name, "revalidation", site.run_id)
        return StageRecord(stage=STAGE, findings=(_quarantined(report),), did=("quarantined, cordon kept",))
    gates = fleet.wait_gates(
        site.node.name,
        expected_gpus=site.node_class.gpu.count,
        system_uuid=report.inventory.identity.uuid or "",
        boot_id=report.software.boot_id,
        deadline=site.deadline,
    )
    if not good(gates):
        return StageRecord(stage=STAGE, findings=gates)
    if known.cordoned_by_others:
        return StageRecord(stage=STAGE, findings=gates, did=("proven; a cordon that is not ours was left in place",))
    site.fence()
    fleet.admit(site.node.name, site.run_id, report.certificate_id)
    return StageRecord(stage=STAGE, findings=gates, did=("our cordon lifted",))


def _absent() -> Finding:
    return Finding(
        metric="kubernetes_node",
        subject="node",
        outcome=Outcome.NOT_APPLICABLE,
        observed="not in the fleet",
        expected="a Node to give back",
        source="Kubernetes",
    )


def _quarantined(report: NodeReport) -> Finding:
    return Finding(
        metric="kubernetes_admitted",
        subject="node",
        outcome=Outcome.FAIL,
        observed="quarantined",
        expected="proven again",
        remedy="Mend the cause, then provision the node again.",
        source="rackmint",
        cause=report.cause,
        explained_by="burn_in/node",
    )
