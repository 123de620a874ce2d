"""Every named fault on a rack of three: the right verdict, its cause first, and no other node harmed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.report import NodeReport
from lab.faults import FAULTS
from lab.rack import LabHandle
from tests.flows.conftest import run_line

SICK = "r1-n01"

# fault → (verdict, words the cause must name). "accepted" = it wears off, or rackmint finds its way.
EXPECTED: dict[str, tuple[str, str]] = {
    "bmc_503_burst": ("accepted", ""),
    "flaky_bmc": ("accepted", ""),
    "bmc_dead": ("undecided", "connect to https"),
    "gpu_lost": ("rejected", "GPU in slot 6 is missing"),
    "ecc_uncorrectable": ("rejected", "uncorrectable ECC errors"),
    "remap_pending": ("rejected", "row remapping pending"),
    "nvlink_down": ("rejected", "NVLinks are up"),
    "pcie_half_width": ("rejected", "PCIe link is too narrow"),
    "nic_half_rate": ("rejected", "its link is too slow: 200"),
    "gpu_swapped": ("accepted", ""),  # another good GPU of the right model: nothing is wrong with a new node
    "vbios_skew": ("rejected", "VBIOS"),
    "dimm_missing": ("rejected", "DIMM"),
    "power_accepted_no_effect": ("undecided", "reading back shows no effect: power is On"),
    "post_never_ends": ("undecided", "POST never ended"),
    "media_stale": ("undecided", "insert"),
    "boot_once_sticks": ("accepted", ""),
    "wrong_disk": ("rejected", "somebody else's data"),
    "image_checksum_mismatch": ("rejected", "image checksum mismatch"),
    "agent_lost": ("undecided", "the deploy agent was fetched and never came up"),
    "driver_missing": ("rejected", "couldn't communicate with the NVIDIA driver"),
    "fabricmanager_version_skew": ("rejected", "fabric manager is"),
    "bios_setting_reverts": ("rejected", "BIOS setting"),
    "ssh_hangs": ("undecided", "gave no answer"),
    "nccl_socket_fallback": ("rejected", "fell back to TCP sockets"),
    "nccl_slow": ("rejected", "nccl_all_reduce reaches"),
    "gdr_missing": ("rejected", "without GPUDirect RDMA"),
    "gpu_throttles": ("rejected", "throttles under"),
    "gpu_slow": ("rejected", "GPU slot"),
    "ecc_under_load": ("rejected", "GPU slot"),
    "netbox_down": ("undecided", "NetBox is down"),
    "netbox_conflict": ("accepted", ""),
    "k8s_stale_node": ("accepted", ""),
    "k8s_plugin_dead": ("rejected", "the device plugin is dead"),
}


def test_every_fault_has_its_expectation() -> None:
    """A fault nobody expects anything of is not tested."""
    assert set(FAULTS) == set(EXPECTED)


@pytest.mark.parametrize("fault", sorted(EXPECTED))
def test_fault(fault: str, make_lab: Callable[..., LabHandle], record_property: Callable[[str, object], None]) -> None:
    """The sick node gets its verdict and its cause; its neighbours are accepted."""
    lab = make_lab(nodes=3)
    lab.inject(SICK, fault)
    nodes = {node.node.name: node for node in run_line(lab).nodes}
    sick = nodes.pop(SICK)
    record_property("table: fault → verdict → cause", f"{fault:28} {sick.verdict.value:10} {sick.cause}")
    verdict, words = EXPECTED[fault]
    assert (verdict, {"accepted"}) == (sick.verdict.value, {n.verdict.value for n in nodes.values()}), told(sick, nodes)
    assert words in sick.cause


def told(sick: NodeReport, others: dict[str, NodeReport]) -> str:
    """What was said of each, for whoever reads a failure."""
    return "; ".join(f"{node.node.name}: {node.cause}" for node in (sick, *others.values()))
