"""Writes that NetBox or Kubernetes still owe us an answer to: kept in order, tried again, never lost, never doubled."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, select, update

from inventory.ledger_database import Database
from inventory.ledger_schema import OUTBOX

_FIRST_WAIT_S, _LONGEST_WAIT_S = 15, 900  # our choice: a restart of NetBox is over in a minute, an outage in hours


class Owed(NamedTuple):
    """One write that waits."""

    id: int
    kind: str  # "netbox" | "kubernetes"
    node_key: str
    dedupe_key: str
    payload: dict[str, Any]
    put_at: datetime
    tries: int
    said: str  # what the other side said last


class Outbox(Database):
    """The outbox's part of the ledger."""

    def put_outbox(self, kind: str, node_key: str, dedupe_key: str, payload: dict[str, Any]) -> None:
        """Owe a write. One that waits under the same dedupe key is replaced in its place; one done stays done."""
        with self._writing() as connection:
            moment = self._now(connection)
            row = {"kind": kind, "node_key": node_key, "dedupe_key": dedupe_key, "payload": payload}
            fresh = {"put_at": moment, "due_at": moment, "tries": 0, "said": ""}
            insert = self._insert(OUTBOX).values({**row, **fresh})
            waiting = OUTBOX.c.done_at.is_(None)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["dedupe_key"], set_={"payload": payload}, where=waiting)
            )

    def due_outbox(self) -> tuple[Owed, ...]:
        """What should be tried now, in order. Behind a write that still waits, those of the same node wait as well."""
        with self._reading() as connection:
            moment = self._now(connection)
            rows = connection.execute(select(OUTBOX).where(OUTBOX.c.done_at.is_(None)).order_by(OUTBOX.c.id)).all()
        held = {(row.kind, row.node_key) for row in rows if row.due_at > moment}
        return tuple(_owed(row) for row in rows if (row.kind, row.node_key) not in held)

    def owed(self) -> tuple[Owed, ...]:
        """All that is not done, due or not."""
        with self._reading() as connection:
            rows = connection.execute(select(OUTBOX).where(OUTBOX.c.done_at.is_(None)).order_by(OUTBOX.c.id)).all()
        return tuple(_owed(row) for row in rows)

    def done_outbox(self, owed_id: int, said: str = "") -> None:
        """The write is done, and proven; or nobody wants it any more, as `said` tells."""
        with self._writing() as connection:
            done = {"done_at": self._now(connection), **({"said": said} if said else {})}
            connection.execute(update(OUTBOX).where(OUTBOX.c.id == owed_id).values(done))

    def fail_outbox(self, owed_id: int, said: str) -> None:
        """The write did not go through; the wait until the next try doubles up to a quarter of an hour."""
        with self._writing() as connection:
            tries = connection.execute(select(OUTBOX.c.tries).where(OUTBOX.c.id == owed_id)).scalar() or 0
            wait = timedelta(seconds=min(_FIRST_WAIT_S * 2 ** min(tries, 10), _LONGEST_WAIT_S))
            failed = {"tries": tries + 1, "said": said, "due_at": self._now(connection) + wait}
            connection.execute(update(OUTBOX).where(OUTBOX.c.id == owed_id).values(failed))


def _owed(row: Row[Any]) -> Owed:
    return Owed(**{name: getattr(row, name) for name in Owed._fields})
