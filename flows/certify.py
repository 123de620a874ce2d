"""From a node's report to its certificate: issue when the proof is new, keep when what it binds still holds."""

from __future__ import annotations

from importlib.metadata import version

from bios_profiles.profile import digest as profile_digest
from flows.site import Site
from inventory.certificate import EARNED_BY, NodeCertificate, due, issue, stale
from inventory.model import now
from inventory.report import NodeReport, Stage


def standing(report: NodeReport, site: Site) -> tuple[NodeCertificate | None, tuple[str, ...]]:
    """The newest certificate that was not revoked, and why it no longer holds (empty = it holds)."""
    certificates = [
        c for c in site.ledger.certificates(report.node.key) if not site.ledger.revocation(c.certificate_id)
    ]
    if not certificates:
        return None, ("no certificate",)
    newest = max(certificates, key=lambda c: c.issued_at)
    node_class = site.class_of(report.node)
    reasons = stale(
        newest,
        report.inventory,
        report.software,
        profile_digest=profile_digest(site.profiles[node_class.bios_profile]),
        image_digest=site.manifests[node_class.image].artifact.sha256,
    )
    if due(newest, now()):
        reasons = (*reasons, f"expired on {newest.expires_at:%Y-%m-%d}")
    return newest, reasons


def certify(report: NodeReport, site: Site, *, renew: bool = False) -> NodeReport:
    """The report with its certificate: the standing one when it still binds the truth, else a newly issued one.

    A node whose stages did not all pass keeps none.
    """
    if not all((record := report.record(stage)) and record.passed for stage in EARNED_BY):
        return report
    certificate, reasons = standing(report, site)
    if certificate and not reasons and not renew and _all_reused(report):
        return report.model_copy(update={"certificate_id": certificate.certificate_id})
    node_class = site.class_of(report.node)
    new = issue(
        report,
        node_class,
        profile_digest=profile_digest(site.profiles[node_class.bios_profile]),
        image_digest=site.manifests[node_class.image].artifact.sha256,
        limits_version=site.packs[node_class.limits].version,
        issued_at=now(),
        key=site.key,
        run_id=report.run_id,
        rackmint_version=version("rackmint"),
    )
    site.ledger.put_certificate(new)
    return report.model_copy(update={"certificate_id": new.certificate_id})


def _all_reused(report: NodeReport) -> bool:
    """Nothing was proven anew, so a new certificate would say the same with a later date."""
    return all((r := report.record(stage)) and r.reused_from for stage in EARNED_BY if stage is not Stage.DISCOVER)
