"""Time that goes by for one node: all that the ledger knows of it becomes older, its certificate signed anew for then.

The site's own key signs, so what stands in the ledger afterwards is what a run so long ago would have left.
"""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import timedelta
from pathlib import Path

from flows.settings import load_settings
from inventory.certificate import NodeCertificate, canonical_json, load_or_create_key
from inventory.report import StageRecord
from inventory.signing import SigningKey
from lab.rack import LabHandle


def let_pass(lab: LabHandle, node: str, time: timedelta) -> str:
    """Make a node's records and certificates older by `time`; the newest one's new id."""
    settings = load_settings(str(lab.settings_file))
    key = lab.machines[node].state.serial
    database = sqlite3.connect(Path(settings.state) / "ledger.db", timeout=10)
    try:
        with database:
            _age_records(database, key, time)
            certificate = _age_certificates(database, key, time, load_or_create_key(settings.signing_key_file))
    finally:
        database.close()
    expires = certificate.expires_at.replace(microsecond=0).isoformat()
    lab.call(
        lambda: lab.rack.book.edit_custom(node, certificate_id=certificate.certificate_id, certificate_expires=expires)
    )
    return certificate.certificate_id


def _age_records(database: sqlite3.Connection, node_key: str, time: timedelta) -> None:
    rows = database.execute("select id, record from stage_records where node_key = ?", [node_key]).fetchall()
    for record_id, text in rows:
        if text:
            old = StageRecord.model_validate_json(text)
            older = old.model_copy(update={"started_at": old.started_at - time, "ended_at": old.ended_at - time})
            database.execute("update stage_records set record = ? where id = ?", [older.model_dump_json(), record_id])


def _age_certificates(database: sqlite3.Connection, node_key: str, time: timedelta, key: SigningKey) -> NodeCertificate:
    """All certificates a node ever had; the newest."""
    every = "select certificate_id, body from certificates where node_key = ? order by issued_at"
    for certificate_id, body in database.execute(every, [node_key]).fetchall():
        was = NodeCertificate.model_validate_json(body)
        moved = {"issued_at": was.issued_at - time, "expires_at": was.expires_at - time}
        older = signed(was.model_copy(update=moved), key)
        database.execute(
            "update certificates set certificate_id = ?, issued_at = ?, expires_at = ?, body = ?,"
            " revoked_at = revoked_at - ? where certificate_id = ?",
            [older.certificate_id, older.issued_at.timestamp(), older.expires_at.timestamp(),
             older.to_json().decode(), time.total_seconds(), certificate_id],
        )  # fmt: skip
    return older


def signed(certificate: NodeCertificate, key: SigningKey) -> NodeCertificate:
    """The same statement under its own id, signed."""
    nameless = certificate.model_copy(update={"certificate_id": "", "signature": ""})
    content = canonical_json(nameless.model_dump(mode="json", exclude={"signature"}))
    named = nameless.model_copy(update={"certificate_id": hashlib.sha256(content).hexdigest()[:20]})
    return named.model_copy(update={"signature": key.sign(named.statement())})
