"""An audit names what differs, the side that is right and the command that mends it, and touches nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from flows.audit import AuditReport, audit_racks
from flows.difference import Difference
from flows.local_server import start_server
from flows.rack import new_run_id
from flows.render.audit import audit_csv, audit_table
from flows.settings import load_settings
from inventory.errors import BookUnreachable, Cancelled
from inventory.ledger import Ledger
from lab.edits import EDITS
from lab.kubernetes.kinds import KINDS
from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.conftest import proven_again, run_line, shorten
from tests.flows.passing_time import let_pass

ROOT = Path(__file__).resolve().parents[2]
NODES = ("r1-n01", "r1-n02", "r1-n03", "r1-n04")


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """A rack of four, provisioned to certified."""
    with start_lab(tmp_path_factory.mktemp("audit") / "lab", LabPlan(nodes=4, scale=2000.0)) as lab:
        shorten(lab)
        assert ["accepted"] * 4 == [node.verdict.value for node in run_line(lab).nodes]
        quicker(lab)
        yield lab


def quicker(lab: LabHandle) -> None:
    """A look may take 8 s from now on, so that a hang is over soon."""
    for file in (lab.settings_file.parent / "classes").glob("*.toml"):
        file.write_text(re.sub(r"^discover = .*$", "discover = 8", file.read_text(), flags=re.MULTILINE))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment with one Prefect server for all commands of this file."""
    server = start_server(tmp_path_factory.mktemp("server"))
    assert "" == server.wait()
    os.environ.pop("PREFECT_API_URL")  # other tests have servers of their own
    yield {**os.environ, "PREFECT_API_URL": server.url}
    server.stop()


def audited(lab: LabHandle, rack: str = "R1") -> AuditReport:
    """One audit, without Prefect."""
    return audit_racks(str(lab.settings_file), rack, new_run_id())


def named(report: AuditReport) -> set[tuple[str, str, str, str]]:
    """Differences by what matters: node, kind, subject, who is right."""
    return {(d.node, d.kind, d.subject, d.right) for d in report.differences}


def edit(lab: LabHandle, node: str, name: str) -> None:
    """What somebody does behind our back."""
    lab.call(lambda: EDITS[name].do(lab.rack, lab.machines[node]))


def touched(lab: LabHandle) -> dict[str, object]:
    """All that an audit must leave as it is."""
    with ledger(lab) as kept:
        records = {node: len(kept.history(lab.machines[node].state.serial)) for node in NODES}
        certificates = {node: len(kept.certificates(lab.machines[node].state.serial)) for node in NODES}
        leases = list(kept.leases())
        owed = len(kept.owed())
    return {
        "NetBox writes": lab.rack.book.writes,
        "Kubernetes writes": lab.rack.cluster.writes,
        "BMC changes": {name: bmc.bmc.changes for name, bmc in lab.rack.bmcs.items()},
        "POSTs": {name: machine.posts for name, machine in lab.machines.items()},
        "stage records": records,
        "certificates": certificates,
        "leases": leases,
        "owed": owed,
    }


@contextmanager
def ledger(lab: LabHandle) -> Iterator[Ledger]:
    """The lab's ledger, opened."""
    opened = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    try:
        yield opened
    finally:
        opened.close()


def test_a_clean_rack_has_no_difference(hall: LabHandle) -> None:
    """What was provisioned a moment ago agrees with the books, and looking changes nothing."""
    before = touched(hall)
    assert (4, ()) == ((report := audited(hall)).nodes, report.differences)
    assert before == touched(hall)


def test_a_bmc_that_does_not_answer_is_unknown_not_missing_parts(hall: LabHandle) -> None:
    """Its parts are not called missing, and the rest of the node is still compared."""
    hall.inject("r1-n01", "bmc_dead")
    report = audited(hall)
    hall.heal("r1-n01")
    assert {("r1-n01", "unreachable", "BMC", "nobody")} == named(report)
    assert report.blind
    assert "rackmint look https://127.77.1.1:" in report.differences[0].fix


def test_a_system_that_hangs_is_unknown_not_drifted(hall: LabHandle) -> None:
    """A node at work whose system gives no answer is told as unreachable."""
    hall.inject("r1-n04", "ssh_hangs")
    report = audited(hall)
    hall.heal("r1-n04")
    assert {("r1-n04", "unreachable", "operating system", "nobody")} == named(report)


def test_kubernetes_that_does_not_answer_is_told_once(hall: LabHandle) -> None:
    """All nodes are blind in one eye, for one reason: one row on the screen."""
    hall.call(lambda: hall.rack.cluster.faults.add("api_down"))
    report = audited(hall)
    hall.call(lambda: hall.rack.cluster.faults.discard("api_down"))
    assert {(node, "unreachable", "Kubernetes Node", "nobody") for node in NODES} == named(report)
    assert report.blind
    shown = on_paper(report)
    assert [1, 1] == [shown.count(once) for once in ("r1-n01…r1-n04", "kubectl get --raw /readyz")]


def test_without_netbox_there_is_nothing_to_compare(hall: LabHandle) -> None:
    """The book not answering ends the audit with its name, and the run is closed in the ledger."""
    hall.inject("*", "netbox_down")
    try:
        with pytest.raises(BookUnreachable, match="NetBox"):
            audited(hall)
    finally:
        hall.heal("*")
    with ledger(hall) as kept:
        assert "interrupted" == kept.runs(1)[0].outcome


def test_an_audit_that_is_stopped_ends_at_once(hall: LabHandle) -> None:
    """A cancel reaches the doors: nobody waits for a BMC's time-out."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        audit_racks(str(hall.settings_file), "R1", new_run_id(), stop)


def test_a_part_that_moved_to_another_bay_is_moved_not_swapped(hall: LabHandle) -> None:
    """Two GPUs that changed places are two moved parts."""
    gpus = hall.machines["r1-n01"].state.gpus

    def change_places() -> None:
        for field in ("serial", "uuid"):
            first, second = getattr(gpus[0], field), getattr(gpus[1], field)
            setattr(gpus[0], field, second)
            setattr(gpus[1], field, first)

    hall.call(change_places)
    report = audited(hall)
    hall.call(change_places)
    bays = {f"GPU{gpus[0].module}", f"GPU{gpus[1].module}"}
    assert {("r1-n01", "moved", bay, "hall") for bay in bays} == {n for n in named(report) if n[1] == "moved"}


def test_a_foreign_cordon_is_told_and_not_called_ours(hall: LabHandle) -> None:
    """An active node that somebody cordoned: ask who, then the one command."""
    set_cordon(hall, "r1-n02", on=True)
    report = audited(hall)
    set_cordon(hall, "r1-n02", on=False)
    assert {("r1-n02", "drifted", "Kubernetes Node", "nobody")} == named(report)
    assert ("kubectl uncordon r1-n02", True) == (report.differences[0].fix, "ask who" in report.differences[0].first)


def test_a_driver_that_was_changed_in_place_is_the_images_business(hall: LabHandle) -> None:
    """Same image digest, another driver: the class's image is right, and laying it anew is the command."""
    drive = hall.machines["r1-n03"].boot_drive
    assert drive
    assert drive.content
    laid = drive.content
    drive.content = laid.replace(b'"driver": "', b'"driver": "1', 1)
    report = audited(hall)
    drive.content = laid
    drifted = [d for d in report.differences if d.kind == "drifted"]
    assert [("driver", "class", "rackmint provision R1 --node r1-n03 --reimage r1-n03")] == [
        (d.subject, d.right, d.fix) for d in drifted
    ]


def test_a_node_of_ours_that_the_book_lacks_is_told(hall: LabHandle) -> None:
    """Looking at all racks, a Node with our serial on it that no device answers for; others' Nodes are not ours."""
    for name, serial in (("gone-n01", "CH-GONE"), ("somebody-elses", "")):
        hall.call(partial(hall.rack.cluster.plant_node, name, serial=serial, system_uuid="", ready=False))
    report = audited(hall, "")
    for name in ("gone-n01", "somebody-elses"):
        hall.call(partial(hall.rack.cluster.drop_node, name))
    assert {("gone-n01", "unknown", "Kubernetes Node", "nobody")} == named(report)
    assert ("kubectl delete node gone-n01", "all", 4) == (report.differences[0].fix, report.rack, report.nodes)


def test_six_planted_differences_are_named(hall: LabHandle) -> None:
    """Each by its kind, with the side that is right, since when, and the one command; nothing is written."""
    hall.inject("r1-n01", "gpu_swapped")
    hall.inject("r1-n02", "dimm_missing")
    edit(hall, "r1-n03", "nic_firmware")
    edit(hall, "r1-n04", "netbox_moved")
    edit(hall, "r1-n02", "k8s_node_gone")
    let_pass(hall, "r1-n04", timedelta(days=31))
    before = touched(hall)
    report = audited(hall)
    assert before == touched(hall)
    planted = {
        ("r1-n01", "swapped", bay_of_gpu(hall, "r1-n01", 6), "hall"),
        ("r1-n02", "missing", hall.machines["r1-n02"].state.dimms[9].slot, "book"),
        ("r1-n03", "drifted", "PCIe3", "class"),
        ("r1-n04", "moved", "rack unit", "book"),
        ("r1-n04", "stale certificate", "certificate", "class"),
        ("r1-n02", "missing", "Kubernetes Node", "book"),
    }
    followed = {(node, "stale certificate", "certificate", "hall") for node in ("r1-n01", "r1-n03")}
    assert planted | followed == named(report)
    assert all(d.since.endswith("UTC") for d in report.differences)
    assert {"rackmint"} == {d.fix.split()[0] for d in report.differences}
    assert "rackmint revalidate R1 --node r1-n04" in {d.fix for d in report.differences}
    shown = on_paper(report)
    print(shown)
    assert max(map(len, shown.splitlines())) <= 100
    assert [d.subject in shown for d in report.differences] == [True] * len(report.differences)


def test_the_command_says_the_same_with_exit_code_1(hall: LabHandle, api: dict[str, str]) -> None:
    """`rackmint audit R1` in its three forms; runs after the differences were planted, and a wrong rack is usage."""
    said = command(hall, api, "audit", "R1", "--json")
    report = AuditReport.model_validate_json(said.stdout)
    assert (1, 8) == (said.returncode, len(report.differences)), said.stderr
    rows = list(csv.DictReader(io.StringIO(command(hall, api, "audit", "R1", "--csv").stdout)))
    assert [d.subject for d in report.differences] == [row["subject"] for row in rows]
    assert (3, True) == ((wrong := command(hall, api, "audit", "R9")).returncode, "no rack R9" in wrong.stderr)


def test_the_command_says_2_when_it_could_not_look(hall: LabHandle, api: dict[str, str]) -> None:
    """A dead NetBox and a dead BMC are each told, with exit code 2."""
    hall.inject("*", "netbox_down")
    said = command(hall, api, "audit", "R1")
    hall.heal("*", "netbox_down")
    assert (2, True) == (said.returncode, "NetBox" in said.stderr)
    hall.inject("r1-n03", "bmc_dead")
    blind = command(hall, api, "audit", "R1")
    hall.heal("r1-n03")
    assert (2, True) == (blind.returncode, "BMC unreachable" in " ".join(blind.stdout.split()))


def test_what_an_audit_says_mends_it(hall: LabHandle) -> None:
    """A person does what comes first, the named commands do the rest: without a POST, and then all sides agree."""
    posts = {name: machine.posts for name, machine in hall.machines.items()}
    hall.heal("r1-n02", "dimm_missing")
    nic = hall.machines["r1-n03"].state.nics[2]
    hall.call(lambda: setattr(nic, "firmware", "28.39.1002"))
    fixes = {d.fix for d in audited(hall).differences}
    proven = {fix.partition("--node ")[2] for fix in fixes if fix.startswith("rackmint revalidate")}
    assert {"r1-n04"} == proven
    line = run_line(hall, nodes=tuple(sorted(set(NODES) - proven)))
    assert {"accepted"} == {node.verdict.value for node in line.nodes}, [node.cause for node in line.nodes]
    assert {"accepted"} == {node.verdict.value for node in proven_again(hall, nodes=tuple(proven)).nodes}
    assert () == audited(hall).differences
    assert posts == {name: machine.posts for name, machine in hall.machines.items()}


def command(lab: LabHandle, api: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    """The installed command, as an operator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", "--settings", str(lab.settings_file), *argv],
        cwd=ROOT, env=api, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def bay_of_gpu(lab: LabHandle, node: str, index: int) -> str:
    """The bay of one GPU, by its physical slot."""
    return f"GPU{lab.machines[node].state.gpus[index].module}"


def set_cordon(lab: LabHandle, node: str, *, on: bool) -> None:
    """`kubectl cordon` and `uncordon`, as a person does it."""

    def act() -> None:
        store = lab.rack.cluster.store
        body = store.get(KINDS["nodes"], "", node)
        body["spec"].pop("unschedulable", None)
        if on:
            body["spec"]["unschedulable"] = True
        store.replace(KINDS["nodes"], "", node, body)

    lab.call(act)


def on_paper(report: AuditReport, width: int = 100) -> str:
    """The table as a terminal of this width shows it."""
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(audit_table(report.differences, report.nodes, report.notes), highlight=False)
    return console.export_text()


# -- rendering alone ------------------------------------------------------------------------------------------------


def a_difference(**fields: str) -> Difference:
    """One difference, of no real node."""
    told = {
        "node": "n1", "kind": "drifted", "subject": "BIOS", "book": "firmware 1", "seen": "firmware 2", "right": "hall",
        "since": "after 2026-01-01 00:00 UTC", "fix": "rackmint provision R1 --node n1", "rule": "because",
    }  # fmt: skip
    return Difference.model_validate({**told, **fields})


def test_the_same_difference_on_many_nodes_is_one_row_and_one_command() -> None:
    """Sixty-four nodes with one new BIOS are one line, whose command names them all."""
    names = [f"r1-n{n:02}" for n in range(1, 65)]
    found = [a_difference(node=name, fix=f"rackmint provision R1 --node {name}") for name in names]
    shown = " ".join(on_paper(AuditReport(rack="R1", run_id="r", nodes=64, differences=tuple(found))).split())
    assert (1, 1) == (shown.count("firmware 2"), shown.count("rackmint provision R1"))
    assert " ".join(f"--node {name}" for name in names) in shown


@pytest.mark.parametrize("hostile", ["=HYPERLINK(1)", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\x1b[31m=1"])
def test_a_cell_of_the_csv_is_never_a_formula(hostile: str) -> None:
    """What a machine says of itself is text in a spreadsheet, whatever it begins with."""
    rows = list(csv.reader(io.StringIO(audit_csv([a_difference(seen=hostile, subject=hostile)]))))
    assert not [cell for cell in rows[1] if cell[:1] in {"=", "+", "-", "@", "\t", "\r", "\x1b"}]


def test_json_keeps_every_difference_apart() -> None:
    """Machines read them one by one, in the order of nodes."""
    report = AuditReport(rack="R1", run_id="r", nodes=2, differences=(a_difference(), a_difference(node="n2")))
    assert ["n1", "n2"] == [d["node"] for d in json.loads(report.model_dump_json())["differences"]]
