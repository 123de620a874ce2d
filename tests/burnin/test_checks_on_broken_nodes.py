"""Checks on simulated nodes, read by the product's own doors: HTTPS to the BMC, SSH to the node, faults planted."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from burnin.checks import check_counters, check_in_band, check_out_of_band, fold
from inventory.classes import NodeClass, load_classes
from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.findings import Finding, Outcome, root_cause
from inventory.inband import InBand, read_inband
from inventory.model import Inventory, NodeRef
from inventory.redfish import Bmc, BmcLogin, PinStore
from inventory.secrets import Secret
from inventory.ssh import SshLogin, SshShell
from lab.background import BackgroundLoop
from lab.bmc.bmc import Login
from lab.bmc.serve import start_bmc
from lab.clock import LabClock
from lab.faults import FAULTS
from lab.hardware import Shape, build_node
from lab.hostkey import make_host_key
from lab.image import LAB_SOFTWARE, make_image
from lab.machine import Machine
from lab.shell.server import serve_shells

CLASSES = load_classes()
LAID = {name: LAB_SOFTWARE[name] for name in ("kernel", "driver", "cuda", "nccl", "fabric_manager", "containerd")}
# What a tuned node has: peer-to-peer traffic is not redirected.
TUNED = {
    Shape.HGX: {"PcieAcsControl": "Disable"},
    Shape.PCIE: {"PCIeACSCTL_1E3C": "Disable"},
    Shape.PROCESSORS: {"Processors_PCIeACSCTL": "Disabled"},
}


@dataclass
class Seen:
    """One node as both views saw it, and what follows."""

    machine: Machine
    outside: Inventory
    inside: InBand
    out_of_band: tuple[Finding, ...]
    in_band: tuple[Finding, ...]

    @property
    def everything(self) -> tuple[Finding, ...]:
        """All findings, root first."""
        return fold((*self.out_of_band, *self.in_band))


@pytest.fixture(scope="module")
def loop() -> Iterator[BackgroundLoop]:
    """Where the simulated node lives."""
    with BackgroundLoop() as running:
        yield running
        running.run(asyncio.sleep(0.2))  # TLS connections say good-bye


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's key."""
    file = tmp_path_factory.mktemp("key") / "operator"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file


Look = Callable[..., Seen]


@pytest.fixture(scope="module")
def look(loop: BackgroundLoop, key: Path) -> Look:
    """Break a node in the named ways, then read and judge it from both sides; the same breakage is looked at once."""

    @cache
    def looked(*faults: str, shape: Shape = Shape.HGX) -> Seen:
        machine = _booted(shape, key.with_suffix(".pub").read_text())
        for fault in faults:
            FAULTS[fault].apply(machine)
        outside = _outside(loop, machine, key.parent)
        inside = _inside(loop, machine, key)
        node_class = CLASSES[f"lab-{shape.value}"]
        ref = NodeRef(name=machine.name, node_class=node_class.name, serial=machine.state.serial)
        return Seen(
            machine, outside, inside, check_out_of_band(outside, node_class, ref), _judged(outside, inside, node_class)
        )

    return looked


def _judged(outside: Inventory, inside: InBand, node_class: NodeClass) -> tuple[Finding, ...]:
    judged = check_in_band(outside, inside.inventory, inside.software, node_class, LAID, counters=inside.counters)
    return fold((*inside.trouble, *judged))


def _booted(shape: Shape, public_key: str) -> Machine:
    machine = Machine(build_node("R1", 1, shape), LabClock(10_000))
    machine.state.bios |= TUNED[shape]
    drive = machine.state.drives[0]
    drive.content, drive.host_key = make_image(LAB_SOFTWARE, 4096), make_host_key()
    drive.seed = {"authorized_key": public_key, "user": "root", "image_name": "lab", "image_digest": "ab" * 32}
    machine.power, machine.os_up = "On", True
    machine.reach("OSRunning")
    machine.new_boot_id()
    machine.boot_log = ["Linux version 6.8.0-60-generic (lab@build) #1 SMP"]
    return machine


def _outside(loop: BackgroundLoop, machine: Machine, folder: Path) -> Inventory:
    server = loop.run(start_bmc(machine, "127.0.0.1", login=Login("lab", "a-password"), certificates=folder))
    try:
        login, pins, deadline = BmcLogin("lab", Secret("a-password")), PinStore.in_memory(), Deadline(machine.name, 30)
        store = EvidenceStore("memory://checks")
        with Bmc(machine.name, server.url, login, pins=pins, deadline=deadline, evidence=store, poll_s=0.02) as bmc:
            return bmc.read()
    finally:
        loop.run(server.stop())


def _inside(loop: BackgroundLoop, machine: Machine, key: Path) -> InBand:
    server = loop.run(serve_shells({("127.78.9.1", 0): machine}))
    try:
        login, deadline = SshLogin("root", Secret(key.read_text())), Deadline(machine.name, 30)
        address = server.addresses[machine.name]
        with SshShell.open(machine.name, address, login, host_key=None, deadline=deadline) as shell:
            return read_inband(shell, EvidenceStore("memory://checks"))
    finally:
        loop.run(server.stop())


def _bad(findings: tuple[Finding, ...]) -> list[Finding]:
    return [f for f in findings if f.outcome in (Outcome.FAIL, Outcome.ERROR)]


@pytest.mark.parametrize("shape", Shape)
def test_a_healthy_node_has_nothing_wrong_on_either_side(look: Look, shape: Shape) -> None:
    """All three shapes: 8 GPUs, no trouble, no failure, and in-band nothing is left unmeasured."""
    seen = look(shape=shape)
    assert [] == [f.sentence for f in _bad(seen.everything)]
    assert () == seen.inside.trouble
    assert (8, 8) == (len(seen.outside.gpus), len(seen.inside.inventory.gpus))
    assert set() == {f.metric for f in seen.in_band if f.outcome is not Outcome.PASS}
    assert [] == _bad(check_counters(seen.inside.counters, seen.inside.counters))


# fault → (metric, subject, words) of the root as the operator reads it
ROOTS = {
    "gpu_lost": ("gpu_missing", "GPU slot 6", "GPU in slot 6"),
    "ecc_uncorrectable": ("gpu_ecc_uncorrectable", "GPU slot 8", "uncorrectable ECC errors"),
    "remap_pending": ("gpu_remap_pending", "GPU slot 4", "row remapping pending: yes, expected no; reset the GPU"),
    "nvlink_down": ("gpu_nvlinks_up", "GPU slot 5", "17, expected at least 18"),
    "pcie_half_width": ("gpu_pcie_width", "GPU slot 2", "PCIe link is too narrow: 8"),
    "nic_half_rate": ("nic_rate_gbit_s", "NIC NIC7", "its link is too slow: 200"),
    "vbios_skew": ("gpu_vbios", "GPU slot 7", "96.00.74.00.01"),
    "driver_missing": ("software_driver", "node", "couldn't communicate with the NVIDIA driver"),
    "fabricmanager_version_skew": ("fabric_manager_version", "node", "its version is another than the driver's"),
}


@pytest.mark.parametrize("fault", ROOTS)
def test_one_fault_has_one_root_that_names_the_part(look: Look, fault: str) -> None:
    """The first failure is the planted one, in words with the part, and all others are folded under it."""
    seen = look(fault)
    root = root_cause(seen.in_band)
    assert root is not None
    metric, subject, words = ROOTS[fault]
    assert (Outcome.FAIL, metric, subject) == (root.outcome, root.metric, root.subject)
    assert words in root.sentence
    assert root.remedy
    assert {root.key} == {f.key for f in _bad(seen.in_band) if not f.explained_by}
    assert root == seen.in_band[0]


@pytest.mark.parametrize(
    "fault", ["gpu_lost", "ecc_uncorrectable", "remap_pending", "pcie_half_width", "vbios_skew", "dimm_missing"]
)
def test_what_the_bmc_can_see_is_found_before_an_image_is_laid(look: Look, fault: str) -> None:
    """Out-of-band alone already fails, so that no imaging is spent on the node."""
    root = root_cause(look(fault).out_of_band)
    assert root is not None
    assert Outcome.FAIL is root.outcome
    assert (ROOTS[fault][0] if fault in ROOTS else "dimm_count") == root.metric


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gpu_lost", "remap_pending"),
        ("gpu_lost", "nvlink_down"),
        ("nic_half_rate", "pcie_half_width"),
        ("ecc_uncorrectable", "remap_pending"),
        ("vbios_skew", "nic_half_rate"),
        ("fabricmanager_version_skew", "pcie_half_width"),
    ],
)
def test_two_faults_are_both_told(look: Look, one: str, other: str) -> None:
    """A root for each, and no follower stands among the roots."""
    seen = look(one, other)
    roots = {(f.metric, f.subject) for f in _bad(seen.in_band) if not f.explained_by}
    assert {ROOTS[one][:2], ROOTS[other][:2]} == roots


def test_a_gpu_lost_since_the_bmc_was_read_is_named_with_its_serial(look: Look) -> None:
    """Seven of eight, nvidia-smi's words and Xid 79 follow from the one that is missing, and its serial is told."""
    before, after = look(), look("gpu_lost")
    findings = _judged(before.outside, after.inside, CLASSES["lab-hgx"])
    followers = {f.metric: f.explained_by for f in _bad(findings) if f.explained_by}
    assert {"gpu_missing/GPU slot 6"} == set(followers.values())
    assert {"gpu_count", "gpu_answers", "log_xid_79"} == set(followers)
    serial = before.machine.state.gpus[3].serial
    assert f"GPU in slot 6 (serial {serial}) is missing: the BMC knows it, the driver does not" == findings[0].sentence


def test_a_swapped_gpu_between_two_readings_is_named_with_both_sources(look: Look) -> None:
    """The BMC was read before the swap, the node after it: both serials are told."""
    before, after = look(), look("gpu_swapped")
    findings = _judged(before.outside, after.inside, CLASSES["lab-hgx"])
    old, new = before.machine.state.gpus[6].serial, after.machine.state.gpus[6].serial
    assert {"gpu_missing", "gpu_unknown_to_bmc"} == {f.metric for f in _bad(findings)}
    words = " ".join(f.observed for f in _bad(findings))
    assert old in words
    assert new in words
