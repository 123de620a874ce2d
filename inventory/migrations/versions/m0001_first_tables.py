"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing."""
    _nodes_and_runs()
    _stages()
    _certificates_and_outbox()
    _attempts()


def _nodes_and_runs() -> None:
    op.create_table(
        "nodes",
        sa.Column("node_key", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
    )
    op.create_table(
        "pins",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("who", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("set_at", sa.Double, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("rack", sa.Text, nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("report", sa.Text),
    )
    op.create_table(
        "leases",
        sa.Column("node_key", sa.Text, primary_key=True),
        sa.Column("node_name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("taken_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("released", sa.Boolean, nullable=False),
    )


def _stages() -> None:
    op.create_table(
        "stage_records",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node_key", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("inputs", sa.JSON, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double),
        sa.Column("passed", sa.Boolean),
        sa.Column("record", sa.Text),
    )
    op.create_index("stage_records_by_node", "stage_records", ["node_key", "stage", "id"])
    op.create_table(
        "stage_steps",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("record_id", sa.Integer, sa.ForeignKey("stage_records.id"), nullable=False, index=True),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_table(
        "metrics",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node_key", sa.Text, nullable=False),
        sa.Column("subject_serial", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("metrics_by_name", "metrics", ["metric", "node_key", "id"])


def _certificates_and_outbox() -> None:
    op.create_table(
        "certificates",
        sa.Column("certificate_id", sa.Text, primary_key=True),
        sa.Column("node_key", sa.Text, nullable=False, index=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("issued_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("revoked_at", sa.Double),
        sa.Column("revoked_by", sa.Text),
        sa.Column("revoked_reason", sa.Text),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("node_key", sa.Text, nullable=False),
        sa.Column("dedupe_key", sa.Text, nullable=False, unique=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("put_at", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("done_at", sa.Double),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.Text, primary_key=True),
        sa.Column("node_key", sa.Text, nullable=False, index=True),
        sa.Column("node_name", sa.Text, nullable=False),
        sa.Column("token_sha256", sa.Text, nullable=False),
        sa.Column("job", sa.JSON, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
    )
    op.create_table(
        "attempt_events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("attempt_id", sa.Text, sa.ForeignKey("attempts.attempt_id"), nullable=False, index=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
