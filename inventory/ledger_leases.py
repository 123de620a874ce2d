"""Who may act on a node now: leases with a fence that only grows, so that a late writer is recognised as late."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, select, update

from inventory.errors import LeaseHeld, LeaseLost
from inventory.ledger_database import Database
from inventory.ledger_schema import LEASES

# Built once: it is asked before every command and every change.
_BY_KEY = select(LEASES).where(LEASES.c.node_key == bindparam("key"))


class Lease(NamedTuple):
    """Who may act on a node until when. A higher fence on the same node ends this one."""

    node_key: str
    node_name: str
    holder: str  # run id
    purpose: str
    fence: int
    attempt: int  # 1, and one more for each owner before that died without a word
    taken_at: datetime
    expires_at: datetime


class Leases(Database):
    """The leases' part of the ledger."""

    def take_lease(self, node_key: str, node_name: str, holder: str, purpose: str, ttl_s: float) -> Lease:
        """Own a node from now on; raises `LeaseHeld` naming who does already.

        A lease that ran out is taken over with the next attempt; the same holder asking again gets a higher fence.
        """
        with self._writing() as connection:
            moment = self._now(connection)
            self._make_room(connection, node_key, node_name, moment)
            row = self._locked(connection, node_key)
            if not row.released and row.expires_at > moment and row.holder != holder:
                raise LeaseHeld(node_name, row.holder, row.purpose, _clock(row.taken_at), _clock(row.expires_at))
            lease = Lease(
                node_key=node_key,
                node_name=node_name,
                holder=holder,
                purpose=purpose,
                fence=row.fence + 1,
                attempt=1 if row.released else row.attempt + 1,
                taken_at=moment,
                expires_at=moment + timedelta(seconds=ttl_s),
            )
            connection.execute(_row_of(node_key).values(**lease._asdict(), released=False))
        return lease

    def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """Stay the owner for `ttl_s` more; raises `LeaseLost` when somebody took over."""
        with self._writing() as connection:
            row = self._locked(connection, lease.node_key)
            _check_ours(lease, row)
            renewed = lease._replace(expires_at=self._now(connection) + timedelta(seconds=ttl_s))
            connection.execute(_row_of(lease.node_key).values(expires_at=renewed.expires_at))
        return renewed

    def check(self, lease: Lease) -> None:
        """Call before every write to a node; raises `LeaseLost` when it is no longer ours."""
        with self._reading() as connection:
            row = connection.execute(_BY_KEY, {"key": lease.node_key}).first()
            _check_ours(lease, row)
            if row is not None and row.expires_at <= self._now(connection):
                raise LeaseLost(
                    lease.node_name,
                    f"the lease of run {lease.holder} ran out at {_clock(row.expires_at)}",
                    do="Nothing more is written. Start the run again.",
                )

    def release(self, lease: Lease) -> None:
        """Give the node back; without effect when somebody else owns it by now."""
        with self._writing() as connection:
            ours = and_(LEASES.c.node_key == lease.node_key, LEASES.c.fence == lease.fence)
            connection.execute(update(LEASES).where(ours).values(released=True))

    def end_lease_of(self, node_key: str, holder: str) -> None:
        """Let a lease run out now, because its holder is known to be dead; its fence stays spent."""
        with self._writing() as connection:
            dead = and_(LEASES.c.node_key == node_key, LEASES.c.holder == holder)
            connection.execute(update(LEASES).where(dead).values(expires_at=self._now(connection)))

    def leases(self) -> tuple[Lease, ...]:
        """All leases that hold now, by node name."""
        with self._reading() as connection:
            holds = and_(LEASES.c.released.is_(False), LEASES.c.expires_at > self._now(connection))
            rows = connection.execute(select(LEASES).where(holds).order_by(LEASES.c.node_name)).all()
        return tuple(_lease(row) for row in rows)

    def _make_room(self, connection: Connection, node_key: str, node_name: str, moment: datetime) -> None:
        free = {
            "node_key": node_key,
            "node_name": node_name,
            "holder": "",
            "purpose": "",
            "fence": 0,
            "attempt": 0,
            "taken_at": moment,
            "expires_at": moment,
            "released": True,
        }
        connection.execute(self._insert(LEASES).values(free).on_conflict_do_nothing())

    def _locked(self, connection: Connection, node_key: str) -> Row[Any]:
        """The lease row, which nobody else changes until we are done."""
        return connection.execute(select(LEASES).where(LEASES.c.node_key == node_key).with_for_update()).one()

    def _check_fence(self, connection: Connection, node_key: str, fence: int) -> None:
        """Refuse a late writer."""
        row = connection.execute(select(LEASES).where(LEASES.c.node_key == node_key).with_for_update()).first()
        if row is not None and row.fence != fence:
            raise _lost(row)


def _row_of(node_key: str) -> Any:
    return update(LEASES).where(LEASES.c.node_key == node_key)


def _check_ours(lease: Lease, row: Row[Any] | None) -> None:
    if row is None or row.fence != lease.fence or row.released:
        raise _lost(row) if row is not None else LeaseLost(lease.node_name, "no lease was ever taken")


def _lost(row: Row[Any]) -> LeaseLost:
    if row.released:
        return LeaseLost(row.node_name, f"the lease of run {row.holder} was released", do="Nothing more is written.")
    return LeaseLost(
        row.node_name,
        f"run {row.holder} ({row.purpose}) owns the node since {_clock(row.taken_at)}, fence {row.fence}",
        do="Nothing more is written by this run.",
    )


def _lease(row: Row[Any]) -> Lease:
    return Lease(**{name: getattr(row, name) for name in Lease._fields})


def _clock(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
