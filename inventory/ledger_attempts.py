"""Imaging attempts: what the deploy agent was told and what it said, so that any process may go on serving it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, insert, select

from inventory.ledger_database import Database
from inventory.ledger_schema import ATTEMPT_EVENTS, ATTEMPTS


class Attempt(NamedTuple):
    """One try at laying an image on one node."""

    attempt_id: str
    node_key: str
    node_name: str
    token_sha256: str  # the token itself is never kept
    job: dict[str, Any]
    begun_at: datetime


class AttemptEvent(NamedTuple):
    """One thing an agent or a freshly booted node said."""

    kind: str
    detail: dict[str, Any]
    at: datetime


class Attempts(Database):
    """The imaging attempts' part of the ledger."""

    def put_attempt(
        self, attempt_id: str, node_key: str, node_name: str, token_sha256: str, job: dict[str, Any]
    ) -> None:
        """Note an attempt before the node is booted for it; the same id again replaces its job and token."""
        with self._writing() as connection:
            row = Attempt(attempt_id, node_key, node_name, token_sha256, job, self._now(connection))
            self._put(connection, ATTEMPTS, ("attempt_id",), row._asdict())

    def attempt(self, attempt_id: str) -> Attempt | None:
        """One attempt by id."""
        with self._reading() as connection:
            row = connection.execute(select(ATTEMPTS).where(ATTEMPTS.c.attempt_id == attempt_id)).first()
        return _attempt(row) if row else None

    def last_attempt(self, node_key: str) -> Attempt | None:
        """The newest attempt at a node."""
        newest = select(ATTEMPTS).where(ATTEMPTS.c.node_key == node_key).order_by(ATTEMPTS.c.begun_at.desc()).limit(1)
        with self._reading() as connection:
            row = connection.execute(newest).first()
        return _attempt(row) if row else None

    def attempt_event(
        self,
        attempt_id: str,
        kind: str,
        detail: dict[str, Any],
        *,
        only_once: bool = False,
        unless: Collection[str] = (),
    ) -> bool:
        """Note what was said. With `only_once`, False and nothing noted when this kind was said before.

        `unless` names kinds after which this one is not noted either, looked at in the same write. False as well for
        an attempt that nobody knows.
        """
        with self._writing() as connection:
            known = select(ATTEMPTS.c.attempt_id).where(ATTEMPTS.c.attempt_id == attempt_id).with_for_update()
            if connection.execute(known).first() is None:
                return False
            bars = {*unless, *([kind] if only_once else [])}
            said = select(ATTEMPT_EVENTS.c.id).where(
                ATTEMPT_EVENTS.c.attempt_id == attempt_id, ATTEMPT_EVENTS.c.kind.in_(bars)
            )
            if bars and connection.execute(said).first() is not None:
                return False
            event = {"attempt_id": attempt_id, "kind": kind, "detail": detail, "at": self._now(connection)}
            connection.execute(insert(ATTEMPT_EVENTS).values(event))
        return True

    def attempt_events(self, attempt_id: str) -> tuple[AttemptEvent, ...]:
        """All that was said, oldest first."""
        of_attempt = select(ATTEMPT_EVENTS).where(ATTEMPT_EVENTS.c.attempt_id == attempt_id)
        with self._reading() as connection:
            rows = connection.execute(of_attempt.order_by(ATTEMPT_EVENTS.c.id)).all()
        return tuple(AttemptEvent(row.kind, row.detail, row.at) for row in rows)


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(**{name: getattr(row, name) for name in Attempt._fields})
