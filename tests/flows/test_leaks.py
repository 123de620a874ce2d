"""Nothing is left behind: after many runs in one process there are as many threads, files and sockets as after two."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from flows.provision import provision
from flows.rack import new_run_id, running
from flows.running import Mandate
from inventory.report import RackReport
from lab.rack import LabHandle

RUNS, FIRST_USES = 5, 2  # what is made once, at a first use, is there after two
QUIET_S, SETTLE_S = 1.0, 10.0  # for servers to notice that their clients have hung up


def test_five_runs_leave_nothing_behind(make_lab: Callable[..., LabHandle]) -> None:
    """Everything is proven afresh each time, from power and SSH to NetBox and Kubernetes."""
    lab = make_lab(nodes=2)
    for number in range(1, RUNS + 1):
        report = asyncio.run(_line(lab, Mandate(fresh=number > 1, wipe=frozenset(lab.machines))))
        assert {"accepted"} == {node.verdict.value for node in report.nodes}, [n.cause for n in report.nodes]
        if number == FIRST_USES:
            time.sleep(QUIET_S)
            before = _held()
    assert Counter() == _more_than(before)


async def _line(lab: LabHandle, may: Mandate) -> RackReport:
    async with running(str(lab.settings_file), new_run_id(), "provision", "R1", may) as run:
        return await provision(run, "R1")


def _more_than(before: Counter[str]) -> Counter[str]:
    """What is held beyond `before`, and stays."""
    ends = time.monotonic() + SETTLE_S
    while (more := _held() - before) and time.monotonic() < ends:
        gc.collect()
        time.sleep(0.05)
    return more


def _held() -> Counter[str]:
    """Threads by the beginning of their name, and open files by kind."""
    threads = (f"thread {thread.name.rstrip('0123456789_-')}" for thread in threading.enumerate())
    return Counter([*threads, *_files()])


def _files() -> list[str]:
    kinds = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # the one that the listing itself used
            continue
        kinds.append(target.partition(":")[0] if ":" in target else target)
    return kinds
