"""Book against hall, fact by fact: each difference has a kind, a side that is right by rule, and one command. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from inventory.certificate import NodeCertificate
from inventory.classes import NodeClass
from inventory.fleet import FleetNode
from inventory.model import Frozen, Inventory, NodeRef, Software
from inventory.netbox.book import BookBay, BookNode, BookPart
from inventory.netbox.parts import PROFILES, SeenPart, bay_key, seen_parts
from inventory.report import NodeReport, Stage, StageRecord

Kind = Literal["missing", "swapped", "moved", "drifted", "stale certificate", "unknown", "unreachable"]
Right = Literal["book", "hall", "class", "nobody"]


class Difference(Frozen):
    """One thing two sides say differently."""

    node: str
    kind: Kind
    subject: str  # "GPU3", "rack unit", "Kubernetes Node"
    book: str  # what the book, or the certificate, says
    seen: str  # what is there
    right: Right  # who is right by rule
    since: str  # since when at most
    fix: str  # the one command, or the one thing to do
    rule: str  # why that side is right


@dataclass(frozen=True)
class Views:
    """What each side says of one node."""

    book: BookNode
    node_class: NodeClass
    hall: Inventory | None  # Redfish; None = not reachable
    unreachable: str  # why
    inside: Software | None  # None = nobody answers in-band
    fleet: FleetNode | None
    fleet_unreachable: str
    certificate: NodeCertificate | None
    why_stale: tuple[str, ...]
    before: NodeRef | None  # as the last run knew the node
    agreed_at: datetime | None  # when a run last brought book and hall together


def differences(views: Views) -> tuple[Difference, ...]:
    """All of them, in one order for the same input, so that two audits can be compared."""
    found = [*_place(views), *_hall(views), *_software(views), *_certificate(views), *_fleet(views)]
    return tuple(sorted(found, key=lambda d: (d.node, d.kind, d.subject)))


def _differ(
    views: Views, kind: Kind, subject: str, *, book: str, seen: str, right: Right, fix: str, rule: str
) -> Difference:
    return Difference(
        node=views.book.name,
        kind=kind,
        subject=subject,
        book=book or "nothing",
        seen=seen or "nothing",
        right=right,
        since=f"after {views.agreed_at:%Y-%m-%d %H:%M} UTC" if views.agreed_at else "never agreed",
        fix=fix,
        rule=rule,
    )


def _again(views: Views) -> str:
    return f"rackmint provision {views.book.rack} --node {views.book.name}"


def _prove(views: Views) -> str:
    return f"rackmint revalidate {views.book.rack}"


def _place(views: Views) -> list[Difference]:
    """Place is intent: the book is right, and somebody should look whether the node really stands there."""
    before, book = views.before, views.book
    if before is None:
        return []
    return [
        _differ(
            views,
            "moved",
            what,
            book=str(now),
            seen=f"{was} at the last run",
            right="book",
            fix=f"look at rack {book.rack} unit {book.unit}; if it stands there: {_again(views)}",
            rule="place is intent: people own it",
        )
        for what, was, now in (("rack", before.rack, book.rack), ("rack unit", before.unit, book.unit))
        if was != now
    ]


def _hall(views: Views) -> list[Difference]:
    if views.hall is not None:
        return [*_identity(views, views.hall), *_parts(views, views.hall), *_versions(views, views.hall)]
    return [
        _differ(
            views,
            "unreachable",
            "BMC",
            book="a BMC that answers",
            seen=views.unreachable,
            right="nobody",
            fix=f"rackmint look {views.book.ref.bmc_url}",
            rule="not reachable is unknown, not 'parts missing'",
        )
    ]


def _identity(views: Views, hall: Inventory) -> list[Difference]:
    serial = hall.identity.serial or ""
    if not serial or not views.book.serial or serial == views.book.serial:
        return []
    return [
        _differ(
            views,
            "swapped",
            "chassis",
            book=views.book.serial,
            seen=serial,
            right="nobody",
            fix=f"find out which machine answers at {views.book.ref.bmc_url}, then mend the cabling or the book",
            rule="another chassis is an identity alarm",
        )
    ]


# -- parts ----------------------------------------------------------------------------------------------------------


def _parts(views: Views, hall: Inventory) -> list[Difference]:
    read = StageRecord(stage=Stage.DISCOVER, inventory=hall)
    parts = seen_parts(NodeReport(node=views.book.ref, run_id="audit", records=(read,)))
    seen = {bay: part for part in parts for bay in part.bays}
    homes = {part.serial: bay.name for bay in views.book.bays if (part := bay.part) and part.serial}
    found: list[Difference] = []
    for bay in views.book.bays:
        found += _bay(views, hall, bay, seen.get(bay_key(bay.name)), homes)
    return found


def _bay(
    views: Views, hall: Inventory, bay: BookBay, there: SeenPart | None, homes: dict[str, str]
) -> list[Difference]:
    if bay.part and there is None:
        return _gone(views, hall, bay.name, bay.part)
    if bay.part and there:
        return _same_bay(views, bay.name, bay.part, there, homes)
    return [_unknown(views, bay.name, there)] if there else []


def _unknown(views: Views, bay: str, there: SeenPart) -> Difference:
    return _differ(
        views,
        "unknown",
        bay,
        book="",
        seen=f"{there.model} {there.serial}",
        right="hall",
        fix=_again(views),
        rule="a part that is there and of a known kind belongs on the books",
    )


def _gone(views: Views, hall: Inventory, bay: str, part: BookPart) -> list[Difference]:
    kind = next((kind for kind, profile in PROFILES.items() if profile == part.kind), "")
    if not kind or not getattr(hall, kind):
        return []  # nothing of this kind was listed at all: not read is not missing
    return [
        _differ(
            views,
            "missing",
            bay,
            book=f"{part.model} {part.serial}",
            seen="",
            right="book",
            fix=f"reseat or replace the part in {bay}, then {_again(views)}",
            rule="what the book expects in a bay is intent",
        )
    ]


def _same_bay(views: Views, bay: str, part: BookPart, there: SeenPart, homes: dict[str, str]) -> list[Difference]:
    if part.serial and there.serial and part.serial != there.serial:
        home = homes.get(there.serial)
        return [
            _differ(
                views,
                "moved" if home else "swapped",
                bay,
                book=part.serial,
                seen=f"{there.serial}, which the book has in {home}" if home else there.serial,
                right="hall",
                fix=_again(views),
                rule="same model, other serial: what is there counts, and is proven again",
            )
        ]
    if part.firmware and there.firmware and part.firmware != there.firmware:
        return [_firmware(views, bay, part.firmware, there.firmware, _allowed(views, there))]
    return []


# -- versions -------------------------------------------------------------------------------------------------------


def _allowed(views: Views, there: SeenPart) -> tuple[str, ...]:
    if there.kind == "gpus":
        return views.node_class.gpu.firmware
    return tuple(v for spec in views.node_class.nics for v in spec.firmware) if there.kind == "nics" else ()


def _firmware(views: Views, subject: str, book: str, seen: str, allowed: tuple[str, ...]) -> Difference:
    """The class's allow-list judges; a version it allows, or says nothing about, is recorded as it is."""
    refused = bool(allowed) and seen not in allowed
    return _differ(
        views,
        "drifted",
        subject,
        book=f"firmware {book}",
        seen=f"firmware {seen}",
        right="class" if refused else "hall",
        fix=f"flash {', '.join(allowed)}, then {_again(views)}" if refused else _again(views),
        rule="the class's allow-list judges firmware",
    )


def _versions(views: Views, hall: Inventory) -> list[Difference]:
    found = []
    for name, field, seen in (("BIOS", "bios_version", hall.bios.version), ("BMC", "bmc_version", hall.bmc_version)):
        book = views.book.text(field)
        if book and seen and book != seen:
            found.append(_firmware(views, name, book, seen, views.node_class.firmware.get(name, ())))
    return found


def _software(views: Views) -> list[Difference]:
    if views.inside is None or views.certificate is None:
        return []
    bound, seen = views.certificate.image_digest, views.inside.image_digest or ""
    if not seen or seen == bound:
        return []
    return [
        _differ(
            views,
            "drifted",
            "image",
            book=bound[:12],
            seen=seen[:12],
            right="class",
            fix=f"{_again(views)} --reimage {views.book.name}",
            rule="the image is the class's",
        )
    ]


# -- the promise ----------------------------------------------------------------------------------------------------


def _certificate(views: Views) -> list[Difference]:
    held = views.certificate
    if (held is not None and not views.why_stale) or (held is None and views.book.status != "active"):
        return []
    changed = any("became" in why for why in views.why_stale)
    return [
        _differ(
            views,
            "stale certificate",
            "certificate",
            book=held.certificate_id if held else "active",
            seen="; ".join(views.why_stale) or "no certificate",
            right="hall" if held else "nobody",
            fix=_again(views) if changed or held is None else _prove(views),
            rule="a certificate holds while every bound fact does, and for its term; only it makes a node active",
        )
    ]


def _fleet(views: Views) -> list[Difference]:
    if views.fleet_unreachable:
        return [
            _of_fleet(views, "unreachable", seen=views.fleet_unreachable, right="nobody", fix="look at the API server")
        ]
    active, known = views.book.status == "active", views.fleet
    if active and known is None:
        return [_of_fleet(views, "missing", seen="", right="book", fix=_again(views))]
    if known is None or active == (known.ready and known.schedulable):
        return []
    if active:
        state = "cordoned" if known.ready else "not Ready"
        return [_of_fleet(views, "drifted", seen=state, right="nobody", fix=_prove(views))]
    if not known.schedulable:
        return []
    fix = f"kubectl cordon {views.book.name}, then {_again(views)}"
    return [_of_fleet(views, "drifted", seen="schedulable", right="book", fix=fix)]


def _of_fleet(views: Views, kind: Kind, *, seen: str, right: Right, fix: str) -> Difference:
    rule = "an active node is Ready and schedulable, and only an active node is"
    return _differ(views, kind, "Kubernetes Node", book=views.book.status, seen=seen, right=right, fix=fix, rule=rule)
