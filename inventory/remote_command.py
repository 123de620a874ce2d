"""The one string every remote command is sent as, so that it ends on both sides when its time is up or we ask it to.

On an `exec` channel without a terminal, argv quoted by `shlex.join`:

    sh -c 'echo "#rackmint-pid $$" >&2; export LC_ALL=C; exec timeout -k 2 SECONDS "$@"' rackmint ARGV...

`SECONDS` has one decimal, "30.0". The first line of standard error is `#rackmint-pid N` (taken off before anybody
sees it); N leads the remote process group. `timeout` ends that group by itself, even if this process is dead by then.
To end it sooner, a second channel sends `kill -TERM -- -N`, which `timeout` passes on and follows with KILL 2 s later,
and then, as soon as the first has ended and at the latest 2.2 s later, `kill -KILL -- -N` for whatever ignored it.
"""

from __future__ import annotations

import re
import shlex

WRAPPER = 'echo "#rackmint-pid $$" >&2; export LC_ALL=C; exec timeout -k 2 {seconds:.1f} "$@"'
KILL_AFTER_S = 2.0  # the `-k 2` in WRAPPER
# What `pgrep -f` and `pkill -f` find of our commands on a node, but for themselves, which are such commands too.
LEFT_RUNNING = "^timeout -k 2 [0-9.]+ [^p]"
_PID_LINE = re.compile(r"^#rackmint-pid (\d+)\r?\n", re.MULTILINE)


def wrapped(argv: tuple[str, ...], seconds: float) -> str:
    """The string sent for a command."""
    return shlex.join(("sh", "-c", WRAPPER.format(seconds=seconds), "rackmint", *argv))


def pid_told(stderr: str) -> int | None:
    """The remote process group, once it told."""
    found = _PID_LINE.search(stderr)
    return int(found[1]) if found else None


def without_pid(stderr: str) -> str:
    """Standard error as the command itself wrote it."""
    return _PID_LINE.sub("", stderr, count=1)


def kill_line(signal: str, pid: int) -> str:
    """What a second channel sends to end the group."""
    return f"kill -{signal} -- -{pid}"
