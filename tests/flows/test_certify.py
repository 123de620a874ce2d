"""The certificate follows its proof: kept while it holds, earned anew by what changed, never by an old proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from flows.plan import PlannedStage, plan_rack
from flows.rack import nodes_of
from flows.settings import load_settings
from flows.site import Site
from inventory.certificate import NodeCertificate
from inventory.findings import Verdict
from inventory.model import now
from inventory.report import NodeReport, Stage
from lab.hardware import NodeState, Shape
from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.conftest import run_line, shorten
from tests.flows.passing_time import let_pass

NODE = "r1-n01"
EARNED = (Stage.INSPECT, Stage.IMAGE, Stage.TUNE, Stage.BURN_IN)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Two nodes, provisioned to certified."""
    plan = LabPlan(nodes=2, scale=2000.0, shapes=(Shape.HGX,))
    with start_lab(tmp_path_factory.mktemp("certify") / "lab", plan) as lab:
        shorten(lab)
        assert ["accepted"] * 2 == [node.verdict.value for node in run_line(lab).nodes]
        yield lab


@contextmanager
def site_of(lab: LabHandle) -> Iterator[Site]:
    """The lab's site, opened."""
    site = Site.open(load_settings(str(lab.settings_file)))
    try:
        yield site
    finally:
        site.close()


def certificates(lab: LabHandle, node: str = NODE) -> tuple[NodeCertificate, ...]:
    """All certificates of a node, newest first."""
    with site_of(lab) as site:
        return site.ledger.certificates(lab.machines[node].state.serial)


def planned(lab: LabHandle, node: str = NODE) -> dict[Stage, PlannedStage]:
    """What the plan says of one node."""
    with site_of(lab) as site:
        plan = plan_rack(site, "R1", nodes_of(site, "R1", (node,)))
    assert not plan.nodes[0].refused
    return {stage.stage: stage for stage in plan.nodes[0].stages}


def again(lab: LabHandle, node: str = NODE) -> NodeReport:
    """The line once more, for one node."""
    return run_line(lab, nodes=(node,)).nodes[0]


def kept(report: NodeReport) -> set[Stage]:
    """Stages whose proof was taken from an earlier run."""
    return {record.stage for record in report.records if record.reused_from}


def test_pairs_and_what_was_not_proven_stand_in_the_certificate(hall: LabHandle) -> None:
    """What the rack says of a node is bound like its own findings; what does not apply is listed as not proven."""
    certificate = certificates(hall)[0]
    pairs = [proof for proof in certificate.proven if proof.metric == "nccl_pair"]
    assert [(NODE, "passes with r1-n02")] == [(proof.subject, proof.observed) for proof in pairs]
    assert certificate.not_proven
    assert all(gap.reason for gap in certificate.not_proven)


def test_when_only_the_look_is_new_the_certificate_stands(hall: LabHandle) -> None:
    """The same certificate, nothing written anywhere."""
    before, writes = certificates(hall), (hall.rack.book.writes, hall.rack.cluster.writes)
    report = again(hall)
    assert (set(EARNED), before[0].certificate_id) == (kept(report), report.certificate_id)
    assert (before, writes) == (certificates(hall), (hall.rack.book.writes, hall.rack.cluster.writes))


FACTS: dict[str, Callable[[NodeState], tuple[object, str, object]]] = {
    "BMC firmware": lambda state: (state, "bmc_version", "1.9.0"),
    "BIOS firmware": lambda state: (state, "bios_version", "2.5.0"),
    "service tag": lambda state: (state, "sku", "OTHERTAG"),
    "system UUID": lambda state: (state, "uuid", "4c4c4544-0042-3010-8056-b4c04f564c31"),
    "GPU serial": lambda state: (state.gpus[0], "serial", "1650000000001"),
    "GPU firmware": lambda state: (state.gpus[0], "vbios", "96.00.99.00.01"),
    "NIC serial": lambda state: (state.nics[0], "serial", "MT0000X00001"),
    "NIC firmware": lambda state: (state.nics[0], "firmware", "28.99.1000"),
    "NIC address": lambda state: (state.nics[0], "guid", "B8:CE:F6:03:00:00:00:01"),
    "drive serial": lambda state: (state.drives[2], "serial", "S0000001"),
}


@pytest.mark.parametrize("fact", FACTS)
def test_every_bound_fact_that_changes_is_proven_again(hall: LabHandle, fact: str) -> None:
    """No bound fact can go stale without a stage that runs for it: no certificate is issued on a look alone."""
    part, attribute, other = FACTS[fact](hall.machines[NODE].state)
    was = getattr(part, attribute)
    hall.call(lambda: setattr(part, attribute, other))
    stages = planned(hall)
    hall.call(lambda: setattr(part, attribute, was))
    assert " became " in stages[Stage.RECORD].why
    assert "run" in {stages[stage].action for stage in EARNED}, stages[Stage.RECORD].why


def test_a_certificate_counts_from_its_oldest_proof(hall: LabHandle) -> None:
    """A drive swapped after ten days is proven again; burn-in is kept, and the new certificate ends when it does."""
    let_pass(hall, NODE, timedelta(days=10))
    burnt_in_until = certificates(hall)[0].expires_at
    drive = hall.machines[NODE].state.drives[2]
    hall.call(lambda: setattr(drive, "serial", "S0000002"))
    report = again(hall)
    new = certificates(hall)[0]
    assert (Verdict.ACCEPTED, 0, True, new.certificate_id) == (
        report.verdict, report.posts, Stage.BURN_IN in kept(report), report.certificate_id,
    )  # fmt: skip
    assert timedelta(0) <= burnt_in_until - new.expires_at < timedelta(minutes=10)
    assert timedelta(days=19) < new.expires_at - now() < timedelta(days=20)


def test_a_proof_older_than_the_term_is_proven_again(hall: LabHandle) -> None:
    """After the term nothing is reused, the plan says why and wipes nothing, and the old certificate is kept."""
    let_pass(hall, NODE, timedelta(days=31))
    old = certificates(hall)
    stages = planned(hall)
    assert {("run", 0, "")} == {(stages[s].action, stages[s].posts, stages[s].destructive) for s in EARNED}
    assert "longer ago than a certificate holds (30 days)" in stages[Stage.INSPECT].why
    report = again(hall)
    assert (Verdict.ACCEPTED, 0, set()) == (report.verdict, report.posts, kept(report))
    new, *before = certificates(hall)
    assert (old, report.certificate_id) == (tuple(before), new.certificate_id)
    assert timedelta(days=29, hours=23) < new.expires_at - now() <= timedelta(days=30)


def test_a_revoked_certificate_takes_its_proof_with_it(hall: LabHandle) -> None:
    """Declared void by hand: neither it, nor one before it, nor the proof behind it counts any more."""
    revoked, *older = certificates(hall)
    assert older
    with site_of(hall) as site:
        assert site.ledger.revoke(revoked.certificate_id, "seen smoking", "a person")
    assert "was revoked: seen smoking" in planned(hall)[Stage.RECORD].why
    report = again(hall)
    assert (Verdict.ACCEPTED, set()) == (report.verdict, kept(report))
    assert {revoked.certificate_id, *(c.certificate_id for c in older)}.isdisjoint({report.certificate_id})
    reasons = {record.reason.partition(" on ")[0] for record in report.records if record.stage in EARNED}
    assert {"the node's certificate was revoked"} == reasons


def test_a_slow_node_earns_nothing(hall: LabHandle) -> None:
    """A failed burn-in leaves no certificate in hand, and the standing one is not taken for it."""
    hall.inject("r1-n02", "gpu_slow")
    let_pass(hall, "r1-n02", timedelta(days=31))
    before = certificates(hall, "r1-n02")
    report = again(hall, "r1-n02")
    hall.heal("r1-n02")
    assert (Verdict.REJECTED, "", before) == (report.verdict, report.certificate_id, certificates(hall, "r1-n02"))
