"""The line as processes that can be killed: one parent that has imported everything once, and a fork for each run.

`python line_process.py SETTINGS` reads one JSON object a line ({"rack", "nodes", "out"}) and answers with the pid of
the process that does it. It runs the line as `rackmint provision RACK --yes` does, plan included, without Prefect.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Lines:
    """The parent, as a test holds it."""

    def __init__(self, settings_file: Path) -> None:
        self._one_asks = threading.Lock()
        self._log = settings_file.with_name("lines.log").open("ab")
        self._parent = subprocess.Popen(
            [sys.executable, __file__, str(settings_file)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip

    def start(self, rack: str, nodes: tuple[str, ...], out: Path) -> int:
        """Begin one run; the pid of its process. Its report lies in `out` when it has ended by itself."""
        assert self._parent.stdin
        assert self._parent.stdout
        with self._one_asks:
            self._parent.stdin.write(json.dumps({"rack": rack, "nodes": nodes, "out": str(out)}) + "\n")
            self._parent.stdin.flush()
            return int(self._parent.stdout.readline())

    def stop(self) -> None:
        """End the parent."""
        self._parent.communicate(timeout=60)
        self._log.close()


def alive(pid: int) -> bool:
    """Whether the process is there; the parent reaps at once, so there are no zombies."""
    return Path(f"/proc/{pid}").exists()


def wait(pid: int, most_s: float) -> None:
    """Until the process has ended."""
    ends = time.monotonic() + most_s
    while alive(pid):
        assert time.monotonic() < ends, f"the line in process {pid} does not end"
        time.sleep(0.02)


def main() -> None:
    """Fork a process for every line of standard input."""
    import flows.plan
    import flows.provision  # noqa: F401 (the point is to have them imported)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for asked in sys.stdin:
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(**json.loads(asked))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _run(rack: str, nodes: list[str], out: str) -> None:
    """The forked process: run, leave the report, end without going back."""
    code = 1
    try:
        report = asyncio.run(_line(sys.argv[1], rack, tuple(nodes)))
        Path(out).write_text(report)
        code = 0
    except BaseException:  # told where the test looks: nobody else will
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _line(settings_file: str, rack: str, nodes: tuple[str, ...]) -> str:
    from flows.plan import plan_rack
    from flows.provision import provision
    from flows.rack import new_run_id, nodes_of, running
    from flows.running import Mandate
    from flows.settings import load_settings
    from flows.site import Site

    site = Site.open(load_settings(settings_file))
    try:
        plan = plan_rack(site, rack, nodes_of(site, rack, nodes))
    finally:
        site.close()
    async with running(settings_file, new_run_id(), "provision", rack, Mandate(wipe=frozenset(plan.wipe))) as run:
        return (await provision(run, rack, plan.able)).model_dump_json()


if __name__ == "__main__":
    main()
