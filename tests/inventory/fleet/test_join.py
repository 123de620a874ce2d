"""The whole way into the cluster: the fleet's hand on one side, the node's own kubeadm on the other."""

from __future__ import annotations

import pytest

from inventory.deadline import Deadline
from inventory.errors import ChangeRefused
from inventory.findings import Outcome
from inventory.fleet import Fleet
from inventory.secrets import Secret
from lab.clock import LabClock
from lab.hardware import Shape, build_node
from lab.image import LAB_SOFTWARE, make_image
from lab.kubelets import report
from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.kubeadm import kubeadm
from lab.shell.node import memory
from lab.shell.reply import Reply

_PATH = "/run/rackmint/join.yaml"


@pytest.fixture
def machine() -> Machine:
    """A node whose image has booted."""
    made = Machine(build_node("R1", 1, Shape.HGX), LabClock(10_000.0))
    made.state.drives[0].content = make_image(LAB_SOFTWARE, 4096)
    made.power, made.os_up = "On", True
    made.new_boot_id()
    return made


def join(served, fleet: Fleet, machine: Machine, token: Secret, pin: str = "") -> Reply:
    """What the node says to `kubeadm join`; its kubelet reports from then on."""
    config = fleet.join_config(machine.name, token, pin or fleet.ca_hash())

    async def work() -> Reply:
        memory(machine).files[_PATH] = config
        reply = await kubeadm(Call(machine, ("kubeadm", "join", "--config", _PATH)))
        if machine.joined:
            report(machine, served.cluster)
        return reply

    return served.loop.run(work())


def test_a_node_is_held_joined_watched_and_let_go(served, fleet: Fleet, machine: Machine) -> None:
    """Taint and cordon survive the kubelet's registration, until a certificate lifts them."""
    name, serial, uuid = machine.name, machine.state.serial, machine.state.uuid
    assert False is fleet.guard_name(name, serial, uuid)
    fleet.precreate(name, serial, "run-a", {"rack": "R1"})
    token = fleet.mint_token(name, "run-a", 900)
    assert 0 == join(served, fleet, machine, token).exit
    fleet.delete_token(token)
    held = fleet.node(name)
    assert (True, False, True) == (held.held, held.schedulable, held.belongs_to(serial))
    gates = fleet.wait_gates(name, 8, uuid, machine.boot_id, deadline=Deadline(name, 5))
    assert {Outcome.PASS} == {gate.outcome for gate in gates}
    fleet.admit(name, "run-a", "c0ffee")
    assert True is fleet.node(name).admitted_with("c0ffee")


def test_the_trap_of_the_stale_node_is_cleared(served, fleet: Fleet, machine: Machine) -> None:
    """Joining over it would leave an unvalidated node open for work; so it is deleted and made anew, held."""
    name, serial, uuid = machine.name, machine.state.serial, machine.state.uuid
    served.on_loop(lambda: served.cluster.plant_node(name, serial=serial, system_uuid=uuid))
    assert False is fleet.node(name).belongs_to(serial)
    assert True is fleet.guard_name(name, serial, uuid)
    fleet.precreate(name, serial, "run-a")
    assert 0 == join(served, fleet, machine, fleet.mint_token(name, "run-a", 900)).exit
    assert (True, False) == (fleet.node(name).held, fleet.node(name).schedulable)


def test_joining_over_a_stale_node_really_ignores_the_taints(served, fleet: Fleet, machine: Machine) -> None:
    """The reason for the guard: kubeadm is content, the node is Ready, and nothing holds it."""
    served.on_loop(lambda: served.cluster.plant_node(machine.name))
    assert 0 == join(served, fleet, machine, fleet.mint_token(machine.name, "run-a", 900)).exit
    node = fleet.node(machine.name)
    assert (True, True, False) == (node.ready, node.schedulable, node.held)


def test_a_run_that_was_killed_before_the_join_is_begun_anew(served, fleet: Fleet, machine: Machine) -> None:
    """What it created is ours by serial and has no kubelet: cleared, and made again by the next run."""
    name, serial = machine.name, machine.state.serial
    fleet.precreate(name, serial, "run-a")
    assert (False, True) == (fleet.node(name).belongs_to(serial), fleet.guard_name(name, serial, machine.state.uuid))
    fleet.precreate(name, serial, "run-b")
    assert "run-b" == fleet.node(name).cordon_owner


def test_a_dead_device_plugin_is_caught_while_the_node_is_ready(served, fleet: Fleet, machine: Machine) -> None:
    """Ready says nothing about GPUs."""
    machine.state.faults.add("k8s_plugin_dead")
    fleet.precreate(machine.name, machine.state.serial, "run-a")
    join(served, fleet, machine, fleet.mint_token(machine.name, "run-a", 900))
    gates = fleet.wait_gates(machine.name, 8, machine.state.uuid, deadline=Deadline(machine.name, 0.3))
    bad = [gate.cause for gate in gates if gate.outcome is not Outcome.PASS]
    assert ["Kubernetes has 0 of 8 GPUs to give: the device plugin is dead"] == bad
    assert True is fleet.node(machine.name).ready


def test_a_dead_token_and_a_wrong_root_are_told_apart(served, fleet: Fleet, machine: Machine) -> None:
    """The first is minted again, the second is never tried again."""
    fleet.precreate(machine.name, machine.state.serial, "run-a")
    dead = join(served, fleet, machine, Secret("abcdef.0123456789abcdef"))
    assert "could not find a JWS signature" in dead.stderr
    wrong = join(served, fleet, machine, fleet.mint_token(machine.name, "run-a", 900), pin="sha256:" + "0" * 64)
    assert "are pinned" in wrong.stderr
    assert (1, 1, None) == (dead.exit, wrong.exit, machine.joined)


def test_a_second_machine_of_the_same_name_is_stopped(served, fleet: Fleet, machine: Machine) -> None:
    """The first one is in service and stays so."""
    fleet.precreate(machine.name, machine.state.serial, "run-a")
    join(served, fleet, machine, fleet.mint_token(machine.name, "run-a", 900))
    fleet.admit(machine.name, "run-a", "c0ffee")
    with pytest.raises(ChangeRefused, match="Two machines must not share a name"):
        fleet.guard_name(machine.name, "CH-another", "another-uuid")
    assert True is fleet.node(machine.name).admitted_with("c0ffee")
