"""The line over a healthy rack: certified with two POSTs a node, then nothing to do, then only what a swap touches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.provision import provision
from flows.rack import new_run_id, running
from flows.running import Mandate, Run, holder
from flows.settings import load_settings
from flows.site import Site
from inventory.certificate import verify
from inventory.ledger import Ledger
from inventory.report import NodeReport, RackReport, Stage
from lab.kubernetes.kinds import KINDS
from lab.kubernetes.rules import admit
from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.conftest import SCALE, run_line, shorten

SHAPES = 3  # nodes 1, 3 and 4 of a lab rack are the three hardware shapes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """A rack of four, of all three shapes, that the tests of this file take through its life in order."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(nodes=4, scale=SCALE)) as lab:
        shorten(lab)
        yield lab


@pytest.fixture(scope="module")
def first(lab: LabHandle) -> RackReport:
    """The first run over it."""
    return run_line(lab)


def stages(node: NodeReport) -> dict[str, str]:
    """Stage → "kept" or its outcome."""
    return {r.stage.value: "kept" if r.reused_from else r.outcome.value for r in node.records}


def ledger_of(lab: LabHandle) -> Ledger:
    """What rackmint remembers of this lab."""
    return Ledger.open(load_settings(str(lab.settings_file)).ledger_url)


def test_a_cold_rack_is_certified_with_two_posts_a_node(lab: LabHandle, first: RackReport) -> None:
    """Every node of every shape passes all seven stages, and the machines themselves count two POSTs."""
    assert {node.node.name: {stage.value: "pass" for stage in Stage} for node in first.nodes} == {
        node.node.name: stages(node) for node in first.nodes
    }
    assert SHAPES == len({node.node.node_class for node in first.nodes})
    assert [2, 2, 2, 2] == [node.posts for node in first.nodes]
    assert [2, 2, 2, 2] == [machine.posts for machine in lab.machines.values()]
    assert [1, 1, 1, 1] == [machine.boot_drive.writes_begun for machine in lab.machines.values() if machine.boot_drive]


def test_books_and_fleet_say_so(lab: LabHandle, first: RackReport) -> None:
    """NetBox says active, Kubernetes schedules with the certificate, and the certificate verifies offline."""
    site = Site.open(load_settings(str(lab.settings_file)))
    try:
        for report in first.nodes:
            assert report.node.netbox_id is not None
            book, node = site.netbox().read(report.node.netbox_id), site.fleet().node(report.node.name)
            certificate = site.ledger.certificate(report.certificate_id)
            assert certificate is not None
            verify(certificate, site.key.public_pem)
            assert node is not None
            assert ("active", report.certificate_id, True) == (
                book.status,
                book.text("certificate_id"),
                node.admitted_with(report.certificate_id),
            )
    finally:
        site.close()


def test_an_unchanged_rack_costs_nothing(lab: LabHandle, first: RackReport) -> None:
    """The same again: everything kept with its reason, no POST, no write to NetBox, the same certificates."""
    again = run_line(lab)
    kept = {"inspect": "kept", "image": "kept", "tune": "kept", "burn_in": "kept"}
    afresh = {"discover": "pass", "record": "pass", "join": "pass"}
    assert [{**kept, **afresh}] * 4 == [stages(node) for node in again.nodes]
    assert 0 == again.posts
    assert [0, 0, 0, 0] == [r.details["writes"] for n in again.nodes if (r := n.record(Stage.RECORD))]
    assert [n.certificate_id for n in first.nodes] == [n.certificate_id for n in again.nodes]
    assert all(r.reason.startswith("unchanged: ") for n in again.nodes for r in n.records if r.reused_from)


def test_a_swapped_gpu_runs_only_what_depends_on_it(lab: LabHandle, first: RackReport) -> None:
    """One node gets a new certificate; image and BIOS are kept, and its neighbours are not touched."""
    lab.inject("r1-n02", "gpu_swapped")
    nodes = {node.node.name: node for node in run_line(lab).nodes}
    swapped = nodes.pop("r1-n02")
    assert {
        "discover": "pass", "inspect": "pass", "image": "kept", "tune": "kept",
        "burn_in": "pass", "record": "pass", "join": "pass",
    } == stages(swapped)  # fmt: skip
    assert ("changed: gpus", 0) == (swapped.record(Stage.BURN_IN).reason, swapped.posts)  # type: ignore[union-attr]
    before = {node.node.name: node.certificate_id for node in first.nodes}
    assert before.pop("r1-n02") != swapped.certificate_id
    assert before == {name: node.certificate_id for name, node in nodes.items()}


def test_a_node_somebody_works_on_is_left_alone(lab: LabHandle, first: RackReport) -> None:
    """The second run names the holder, touches nothing, and the others are done."""
    ledger = ledger_of(lab)
    node = first.nodes[0].node
    lease = ledger.take_lease(node.key, node.name, "261130-000000-other@elsewhere:1:2", "provision", 60)
    try:
        nodes = {report.node.name: report for report in run_line(lab).nodes}
    finally:
        ledger.release(lease)
        ledger.close()
    assert ("undecided", ()) == (nodes[node.name].verdict.value, nodes[node.name].records)
    assert "held by run 261130-000000-other@elsewhere" in nodes[node.name].cause
    assert {"accepted"} == {report.verdict.value for name, report in nodes.items() if name != node.name}


def test_no_lease_is_left(lab: LabHandle, first: RackReport) -> None:
    """All leases are given back at the end of a run."""
    ledger = ledger_of(lab)
    assert () == ledger.leases()
    ledger.close()


def test_another_machine_at_the_address_stops_the_node(make_lab: Callable[..., LabHandle]) -> None:
    """A chassis that is not the book's is an identity alarm: nothing is laid on it."""
    lab = make_lab(nodes=1)
    lab.call(lambda: lab.rack.book.edit("r1-n01", serial="CH00000000"))
    (node,) = run_line(lab).nodes
    assert "rejected" == node.verdict.value
    assert "this is another machine" in node.cause
    assert 0 == lab.machines["r1-n01"].posts


def test_the_breaker_stops_what_fails_everywhere(make_lab: Callable[..., LabHandle], tmp_path: Path) -> None:
    """Once three nodes of a class failed the same way no more are started, and the report says what to suspect."""
    lab = make_lab(nodes=5, shapes=("hgx",))
    settings = lab.settings_file.read_text().replace("[limits]", "[limits]\nbreaker_nodes = 3")
    lab.settings_file.write_text(settings.replace("image_parallel = 16", "image_parallel = 1"))
    lab.inject("*", "image_checksum_mismatch")
    report = run_line(lab)
    said = [node.cause for node in report.nodes]
    assert 3 == sum("checksum mismatch" in cause for cause in said)
    assert 2 == sum("suspect the image, the switch or the limit" in cause for cause in said)
    assert 1 == len(report.notes)


def test_what_nobody_foresaw_ends_one_line_only(lab: LabHandle, first: RackReport) -> None:
    """A bug met on one node is told as such, and the other nodes are done."""

    async def work(node: object, run: Run) -> NodeReport:
        report = first.nodes[0]
        if node is first.nodes[1]:
            raise KeyError("a bug")
        return report

    async def both() -> tuple[NodeReport, ...]:
        async with running(str(lab.settings_file), new_run_id(), "provision", "R1", Mandate()) as run:
            return await run.for_each(work, first.nodes[:2])

    good, bad = asyncio.run(both())
    assert first.nodes[0] == good
    assert "rackmint itself broke here: KeyError" in bad.note


def test_a_holder_names_its_process(lab: LabHandle) -> None:
    """A run's name in a lease tells whether its process still lives."""
    assert holder("r1").startswith("r1@")


def test_the_inner_line_needs_no_prefect(lab: LabHandle, first: RackReport) -> None:
    """`provision` is a plain coroutine; the flow around it only shows."""

    async def line() -> RackReport:
        async with running(str(lab.settings_file), new_run_id(), "provision", "R1", Mandate()) as run:
            return await provision(run, "R1", ("r1-n01",))

    assert ["r1-n01"] == [node.node.name for node in asyncio.run(line()).nodes]


def test_a_node_in_service_is_held_while_tested_and_put_out_when_bad(make_lab: Callable[..., LabHandle]) -> None:
    """With pods on it nothing is tested; without, it is cordoned by us; found bad, it is quarantined and revoked."""
    lab = make_lab(nodes=1)
    (before,) = run_line(lab).nodes
    pod = {
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"nodeName": "r1-n01", "containers": [{"name": "c"}]},
    }
    lab.inject("r1-n01", "gpu_swapped")
    lab.call(lambda: lab.rack.cluster.store.create(KINDS["pods"], "default", admit(KINDS["pods"], pod)))
    (busy,) = run_line(lab).nodes
    assert ("undecided", True) == (busy.verdict.value, "it runs 1 pods" in busy.cause)
    lab.call(lambda: lab.rack.cluster.store.delete(KINDS["pods"], "default", "job"))
    lab.inject("r1-n01", "nccl_slow")
    (bad,) = run_line(lab).nodes
    site = Site.open(load_settings(str(lab.settings_file)))
    try:
        node, revoked = site.fleet().node("r1-n01"), site.ledger.revocation(before.certificate_id)
    finally:
        site.close()
    assert node is not None
    assert revoked is not None
    assert ("rejected", False, True) == (bad.verdict.value, node.schedulable, node.held)
    assert "nccl_all_reduce reaches" in revoked.reason
