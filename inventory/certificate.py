"""The node certificate: who a node is, what is on it, what was proven, what was not, and until when that holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from inventory.bound import Part, bound_firmware, bound_parts, bound_software, changes
from inventory.classes import NodeClass
from inventory.errors import CertificateRefused
from inventory.findings import Finding, Outcome, Verdict
from inventory.model import Frozen, Inventory, Software
from inventory.report import NodeReport, Stage, verdict_of
from inventory.signing import SigningKey, canonical_json, check_signature, key_id_of, load_or_create_key

__all__ = [
    "EARNED_BY",
    "NodeCertificate",
    "NotProven",
    "Proof",
    "canonical_json",
    "due",
    "issue",
    "load_or_create_key",
    "parse",
    "stale",
    "verify",
]

EARNED_BY = (Stage.DISCOVER, Stage.INSPECT, Stage.IMAGE, Stage.TUNE, Stage.BURN_IN)
_ID_DIGITS = 20  # our choice: 80 bits, no two certificates of a fleet meet


class Proof(Frozen):
    """One finding that passed: what was read, the limit, where the limit is from, and the raw answer's sha256."""

    stage: str
    metric: str
    subject: str
    observed: str
    expected: str
    source: str
    evidence: str


class NotProven(Frozen):
    """One thing this certificate does not claim, and why."""

    subject: str
    reason: str


class NodeCertificate(Frozen):
    """A signed statement about one node. Text and whole numbers only, so that it has one byte form."""

    certificate_id: str = ""
    node: str
    node_key: str
    node_class: str
    # who
    serial: str
    service_tag: str
    board_serial: str
    uuid: str
    parts: tuple[Part, ...]
    # what is on it
    firmware: dict[str, str]
    software: dict[str, str]
    bios_profile: str
    bios_profile_digest: str
    image: str
    image_digest: str
    # what was proven, and what was not
    limits: str
    limits_version: str
    proven: tuple[Proof, ...]
    not_proven: tuple[NotProven, ...]
    # when
    issued_at: datetime
    expires_at: datetime
    run_id: str
    rackmint_version: str
    key_id: str
    signature: str = ""

    def statement(self) -> bytes:
        """The bytes that are signed: everything but the signature."""
        return canonical_json(self.model_dump(mode="json", exclude={"signature"}))

    def to_json(self) -> bytes:
        """The certificate as it is handed on."""
        return canonical_json(self.model_dump(mode="json"))


def issue(
    report: NodeReport,
    node_class: NodeClass,
    *,
    profile_digest: str,
    image_digest: str,
    limits_version: str,
    issued_at: datetime,
    key: SigningKey,
    run_id: str,
    rackmint_version: str,
    needed: tuple[Stage, ...] = EARNED_BY,
    rack_findings: tuple[Finding, ...] = (),
    proven_at: datetime | None = None,
) -> NodeCertificate:
    """Certify a node; raises `CertificateRefused` unless every needed stage passed and nothing else is open.

    `rack_findings` are those of the rack's fabric tests that are about this node. The term counts from `proven_at`,
    when the oldest proof is older than the certificate.
    """
    _refuse_unproven(report, needed, rack_findings)
    identity = report.inventory.identity
    unsigned = NodeCertificate(
        node=report.node.name,
        node_key=report.node.key,
        node_class=node_class.name,
        serial=identity.serial or report.node.serial,
        service_tag=identity.sku or "",
        board_serial=identity.board_serial or "",
        uuid=identity.uuid or "",
        parts=bound_parts(report.inventory),
        firmware=bound_firmware(report.inventory),
        software=bound_software(report.software),
        bios_profile=node_class.bios_profile,
        bios_profile_digest=profile_digest,
        image=node_class.image,
        image_digest=image_digest,
        limits=node_class.limits,
        limits_version=limits_version,
        proven=_proven(report, rack_findings),
        not_proven=_not_proven(report, rack_findings),
        issued_at=issued_at,
        expires_at=(proven_at or issued_at) + timedelta(days=node_class.certificate_days),
        run_id=run_id,
        rackmint_version=rackmint_version,
        key_id=key.key_id,
    )
    named = unsigned.model_copy(update={"certificate_id": _id_of(unsigned)})
    return named.model_copy(update={"signature": key.sign(named.statement())})


def _id_of(certificate: NodeCertificate) -> str:
    """The name follows from the content, so it cannot be given to another."""
    nameless = certificate.model_copy(update={"certificate_id": ""})
    return hashlib.sha256(nameless.statement()).hexdigest()[:_ID_DIGITS]


def _refuse_unproven(report: NodeReport, needed: tuple[Stage, ...], rack_findings: tuple[Finding, ...]) -> None:
    earned = tuple(r for r in report.records if r.stage in EARNED_BY)
    verdict = verdict_of(earned, needed)
    open_ = [f for f in rack_findings if f.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)]
    if verdict is not Verdict.ACCEPTED or open_:
        why = open_[0].sentence if open_ else report.cause or verdict.value
        raise CertificateRefused(f"{report.node.name}: no certificate: {why}")


def _all_findings(report: NodeReport, rack_findings: tuple[Finding, ...]) -> Iterable[tuple[str, Finding]]:
    """Every finding with the name of what found it."""
    for record in report.records:
        if record.stage in EARNED_BY:
            yield from ((record.stage.value, finding) for finding in record.findings)
    yield from (("fabric", finding) for finding in rack_findings)


def _proven(report: NodeReport, rack_findings: tuple[Finding, ...]) -> tuple[Proof, ...]:
    return tuple(
        Proof(
            stage=stage,
            metric=finding.metric,
            subject=finding.subject,
            observed=finding.observed,
            expected=finding.expected,
            source=finding.source,
            evidence=finding.evidence.sha256 if finding.evidence else "",
        )
        for stage, finding in _all_findings(report, rack_findings)
        if finding.outcome is Outcome.PASS
    )


def _not_proven(report: NodeReport, rack_findings: tuple[Finding, ...]) -> tuple[NotProven, ...]:
    judged = [
        NotProven(subject=f"{finding.metric} of {finding.subject}", reason=f"{finding.outcome.value}: {_why(finding)}")
        for _, finding in _all_findings(report, rack_findings)
        if finding.outcome is not Outcome.PASS
    ]
    unread = [NotProven(subject=gap.fact, reason=f"not read: {gap.reason}") for gap in report.inventory.missing]
    skipped = [
        NotProven(subject=f"stage {stage.value}", reason="not run in this run")
        for stage in EARNED_BY
        if report.record(stage) is None
    ]
    return (*judged, *unread, *skipped)


def _why(finding: Finding) -> str:
    return finding.cause or finding.observed or "no reason given"


def parse(text: bytes | str) -> NodeCertificate:
    """A certificate from JSON in any layout; raises `CertificateRefused` when it is none, or says more than one."""
    try:
        raw: Any = json.loads(text, parse_float=_refuse, parse_constant=_refuse)
        certificate = NodeCertificate.model_validate(raw)
        faithful = canonical_json(raw) == certificate.to_json()
    except (ValueError, ValidationError, TypeError, RecursionError) as error:
        raise CertificateRefused("not a node certificate: the text cannot be read as one") from error
    if not faithful:
        raise CertificateRefused("not a node certificate: a field is not written as we write it")
    return certificate


def _refuse(number: str) -> str:
    raise ValueError(f"{number}: a certificate has no fractions")


def verify(certificate: NodeCertificate, public_key_pem: str) -> None:
    """Raise `CertificateRefused` unless this key signed exactly this statement. Needs no network and no ledger."""
    expected = key_id_of(public_key_pem)
    if certificate.key_id != expected:
        raise CertificateRefused(
            f"{certificate.node}: signed by key {certificate.key_id}, not by {expected}. Verify with the other key"
        )
    try:
        if certificate.certificate_id != _id_of(certificate):
            raise CertificateRefused("its id does not follow from its content. It was altered")
        check_signature(certificate.statement(), certificate.signature, public_key_pem)
    except CertificateRefused as error:
        raise CertificateRefused(f"{certificate.node}: certificate {certificate.certificate_id}: {error}") from error


def due(certificate: NodeCertificate, at: datetime) -> bool:
    """Whether its term is over."""
    return at >= certificate.expires_at


def stale(
    certificate: NodeCertificate,
    inventory: Inventory,
    software: Software,
    profile_digest: str = "",
    image_digest: str = "",
) -> tuple[str, ...]:
    """One sentence for each bound fact that is another now; empty = it still matches.

    A fact that was not read this time (None, empty) is not called changed: the inventory's `missing` says so.
    """
    found = [
        *_differs("chassis serial", certificate.serial, inventory.identity.serial),
        *_differs("service tag", certificate.service_tag, inventory.identity.sku),
        *_differs("board serial", certificate.board_serial, inventory.identity.board_serial),
        *_differs("system UUID", certificate.uuid, inventory.identity.uuid),
        *changes(certificate.parts, inventory),
    ]
    firmware, running = bound_firmware(inventory), bound_software(software)
    for name, was in certificate.firmware.items():
        found += _differs(f"firmware {name}", was, firmware.get(name))
    for name, was in certificate.software.items():
        found += _differs(name, was, running.get(name))
    found += _differs("BIOS profile", certificate.bios_profile_digest[:12], profile_digest[:12])
    found += _differs("image", certificate.image_digest[:12], image_digest[:12])
    return tuple(found)


def _differs(what: str, was: str, now: str | None) -> list[str]:
    return [f"{what}: {was} became {now}"] if was and now and was != now else []
