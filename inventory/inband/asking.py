"""Asks one question after the other, and goes on when one is refused; a node that hangs twice is asked no more."""

from __future__ import annotations

from typing import TypeVar

from inventory.command import Answer, Command, Shell, ask
from inventory.errors import CommandFailed, OutputNotUnderstood
from inventory.evidence import EvidenceStore
from inventory.findings import Finding, Outcome

T = TypeVar("T")

# A refusal that states a fault of the node, as nvidia-smi words it; any other refusal only leaves a question open.
_SAYS_BROKEN = ("couldn't communicate with the NVIDIA driver", "Driver/library version mismatch", "GPU is lost")
MOST_HANGS = 2  # our choice: one slow tool is the tool's trouble, two are the node's


class Asking:
    """Collects what was not answered. A dead connection still raises `NodeUnreachable`."""

    def __init__(self, shell: Shell, store: EvidenceStore) -> None:
        self._shell, self._store = shell, store
        self._hung: list[str] = []
        self._trouble: list[Finding] = []
        self._not_asked: list[str] = []

    def answer(self, command: Command[T]) -> Answer[T] | None:
        """The parsed answer, or None and one more trouble."""
        tool = command.argv[0]
        if tool in self._hung or len(self._hung) >= MOST_HANGS:
            self._not_asked.append(command.name)
            return None
        try:
            return ask(self._shell, command, self._store)
        except CommandFailed as error:
            if "gave no answer" in error.failed:
                self._hung.append(tool)
            self._trouble.append(self._finding(command, error))
        except OutputNotUnderstood as error:
            self._trouble.append(self._finding(command, error))
        return None

    def value(self, command: Command[T]) -> T | None:
        """As `answer`, without its evidence."""
        found = self.answer(command)
        return found.value if found else None

    @property
    def trouble(self) -> tuple[Finding, ...]:
        """One `error` finding for each question that was not answered, the hang that explains others first."""
        first = self._trouble[0].key if self._trouble else ""
        lacking = [
            Finding(
                metric="inband_command",
                subject=name,
                outcome=Outcome.NOT_RUN,
                observed="not asked, since the node had hung before",
                expected="an answer",
                explained_by=first,
            )
            for name in self._not_asked
        ]
        return (*self._trouble, *lacking)

    def _finding(self, command: Command[T], error: CommandFailed | OutputNotUnderstood) -> Finding:
        return Finding(
            metric="inband_command",
            subject=command.name,
            outcome=Outcome.FAIL if any(fact in error.said for fact in _SAYS_BROKEN) else Outcome.ERROR,
            observed=f"{error.failed}: {error.said}" if error.said else error.failed,
            expected="an answer",
            remedy=error.do or "Run the command on the node by hand and look at the kernel log.",
            source="a question that was not answered is no pass",
            cause=str(error),
        )
