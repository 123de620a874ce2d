"""A command run on a node without SSH in between: what a channel would carry, collected into one reply."""

from __future__ import annotations

import asyncio
import shlex

from lab.machine import Machine
from lab.shell.jobs import Job, jobs
from lab.shell.reply import Reply
from lab.shell.run import Run
from lab.shell.script import run_text


async def run_here(machine: Machine, argv: tuple[str, ...], stdin: str = "") -> Reply:
    """The whole answer of a command, scripts and meetings included."""
    out: list[str] = []
    err: list[str] = []

    async def feed() -> str:
        return stdin

    job, table = Job(shlex.join(argv)), jobs(machine)
    job.task = asyncio.current_task()
    table.begin(job)
    run = Run(machine, job, out.append, err.append, feed)
    try:
        code = await run_text(run, shlex.join(argv))
        await asyncio.gather(*run.beside)
    finally:
        table.finish(job)
    return Reply("".join(out), "".join(err), code)
