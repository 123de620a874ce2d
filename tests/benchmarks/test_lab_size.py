"""64 simulated nodes in one process: how soon they are up and how much memory they take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.benchmarks.measured import cpu_s, lab_process, memory_mib

pytestmark = [pytest.mark.benchmark, pytest.mark.slow]

NODES, MOST_MIB = 64, 2048


def test_64_nodes_idle(tmp_path: Path) -> None:
    """Up within seconds, far below 2 GB; what a run makes of it stands in the table of the rack of 64."""
    began = time.monotonic()
    with lab_process(tmp_path / "lab", nodes=NODES, scale=100.0) as pid:
        up_s = time.monotonic() - began
        cost_s = cpu_s(pid)
        time.sleep(5)
        idle_s = cpu_s(pid) - cost_s
        rss, pss = memory_mib(pid, "VmRSS"), memory_mib(pid, "Pss")
    print(f"\n{NODES} nodes up in {up_s:.1f} s ({cost_s:.1f} s CPU); RSS {rss:.0f} MiB, PSS {pss:.0f} MiB; ", end="")
    print(f"idle {idle_s / 5:.1%} of a core")
    assert rss < MOST_MIB
