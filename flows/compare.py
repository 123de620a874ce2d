"""Book against hall, fact by fact: each difference has a kind, a side that is right by rule, and one command. Pure."""

from __future__ import annotations

from flows.compare_parts import parts, software, versions
from flows.difference import Difference, Kind, Right, Views, again, differ, prove
from inventory.fleet import FleetNode
from inventory.fleet.node import OUR_TAINTS
from inventory.model import Inventory


def differences(views: Views) -> tuple[Difference, ...]:
    """All of them, in one order for the same input, so that two audits can be compared."""
    found = [*_place(views), *_hall(views), *_inside(views), *_certificate(views), *_fleet(views)]
    return tuple(sorted(found, key=lambda d: (d.node, d.kind, d.subject, d.book, d.seen)))


def _place(views: Views) -> list[Difference]:
    """Place is intent: the book is right, and somebody should look whether the node really stands there."""
    before, book = views.before, views.book
    if before is None:
        return []
    return [
        differ(
            views,
            "moved",
            what,
            book=str(now),
            seen=f"{was} at the last run",
            right="book",
            first=f"look whether {book.name} stands in rack {book.rack}, unit {book.unit}",
            fix=again(views),
            rule="place is intent: people own it, and the next run takes it over",
        )
        for what, was, now in (("rack", before.rack, book.rack), ("rack unit", before.unit, book.unit))
        if was != now
    ]


def _hall(views: Views) -> list[Difference]:
    if views.hall is None:
        return [
            differ(
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
    if _never_recorded(views):
        return [*_identity(views, views.hall), _new(views)]
    return [*_identity(views, views.hall), *parts(views, views.hall), *versions(views, views.hall)]


def _never_recorded(views: Views) -> bool:
    return views.agreed_at is None and not views.book.parts


def _new(views: Views) -> Difference:
    """One line instead of one for each of its parts."""
    return differ(
        views,
        "unknown",
        "node",
        book=f"{views.book.status}, no parts",
        seen="a node that answers",
        right="hall",
        fix=again(views),
        rule="its parts enter the book when it is provisioned",
    )


def _identity(views: Views, hall: Inventory) -> list[Difference]:
    serial = hall.identity.serial or ""
    if not serial or not views.book.serial or serial == views.book.serial:
        return []
    return [
        differ(
            views,
            "swapped",
            "chassis",
            book=views.book.serial,
            seen=serial,
            right="nobody",
            first="find out which machine answers there, then mend the cabling or the book",
            fix=f"rackmint look {views.book.ref.bmc_url}",
            rule="another chassis is an identity alarm",
        )
    ]


def _inside(views: Views) -> list[Difference]:
    """What runs on the node; silence counts only of a node that the book says is at work."""
    if views.inside is not None:
        return software(views)
    if views.book.status != "active":
        return []
    return [
        differ(
            views,
            "unreachable",
            "operating system",
            book="active",
            seen=views.inside_unreachable,
            right="nobody",
            fix=prove(views),
            rule="not reachable is unknown, not 'drifted'",
        )
    ]


# -- the promise ----------------------------------------------------------------------------------------------------


def _certificate(views: Views) -> list[Difference]:
    held, active = views.certificate, views.book.status == "active"
    if held is None:
        return [_uncertified(views)] if active else []
    if not views.why_stale:
        return _recorded_otherwise(views, held.certificate_id) if active else []
    changed = [why for why in views.why_stale if why != views.aged]
    return [
        differ(
            views,
            "stale certificate",
            "certificate",
            book=held.certificate_id,
            seen="; ".join(views.why_stale),
            right="hall" if changed else "class",
            fix=again(views) if changed else prove(views),
            rule="a certificate holds while every bound fact does, and for its class's term",
            since="" if changed else f"{held.expires_at:%Y-%m-%d %H:%M} UTC",
        )
    ]


def _uncertified(views: Views) -> Difference:
    return differ(
        views,
        "stale certificate",
        "certificate",
        book="active",
        seen="; ".join(views.why_stale) or "no certificate",
        right="nobody",
        fix=again(views),
        rule="only a certificate makes a node active",
    )


def _recorded_otherwise(views: Views, certificate_id: str) -> list[Difference]:
    """The book lags behind: a record that waited for NetBox, or a field that somebody changed."""
    if "certificate_id" not in views.book.custom_fields or views.book.text("certificate_id") == certificate_id:
        return []
    return [
        differ(
            views,
            "drifted",
            "certificate in the book",
            book=views.book.text("certificate_id"),
            seen=certificate_id,
            right="hall",
            fix=again(views),
            rule="the ledger keeps certificates, the book names them",
        )
    ]


# -- the fleet ------------------------------------------------------------------------------------------------------


def _fleet(views: Views) -> list[Difference]:
    known, name = views.fleet, views.book.name
    if views.fleet_unreachable:
        return [_of(views, "unreachable", views.fleet_unreachable, right="nobody", fix="kubectl get --raw /readyz")]
    if known and known.serial and views.book.serial and known.serial != views.book.serial:
        which, show = "find out which of the two machines bears this name", f"kubectl get node {name} -o yaml"
        return [_of(views, "swapped", f"serial {known.serial}", right="nobody", fix=show, first=which)]
    if views.book.status == "active":
        return _at_work(views, known)
    if known and known.schedulable:
        return [_of(views, "drifted", "schedulable", right="book", fix=f"kubectl cordon {name}")]
    return []


def _at_work(views: Views, known: FleetNode | None) -> list[Difference]:
    """A node the book has as active serves in the fleet."""
    if known is None:
        return [_of(views, "missing", "", right="book", fix=again(views))]
    if not known.ready:
        return [_of(views, "drifted", "not Ready", right="nobody", fix=prove(views))]
    if known.cordoned_by_others:
        ask, lift = "ask who cordoned it: the mark is not rackmint's", f"kubectl uncordon {views.book.name}"
        return [_of(views, "drifted", "cordoned by somebody", right="nobody", fix=lift, first=ask)]
    if known.schedulable and not known.held:
        return []
    ours = [taint.key for taint in known.taints if taint.key in OUR_TAINTS]
    return [_of(views, "drifted", ", ".join(ours) or "cordoned by rackmint", right="nobody", fix=prove(views))]


def _of(views: Views, kind: Kind, seen: str, *, right: Right, fix: str, first: str = "") -> Difference:
    rule = "an active node is Ready and schedulable, and only an active node is"
    return differ(
        views, kind, "Kubernetes Node", book=views.book.status, seen=seen, right=right, first=first, fix=fix, rule=rule
    )
