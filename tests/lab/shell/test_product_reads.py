"""The product's own readers and tests over SSH: a healthy node of every shape passes all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from burnin.checks import check_counters
from burnin.limits import load_limits
from burnin.node_tests import NODE_TESTS, run_node_test
from inventory.classes import load_classes
from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.findings import Outcome
from inventory.inband import read_counters, read_inband
from inventory.secrets import Secret
from inventory.ssh import SshLogin, SshShell
from lab.background import BackgroundLoop
from lab.hardware import Shape
from lab.machine import Machine
from lab.shell import running_commands, serve_shells

BAD = {Outcome.FAIL, Outcome.ERROR}


@pytest.fixture(params=list(Shape))
def machine(request: pytest.FixtureRequest, make_node) -> Machine:
    """A healthy node of each shape; a burn-in minute takes six milliseconds."""
    found: Machine = make_node(request.param)
    return found


@pytest.fixture
def shell(machine: Machine, operator_key: str) -> Iterator[SshShell]:
    """The product's shell on it."""
    loop = BackgroundLoop()
    server = loop.run(serve_shells({("127.78.9.9", 0): machine}))
    machine.ssh_address = server.addresses[machine.name]
    login = SshLogin("root", Secret(operator_key))
    with SshShell.open(
        machine.name, machine.ssh_address, login, host_key=None, deadline=Deadline(machine.name, 120.0)
    ) as opened:
        yield opened
    loop.run(server.stop())
    loop.stop()


def test_it_is_read_from_inside_without_trouble(machine: Machine, shell: SshShell, tmp_path: Path) -> None:
    """Eight GPUs, eight adapters, all versions of the image, and no question unanswered."""
    read = read_inband(shell, EvidenceStore(str(tmp_path)))
    assert () == read.trouble
    assert [gpu.serial for gpu in machine.state.gpus] == [gpu.serial for gpu in read.inventory.gpus]
    assert [nic.guid for nic in machine.state.nics] == [nic.ports[0].guid for nic in read.inventory.nics]
    assert [nic.pci_address for nic in machine.state.nics] == [nic.pci_address for nic in read.inventory.nics]
    told = read.software.model_dump()
    named = {key: value for key, value in machine.software.items() if key in told}
    assert named == {key: told[key] for key in named}
    assert ("ab" * 32, machine.boot_id, machine.state.uuid) == (
        read.software.image_digest,
        read.software.boot_id,
        read.software.machine_uuid,
    )


def test_it_passes_every_node_test(machine: Machine, shell: SshShell, tmp_path: Path) -> None:
    """All tests of burn-in pass by the class's own limits, counters stand still, nothing is left running."""
    store, name = EvidenceStore(str(tmp_path)), f"lab-{machine.state.shape}"
    pack, node_class = load_limits()[name], load_classes()[name]
    before = read_counters(shell, store)
    results = [run_node_test(test, shell, store, pack, node_class, Deadline(machine.name, 60.0)) for test in NODE_TESTS]
    bad = [f"{f.metric} {f.subject}: {f.observed}" for r in results for f in r.findings if f.outcome in BAD]
    bad += [f"{f.metric} {f.subject}" for f in check_counters(before, read_counters(shell, store)) if f.outcome in BAD]
    assert [] == bad
    assert () == running_commands(machine)
