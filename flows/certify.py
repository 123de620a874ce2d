"""From a node's report to its certificate: issue when the proof is new, keep when what it binds still holds."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version

from bios_profiles.profile import digest as profile_digest
from flows.site import Site
from inventory.certificate import EARNED_BY, NodeCertificate, due, issue, stale
from inventory.model import Inventory, Missing, NodeRef, now
from inventory.report import NodeReport, Stage, StageRecord

# Nothing listed because nothing could be read: no part is called gone.
_UNREAD = Inventory(missing=tuple(Missing(fact=fact, reason="not read") for fact in ("gpus", "nics", "drives")))


def standing(report: NodeReport, site: Site) -> tuple[NodeCertificate | None, tuple[str, ...]]:
    """The newest certificate unless it was revoked, and why it no longer holds (empty = it holds)."""
    certificates = site.ledger.certificates(report.node.key)
    if not certificates:
        return None, ("no certificate",)
    newest = certificates[0]  # an older one is no fall-back: what replaced it was judged worth nothing
    revoked = site.ledger.revocation(newest.certificate_id)
    if revoked:
        return None, (f"certificate {newest.certificate_id} was revoked: {revoked.reason}",)
    node_class = site.class_of(report.node)
    reasons = stale(
        newest,
        report.inventory if any(record.inventory for record in report.records) else _UNREAD,
        report.software,
        profile_digest=profile_digest(site.profiles[node_class.bios_profile]),
        image_digest=site.manifests[node_class.image].artifact.sha256,
    )
    return newest, (*reasons, *filter(None, (expired(newest),)))


def expired(certificate: NodeCertificate) -> str:
    """The sentence that its term is over; empty while it is not."""
    return f"expired on {certificate.expires_at:%Y-%m-%d}" if due(certificate, now()) else ""


def outdated(proof: StageRecord, node: NodeRef, site: Site) -> str:
    """Why a proof that nothing contradicts no longer counts: it is too old, or was declared void. Empty = it counts."""
    days = site.class_of(node).certificate_days
    if proof.ended_at + timedelta(days=days) <= now():
        return f"proven on {proof.ended_at:%Y-%m-%d}, longer ago than a certificate holds ({days:g} days)"
    revoked = site.ledger.last_revocation(node.key)
    if revoked and proof.ended_at <= revoked.at:
        return f"the node's certificate was revoked on {revoked.at:%Y-%m-%d}: {revoked.reason}"
    return ""


def certify(report: NodeReport, site: Site) -> NodeReport:
    """The report with its certificate: the standing one when it still binds the truth, else a newly issued one.

    A node whose stages did not all pass keeps none.
    """
    if not all((record := report.record(stage)) and record.passed for stage in EARNED_BY):
        return report
    certificate, reasons = standing(report, site)
    if certificate and not reasons and _all_reused(report):
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
        proven_at=min((r.ended_at for r in report.records if r.reused_from), default=None),
    )
    site.ledger.put_certificate(new)
    return report.model_copy(update={"certificate_id": new.certificate_id})


def _all_reused(report: NodeReport) -> bool:
    """Nothing was proven anew, so a new certificate would say the same with a later date."""
    return all((r := report.record(stage)) and r.reused_from for stage in EARNED_BY if stage is not Stage.DISCOVER)
