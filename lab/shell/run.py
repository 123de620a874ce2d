"""One shell at work on a node: where it runs, where it speaks to, its variables and its positional words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lab.machine import Machine
from lab.shell.jobs import Job
from lab.shell.node import memory

Say = Callable[[str], None]


class ShellEnded(Exception):
    """`exit N` or `exec`: nothing after it is run."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def no_input() -> str:
    """Standard input of a command that gets none."""
    return ""


@dataclass
class Run:
    """A shell; `dataclasses.replace` makes the one of a pipe or a sub-shell."""

    machine: Machine
    job: Job
    out: Say
    err: Say
    stdin: Callable[[], Awaitable[str]] = no_input
    env: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ("sh",)  # $0 $1 …
    folder: str = "/root"
    last: int = 0
    alone: bool = True  # the command is all there is: no script around it
    beside: list[asyncio.Task[int]] = field(default_factory=list)  # started with `&`

    def look_up(self, name: str) -> str:
        """The value of `$name`."""
        if name.isdigit():
            return self.words[int(name)] if int(name) < len(self.words) else ""
        special = {
            "$": str(self.job.pid),
            "?": str(self.last),
            "#": str(len(self.words) - 1),
            "@": " ".join(self.words[1:]),
            "*": " ".join(self.words[1:]),
        }
        return special.get(name) or self.env.get(name, "")

    def write_to(self, path: str, *, more: bool) -> Say:
        """A stream that ends in a file."""
        if path == "/dev/null":
            return lambda text: None
        files, where = memory(self.machine).files, self.path(path)
        if not more or where not in files:
            files[where] = b""

        def say(text: str) -> None:
            files[where] += text.encode()

        return say

    def path(self, word: str) -> str:
        """A path as seen from the shell's folder."""
        return word if word.startswith("/") else f"{self.folder.rstrip('/')}/{word}"
