"""Claims and the life cycle: conditional writes of one device, with others writing at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from inventory.errors import ChangeRefused, LeaseHeld
from tests.inventory.netbox.hall import Hall, certificate, record, report


def soon(minutes: int = 10) -> datetime:
    """A moment after now, or before it."""
    return datetime.now(UTC) + timedelta(minutes=minutes)


def test_a_claim_is_seen_by_the_next_run(hall: Hall) -> None:
    """A second run is told who holds the node and until when; released, it may have it."""
    netbox, (node_id, _) = hall.netbox, hall.ids()
    held = netbox.claim(netbox.read(node_id), "run-1", soon())
    assert "run-1" == held.text("claim_run")
    with pytest.raises(LeaseHeld, match="run-1"):
        netbox.claim(netbox.read(node_id), "run-2", soon())
    assert (0, 1) == (netbox.release_claim(netbox.read(node_id), "run-2"), netbox.release_claim(held, "run-1"))
    assert "run-2" == netbox.claim(held, "run-2", soon()).text("claim_run")


def test_a_claim_past_its_end_may_be_taken(hall: Hall) -> None:
    """A run that died holds nothing for ever."""
    netbox, (node_id, _) = hall.netbox, hall.ids()
    netbox.claim(netbox.read(node_id), "run-1", soon(minutes=-1))
    assert "run-2" == netbox.claim(netbox.read(node_id), "run-2", soon()).text("claim_run")


def test_one_of_eight_racers_wins(hall: Hall) -> None:
    """Eight runs claim one node from the same reading: exactly one has it, the others name the winner."""
    book = hall.netbox.read(hall.ids()[0])

    def race(run_id: str) -> str:
        try:
            return hall.netbox.claim(book, run_id, soon()).text("claim_run")
        except LeaseHeld as held:
            return f"lost to {held.holder}"

    with ThreadPoolExecutor(8) as racers:
        results = list(racers.map(race, [f"run-{i}" for i in range(8)]))
    (winner,) = [result for result in results if not result.startswith("lost")]
    assert [f"lost to {winner}"] * 7 == [result for result in results if result != winner]


def test_a_record_into_another_runs_claim_stops(hall: Hall) -> None:
    """Another run claimed the node after we planned: nothing of the device is written."""
    node = hall.nodes[0]
    said = report(hall, node)
    plan = hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    hall.netbox.claim(plan.book, "run-9", soon())
    with pytest.raises(LeaseHeld, match="run-9"):
        hall.netbox.record(plan)
    assert "" == hall.netbox.read(plan.book.id).text("verdict")


def test_staged_becomes_active_once(hall: Hall) -> None:
    """The last step of a joined node; said again, nothing is written."""
    node_id = hall.ids()[0]
    fields = {"k8s_node": hall.nodes[0].name}
    assert 1 == hall.netbox.set_status(node_id, "active", "run-1", fields)
    assert 0 == hall.netbox.set_status(node_id, "active", "run-1", fields)
    book = hall.netbox.read(node_id)
    assert ("active", hall.nodes[0].name) == (book.status, book.text("k8s_node"))


@pytest.mark.parametrize("start", ["failed", "planned", "offline", "decommissioning", "inventory"])
def test_other_transitions_are_a_persons(lab_hall: Hall, start: str) -> None:
    """Nothing but staged leads to active; the sentence says both states."""
    name, node_id = lab_hall.nodes[0].name, lab_hall.ids()[0]
    lab_hall.book.edit(name, status=start)
    with pytest.raises(ChangeRefused, match=f"{name}: NetBox status {start} → active"):
        lab_hall.netbox.set_status(node_id, "active", "run-1")
    assert start == lab_hall.netbox.read(node_id).status


def test_a_rejected_node_in_another_state_keeps_it(lab_hall: Hall) -> None:
    """A node that a person took out of service is not failed by us; verdict and cause are recorded."""
    node = lab_hall.nodes[0]
    lab_hall.book.edit(node.name, status="decommissioning")
    record(lab_hall, node, failed="GPU_SXM_3 is missing")
    book = lab_hall.netbox.read(lab_hall.ids()[0])
    assert ("decommissioning", "rejected") == (book.status, book.text("verdict"))


def test_status_survives_somebody_elses_edit(lab_hall: Hall) -> None:
    """The device changes under our hands once: read again, write again, both stand."""
    node_id, name = lab_hall.ids()[0], lab_hall.nodes[0].name
    lab_hall.faults.add("netbox_conflict")
    assert 1 == lab_hall.netbox.set_status(node_id, "active", "run-1")
    device = lab_hall.book.device(name)
    assert ("active", "checked the cabling, all fine") == (device["status"], device["description"])


def test_a_record_survives_somebody_elses_edit(lab_hall: Hall) -> None:
    """The same while recording: parts, verdict and the person's words all stand."""
    node = lab_hall.nodes[0]
    lab_hall.faults.add("netbox_conflict")
    record(lab_hall, node)
    device = lab_hall.book.device(node.name)
    assert ("accepted", 51) == (device["custom_fields"]["verdict"], len(lab_hall.book.modules(node.name)))
    assert "checked the cabling, all fine" == device["description"]
