"""How long one may wait, told to whoever watches, and ended early when somebody asks to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from inventory.errors import BudgetSpent, Cancelled

Told = Callable[[str, float], None]  # (what is waited for, seconds left)


def _tell_nobody(what: str, left_s: float) -> None:
    """Used where nobody watches."""


class Deadline:
    """A budget in hand at every wait: remaining time, a cancel token, and a voice.

    `wait` raises `Cancelled` as soon as the token is set and `BudgetSpent` when the budget is over.
    """

    def __init__(
        self,
        node: str,
        budget_s: float,
        *,
        cancel: threading.Event | None = None,
        tell: Told = _tell_nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self.budget_s = budget_s
        self.cancel = cancel or threading.Event()
        self.tell = tell
        self._clock = clock
        self._ends = clock() + budget_s

    @property
    def left_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._ends - self._clock())

    def part(self, budget_s: float) -> Deadline:
        """A shorter deadline inside this one, with the same token and voice."""
        return Deadline(self.node, min(budget_s, self.left_s), cancel=self.cancel, tell=self.tell, clock=self._clock)

    def check(self, what: str) -> None:
        """Raise if it is time to stop."""
        if self.cancel.is_set():
            raise Cancelled(f"{self.node}: stopped while waiting for {what}")
        if self.left_s <= 0:
            raise BudgetSpent(self.node, f"waited {self.budget_s:.0f} s for {what}")

    def wait(self, seconds: float, what: str) -> None:
        """Sleep at most `seconds` inside the budget, awake at once on cancel; tells what is waited for."""
        self.check(what)
        self.tell(what, self.left_s)
        self.cancel.wait(min(seconds, self.left_s))
        self.check(what)

    def timeout_s(self, most_s: float, what: str) -> float:
        """A transport time-out: at most `most_s`, at most what is left, never zero."""
        self.check(what)
        return max(0.05, min(most_s, self.left_s))
