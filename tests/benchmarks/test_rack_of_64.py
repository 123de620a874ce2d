"""A rack of 64 healthy nodes on two cores: seconds, CPU, memory; beside it the same line as plain Prefect code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.measured import Bill, Phase, lab_process, use_two_cores

pytestmark = [pytest.mark.benchmark, pytest.mark.slow, pytest.mark.timeout(600)]

NODES, STAGES = 64, 7
SCALE = 20_000.0  # a POST of 300 s takes 15 ms: no latency that is simulated
HERE = Path(__file__).parent
WHO = ("rackmint", "Prefect server", "lab")


@pytest.fixture(scope="module", autouse=True)
def two_cores() -> Iterator[None]:
    """All that is measured runs on two cores."""
    before = os.sched_getaffinity(0)
    use_two_cores()
    yield
    os.sched_setaffinity(0, before)


def measured(script: str, *args: object) -> Bill:
    """What a script of this folder says it cost."""
    argv = [sys.executable, str(HERE / script), *map(str, args)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "RACKMINT_"))}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return Bill.from_json(done.stdout.strip().splitlines()[-1])


def line(what: str, phase: Phase, recorder: Phase) -> str:
    """One row: seconds until done, CPU seconds of each process (recording afterwards included), and per node-stage."""
    cpu = {who: phase.cpu_s[who] + recorder.cpu_s[who] for who in WHO}
    each_ms = 1000 * (cpu["rackmint"] + cpu["Prefect server"]) / NODES / STAGES
    seconds = "".join(f"{cpu[who]:10.1f}" for who in WHO)
    return f"{what:34}{phase.wall_s:8.1f}{seconds}{each_ms:12.1f}{recorder.facts['task_runs']:8}"


HEAD = f"{'':34}{'wall s':>8}{'CPU s':>10}{'server':>10}{'lab':>10}{'ms/stage':>12}{'tasks':>8}"


@pytest.mark.parametrize(("form", "trace", "runs"), [("ours", "node", 2), ("ours", "stage", 1), ("plain", "stage", 1)])
def test_rack_of_64(form: str, trace: str, runs: int, tmp_path: Path) -> None:
    """Every node is accepted; a second run proves nothing anew and writes nothing to the book."""
    with lab_process(tmp_path / "lab", nodes=NODES, scale=SCALE):
        settings = tmp_path / "lab" / "rackmint.toml"
        settings.write_text(f'trace = "{trace}"\n{settings.read_text()}')
        bill = measured("rack_process.py", settings, form, runs)
    told = [f"{NODES} nodes, {form} line, trace={trace}", HEAD]
    for number in range(1, runs + 1):
        plan, run, recorder = (bill.phases[f"{name} {number}"] for name in ("plan", "run", "recorder"))
        told.append(f"{f'plan {number}':34}{plan.wall_s:8.1f}" + "".join(f"{plan.cpu_s[who]:10.1f}" for who in WHO))
        told.append(line(f"run {number}: {run.facts['reused']} stages reused", run, recorder))
        told.append(f"    slowest node's seconds: {slowest(run)}; NetBox writes {run.facts['netbox_writes']}")
    told.append("    peak MiB: " + ", ".join(f"{who} {bill.peak_mib[who]:.0f}" for who in WHO))
    print("\n" + "\n".join(told))
    first, last = bill.phases["run 1"].facts, bill.phases[f"run {runs}"].facts
    everyone = {"accepted": NODES, "rejected": 0, "undecided": 0}
    assert (everyone, everyone) == (first["verdicts"], last["verdicts"]), (first["causes"], last["causes"])
    assert 2 * NODES == first["posts"]
    if runs > 1:
        assert (0, 0) == (last["posts"], last["netbox_writes"])


def slowest(run: Phase) -> str:
    """Each stage's longest stay on a node."""
    return ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in run.facts["slowest_s"].items())


def test_orchestration_alone(tmp_path: Path) -> None:
    """64 nodes × 7 stages that do nothing: what a stage costs besides its work, in each form; nothing is asserted."""
    bill = measured("orchestration_process.py", tmp_path / "site", NODES)
    print(f"\n{NODES} nodes × {STAGES} stages that do nothing, CPU per node-stage without the empty flow's")
    print(f"{'':34}{'wall s':>8}{'CPU s':>10}{'server':>10}{'ms/stage':>12}{'tasks':>8}")
    empty = bill.phases["empty flow"].cpu_s
    for name, what in FORMS.items():
        phase = bill.phases[name]
        cpu = {who: phase.cpu_s[who] - empty[who] for who in empty}
        each_ms = 1000 * sum(cpu.values()) / NODES / STAGES
        print(
            f"{what:34}{phase.facts['seconds']:8.1f}{cpu['rackmint']:10.2f}{cpu['Prefect server']:10.2f}"
            f"{each_ms:12.1f}{phase.facts['task_runs']:8}"
        )


FORMS = {
    "plain": "a Prefect task per stage alone",
    "stage": "ours, trace=stage",
    "node": "ours, trace=node",
    "no Prefect": "ours, no Prefect at all",
}
