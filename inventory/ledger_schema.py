"""The ledger's tables as this version of rackmint knows them; `migrations/` says how a store gets there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Dialect, Double, ForeignKey, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeDecorator

from inventory.redact import REDACTOR

SCHEMA = "0001"  # the newest revision in migrations/versions; a store with an unknown one is newer than we are


class When(TypeDecorator[datetime]):
    """A moment, kept as seconds since 1970 in UTC: sorts and compares the same on SQLite and PostgreSQL."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> float | None:
        """To the store."""
        return None if value is None else value.timestamp()

    def process_result_value(self, value: float | None, dialect: Dialect) -> datetime | None:
        """From the store."""
        return None if value is None else datetime.fromtimestamp(value, UTC)


class SafeText(TypeDecorator[str]):
    """Text that others gave us, kept without known secrets."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To the store."""
        return None if value is None else REDACTOR.clean(value)


class SafeJson(TypeDecorator[Any]):
    """Facts that others gave us, kept without known secrets."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """To the store."""
        return REDACTOR.clean_value(value)


class SafeReport(TypeDecorator[str]):
    """One of our own nouns as JSON, kept without known secrets in its texts."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To the store."""
        return None if value is None else REDACTOR.clean_json(value)


TABLES = MetaData()

NODES = Table(
    "nodes",
    TABLES,
    Column("node_key", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("ref", SafeReport, nullable=False),  # NodeRef as JSON
    Column("seen_at", When, nullable=False),
)

PINS = Table(  # certificate and host key pins: what a BMC or node showed the first time
    "pins",
    TABLES,
    Column("kind", Text, primary_key=True),
    Column("who", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("set_at", When, nullable=False),
)

RUNS = Table(
    "runs",
    TABLES,
    Column("run_id", Text, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("rack", Text, nullable=False),
    Column("parameters", SafeJson, nullable=False),
    Column("begun_at", When, nullable=False),
    Column("finished_at", When),
    Column("outcome", Text),
    Column("report", SafeReport),  # RackReport as JSON
)

LEASES = Table(  # a row stays after its release, so that the fence never goes back
    "leases",
    TABLES,
    Column("node_key", Text, primary_key=True),
    Column("node_name", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("taken_at", When, nullable=False),
    Column("expires_at", When, nullable=False),
    Column("released", Boolean, nullable=False),
)

STAGES = Table(
    "stage_records",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("node_key", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("inputs", JSON, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("begun_at", When, nullable=False),
    Column("finished_at", When),
    Column("passed", Boolean),
    Column("record", SafeReport),  # StageRecord as JSON
    Index("stage_records_by_node", "node_key", "stage", "id"),
)

STEPS = Table(
    "stage_steps",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("record_id", Integer, ForeignKey("stage_records.id"), nullable=False, index=True),
    Column("step", Text, nullable=False),
    Column("detail", SafeJson, nullable=False),
    Column("at", When, nullable=False),
)

CERTIFICATES = Table(
    "certificates",
    TABLES,
    Column("certificate_id", Text, primary_key=True),
    Column("node_key", Text, nullable=False, index=True),
    Column("run_id", Text, nullable=False),
    Column("issued_at", When, nullable=False),
    Column("expires_at", When, nullable=False),
    Column("body", Text, nullable=False),  # NodeCertificate as JSON
    Column("revoked_at", When),
    Column("revoked_by", Text),
    Column("revoked_reason", SafeText),
)

OUTBOX = Table(
    "outbox",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("node_key", Text, nullable=False),
    Column("dedupe_key", Text, nullable=False, unique=True),
    Column("payload", SafeJson, nullable=False),
    Column("put_at", When, nullable=False),
    Column("due_at", When, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("said", SafeText, nullable=False),
    Column("done_at", When),
)

ATTEMPTS = Table(
    "attempts",
    TABLES,
    Column("attempt_id", Text, primary_key=True),
    Column("node_key", Text, nullable=False, index=True),
    Column("node_name", Text, nullable=False),
    Column("token_sha256", Text, nullable=False),
    Column("job", JSON, nullable=False),
    Column("begun_at", When, nullable=False),
)

ATTEMPT_EVENTS = Table(
    "attempt_events",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("attempt_id", Text, ForeignKey("attempts.attempt_id"), nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("detail", SafeJson, nullable=False),
    Column("at", When, nullable=False),
)

METRICS = Table(
    "metrics",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("node_key", Text, nullable=False),
    Column("subject_serial", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("at", When, nullable=False),
    Index("metrics_by_name", "metric", "node_key", "id"),
)
