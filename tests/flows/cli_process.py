"""The real command in a process of its own, as an operator starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
_CALL = "from flows.cli import main; main()"  # what the console script does


class Ran(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What an operator reads, in one line. A traceback is no sentence."""
        assert "Traceback" not in self.out + self.err, self.err
        return " ".join(self.err.split())


def argv_of(*argv: str) -> list[str]:
    """The command line that runs `rackmint` from this tree."""
    return [sys.executable, "-c", _CALL, *argv]


def environment(**more: str) -> dict[str, str]:
    """As in an operator's shell: no settings of ours, 100 columns."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RACKMINT_", "PREFECT_"))}
    return {**ours, "PYTHONPATH": str(_ROOT), "COLUMNS": "100", **more}


def rackmint(*argv: str, cwd: Path, before: tuple[str, ...] = (), **more: str) -> Ran:
    """Run a command to its end; `before` stands in front of it, such as `setpriv` with its options."""
    done = subprocess.run(
        [*before, *argv_of(*argv)], cwd=cwd, env=environment(**more), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=180, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def interrupted(*argv: str, cwd: Path, when: str, act: Callable[[], None] | None = None) -> Ran:
    """Run a command and, once it printed `when`, press Ctrl-C, or `act` instead."""
    said = cwd / "said.txt"
    with said.open("wb") as out:
        child = subprocess.Popen(
            argv_of(*argv), cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        ends = time.monotonic() + 90
        while when not in said.read_text() and child.poll() is None and time.monotonic() < ends:
            time.sleep(0.02)
        if act:
            act()
        else:
            child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=120)
    return Ran(child.returncode, said.read_text(), err)
