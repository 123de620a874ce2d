"""give back: lift the cordon that is ours after a proof, or quarantine a node of the fleet that failed one.

Only a failure quarantines. A node of which nothing could be learnt goes back to work while its certificate holds.
"""

from __future__ import annotations

from flows.certify import standing
from flows.site import NodeSite
from flows.stages.join import kept_out, let_go
from inventory.findings import Finding, Outcome, Verdict, good, root_cause
from inventory.fleet import Fleet, FleetNode
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.JOIN


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Nothing: the fleet is looked at in every run."""
    return {}


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """A proven node goes back to work; a failed one keeps its cordon and gets the quarantine taint."""
    fleet = site.site.fleet()
    known = fleet.node(site.node.name)
    if known is None:
        absent = _finding("kubernetes_node", Outcome.NOT_APPLICABLE, "not in the fleet", "a Node to give back")
        return StageRecord(stage=STAGE, findings=(absent,))
    if report.verdict is Verdict.REJECTED:
        return _quarantine(report, site, fleet, "revalidation")
    if not report.certificate_id:
        return _undecided(report, site, fleet, known)
    return _proven(report, site, fleet, known)


def _quarantine(
    report: NodeReport, site: NodeSite, fleet: Fleet, why: str, findings: tuple[Finding, ...] = ()
) -> StageRecord:
    site.fence()
    site.step("quarantine", why=why)
    fleet.quarantine(site.node.name, why, site.run_id)
    root = root_cause((*report.findings, *findings))
    shut = Finding(
        metric="kubernetes_admitted",
        subject="node",
        outcome=Outcome.FAIL,
        observed="quarantined",
        expected="proven again",
        remedy="Mend the cause, set the device to staged in NetBox, then provision the node again.",
        source="Kubernetes Node read back",
        cause=root.sentence if root else "",
        explained_by=root.key if root else "",
    )
    return StageRecord(stage=STAGE, findings=(*findings, shut), did=("quarantined, cordon kept",))


def _undecided(report: NodeReport, site: NodeSite, fleet: Fleet, known: FleetNode) -> StageRecord:
    certificate, reasons = standing(report, site.site)
    if certificate is None or reasons:
        why = f"not proven again, and its certificate does not hold: {'; '.join(reasons)}"
        still = _finding("kubernetes_admitted", Outcome.NOT_RUN, "cordoned", "proven again", why)
        return StageRecord(stage=STAGE, findings=(still,))
    did: tuple[str, ...] = ()
    if known.cordon_owner == site.run_id:
        site.fence()
        site.step("uncordon")
        fleet.uncordon(site.node.name, site.run_id)
        did = ("our cordon lifted",)
    until = f"nothing was found against it; its certificate holds until {certificate.expires_at:%Y-%m-%d}"
    return StageRecord(
        stage=STAGE,
        findings=(_finding("kubernetes_admitted", Outcome.NOT_RUN, f"as before: {until}", "proven again"),),
        did=did,
    )


def _proven(report: NodeReport, site: NodeSite, fleet: Fleet, known: FleetNode) -> StageRecord:
    gates = fleet.wait_gates(
        site.node.name,
        expected_gpus=site.node_class.gpu.count,
        system_uuid=report.inventory.identity.uuid or "",
        boot_id=report.software.boot_id,
        deadline=site.deadline,
    )
    if not good(gates):
        return _quarantine(report, site, fleet, "gates", gates)
    if known.cordoned_by_others:
        return StageRecord(stage=STAGE, findings=gates, did=("proven; a cordon that is not ours was left in place",))
    waits = kept_out(site)
    if waits:
        return StageRecord(stage=STAGE, findings=(*gates, waits))
    return StageRecord(stage=STAGE, findings=gates, did=tuple(let_go(report, site, fleet, known)))


def _finding(metric: str, outcome: Outcome, observed: str, expected: str, cause: str = "") -> Finding:
    return Finding(
        metric=metric,
        subject="node",
        outcome=outcome,
        observed=observed,
        expected=expected,
        source="Kubernetes",
        cause=cause,
    )
