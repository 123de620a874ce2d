"""What the tests of the whole suite share: tables that tests fill row by row, printed when all have run."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter


@pytest.fixture(autouse=True, scope="module")
def environment() -> Iterator[None]:
    """What a command sets for the processes it starts (Prefect's address above all) ends with the file that ran it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print each table a test added rows to by `record_property("table: NAME", row)`; also from parallel workers."""
    tables: dict[str, list[str]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, row in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name.startswith("table: "):
                    tables[name.removeprefix("table: ")].append(str(row))
    for name, rows in tables.items():
        terminalreporter.section(name)
        for row in sorted(rows):
            terminalreporter.write_line(row)
