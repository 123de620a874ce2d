"""Keeps a Prefect server up as long as anybody uses it: a process beside it, so that a killed command leaves no server.

`python server_keeper.py USERS NOTE COMMAND…`: whoever uses the server holds a shared lock on the file USERS. The kernel
gives it up with its holder, killed or not; when the last is gone, NOTE is removed and the server told to end.
"""

from __future__ import annotations

import ctypes
import fcntl
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import BinaryIO

_LOOK_EVERY_S = 0.3  # our choice: nobody waits for more than the end of a command
_END_S = 10.0  # our choice: a server writes its last rows within a second
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(users: str, note: str, *command: str) -> None:
    """Start the server, and end it when nobody uses it any more or somebody ends us."""
    signal.signal(signal.SIGTERM, _leave)
    server = subprocess.Popen(command, preexec_fn=_end_with_us)  # noqa: PLW1509 (we have one thread)
    try:
        with Path(users).open("rb") as file:
            while server.poll() is None and not _nobody_uses(file):
                time.sleep(_LOOK_EVERY_S)
            Path(note).unlink(missing_ok=True)
            _end(server)  # while we hold the lock: who comes now waits, and then starts a server of its own
    finally:
        _end(server)


def _nobody_uses(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _end(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(_END_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _end_with_us() -> None:
    """The server is told to end when we are killed. Linux only; elsewhere the next command finds it and uses it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
