"""What an audit tells: one thing that two sides say differently, and what each side was heard to say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from inventory.certificate import NodeCertificate
from inventory.classes import NodeClass
from inventory.fleet import FleetNode
from inventory.model import Frozen, Inventory, NodeRef, Software
from inventory.netbox.book import BookNode

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
    since: str  # since when, at most
    first: str = ""  # what a person must do before the command
    fix: str  # the one command
    rule: str  # why that side is right


@dataclass(frozen=True)
class Views:
    """What each side says of one node."""

    book: BookNode
    node_class: NodeClass
    hall: Inventory | None  # Redfish; None = not reachable
    unreachable: str  # why
    inside: Software | None  # None = nobody answers in-band
    inside_unreachable: str
    fleet: FleetNode | None
    fleet_unreachable: str
    certificate: NodeCertificate | None
    why_stale: tuple[str, ...]  # without a certificate: why there is none
    aged: str  # of `why_stale` the one that says its term is over; empty when it is not
    before: NodeRef | None  # as the last run knew the node
    agreed_at: datetime | None  # when a run last brought book and hall together


def differ(
    views: Views,
    kind: Kind,
    subject: str,
    *,
    book: str,
    seen: str,
    right: Right,
    fix: str,
    rule: str,
    first: str = "",
    since: str = "",
) -> Difference:
    """A difference of this node; since the last run that brought both sides together, unless it is known better."""
    agreed = f"after {views.agreed_at:%Y-%m-%d %H:%M} UTC" if views.agreed_at else "not known"
    return Difference(
        node=views.book.name,
        kind=kind,
        subject=subject,
        book=book or "nothing",
        seen=seen or "nothing",
        right=right,
        since=since or agreed,
        first=first,
        fix=fix,
        rule=rule,
    )


def again(views: Views) -> str:
    """The command that takes one node through the line: only what changed runs again."""
    return f"rackmint provision {views.book.rack} --node {views.book.name}"


def prove(views: Views) -> str:
    """The command that proves one node again without changing it."""
    return f"rackmint revalidate {views.book.rack} --node {views.book.name}"
