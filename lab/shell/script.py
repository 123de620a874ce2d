"""Runs what arrives on an SSH channel: a small shell with lists, pipes, redirection, `for`, `if` and its own pid."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from lab.shell import syntax
from lab.shell.execute import execute
from lab.shell.run import Run, ShellEnded
from lab.shell.tree import files, matching
from lab.shell.words import Word, substitute

_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_Command = syntax.Simple | syntax.ForLoop | syntax.Branch | syntax.Script


async def run_text(run: Run, text: str) -> int:
    """Run a script to its end; its exit code."""
    try:
        script = syntax.parse(text)
    except ValueError as trouble:
        run.err(f"sh: 1: {trouble}\n")
        return 2
    chains = script.chains
    run.alone = run.alone and len(chains) == 1 and len(chains[0].links) == 1 and len(chains[0].links[0][1]) == 1
    try:
        return await _script(run, script)
    except ShellEnded as ended:
        return ended.code


async def _script(run: Run, script: syntax.Script) -> int:
    for chain in script.chains:
        if chain.background:
            run.beside.append(asyncio.create_task(_beside(replace(run), chain)))
            await asyncio.sleep(0)  # let it begin, as a forked process would
            run.last = 0
        else:
            run.last = await _chain(run, chain)
    return run.last


async def _beside(run: Run, chain: syntax.Chain) -> int:
    try:
        return await _chain(run, chain)
    except ShellEnded as ended:
        return ended.code


async def _chain(run: Run, chain: syntax.Chain) -> int:
    for joint, pipeline in chain.links:
        if (joint == "&&" and run.last) or (joint == "||" and not run.last):
            continue
        run.last = await _pipeline(run, pipeline)
    return run.last


async def _pipeline(run: Run, commands: list[_Command]) -> int:
    """Each command's output is the next one's input; the last one's exit counts."""
    if len(commands) == 1:
        return await _command(run, commands[0])
    feed, code = run.stdin, 0
    for number, command in enumerate(commands):
        said: list[str] = []
        last = number == len(commands) - 1
        part = replace(run, stdin=feed, out=run.out if last else said.append, env=dict(run.env))
        try:
            code = await _command(part, command)
        except ShellEnded as ended:
            code = ended.code
        feed = _held(said)
    return code


def _held(said: list[str]) -> Callable[[], Awaitable[str]]:
    async def feed() -> str:
        return "".join(said)

    return feed


async def _command(run: Run, command: _Command) -> int:
    match command:
        case syntax.Simple():
            return await _simple(run, command)
        case syntax.ForLoop():
            return await _for(run, command)
        case syntax.Branch():
            passed = await _script(run, command.test) == 0
            return await _script(run, command.body if passed else command.other)
        case syntax.Script():
            return await _script(replace(run, env=dict(run.env)), command)


async def _for(run: Run, loop: syntax.ForLoop) -> int:
    code = 0
    for value in [text for word in loop.words for text in await _expand(run, word)]:
        run.env[loop.name] = value
        code = await _script(run, loop.body)
    return code


async def _simple(run: Run, command: syntax.Simple) -> int:
    argv = [text for word in command.words for text in await _expand(run, word)]
    inner = await _redirected(run, command)
    given: dict[str, str] = {}
    while argv and _ASSIGNMENT.match(argv[0]):
        name, _, value = argv.pop(0).partition("=")
        given[name] = value
    if not argv:
        run.env.update(given)
        return 0
    if inner is run and not given:
        return await execute(run, tuple(argv), run_text)
    inner = replace(inner, env={**run.env, **given}) if given else inner
    return await execute(inner, tuple(argv), run_text)


async def _redirected(run: Run, command: syntax.Simple) -> Run:
    for kind, word in command.redirects:
        path = " ".join(await _expand(run, word))
        match kind:
            case ">" | ">>":
                run = replace(run, out=run.write_to(path, more=kind == ">>"))
            case "2>":
                run = replace(run, err=run.write_to(path, more=False))
            case "&>":
                say = run.write_to(path, more=False)
                run = replace(run, out=say, err=say)
            case "2>&1":
                run = replace(run, err=run.out)
            case ">&2" | "1>&2":
                run = replace(run, out=run.err)
            case "<":
                text = files(run.machine).get(run.path(path), "")
                run = replace(run, stdin=_held([text]))
    return run


async def _expand(run: Run, word: Word) -> list[str]:
    """One word as the words it stands for: variables, `$(…)`, patterns; quotes hold it together."""
    if word.pieces == [("$@", '"')]:
        return list(run.words[1:])
    text, quoted = "", False
    for piece, quote in _joined(word.pieces):
        quoted = quoted or bool(quote)
        text += piece if quote == "'" else await _filled(run, piece)
    if quoted:
        return [text]
    return [path for part in text.split() for path in _glob(run, part)]


def _joined(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbouring characters with the same quote as one stretch, so that `$NAME` is seen whole."""
    found: list[tuple[str, str]] = []
    for text, quote in pieces:
        if found and found[-1][1] == quote and not text.startswith("$("):
            found[-1] = (found[-1][0] + text, quote)
        else:
            found.append((text, quote))
    return found


async def _filled(run: Run, piece: str) -> str:
    if "$(" not in piece:
        return substitute(piece, run.look_up)
    start, end = piece.index("$("), piece.rindex(")")
    said: list[str] = []
    await run_text(replace(run, out=said.append, env=dict(run.env), alone=False), piece[start + 2 : end])
    before, after = piece[:start], piece[end + 1 :]
    return substitute(before, run.look_up) + "".join(said).rstrip("\n") + substitute(after, run.look_up)


def _glob(run: Run, part: str) -> list[str]:
    if not re.search(r"[*?\[]", part) or part == "[":
        return [part]
    found = matching(run.machine, run.path(part))
    if not part.startswith("/"):
        found = [path.removeprefix(run.folder.rstrip("/") + "/") for path in found]
    return found or [part]
