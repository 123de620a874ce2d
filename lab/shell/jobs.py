"""The process table of the simulated nodes: what runs where, and how each command came to its end."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakKeyDictionary

from lab.machine import Machine

_PIDS = count(2001)


@dataclass(eq=False)
class Job:
    """One remote command: a process group whose leader is `pid`, as sshd makes one for every channel."""

    command: str  # as `ps` shows it: of what was run last by `exec`
    pid: int = field(default_factory=lambda: next(_PIDS))
    task: asyncio.Task[None] | None = None
    ended_by: str = ""  # "itself", "TERM", "KILL", "PIPE" (spoke to nobody), "power"; empty while it runs

    def end(self, how: str) -> None:
        """Stop it; the first cause is the one that counts."""
        self.ended_by = self.ended_by or how
        if self.task:
            self.task.cancel()


@dataclass
class JobTable:
    """One node's commands: running now, and the last ones that ended."""

    running: dict[int, Job] = field(default_factory=dict)
    ended: deque[Job] = field(default_factory=lambda: deque(maxlen=200))  # our choice: enough for a test to look back

    def begin(self, job: Job) -> None:
        """Enter a command."""
        self.running[job.pid] = job

    def finish(self, job: Job) -> None:
        """Take it out; without another cause it ended by itself."""
        job.ended_by = job.ended_by or "itself"
        if self.running.pop(job.pid, None):
            self.ended.append(job)

    def signal(self, name: str, target: int) -> bool:
        """Send a signal to a process or, when negative, a group. False: no such process."""
        job = self.running.get(abs(target))
        if job and name not in {"0", "CONT", "STOP"}:
            job.end("KILL" if name == "KILL" else "TERM")
        return job is not None

    def matching(self, pattern: str) -> list[Job]:
        """Commands whose line matches, as `pgrep -f` finds them."""
        return [job for job in self.running.values() if re.search(pattern, job.command)]


_TABLES: WeakKeyDictionary[Machine, JobTable] = WeakKeyDictionary()


def jobs(machine: Machine) -> JobTable:
    """The node's process table; it outlives reboots so that a test can look back."""
    return _TABLES.setdefault(machine, JobTable())


def running_commands(machine: Machine) -> tuple[str, ...]:
    """What runs on the node now. Empty after a cancel, or something was left behind."""
    return tuple(job.command for job in jobs(machine).running.values())
