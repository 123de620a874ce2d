"""`rackmint-nccl-pair`: the launcher that runs one nccl-tests binary over two nodes without MPI.

Rank 0 opens a meeting at HOST:PORT and prints the table for both nodes; rank 1 comes to it and prints its own log.
Either side's trouble ends the other side too.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lab.shell.call import Call, unwrap
from lab.shell.meeting import Meeting, open_meetings
from lab.shell.nccl import cuda_trouble, nccl_run
from lab.shell.nccl_log import log_lines, ranks_of
from lab.shell.reply import Reply, lines, refused

_LOOK_EVERY_S = 0.05  # how often rank 1 knocks; our choice


async def nccl_pair(call: Call) -> Reply:
    """One side of the pair."""
    if "--" not in call.argv or not call.option("--root"):
        return refused("usage: rackmint-nccl-pair --rank R --world 2 --root HOST:PORT [--wait S] -- COMMAND", 2)
    argv, env = unwrap(call.argv[call.argv.index("--") + 1 :])
    test = replace(call, argv=argv, env={**call.env, **env})
    host, _, port = call.option("--root").rpartition(":")
    wait_s = float(call.option("--wait", default="60"))
    trouble = cuda_trouble(call.machine, int(test.option("-g", "--ngpus", default="1")))
    side = _lead if call.option("--rank") == "0" else _follow
    try:
        async with asyncio.timeout(wait_s):
            return await side(test, (host, port), trouble)
    except TimeoutError:
        return refused(f"rackmint-nccl-pair: no partner at {host}:{port} within {wait_s:g} s", 3)


async def _lead(call: Call, key: tuple[str, str], trouble: Reply | None) -> Reply:
    """Rank 0: wait for the partner, then run over both nodes."""
    if key in open_meetings:
        return refused(f"rackmint-nccl-pair: {key[0]}:{key[1]}: Address already in use", 3)
    meeting = open_meetings[key] = Meeting(call)
    try:
        partner = await meeting.partner
    finally:
        open_meetings.pop(key, None)
    failed = trouble or cuda_trouble(partner.machine, int(partner.option("-g", "--ngpus", default="1")))
    reply = failed or nccl_run(call, [call.machine, partner.machine])
    meeting.over.set_result(reply.exit)
    if failed and not trouble:
        return refused("rackmint-nccl-pair: rank 1 failed before the run", 3)
    return reply


async def _follow(call: Call, key: tuple[str, str], trouble: Reply | None) -> Reply:
    """Rank 1: come to the meeting, then tell only the log."""
    while (meeting := open_meetings.get(key)) is None or meeting.partner.done():
        await asyncio.sleep(_LOOK_EVERY_S)
    meeting.partner.set_result(call)
    code = await meeting.over
    if trouble or code:
        return trouble or refused("rackmint-nccl-pair: rank 0 failed", 3)
    rows = log_lines(ranks_of([meeting.host.machine, call.machine], 40_001), call.env)
    return Reply(lines(*rows), takes_s=40.0)
