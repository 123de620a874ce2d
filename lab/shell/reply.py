"""What one tool on a simulated node says: text, exit and how long it would take in life."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the machine would give it. `takes_s` are seconds of life, which the lab clock compresses."""

    stdout: str = ""
    stderr: str = ""
    exit: int = 0
    takes_s: float = 0.0


def lines(*rows: str) -> str:
    """Rows as a tool prints them: each ended by a newline, nothing at all for no rows."""
    return "".join(f"{row}\n" for row in rows)


def said(*rows: str, takes_s: float = 0.0) -> Reply:
    """A tool that is content."""
    return Reply(lines(*rows), takes_s=takes_s)


def refused(text: str, code: int = 1) -> Reply:
    """A tool that complains on stderr."""
    return Reply("", lines(text), code)


def no_such_file(tool: str, path: str, code: int = 1) -> Reply:
    """What coreutils say of a path that is not there."""
    return refused(f"{tool}: {path}: No such file or directory", code)
