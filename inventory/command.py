"""One remote command, declared once: what is run, how long it may take, who reads the answer."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from inventory.errors import CommandFailed, OutputNotUnderstood
from inventory.evidence import EvidenceStore
from inventory.findings import Evidence
from inventory.model import now

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Output:
    """What a remote command came to. `exit` is None when it was cut off at its time-out."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit: int | None
    started_at: datetime
    took_s: float

    @property
    def last_line(self) -> str:
        """The machine's own last words."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else ""

    @property
    def status(self) -> str:
        """The exit in words, as evidence keeps it."""
        return "timed out" if self.exit is None else f"exit {self.exit}"


class Shell(Protocol):
    """Runs argv on a node. The product's shell is SSH; parsers are tested on text and need none."""

    node: str

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: str = "") -> Output:
        """Run to the end or to the time-out; then the remote process is gone as well."""
        ...


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A command and its reader. `parse` is pure and raises `ValueError` saying what it expected."""

    name: str
    argv: tuple[str, ...]
    parse: Callable[[str], T]
    timeout_s: float
    ok_exits: frozenset[int] = frozenset({0})
    changes_node: bool = False

    @property
    def line(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A parsed answer and the evidence it rests on."""

    value: T
    evidence: Evidence
    output: Output


def ask(shell: Shell, command: Command[T], store: EvidenceStore, *, stdin: str = "") -> Answer[T]:
    """Run a declared command, keep the raw answer, parse it.

    Raises `CommandFailed` on a time-out (a hang is a finding) or an exit that is not tolerated, and
    `OutputNotUnderstood` when the reader does not know the text. Both carry the machine's own last line.
    """
    output = shell.run(command.argv, timeout_s=command.timeout_s, stdin=stdin)
    evidence = store.keep(
        f"{output.stdout}{output.stderr}".encode(),
        asked=command.line,
        of=shell.node,
        at=output.started_at,
        took_s=output.took_s,
        status=output.status,
    )
    if output.exit is None:
        raise CommandFailed(
            shell.node,
            f"`{command.line}` gave no answer in {command.timeout_s:g} s",
            output.last_line,
            "A hanging tool points at the driver: look at the kernel log before a power cycle.",
        )
    if output.exit not in command.ok_exits:
        raise CommandFailed(shell.node, f"`{command.line}` ended with exit {output.exit}", output.last_line)
    try:
        return Answer(command.parse(output.stdout), evidence, output)
    except ValueError as error:
        raise OutputNotUnderstood(
            shell.node,
            f"`{command.line}` answered something the reader does not know",
            str(error),
            f"The raw answer is kept as {evidence.sha256[:12]}.",
        ) from error


def output(argv: tuple[str, ...], stdout: str, *, stderr: str = "", exit: int | None = 0) -> Output:  # noqa: A002
    """An `Output` made of text, for recorded answers."""
    return Output(argv, stdout, stderr, exit, now(), 0.0)
