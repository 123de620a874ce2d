"""Re-validation: nothing is changed on a node, the certificate is renewed or revoked, only our own cordon is lifted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial

import pytest

from flows.board import WATCHING, Board, Cell
from flows.rack import new_run_id, outcome_of, running
from flows.revalidate import LOOK_ONLY, revalidate
from flows.settings import load_settings
from inventory.findings import Verdict
from inventory.fleet.node import CERTIFICATE, OWNER, QUARANTINE
from inventory.ledger import Ledger
from inventory.report import Stage
from lab.kubernetes.kinds import KINDS, Body
from lab.kubernetes.rules import admit
from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.conftest import proven_again, run_line, shorten
from tests.flows.passing_time import let_pass

NODES = ("r1-n01", "r1-n02", "r1-n03", "r1-n04")


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """A rack of four, provisioned to certified and at work."""
    with start_lab(tmp_path_factory.mktemp("revalidate") / "lab", LabPlan(nodes=4, scale=2000.0)) as lab:
        shorten(lab)
        assert ["accepted"] * 4 == [node.verdict.value for node in run_line(lab).nodes]
        yield lab


@contextmanager
def ledger(lab: LabHandle) -> Iterator[Ledger]:
    """The lab's ledger, opened."""
    opened = Ledger.open(load_settings(str(lab.settings_file)).ledger_url)
    try:
        yield opened
    finally:
        opened.close()


def certificates(lab: LabHandle, node: str) -> list[tuple[str, str]]:
    """A node's certificates, newest first: (id, why revoked or empty)."""
    with ledger(lab) as kept:
        found = kept.certificates(lab.machines[node].state.serial)
        revoked = [kept.revocation(c.certificate_id) for c in found]
    return [(c.certificate_id, r.reason if r else "") for c, r in zip(found, revoked, strict=True)]


def kube(lab: LabHandle, node: str) -> Body:
    """The Node as the cluster has it."""
    return lab.call(lambda: lab.rack.cluster.store.get(KINDS["nodes"], "", node))


def closed(lab: LabHandle, node: str) -> tuple[bool, list[str], str]:
    """(cordoned, our taints, whose cordon)."""
    body = kube(lab, node)
    taints = [t["key"] for t in body["spec"].get("taints", []) if t["key"].startswith("rackmint.io/")]
    return bool(body["spec"].get("unschedulable")), taints, body["metadata"].get("annotations", {}).get(OWNER, "")


def set_cordon(lab: LabHandle, node: str, *, on: bool) -> None:
    """`kubectl cordon` and `uncordon`, as a person does it."""

    def act() -> None:
        body = lab.rack.cluster.store.get(KINDS["nodes"], "", node)
        body["spec"].pop("unschedulable", None)
        if on:
            body["spec"]["unschedulable"] = True
        lab.rack.cluster.store.replace(KINDS["nodes"], "", node, body)

    lab.call(act)


def run_pod(lab: LabHandle, node: str) -> None:
    """Somebody's job starts on a node."""
    body = {
        "metadata": {"name": f"job-on-{node}", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "train", "image": "pytorch"}]},
    }
    lab.call(lambda: lab.rack.cluster.store.create(KINDS["pods"], "default", admit(KINDS["pods"], body)))


def end_pod(lab: LabHandle, node: str) -> None:
    """The job is over."""
    lab.call(lambda: lab.rack.cluster.store.delete(KINDS["pods"], "default", f"job-on-{node}"))


def test_proven_again_renews_and_gives_back(hall: LabHandle) -> None:
    """Four new certificates beside the old ones, no POST, no BMC change; a foreign cordon and a busy node stay."""
    before = {node: certificates(hall, node) for node in NODES}
    posts = {name: (machine.posts, hall.rack.bmcs[name].bmc.changes) for name, machine in hall.machines.items()}
    set_cordon(hall, "r1-n02", on=True)
    run_pod(hall, "r1-n03")
    report = proven_again(hall)
    end_pod(hall, "r1-n03")
    theirs = closed(hall, "r1-n02")
    set_cordon(hall, "r1-n02", on=False)
    verdicts = {node.node.name: node.verdict.value for node in report.nodes}
    assert {"r1-n01": "accepted", "r1-n02": "accepted", "r1-n03": "undecided", "r1-n04": "accepted"} == verdicts
    assert "runs 1 pods (default/job-on-r1-n03)" in report.nodes[2].cause
    assert (True, [], "") == theirs
    assert [(False, [], "")] * 3 == [closed(hall, node) for node in ("r1-n01", "r1-n03", "r1-n04")]
    for node in ("r1-n01", "r1-n02", "r1-n04"):
        new, *old = certificates(hall, node)
        assert (before[node], "") == (old, new[1])
        assert new[0] == hall.rack.book.device(node)["custom_fields"]["certificate_id"]
    assert before["r1-n03"] == certificates(hall, "r1-n03")
    assert certificates(hall, "r1-n01")[0][0] == kube(hall, "r1-n01")["metadata"]["annotations"][CERTIFICATE]
    assert posts == {name: (m.posts, hall.rack.bmcs[name].bmc.changes) for name, m in hall.machines.items()}
    stages = [record for node in report.nodes for record in node.records if record.stage in list(Stage)[:5]]
    assert {("proven afresh", "")} == {(record.reason, record.reused_from) for record in stages}


def test_an_unreachable_bmc_decides_nothing(hall: LabHandle) -> None:
    """A BMC that does not answer is no proof against a node: its certificate stands, our cordon is lifted."""
    before = certificates(hall, "r1-n01")
    hall.inject("r1-n01", "bmc_dead")
    report = proven_again(hall, nodes=("r1-n01",))
    hall.heal("r1-n01")
    assert (Verdict.UNDECIDED, before) == (report.nodes[0].verdict, certificates(hall, "r1-n01"))
    assert ("active", (False, [], "")) == (hall.rack.book.device("r1-n01")["status"], closed(hall, "r1-n01"))


def test_an_unreachable_cluster_leaves_all_alone(hall: LabHandle) -> None:
    """Who cannot see the pods does not load the node."""
    hall.call(lambda: hall.rack.cluster.faults.add("api_down"))
    report = proven_again(hall, nodes=("r1-n01",))
    hall.call(lambda: hall.rack.cluster.faults.discard("api_down"))
    assert (Verdict.UNDECIDED, ()) == (report.nodes[0].verdict, report.nodes[0].records)


def test_due_takes_only_what_is_due(hall: LabHandle) -> None:
    """Of the whole fleet the node whose term is over; afterwards nobody is due, which is well."""
    assert (Verdict.ACCEPTED, ()) == (outcome_of(nothing := proven_again(hall, "", due=True)), nothing.nodes)
    let_pass(hall, "r1-n04", timedelta(days=31))
    report = proven_again(hall, "", due=True)
    assert [("r1-n04", Verdict.ACCEPTED)] == [(node.node.name, node.verdict) for node in report.nodes]
    with ledger(hall) as kept:
        newest = kept.certificates(hall.machines["r1-n04"].state.serial)[0]
    assert "not_applicable: not proven: no partner" in {n.reason for n in newest.not_proven}
    assert () == proven_again(hall, "", due=True).nodes


def test_a_schedule_leaves_foreign_cordons_alone(hall: LabHandle) -> None:
    """What somebody cordoned for work in the hall is not loaded by a schedule, though it is due."""
    let_pass(hall, "r1-n04", timedelta(days=31))
    set_cordon(hall, "r1-n04", on=True)
    report = proven_again(hall, "", due=True)
    set_cordon(hall, "r1-n04", on=False)
    assert (1, "r1-n04: somebody else has cordoned it: left alone") == (len(report.nodes), report.nodes[0].cause)
    assert Verdict.ACCEPTED is proven_again(hall, "", due=True).nodes[0].verdict


def test_a_stopped_run_lifts_its_own_cordons(hall: LabHandle) -> None:
    """Cancelled in the middle of burn-in: every node is open again, no lease is left, certificates stand."""
    before = {node: certificates(hall, node) for node in NODES}

    async def stopped() -> None:
        board, burning = Board(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def heard(node: str, stage: Stage, cell: Cell) -> None:
            if stage is Stage.BURN_IN and cell.state == "running":
                loop.call_soon_threadsafe(burning.set)

        board.listeners.append(heard)
        WATCHING.set(board)
        line = asyncio.create_task(_line(hall))
        await burning.wait()
        assert any(closed(hall, node)[0] for node in NODES)
        line.cancel()
        with suppress(asyncio.CancelledError):
            await line

    asyncio.run(stopped())
    assert [(False, [], "")] * 4 == [closed(hall, node) for node in NODES]
    assert before == {node: certificates(hall, node) for node in NODES}
    with ledger(hall) as kept:
        assert () == kept.leases()


async def _line(lab: LabHandle) -> None:
    async with running(str(lab.settings_file), new_run_id(), "revalidate", "R1", LOOK_ONLY) as run:
        await revalidate(run, "R1")


def test_a_killed_runs_cordon_is_taken_over(hall: LabHandle) -> None:
    """What a killed run left is cordoned with our mark: the next run tests the node and opens it."""

    def killed() -> None:
        body = hall.rack.cluster.store.get(KINDS["nodes"], "", "r1-n02")
        body["spec"]["unschedulable"] = True
        body["metadata"]["annotations"][OWNER] = "a-run-that-was-killed"
        hall.rack.cluster.store.replace(KINDS["nodes"], "", "r1-n02", body)

    hall.call(killed)
    report = proven_again(hall, nodes=("r1-n02",))
    assert (Verdict.ACCEPTED, (False, [], "")) == (report.nodes[0].verdict, closed(hall, "r1-n02"))


@pytest.mark.parametrize(("node", "fault", "words"), [
    ("r1-n01", "gpu_slow", "GPU slot"), ("r1-n02", "nccl_slow", "nccl_all_reduce reaches"),
])  # fmt: skip
def test_a_node_that_became_slow_is_quarantined(hall: LabHandle, node: str, fault: str, words: str) -> None:
    """Taint and cordon, NetBox failed, the certificate revoked with the reason; its neighbours are renewed."""
    hall.inject(node, fault)
    report = proven_again(hall, nodes=(node, "r1-n03", "r1-n04"))
    hall.heal(node)
    by_name = {n.node.name: n for n in report.nodes}
    assert {node: "rejected", "r1-n03": "accepted", "r1-n04": "accepted"} == {
        n: r.verdict.value for n, r in by_name.items()
    }
    cordoned, taints, owner = closed(hall, node)
    assert (True, [QUARANTINE], report.run_id) == (cordoned, taints, owner)
    assert ("failed", "rejected", None) == _book(hall, node)
    assert words in by_name[node].cause
    assert {by_name[node].cause} == {why for _, why in certificates(hall, node)[:1]}
    assert CERTIFICATE not in kube(hall, node)["metadata"]["annotations"]


def _book(lab: LabHandle, node: str) -> tuple[str, str, str | None]:
    device = lab.rack.book.device(node)
    fields = device["custom_fields"]
    return device["status"], fields["verdict"], fields["certificate_id"]


def test_a_quarantined_node_comes_back_by_a_persons_word(hall: LabHandle) -> None:
    """Mended and proven again it is certified, and stays shut until somebody sets it to staged."""
    again = proven_again(hall, "", due=True)  # revoked certificates are due
    assert {"r1-n01", "r1-n02"} == {node.node.name for node in again.nodes}
    assert {"undecided"} == {node.verdict.value for node in again.nodes}
    assert {"only a person moves a node from there to staged"} == {n.cause.partition(": ")[2] for n in again.nodes}
    assert (True, [QUARANTINE]) == closed(hall, "r1-n01")[:2]
    for node in ("r1-n01", "r1-n02"):
        hall.call(partial(hall.rack.book.edit, node, status="staged"))
    line = run_line(hall, nodes=("r1-n01", "r1-n02"))
    assert {("accepted", 0)} == {(node.verdict.value, node.posts) for node in line.nodes}
    assert {("active", "accepted")} == {_book(hall, node)[:2] for node in ("r1-n01", "r1-n02")}
    assert [(False, [], "")] * 2 == [closed(hall, node) for node in ("r1-n01", "r1-n02")]
