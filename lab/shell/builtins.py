"""Words a shell answers itself: echo, cd, export, exit, kill, sleep, wait and their like."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lab.shell import answers
from lab.shell.jobs import jobs
from lab.shell.run import Run, ShellEnded
from lab.shell.tree import is_folder
from lab.shell.waiting import WAITING

Builtin = Callable[[Run, tuple[str, ...]], Awaitable[int]]


async def _echo(run: Run, argv: tuple[str, ...]) -> int:
    words, end = (argv[2:], "") if argv[1:2] == ("-n",) else (argv[1:], "\n")
    run.out(" ".join(words) + end)
    return 0


async def _printf(run: Run, argv: tuple[str, ...]) -> int:
    form = argv[1].replace("\\n", "\n").replace("\\t", "\t")
    run.out(form % argv[2 : 2 + form.count("%s")] if "%s" in form else form)
    return 0


async def _cd(run: Run, argv: tuple[str, ...]) -> int:
    folder = run.path(argv[1]) if len(argv) > 1 else "/root"
    if not is_folder(run.machine, folder):
        run.err(f"sh: cd: can't cd to {argv[1]}\n")
        return 2
    run.folder = folder
    return 0


async def _export(run: Run, argv: tuple[str, ...]) -> int:
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            run.env[name] = value
    return 0


async def _exit(run: Run, argv: tuple[str, ...]) -> int:
    raise ShellEnded(int(argv[1]) if len(argv) > 1 else run.last)


async def _kill(run: Run, argv: tuple[str, ...]) -> int:
    """`kill [-s] -NAME [--] PID…`; a negative pid is a group."""
    words = [word for word in argv[1:] if word not in {"--", "-s"}]
    name = words.pop(0).lstrip("-").removeprefix("SIG") if words and not words[0].lstrip("-").isdigit() else "TERM"
    name = {"9": "KILL", "15": "TERM"}.get(name, name)
    if words and words[0] in {"-9", "-15"} and len(words) > 1:
        name = {"-9": "KILL", "-15": "TERM"}[words.pop(0)]
    code = 0
    for word in words:
        if not jobs(run.machine).signal(name, int(word)):
            run.err(f"sh: kill: ({word}) - No such process\n")
            code = 1
    return code


async def _pkill(run: Run, argv: tuple[str, ...]) -> int:
    """`pkill [-NAME] [-f] PATTERN`."""
    name = next((word[1:] for word in argv[1:] if word[1:] in {"KILL", "TERM", "9"}), "TERM")
    found = [job for job in jobs(run.machine).matching(argv[-1]) if job is not run.job]
    for job in found:
        job.end("KILL" if name in {"KILL", "9"} else name)
    return 0 if found else 1


async def _pgrep(run: Run, argv: tuple[str, ...]) -> int:
    """`pgrep -f PATTERN`."""
    found = [job for job in jobs(run.machine).matching(argv[-1]) if job is not run.job]
    run.out("".join(f"{job.pid}\n" for job in found))
    return 0 if found else 1


async def _sleep(run: Run, argv: tuple[str, ...]) -> int:
    """A bare `sleep` really lasts; a pause between the tools of a script is machine time, as the tools are."""
    seconds = float(argv[1].rstrip("s"))
    await (asyncio.sleep(seconds) if run.alone else run.machine.clock.sleep(seconds))
    return 0


async def _wait(run: Run, argv: tuple[str, ...]) -> int:
    codes = await asyncio.gather(*run.beside)
    return codes[-1] if codes else 0


async def _pwd(run: Run, argv: tuple[str, ...]) -> int:
    run.out(f"{run.folder}\n")
    return 0


async def _which(run: Run, argv: tuple[str, ...]) -> int:
    """Where a program is; the lab keeps them all in one place."""
    known = answers.TOOLS.keys() | WAITING.keys()
    missing = [word for word in argv[1:] if word not in known]
    run.out("".join(f"/usr/bin/{word}\n" for word in argv[1:] if word in known))
    return 1 if missing else 0


async def _nothing(run: Run, argv: tuple[str, ...]) -> int:
    return 0


BUILTINS: dict[str, Builtin] = {
    "echo": _echo,
    "printf": _printf,
    "cd": _cd,
    "export": _export,
    "exit": _exit,
    "kill": _kill,
    "pkill": _pkill,
    "pgrep": _pgrep,
    "sleep": _sleep,
    "wait": _wait,
    "pwd": _pwd,
    "which": _which,
    "set": _nothing,
    "trap": _nothing,
    "umask": _nothing,
    "ulimit": _nothing,
}
