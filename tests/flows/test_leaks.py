"""Nothing is left behind: after many runs in one process there are as many threads, files and sockets as after two."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from pathlib import Path

from flows.provision import provision
from flows.rack import new_run_id, running
from flows.running import Mandate
from inventory.report import RackReport
from tests.benchmarks.measured import lab_process
from tests.flows.conftest import SCALE

RUNS, FIRST_USES = 5, 2  # what is made once, at a first use, is there after two
QUIET_S, SETTLE_S = 1.0, 10.0  # for servers to notice that their clients have hung up


def test_five_runs_leave_nothing_behind(tmp_path: Path) -> None:
    """Everything is proven afresh each time, from power and SSH to NetBox and Kubernetes.

    The rack is a process of its own: its SSH servers' pool of threads grows when it likes, and is not ours.
    """
    with lab_process(tmp_path / "lab", nodes=2, scale=SCALE):
        settings_file = str(tmp_path / "lab" / "rackmint.toml")
        for number in range(1, RUNS + 1):
            may = Mandate(fresh=number > 1, wipe=frozenset({"r1-n01", "r1-n02"}))
            report = asyncio.run(_line(settings_file, may))
            assert ["accepted"] * 2 == [node.verdict.value for node in report.nodes], [n.cause for n in report.nodes]
            if number == FIRST_USES:
                time.sleep(QUIET_S)
                before = _held()
        assert Counter() == _more_than(before)


async def _line(settings_file: str, may: Mandate) -> RackReport:
    async with running(settings_file, new_run_id(), "provision", "R1", may) as run:
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
