"""One command of a shell: built-in words, wrappers such as `timeout`, and then the tool itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import takewhile

from lab.shell.answers import answer
from lab.shell.builtins import BUILTINS
from lab.shell.call import Call, is_wrapper, without_wrapper
from lab.shell.node import memory
from lab.shell.reply import Reply
from lab.shell.run import Run, ShellEnded
from lab.shell.waiting import WAITING

Interpreter = Callable[[Run, str], Awaitable[int]]

_READS_STDIN = frozenset({"cat", "tee", "grep", "head", "tail", "wc", "install", "kubectl"})
_LOAD_S = 10.0  # a tool that runs longer than this keeps the GPUs busy; our choice
TIMED_OUT = 124  # timeout(1)
KILLED = 137  # 128 + SIGKILL


async def execute(run: Run, argv: tuple[str, ...], interpret: Interpreter) -> int:
    """Run one command; its exit code."""
    name = argv[0].rpartition("/")[2]
    if name in BUILTINS:
        return await BUILTINS[name](run, argv)
    match name:
        case "exec":
            alone = replace(run, alone=True)  # it takes the shell's place: nothing comes after it
            run.job.command = " ".join(argv[1:]) or run.job.command
            raise ShellEnded(await execute(alone, argv[1:], interpret) if len(argv) > 1 else 0)
        case "sh" | "bash" | "dash":
            return await _shell(run, argv[1:], interpret)
        case "timeout":
            return await _timeout(run, argv, interpret)
    if is_wrapper(argv[0]):
        env: dict[str, str] = {}
        inner = without_wrapper(argv, env)
        if not inner:
            return 0
        return await execute(replace(run, env={**run.env, **env}), inner, interpret)
    return await _tool(run, argv)


async def _shell(run: Run, words: tuple[str, ...], interpret: Interpreter) -> int:
    """`sh -c TEXT NAME ARG…`, or a script on standard input."""
    options = list(takewhile(lambda word: word.startswith("-"), words))
    rest = words[len(options) :]
    if any("c" in option for option in options) and rest:
        return await interpret(replace(run, words=(rest[1:] or ("sh",)), env=dict(run.env)), rest[0])
    return await interpret(replace(run, env=dict(run.env), alone=False), await run.stdin())


async def _timeout(run: Run, argv: tuple[str, ...], interpret: Interpreter) -> int:
    """`timeout [-k N] [-s SIG] SECONDS command`: real seconds, since whoever waits on the other side waits in them."""
    inner = without_wrapper(argv, {})
    seconds = argv[len(argv) - len(inner) - 1]
    limit_s = float(seconds.rstrip("s")) if seconds.rstrip("s").replace(".", "").isdigit() else 0.0
    try:
        async with asyncio.timeout(limit_s or None):
            return await execute(run, inner, interpret)
    except TimeoutError:
        return KILLED if "-s" in argv and "KILL" in argv else TIMED_OUT


async def _tool(run: Run, argv: tuple[str, ...]) -> int:
    if run.machine.fault("ssh_hangs"):
        await asyncio.Event().wait()
    name = argv[0].rpartition("/")[2]
    stdin = await run.stdin() if name in _READS_STDIN else ""
    call = Call(run.machine, argv, stdin, run.env, run.folder)
    reply = await WAITING[name](call) if name in WAITING else answer(run.machine, argv, stdin, run.env, run.folder)
    await _take_time(run, reply)
    run.out(reply.stdout)
    run.err(reply.stderr)
    return reply.exit


async def _take_time(run: Run, reply: Reply) -> None:
    held = memory(run.machine)
    with contextlib.ExitStack() as after:
        if reply.takes_s >= _LOAD_S:
            held.busy += 1
            after.callback(lambda: setattr(held, "busy", held.busy - 1))
        await run.machine.clock.sleep(reply.takes_s)
