"""What rackmint remembers, in SQLite or PostgreSQL: who owns a node, what was begun, what came of it, what is owed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, select, update

from inventory.certificate import NodeCertificate, parse
from inventory.ledger_attempts import Attempt, AttemptEvent, Attempts
from inventory.ledger_database import open_engine
from inventory.ledger_leases import Lease
from inventory.ledger_outbox import Outbox, Owed
from inventory.ledger_records import Kept, Metric, Records, Run, Step, Unfinished
from inventory.ledger_schema import CERTIFICATES, NODES, PINS
from inventory.model import NodeRef, now

__all__ = [
    "Attempt",
    "AttemptEvent",
    "Kept",
    "Lease",
    "Ledger",
    "Metric",
    "Owed",
    "Revocation",
    "Run",
    "Step",
    "Unfinished",
]


class Revocation(NamedTuple):
    """When, by whom and why a certificate was declared void."""

    at: datetime
    by: str
    reason: str


class Ledger(Attempts, Records, Outbox):
    """The one store. Safe to use from many threads and, through the database, from many processes."""

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], datetime] = now) -> Ledger:
        """Open, and create or migrate if need be; raises `BadSettings` with one sentence when that cannot be."""
        return cls(open_engine(url), clock)

    def remember_node(self, ref: NodeRef) -> None:
        """Keep who a node is, as last seen."""
        with self._writing() as connection:
            row = {"node_key": ref.key, "name": ref.name, "ref": ref.model_dump_json()}
            self._put(connection, NODES, ("node_key",), {**row, "seen_at": self._now(connection)})

    def node(self, node_key: str) -> NodeRef | None:
        """A node by its key."""
        with self._reading() as connection:
            found = connection.execute(select(NODES.c.ref).where(NODES.c.node_key == node_key)).scalar()
        return NodeRef.model_validate_json(found) if found else None

    def nodes(self) -> tuple[NodeRef, ...]:
        """All nodes ever seen, by name."""
        with self._reading() as connection:
            found = connection.execute(select(NODES.c.ref).order_by(NODES.c.name)).scalars().all()
        return tuple(NodeRef.model_validate_json(ref) for ref in found)

    def pin(self, kind: str, who: str) -> str | None:
        """What a BMC ("bmc") or a node ("ssh") showed the first time."""
        with self._reading() as connection:
            return connection.execute(select(PINS.c.value).where(PINS.c.kind == kind, PINS.c.who == who)).scalar()

    def set_pin(self, kind: str, who: str, value: str) -> None:
        """From now on this is what it must show."""
        with self._writing() as connection:
            row = {"kind": kind, "who": who, "value": value, "set_at": self._now(connection)}
            self._put(connection, PINS, ("kind", "who"), row)

    def put_certificate(self, certificate: NodeCertificate) -> None:
        """Keep a certificate; the same one again changes nothing, and never undoes a revocation."""
        row = {
            "certificate_id": certificate.certificate_id,
            "node_key": certificate.node_key,
            "run_id": certificate.run_id,
            "issued_at": certificate.issued_at,
            "expires_at": certificate.expires_at,
            "body": certificate.to_json().decode(),
        }
        with self._writing() as connection:
            connection.execute(self._insert(CERTIFICATES).values(row).on_conflict_do_nothing())

    def certificates(self, node_key: str) -> tuple[NodeCertificate, ...]:
        """All certificates a node ever had, newest first."""
        of_node = select(CERTIFICATES.c.body).where(CERTIFICATES.c.node_key == node_key)
        with self._reading() as connection:
            found = connection.execute(of_node.order_by(CERTIFICATES.c.issued_at.desc())).scalars().all()
        return tuple(parse(body) for body in found)

    def certificate(self, certificate_id: str) -> NodeCertificate | None:
        """A certificate by its id."""
        row = self._certificate_row(certificate_id)
        return parse(row.body) if row else None

    def revoke(self, certificate_id: str, reason: str, by: str) -> bool:
        """Declare a certificate void from now on; False when there is none, or it was void already."""
        valid = update(CERTIFICATES).where(
            CERTIFICATES.c.certificate_id == certificate_id, CERTIFICATES.c.revoked_at.is_(None)
        )
        with self._writing() as connection:
            void = {"revoked_at": self._now(connection), "revoked_by": by, "revoked_reason": reason}
            return connection.execute(valid.values(void)).rowcount == 1

    def revocation(self, certificate_id: str) -> Revocation | None:
        """Whether, when and why a certificate was revoked."""
        row = self._certificate_row(certificate_id)
        if row is None or row.revoked_at is None:
            return None
        return Revocation(row.revoked_at, row.revoked_by, row.revoked_reason)

    def last_revocation(self, node_key: str) -> Revocation | None:
        """The latest revocation of any certificate of a node: what was proven before it counts no longer."""
        of_node = select(CERTIFICATES).where(
            CERTIFICATES.c.node_key == node_key, CERTIFICATES.c.revoked_at.is_not(None)
        )
        with self._reading() as connection:
            row = connection.execute(of_node.order_by(CERTIFICATES.c.revoked_at.desc()).limit(1)).first()
        return Revocation(row.revoked_at, row.revoked_by, row.revoked_reason) if row else None

    def _certificate_row(self, certificate_id: str) -> Row[Any] | None:
        by_id = select(CERTIFICATES).where(CERTIFICATES.c.certificate_id == certificate_id)
        with self._reading() as connection:
            return connection.execute(by_id).first()
