"""Reading a node from inside when it answers, when it refuses, when it hangs and when it dies."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from inventory.command import Output, output
from inventory.errors import CommandFailed, NodeUnreachable
from inventory.evidence import EvidenceStore
from inventory.findings import Outcome
from inventory.inband import read_counters, read_inband

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"


def _text(name: str) -> str:
    return (TRANSCRIPTS / name).read_text()


BOOT_ID = "6b2e7c1e-6a7e-4b9c-8b73-0d1b7e3f7c11"
UUID = "2f1d3c4b-0000-4000-8000-000000000001"
ANSWERS: Mapping[str, str] = {
    "uname -r": "6.8.0-45-generic\n",
    "cat /etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n",
    "cat /proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n",
    "cat /sys/class/dmi/id/product_uuid": f"{UUID.upper()}\n",
    "cat /sys/class/dmi/id/product_serial": "CH1\n",
    "nvidia-smi -q -x": _text("nvidia-smi-xml/h100-570.xml"),
    "nvidia-smi nvlink -s": _text("nvlink/status-mixed.txt"),
    "nvidia-smi nvlink -e": _text("nvlink/errors-hopper.txt"),
    "lspci -D -nn -vvv": _text("lspci/gpu-behind-switch.txt"),
    "ip -j addr": _text("ip/addr.json"),
    "dmesg": _text("kernel-log/many-faults.txt"),
    "sh": _text("rdma/sysfs.txt"),
    "cat /etc/rackmint/image.json": '{"name": "lab", "digest": "' + "ab" * 32 + '"}',
    "cat /usr/local/cuda/version.json": '{"cuda": {"version": "12.8.1"}}',
    "dpkg-query -W '-f=${Version}' libnccl2": "2.26.2-1+cuda12.8",
    "nv-fabricmanager --version": "Fabric Manager version is : 570.00.01\n",
    "systemctl is-active nvidia-fabricmanager": "active\n",
    "dcgmi --version": "Version : 4.1.1\n",
    "containerd --version": "containerd containerd.io 2.0.4 abc\n",
    "kubelet --version": "Kubernetes v1.34.2\n",
    "kubeadm version -o short": "v1.34.2\n",
}


class Recorded:
    """A node made of recorded answers: text, an `Output` of its own, or an exception to raise."""

    node = "n1"

    def __init__(self, **instead: str | Output | Exception) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, str | Output | Exception] = {**ANSWERS, **instead}

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: str = "") -> Output:
        """The recorded answer; a command nobody recorded is not installed."""
        line = "sh" if argv[0] == "sh" else shlex.join(argv)
        self.asked.append(line)
        said = self._answers.get(line)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            return output(argv, said)
        return said or output(argv, "", stderr=f"timeout: failed to run command '{argv[0]}'", exit=127)


@pytest.fixture
def store(tmp_path: Path) -> EvidenceStore:
    """Evidence in a folder."""
    return EvidenceStore(str(tmp_path))


def test_everything_is_put_together(store: EvidenceStore) -> None:
    """GPUs with their links, adapters with serial and width from lspci, software, and no trouble."""
    found = read_inband(Recorded(), store)
    assert () == found.trouble
    gpu, nic = found.inventory.gpus[0], found.inventory.nics[0]
    assert (2, 3, 212.496) == (gpu.nvlinks_up, gpu.nvlinks_total, gpu.nvlink_speed_gbit_s)
    assert ("MT0000X00001", 16, 4, "up") == (nic.serial, nic.pcie_width, nic.pcie_generation, nic.ports[0].link_state)
    ethernet = found.inventory.nics[1].ports[0]
    assert ("A0:88:C2:11:44:55", 4200, "init") == (ethernet.mac, ethernet.mtu, ethernet.link_state)
    assert ("CH1", UUID) == (found.inventory.identity.serial, found.inventory.identity.uuid)
    software = found.software
    versions = (software.os, software.kernel, software.driver, software.cuda, software.nccl, software.fabric_manager)
    assert ("ubuntu 24.04", "6.8.0-45-generic", "570.00.01", "12.8.1", "2.26.2", "570.00.01") == versions
    assert (True, BOOT_ID) == (software.fabric_manager_active, software.boot_id)
    assert "ab" * 32 == found.software.image_digest


def test_counters_carry_slots_addresses_and_evidence(store: EvidenceStore) -> None:
    """A GPU is called by its slot, an event by its part, and every reading can be looked up."""
    found = read_inband(Recorded(), store)
    values = {(c.metric, c.subject): c.value for c in found.counters}
    assert 3 == values["ecc_uncorrectable", "GPU slot 7"]
    assert None is values["ecc_uncorrectable", "GPU slot 5"]
    assert (4, None) == (values["nvlink_crc_errors", "GPU slot 7"], values["nvlink_replay_errors", "GPU slot 7"])
    assert (7, None) == (values["port_symbol_error", "mlx5_0/1"], values["port_link_downed", "mlx5_0/1"])
    assert (1, 3) == (values["log_xid_79", "GPU slot 7"], values["log_xid_45", "GPU at 0000:4d:00.0"])
    assert 1 == values["acs_redirecting_switch_ports", "node"]
    assert "x8 of x16, 32 of 32 GT/s" == values["pcie_link_degraded", "PCI 0000:1a:00.0"]
    evidence = next(c.evidence for c in found.counters if c.metric == "log_xid_79")
    assert evidence is not None
    assert b"fallen off the bus" in store.read(evidence.sha256)


def test_a_refused_command_is_one_error_and_the_rest_is_read(store: EvidenceStore) -> None:
    """A dmesg without permission: one finding with its words, and everything else is there."""
    refused = output(("dmesg",), "", stderr="dmesg: read kernel buffer failed: Operation not permitted", exit=1)
    found = read_inband(Recorded(dmesg=refused), store)
    assert [("kernel-log", Outcome.ERROR)] == [(f.subject, f.outcome) for f in found.trouble]
    assert "Operation not permitted" in found.trouble[0].sentence
    assert (2, "1.34.2") == (len(found.inventory.gpus), found.software.kubeadm)


def test_an_answer_that_is_not_understood_is_an_error_with_the_line(store: EvidenceStore) -> None:
    """A tool that answers something else is named, and where its answer is kept."""
    found = read_inband(Recorded(**{"ip -j addr": "1: lo: <LOOPBACK>"}), store)
    assert ["ip-json"] == [f.subject for f in found.trouble]
    assert "1: lo: <LOOPBACK>" in found.trouble[0].sentence


def test_a_hanging_tool_is_asked_once(store: EvidenceStore) -> None:
    """nvidia-smi hangs: its other views are not tried, the rest of the node is read, nothing counts as read."""
    hung = output(("nvidia-smi", "-q", "-x"), "", exit=None)
    shell = Recorded(**{"nvidia-smi -q -x": hung})
    found = read_inband(shell, store)
    assert ["nvidia-smi -q -x"] == [line for line in shell.asked if line.startswith("nvidia-smi")]
    outcomes = {f.subject: f.outcome for f in found.trouble}
    assert {
        "nvidia-smi-xml": Outcome.ERROR,
        "nvlink-status": Outcome.NOT_RUN,
        "nvlink-errors": Outcome.NOT_RUN,
    } == outcomes
    assert {"inband_command/nvidia-smi-xml"} == {f.explained_by for f in found.trouble if f.explained_by}
    assert ((), None, None) == (found.inventory.gpus, found.inventory.gpus_found_in, found.software.driver)
    assert ("mlx5_0", "2.26.2") == (found.inventory.nics[0].id, found.software.nccl)


def test_a_node_that_hangs_twice_is_asked_no_more(store: EvidenceStore) -> None:
    """Two tools without an answer are the node's trouble: nothing else costs a time-out."""
    hung = {line: output(("x",), "", exit=None) for line in ANSWERS}
    shell = Recorded(**hung)
    found = read_inband(shell, store)
    assert 2 == len(shell.asked)
    assert 2 == sum(f.outcome is Outcome.ERROR for f in found.trouble)


def test_a_dead_connection_ends_the_reading(store: EvidenceStore) -> None:
    """A connection that dies in the middle is not a node that does not know."""
    shell = Recorded(dmesg=NodeUnreachable("n1", "`dmesg` was cut off", "connection reset"))
    with pytest.raises(NodeUnreachable):
        read_inband(shell, store)


def test_tools_that_are_not_installed_are_unknown_versions(store: EvidenceStore) -> None:
    """Exit 127 is an answer: None, and the class decides."""
    gone = {line: output(("x",), "", stderr="no such file", exit=127) for line in ANSWERS if "--version" in line}
    found = read_inband(Recorded(**gone), store)
    assert () == found.trouble
    assert (None, None, None) == (found.software.fabric_manager, found.software.kubelet, found.software.dcgm)


def test_a_driver_that_does_not_run_says_why(store: EvidenceStore) -> None:
    """nvidia-smi's own sentence stands beside the missing version."""
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    found = read_inband(Recorded(**{"nvidia-smi -q -x": output(("nvidia-smi",), words, exit=9)}), store)
    reasons = [m.reason for m in found.inventory.missing if m.fact == "software.driver"]
    assert 1 == len(reasons)
    assert words in reasons[0]


def test_a_gpu_that_nvidia_smi_complains_about_is_a_failure(store: EvidenceStore) -> None:
    """The complaint stands on standard error with exit 0, and is not overheard."""
    words = "Unable to determine the device handle for GPU3: 0000:9D:00.0: Unknown Error"
    complaint = output(("nvidia-smi", "-q", "-x"), ANSWERS["nvidia-smi -q -x"], stderr=words)
    found = read_inband(Recorded(**{"nvidia-smi -q -x": complaint}), store)
    assert [("gpu_answers", "0000:9d:00.0", Outcome.FAIL)] == [(f.metric, f.subject, f.outcome) for f in found.trouble]


def test_counters_alone_ask_four_commands(store: EvidenceStore) -> None:
    """Before and after a load only what counts is read."""
    shell = Recorded()
    readings = read_counters(shell, store)
    assert ["nvidia-smi -q -x", "nvidia-smi nvlink -e", "sh", "dmesg"] == shell.asked
    assert {"ecc_uncorrectable", "nvlink_crc_errors", "port_symbol_error", "log_kernel_events"} <= {
        r.metric for r in readings
    }


def test_counters_without_nvidia_smi_are_no_counters(store: EvidenceStore) -> None:
    """Nothing to compare is said, not returned as an empty list."""
    with pytest.raises(CommandFailed, match="counters could not be read"):
        read_counters(Recorded(**{"nvidia-smi -q -x": output(("nvidia-smi",), "", exit=None)}), store)
