"""Kill -9 anywhere, run the same command again: it goes on, and repeats nothing destructive."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flows.settings import load_settings
from inventory.evidence import EvidenceStore
from inventory.ledger import Ledger
from inventory.report import RackReport, Stage
from lab.kubernetes.access import bootstrap_tokens
from lab.rack import LabHandle, LabPlan, start_lab
from lab.shell.jobs import running_commands
from lab.shell.node import memory
from tests.flows.line_process import Lines, alive, wait

MOMENTS, SEED, LANES = 40, 20261130, 3
RACKS = tuple(f"R{number}" for number in range(1, 12))  # R1 is left undisturbed; each other one has four moments
# Of each rack: two nodes together, whose pair tests are killed too, and three alone: every way a BMC boots an image.
TOGETHER = (("n01", "n02"), ("n03",), ("n04",), ("n05",))
LINE_S = 120.0  # far more than a line takes on two busy cores


@dataclass
class Mark:
    """One thing the ledger was told, in words, and how long until the next."""

    what: str
    gap_s: float


@dataclass
class Moment:
    """One kill: of which nodes' run, after which mark, and what came of it."""

    rack: str
    nodes: tuple[str, ...]
    after: int  # so many marks
    share: float  # of the time until the next
    under_way: str = ""
    fences: list[tuple[int, int]] = field(default_factory=list)  # of each node: when killed, and at the end
    took_s: float = 0.0  # the run after it
    verdicts: dict[str, str] = field(default_factory=dict)
    result: frozenset[tuple[str, ...]] = frozenset()
    causes: list[str] = field(default_factory=list)
    killed: bool = False


@dataclass
class Yard:
    """The lab, the processes, and the ledger to look at."""

    lab: LabHandle
    lines: Lines
    ledger: Ledger
    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def keys(self, nodes: tuple[str, ...]) -> list[str]:
        """The ledger's keys of nodes."""
        return [self.lab.machines[node].state.serial for node in nodes]

    def marks(self, nodes: tuple[str, ...]) -> int:
        """How many things the ledger was told about these nodes so far."""
        return sum(int(self.look(_COUNT, *[key] * 5)[0][0]) for key in self.keys(nodes))

    def look(self, question: str, *values: str) -> list[tuple[Any, ...]]:
        """Ask the ledger's file itself, cheaply and without the product."""
        with closing(sqlite3.connect(f"file:{self.folder / 'state' / 'ledger.db'}?mode=ro", uri=True)) as database:
            return database.execute(question, values).fetchall()

    def timeline(self, nodes: tuple[str, ...]) -> list[Mark]:
        """All that was noted about nodes, with what came when."""
        seen: list[tuple[float, str]] = []
        for key in self.keys(nodes):
            for kept in self.ledger.history(key):
                seen.append((kept.begun_at.timestamp(), f"{kept.stage} begun"))
                seen += [(s.at.timestamp(), f"{kept.stage}: {s.step}") for s in self.ledger.steps(kept.record_id)]
                if kept.finished_at:
                    seen.append((kept.finished_at.timestamp(), f"{kept.stage} ended"))
            attempt = self.ledger.last_attempt(key)
            if attempt:
                events = self.ledger.attempt_events(attempt.attempt_id)
                seen.append((attempt.begun_at.timestamp(), "image: attempt noted"))
                seen += [(e.at.timestamp(), f"image: agent says {e.kind}") for e in events]
            seen += [(c.issued_at.timestamp(), "certificate issued") for c in self.ledger.certificates(key)]
        seen.sort()
        return [Mark(what, after - at) for (at, what), (after, _) in zip(seen, [*seen[1:], seen[-1]], strict=True)]

    def run(self, rack: str, nodes: tuple[str, ...]) -> tuple[int, Path]:
        """Begin a run: its pid, and where its report will lie."""
        out = self.folder / f"report{next(self.numbers)}.json"
        return self.lines.start(rack, nodes, out), out

    def to_the_end(self, rack: str, nodes: tuple[str, ...]) -> RackReport:
        """A run that nobody disturbs."""
        pid, out = self.run(rack, nodes)
        wait(pid, LINE_S)
        assert out.exists(), (self.folder / "lines.log").read_text()[-3000:]
        return RackReport.model_validate_json(out.read_text())


# What `Yard.timeline` lists, counted in one look.
_COUNT = """
select (select count(*) + count(finished_at) from stage_records where node_key = ?)
     + (select count(*) from stage_steps s join stage_records r on r.id = s.record_id where r.node_key = ?)
     + (select count(*) from attempts where node_key = ?)
     + (select count(*) from attempt_events e join attempts a using (attempt_id) where a.node_key = ?)
     + (select count(*) from certificates where node_key = ?)
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """Eleven racks, and a parent for the lines' processes."""
    folder = tmp_path_factory.mktemp("kill")
    with start_lab(folder, LabPlan(racks=RACKS, nodes=5, scale=2000.0, image_bytes=3_000_000)) as lab:
        lines = Lines(lab.settings_file)
        ledger = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
        yield Yard(lab, lines, ledger, folder.resolve())
        ledger.close()
        lines.stop()


@pytest.fixture(scope="module")
def undisturbed(yard: Yard) -> dict[tuple[str, ...], tuple[RackReport, list[Mark]]]:
    """What runs come to that nobody disturbs, and what they note when."""
    found = {}
    for together in TOGETHER:
        nodes = tuple(f"r1-{name}" for name in together)
        report = yard.to_the_end("R1", nodes)
        assert {"accepted"} == {node.verdict.value for node in report.nodes}
        found[together] = report, yard.timeline(nodes)
    return found


def moments(undisturbed: dict[tuple[str, ...], tuple[RackReport, list[Mark]]]) -> list[Moment]:
    """Forty kills by chance, spread over all that a run notes: each stretch between two marks once before any twice."""
    chance = random.Random(SEED)
    picked: list[Moment] = []
    for together in TOGETHER:
        stretches = list(range(len(undisturbed[together][1]) - 1))
        bag: list[int] = []
        for rack in RACKS[1:]:
            bag = bag or chance.sample(stretches, len(stretches))
            nodes = tuple(f"{rack.lower()}-{name}" for name in together)
            picked.append(Moment(rack, nodes, bag.pop(), chance.random()))
    return picked


def kill_and_start_again(yard: Yard, moment: Moment, marks: list[Mark]) -> None:
    """Kill the run in its moment, then run the same command to its end."""
    pid, _ = yard.run(moment.rack, moment.nodes)
    while alive(pid) and yard.marks(moment.nodes) <= moment.after:
        time.sleep(0.01)
    time.sleep(moment.share * marks[moment.after].gap_s)
    moment.killed = alive(pid)
    os.kill(pid, signal.SIGKILL)
    wait(pid, 10)
    fences, reached, began = _fences(yard, moment), yard.timeline(moment.nodes), time.monotonic()
    moment.under_way = reached[-1].what if reached else "the plan"
    report = yard.to_the_end(moment.rack, moment.nodes)
    moment.took_s = time.monotonic() - began
    moment.fences = list(zip(fences, _fences(yard, moment), strict=False))
    moment.verdicts = {node.node.name: node.verdict.value for node in report.nodes}
    moment.result = _result(report)
    moment.causes = [node.cause for node in report.nodes if node.cause]


def _fences(yard: Yard, moment: Moment) -> list[int]:
    asked = "select fence from leases where node_key = ?"
    return [int(row[0]) for key in yard.keys(moment.nodes) for row in yard.look(asked, key)]


@pytest.fixture(scope="module")
def killed(yard: Yard, undisturbed: dict[tuple[str, ...], tuple[RackReport, list[Mark]]]) -> list[Moment]:
    """All forty kills, each followed by the same command to its end."""
    began = time.monotonic()
    chosen = moments(undisturbed)
    marks = {together: found[1] for together, found in undisturbed.items()}
    with ThreadPoolExecutor(LANES) as lanes:
        list(lanes.map(lambda m: kill_and_start_again(yard, m, marks[_together(m)]), _in_turn(chosen)))
    print(f"\n{len(chosen)} kills in {time.monotonic() - began:.0f} s, {LANES} at a time")
    for moment in chosen:
        machines = [yard.lab.machines[name] for name in moment.nodes]
        said = [*sorted(set(moment.verdicts.values())), *moment.causes]
        print(f"{' '.join(moment.nodes):15} {'killed' if moment.killed else 'ended'} after {moment.under_way:29} "
              f"{moment.took_s:4.0f} s more: {' '.join('+'.join(m.boots) for m in machines)}: {said}")  # fmt: skip
    return chosen


pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_same_final_result(
    killed: list[Moment], undisturbed: dict[tuple[str, ...], tuple[RackReport, list[Mark]]]
) -> None:
    """Forty runs were killed in the middle, and their nodes come to the verdicts and findings of undisturbed runs."""
    names = [name for moment in killed for name in moment.nodes]
    assert MOMENTS == sum(moment.killed for moment in killed)
    assert dict.fromkeys(names, "accepted") == {n: v for moment in killed for n, v in moment.verdicts.items()}
    wanted = {together: _result(report) for together, (report, _) in undisturbed.items()}
    assert [] == [(m.nodes, m.under_way, found) for m in killed if (found := wanted[_together(m)] ^ m.result)]


def test_no_wipe_begins_twice(yard: Yard, killed: list[Moment]) -> None:
    """One wipe of the boot disk a node, none of the others, and at most one POST more than undisturbed."""
    names = [name for moment in killed for name in moment.nodes]
    assert dict.fromkeys(names, (1, 0, 0)) == {name: _writes(yard.lab.machines[name]) for name in names}
    # One more: POST was cut off by nothing of ours, but firmware found no image service while the run was dead.
    assert [] == [(name, m.boots) for name in names if (m := yard.lab.machines[name]).posts > 3]


def test_no_evidence_is_lost(yard: Yard, killed: list[Moment]) -> None:
    """Every raw answer that any record of any run names is there, and is what its digest says."""
    store = EvidenceStore(load_settings(str(yard.lab.settings_file)).evidence_url)
    named = {digest for moment in killed for key in yard.keys(moment.nodes) for digest in _evidence(yard.ledger, key)}
    assert len(named) > MOMENTS
    assert {} == {d: found for d in named if (found := hashlib.sha256(store.read(d)).hexdigest()) != d}


def test_one_owner_at_a_time(yard: Yard, killed: list[Moment]) -> None:
    """The fence grew with every owner, every record was written under the newest one, and nobody is left as owner."""
    assert {(1, 2)} == {fences for moment in killed for fences in moment.fences}
    for moment in killed:
        for key in yard.keys(moment.nodes):
            owners = _owners(yard, key)
            assert [fence for fence, _ in owners] == sorted(fence for fence, _ in owners)
            assert len(set(owners)) == len({fence for fence, _ in owners})
    assert () == yard.ledger.leases()


def test_nothing_is_left_behind(yard: Yard, killed: list[Moment]) -> None:
    """No medium, no boot override, no remote command, no join token; every node runs from its disk, in the fleet."""
    names = [name for moment in killed for name in moment.nodes]
    for machine in (yard.lab.machines[name] for name in names):
        assert ("", "None", "Disabled") == (machine.media.image, machine.override.target, machine.override.enabled)
        assert (True, "disk") == (machine.running, machine.boots[-1])
        assert () == running_commands(machine)
        assert "/run/rackmint/join.yaml" not in memory(machine).files
        assert machine.joined is not None
    assert {} == yard.lab.call(lambda: bootstrap_tokens(yard.lab.rack.cluster.store))


def test_the_book_is_written_once_a_run(yard: Yard, killed: list[Moment]) -> None:
    """At most one journal entry a run, every device active, and as many modules as on an undisturbed device."""
    book = yard.lab.rack.book
    for moment in killed:
        for name in moment.nodes:
            entries = book.journal(name)
            runs = {kept.run_id for kept in yard.ledger.history(yard.lab.machines[name].state.serial)}
            assert {} == {run: n for run in runs if (n := sum(run in entry for entry in entries)) > 1}
            assert entries
            assert ("active", len(book.modules(f"r1-{_last(name)}"))) == (
                book.device(name)["status"], len(book.modules(name)),
            )  # fmt: skip


def _result(report: RackReport) -> frozenset[tuple[str, ...]]:
    """Every finding of every node by stage, metric, subject and outcome, without the rack's name.

    But for two: that this very run laid the image (a later run finds it there and proves it by what the node says),
    and what the BMC tells from outside (less while the host is in POST, where the run that was killed had left it).
    """
    return frozenset(
        (_last(n.node.name), r.stage.value, f.metric, f.subject.replace(n.node.name, "node"), f.outcome.value)
        for n in report.nodes
        for r in n.records
        for f in r.findings
        if f.metric != "image_laid" and r.stage is not Stage.INSPECT
    )


def _last(name: str) -> str:
    return name.partition("-")[2]


def _evidence(ledger: Ledger, key: str) -> Iterator[str]:
    """The digests of all evidence that a node's records name."""
    for kept in ledger.history(key):
        if kept.record:
            yield from _digests(kept.record.model_dump(mode="json"))


def _digests(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if {"asked", "sha256"} <= value.keys():
            yield value["sha256"]
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        yield from _digests(part)


def _owners(yard: Yard, key: str) -> list[tuple[int, str]]:
    """(fence, run) of every record of a node, in the order they were begun."""
    return [(int(fence), str(run)) for fence, run in yard.look(
        "select fence, run_id from stage_records where node_key = ? order by id", key)]  # fmt: skip


def _in_turn(chosen: list[Moment]) -> list[Moment]:
    """Rack by rack, so that the lanes work on nodes of every shape at once."""
    return sorted(chosen, key=lambda moment: (RACKS.index(moment.rack), moment.nodes))


def _together(moment: Moment) -> tuple[str, ...]:
    return tuple(name.partition("-")[2] for name in moment.nodes)


def _writes(machine: Any) -> tuple[int, ...]:
    return tuple(drive.writes_begun for drive in machine.state.drives)
