"""What a phase costs each process that takes part: seconds on the wall, CPU seconds, memory. From /proc alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


def use_two_cores() -> None:
    """Keep this process, and all it starts from now on, on two cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def cpu_s(pid: int) -> float:
    """CPU seconds of one process so far, without its children. Source: proc(5), utime and stime of stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mib(pid: int, which: str) -> float:
    """Resident memory of one process: VmRSS now, VmHWM at its peak, Pss with shared pages split. Source: proc(5)."""
    place = "smaps_rollup" if which == "Pss" else "status"
    lines = Path(f"/proc/{pid}/{place}").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{which}:"))


@contextmanager
def lab_process(folder: Path, *, nodes: int, scale: float) -> Iterator[int]:
    """A simulated rack in a process of its own: its pid."""
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "lab.rack", "--folder", folder, "--nodes", str(nodes), "--scale", str(scale)]
    with (folder / "lab.log").open("wb") as log, subprocess.Popen(argv, cwd=_ROOT, stdout=log, stderr=log) as child:
        try:
            while not (folder / "lab.json").exists():
                assert child.poll() is None, (folder / "lab.log").read_text()
                time.sleep(0.02)
            yield child.pid
        finally:
            child.terminate()


@dataclass
class Phase:
    """What one phase cost, and what came of it."""

    name: str
    wall_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)  # by process
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """The processes looked at, and their phases so far."""

    pids: dict[str, int]
    phases: list[Phase] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Measure what happens inside."""
        phase = Phase(name)
        before, began = {who: cpu_s(pid) for who, pid in self.pids.items()}, time.monotonic()
        yield phase
        phase.wall_s = time.monotonic() - began
        phase.cpu_s = {who: cpu_s(pid) - before[who] for who, pid in self.pids.items()}
        self.phases.append(phase)

    def to_json(self) -> str:
        """For the process that asked; with the peak of each process."""
        peaks = {who: memory_mib(pid, "VmHWM") for who, pid in self.pids.items()}
        return json.dumps({"phases": [asdict(phase) for phase in self.phases], "peak_mib": peaks})


@dataclass(frozen=True)
class Bill:
    """What `Measured.to_json` said, read again."""

    phases: dict[str, Phase]
    peak_mib: dict[str, float]

    @classmethod
    def from_json(cls, text: str) -> Bill:
        """Read it."""
        raw = json.loads(text)
        return cls({phase["name"]: Phase(**phase) for phase in raw["phases"]}, raw["peak_mib"])
