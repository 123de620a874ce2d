"""Faults as data: each has a sentence and a citation, changes what it says, and heals without a trace."""

from __future__ import annotations

import asyncio
import copy

import pytest

from lab.clock import LabClock
from lab.fault import Fault
from lab.faults import FAULTS
from lab.hardware import NodeState, Shape, build_node
from lab.machine import Machine

STAGES = {"discover", "inspect", "image", "tune", "burn_in", "record", "join"}


def _machine(fault: Fault) -> Machine:
    shape = next(shape for shape in Shape if shape in fault.shapes)
    return Machine(build_node("R1", 1, shape), LabClock(1000))


def test_there_are_faults_for_every_stage() -> None:
    """At least 24 faults, spread over all seven stages."""
    assert len(FAULTS) >= 24
    assert {fault.stage for fault in FAULTS.values()} == STAGES


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_described_and_cited(name: str) -> None:
    """One sentence what happens, and the public report it comes from."""
    fault = FAULTS[name]
    assert (True, True) == (fault.what.endswith("."), len(fault.cites) > 5)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_heals_without_a_trace(name: str) -> None:
    """Injected twice and healed once, the state is as it was."""
    fault = FAULTS[name]
    machine = _machine(fault)
    before: NodeState = copy.deepcopy(machine.state)
    fault.apply(machine)
    assert machine.fault(name)
    fault.apply(machine)
    fault.heal(machine)
    assert before == machine.state


def test_a_swapped_gpu_has_another_serial_and_uuid() -> None:
    """The new part is another one of the same form, and healing brings the old one back."""
    machine = _machine(FAULTS["gpu_swapped"])
    old = copy.copy(machine.state.gpus[6])
    FAULTS["gpu_swapped"].apply(machine)
    new = machine.state.gpus[6]
    assert (len(old.serial), len(old.uuid)) == (len(new.serial), len(new.uuid))
    assert (False, False) == (old.serial == new.serial, old.uuid == new.uuid)


def test_a_shape_without_nvlink_cannot_lose_one() -> None:
    """Breaking what is not there is refused, saying so."""
    machine = Machine(build_node("R1", 1, Shape.PROCESSORS), LabClock(1000))
    with pytest.raises(ValueError, match="nvlink_down: a processors machine cannot have it"):
        FAULTS["nvlink_down"].apply(machine)


def test_power_that_is_accepted_moves_nothing() -> None:
    """The reset is taken and the machine stays off."""

    async def try_it() -> str:
        machine = _machine(FAULTS["power_accepted_no_effect"])
        FAULTS["power_accepted_no_effect"].apply(machine)
        machine.reset("On")
        await asyncio.sleep(0.05)
        return machine.power

    assert "Off" == asyncio.run(try_it())


def test_a_post_that_never_ends_stays_in_pci() -> None:
    """BootProgress stops at PCI resource configuration, and a forced off still works."""

    async def try_it() -> tuple[str, str]:
        machine = Machine(build_node("R1", 1, Shape.HGX), LabClock(5000))
        FAULTS["post_never_ends"].apply(machine)
        machine.reset("On")
        await asyncio.sleep(0.3)
        stuck = machine.progress
        machine.reset("ForceOff")
        await asyncio.sleep(0.05)
        return stuck, machine.power

    assert ("PCIResourceConfigStarted", "Off") == asyncio.run(try_it())


def test_a_setting_that_reverts() -> None:
    """One staged setting is lost at POST, the others hold."""
    machine = Machine(build_node("R1", 1, Shape.HGX), LabClock(1000))
    FAULTS["bios_setting_reverts"].apply(machine)
    machine.state.bios_pending = {"SRIOVEnable": "Enable", "AspmSupport": "Disabled"}
    machine.apply_bios()
    assert ("Enable", "Auto", {}) == (
        machine.state.bios["SRIOVEnable"],
        machine.state.bios["AspmSupport"],
        machine.state.bios_pending,
    )
