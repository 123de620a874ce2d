"""What rackmint remembers, in SQLite or PostgreSQL: who owns a node, what was begun, what came of it, what is owed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from inventory.ledger_attempts import Attempt, AttemptEvent, Attempts
from inventory.ledger_database import open_engine
from inventory.ledger_leases import Lease, Leases
from inventory.model import now

__all__ = ["Attempt", "AttemptEvent", "Lease", "Ledger"]


class Ledger(Attempts, Leases):
    """The one store. Safe to use from many threads and, through the database, from many processes."""

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], datetime] = now) -> Ledger:
        """Open, and create or migrate if need be; raises `BadSettings` with one sentence when that cannot be."""
        return cls(open_engine(url), clock)
