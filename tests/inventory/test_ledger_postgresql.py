"""The same ledger on a real PostgreSQL, started here as an unprivileged user; skipped where there is none."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from inventory.errors import BadSettings, LeaseHeld, LeaseLost, LedgerUnavailable
from inventory.findings import Finding, Outcome
from inventory.ledger import Lease, Ledger
from inventory.ledger_schema import TABLES
from inventory.model import NodeRef
from inventory.report import Stage, StageRecord

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))  # where Debian keeps them
_T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not _PROGRAMS, reason="no PostgreSQL server on this machine: install postgresql")


class Server:
    """One server in a folder of its own, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._owner = folder, "postgres" if os.geteuid() == 0 else ""
        if self._owner:
            account = pwd.getpwnam(self._owner)
            os.chown(folder, account.pw_uid, account.pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "rackmint", "--no-sync")

    def _run(self, program: str, *arguments: str) -> None:
        prefix = ["runuser", "-u", self._owner, "--"] if self._owner else []
        command = [*prefix, str(_PROGRAMS[-1] / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd="/")

    def start(self) -> None:
        """Bring it up and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-w", "-D", str(self._folder / "data"), "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """As a crash of its machine would."""
        self._run("pg_ctl", "-w", "-D", str(self._folder / "data"), "-m", "immediate", "stop")

    def new_database(self, name: str) -> str:
        """The URL of an empty database."""
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)

    def url(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql+psycopg://rackmint@127.0.0.1:{self.port}/{database}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A running server."""
    folder = Path(tempfile.mkdtemp(prefix="rackmint-pg-"))
    try:
        started = Server(folder)
        started.start()
        yield started
        started.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    """An empty database for one test."""
    return server.new_database(f"t{abs(hash(request.node.name))}")


def record(outcome: Outcome = Outcome.PASS) -> StageRecord:
    """A stage with one finding."""
    finding = Finding(metric="m", subject="node", outcome=outcome, observed="1", expected="1")
    return StageRecord(stage=Stage.IMAGE, findings=(finding,), started_at=_T0, ended_at=_T0)


def test_two_first_starts_at_once_make_one_ledger(url: str) -> None:
    """Its tables are those the code knows."""
    with ThreadPoolExecutor(4) as pool:
        for ledger in pool.map(lambda _: Ledger.open(url), range(4)):
            ledger.close()
    engine = create_engine(url)
    with engine.connect() as connection:
        assert [] == compare_metadata(MigrationContext.configure(connection), TABLES)
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.commit()
    engine.dispose()
    with pytest.raises(BadSettings, match=r"written by a newer rackmint \(schema 9999"):
        Ledger.open(url)


def test_of_two_machines_that_ask_at_once_one_gets_the_node(url: str) -> None:
    """Two ledgers, sixteen threads, one owner; the fence goes on growing."""
    ledgers = (Ledger.open(url), Ledger.open(url))
    gate = threading.Barrier(16)

    def ask(number: int) -> Lease | None:
        gate.wait()
        try:
            return ledgers[number % 2].take_lease("CH1", "n", f"run-{number}", "provision", 60)
        except LeaseHeld:
            return None

    with ThreadPoolExecutor(16) as pool:
        (got,) = [lease for lease in pool.map(ask, range(16)) if lease]
    ledgers[0].end_lease_of("CH1", got.holder)
    new = ledgers[1].take_lease("CH1", "n", "run-x", "provision", 60)
    assert (1, 2, 2) == (got.fence, new.fence, new.attempt)
    with pytest.raises(LeaseLost, match="run-x"):
        ledgers[0].renew(got, 60)
    for ledger in ledgers:
        ledger.close()


def test_records_outbox_attempts_and_pins_are_kept_alike(url: str) -> None:
    """What SQLite keeps, PostgreSQL keeps."""
    ledger = Ledger.open(url)
    lease = ledger.take_lease("CH1", "n", "run-a", "provision", 60)
    number = ledger.begin_stage(lease, "run-a", Stage.IMAGE, "k", {"image": "d"})
    ledger.note_step(number, "boot_once", {"target": "Cd"})
    assert [number] == [unfinished.record_id for unfinished in ledger.unfinished("CH1")]
    ledger.finish_stage(number, record())
    assert "run-a" == ledger.last_passing("CH1", Stage.IMAGE).reused_from
    for payload in ({"v": 1}, {"v": 2}):
        ledger.put_outbox("netbox", "CH1", "k", payload)
    assert [{"v": 2}] == [owed.payload for owed in ledger.due_outbox()]
    ledger.put_attempt("a1", "CH1", "n", "s", {"image": "d"})
    assert (True, False) == tuple(ledger.attempt_event("a1", "registered", {}, only_once=True) for _ in range(2))
    for value in ("x", "y"):
        ledger.set_pin("bmc", "u", value)
    ledger.remember_node(NodeRef(name="n", node_class="c", serial="CH1"))
    assert ("y", "n") == (ledger.pin("bmc", "u"), ledger.node("CH1").name)
    ledger.close()


def test_a_token_is_used_up_once_by_two_services(url: str) -> None:
    """Sixteen registrations with one token, spread over two processes' ledgers."""
    ledgers = (Ledger.open(url), Ledger.open(url))
    ledgers[0].put_attempt("a1", "CH1", "n", "s", {})
    with ThreadPoolExecutor(16) as pool:
        asked = pool.map(
            lambda i: ledgers[i % 2].attempt_event("a1", "registered", {"i": i}, only_once=True), range(16)
        )
    assert 1 == sum(asked)
    for ledger in ledgers:
        ledger.close()


def test_a_server_that_goes_away_is_named_and_its_return_is_enough(server: Server, url: str) -> None:
    """One sentence while it is down; afterwards the same ledger goes on."""
    ledger = Ledger.open(url)
    ledger.set_pin("bmc", "u", "x")
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(LedgerUnavailable, match="ledger postgresql"):
                ledger.pin("bmc", "u")
    finally:
        server.start()
    assert "x" == ledger.pin("bmc", "u")
    ledger.close()
