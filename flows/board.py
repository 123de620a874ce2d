"""What every node is doing right now: the state behind the live grid and the plain progress lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from inventory.findings import Outcome
from inventory.report import Stage


@dataclass(frozen=True)
class Cell:
    """One node at one stage."""

    state: str = ""  # "", "running", "reused", or an outcome
    since: float = 0.0
    budget_s: float = 0.0
    took_s: float = 0.0
    waiting_for: str = ""
    left_s: float = 0.0
    said: str = ""  # the cause, when it is bad


Heard = Callable[[str, Stage, Cell], None]  # (node, stage, new cell)


@dataclass
class Board:
    """Thread-safe: stages write from their threads, the terminal reads."""

    nodes: dict[str, dict[Stage, Cell]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    listeners: list[Heard] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, node: str) -> None:
        """Show a node, with nothing done yet."""
        with self._lock:
            self.nodes.setdefault(node, {})

    def begin(self, node: str, stage: Stage, budget_s: float) -> None:
        """A stage starts."""
        self._set(node, stage, Cell("running", since=time.monotonic(), budget_s=budget_s))

    def waiting(self, node: str, stage: Stage, what: str, left_s: float) -> None:
        """A stage waits for something, until a known time."""
        with self._lock:
            cell = self.nodes.get(node, {}).get(stage, Cell("running", since=time.monotonic()))
            if cell.state == "running":
                self.nodes.setdefault(node, {})[stage] = replace(cell, waiting_for=what, left_s=left_s)

    def end(self, node: str, stage: Stage, state: str, said: str = "") -> None:
        """A stage ended, or was reused."""
        cell = self.nodes.get(node, {}).get(stage, Cell())
        took = time.monotonic() - cell.since if cell.since else 0.0
        self._set(node, stage, replace(cell, state=state, took_s=took, waiting_for="", said=said))

    def note(self, node: str, text: str) -> None:
        """Something about a node beside its stages: held by another run, in service."""
        with self._lock:
            self.notes[node] = text

    def snapshot(self) -> dict[str, dict[Stage, Cell]]:
        """A copy to draw from."""
        with self._lock:
            return {node: dict(cells) for node, cells in self.nodes.items()}

    def _set(self, node: str, stage: Stage, cell: Cell) -> None:
        with self._lock:
            self.nodes.setdefault(node, {})[stage] = cell
            listeners = tuple(self.listeners)
        for heard in listeners:
            heard(node, stage, cell)


BAD = frozenset({Outcome.FAIL.value, Outcome.ERROR.value, Outcome.NOT_RUN.value})

# Set by whoever watches; a run without a watcher writes to a board nobody draws.
WATCHING: ContextVar[Board | None] = ContextVar("watching", default=None)
