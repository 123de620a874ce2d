"""Opens the ledger's store, brings it to this version's tables, and says in one sentence what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from inventory.errors import BadSettings, LedgerUnavailable
from inventory.ledger_schema import SCHEMA
from inventory.model import now

_BUSY_S = 30  # our choice: longer than any write of ours by four orders of magnitude, shorter than a patient person
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 7_260_417  # our choice of PostgreSQL advisory lock, so that two first starts do not both migrate

# SQLite's own words → what to do. Source: sqlite.org/rescode.html and sqlite3_errstr().
_SAID = (
    ("readonly", "it is not writable. Give this user write permission on the file and its folder"),
    ("unable to open", "it cannot be opened. Check that the folder exists and this user may write there"),
    ("disk is full", "the disk is full. Make room and run the same command again: it goes on where it was"),
    ("disk i/o", "the disk answers with an error. Check its space, quota and health, then run the same command again"),
    ("locked", f"another process has kept it locked for {_BUSY_S} s. Look for a hanging rackmint or a backup"),
    ("not a database", "the file is not a ledger. Point `state` elsewhere or move the file away"),
    ("malformed", "the file is damaged. Restore it from a backup"),
)


class Database:
    """One store, safe to use from many threads: many readers, one writer at a time."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self._for_writing = engine.execution_options(writes=True)
        self._clock = clock
        self._one_writer = threading.Lock()  # waiting here is fair and free; waiting on SQLite's lock is neither
        self._insert: Any = sqlite.insert if engine.dialect.name == "sqlite" else postgresql.insert

    @property
    def name(self) -> str:
        """The store as shown to people, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated(self.name), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with translated(self.name), self._one_writer, self._for_writing.begin() as connection:
            yield connection

    def _put(self, connection: Connection, table: Table, keys: tuple[str, ...], row: dict[str, Any]) -> None:
        """Insert, or replace what stands under the same keys."""
        insert = self._insert(table).values(row)
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=keys, set_={name: v for name, v in row.items() if name not in keys}
            )
        )

    def _now(self, connection: Connection) -> datetime:
        """The store's clock where several machines share it, ours where it is a file beside us."""
        if self._engine.dialect.name == "postgresql" and self._clock is now:
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            return moment
        return self._clock()


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn the driver's error into one sentence naming the store and what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"ledger {name}: {_sentence(error)}") from error


def _sentence(error: SQLAlchemyError) -> str:
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    line = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    return next((sentence for words, sentence in _SAID if words in said.lower()), line)


def open_engine(url: str) -> Engine:
    """A working engine on a store that has this version's tables; raises `BadSettings` in one sentence."""
    engine = _engine(_parsed(url))
    name = engine.url.render_as_string(hide_password=True)
    try:
        with translated(name):
            _migrate(engine, name)
    except LedgerUnavailable as error:
        engine.dispose()
        raise BadSettings(str(error)) from error
    except BadSettings:
        engine.dispose()
        raise
    return engine


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadSettings(f"ledger {url!r}: not a database URL. Write sqlite:////path/ledger.db") from error
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadSettings(f"ledger {parsed.drivername}: not supported. Use sqlite or postgresql+psycopg")
    return parsed


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        _make_private(Path(url.database or ""))
    try:
        # Pool: 64 node threads, the image service and the renderer may all read at once.
        engine = create_engine(url, pool_size=16, max_overflow=112, pool_timeout=_BUSY_S)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadSettings(f"ledger {url.drivername}: {error}. Install rackmint[postgresql]") from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _make_private(path: Path) -> None:
    """The ledger names hosts and serials: only its owner reads it."""
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        raise BadSettings(f"ledger {path}: {error.strerror}. Check the folder's permissions and space") from error


def _on_sqlite_connect(connection: Any, entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, see below; source: SQLAlchemy's SQLite dialect page
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_S * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # the intent must stand before the act, also after a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    """A writer takes the lock at once: a read that turns into a write could only be refused."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(engine: Engine, name: str) -> None:
    with engine.connect() as connection:
        if _revision(connection) == SCHEMA:
            _check_writable(engine)
            return
    with engine.execution_options(writes=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        _upgrade(connection, name)


def _check_writable(engine: Engine) -> None:
    with engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _upgrade(connection: Connection, name: str) -> None:
    from alembic import command  # slow to import, and needed once in a store's life
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    found = _revision(connection)
    if found is not None and found not in known:
        raise BadSettings(
            f"ledger {name}: written by a newer rackmint (schema {found}, this one knows {SCHEMA}). Upgrade rackmint"
        )
    command.upgrade(settings, "head")
