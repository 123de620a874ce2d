"""A fault shows itself on the shell wherever it would in life, read by the product's own readers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from burnin import nccl
from burnin.gpu import gpu_burn_command, nvbandwidth_command
from burnin.load import load_command
from burnin.perftest import ib_write_bw_command
from inventory.command import Command
from inventory.parsers import host, infiniband, kernel_log, nvidia_smi, nvlink, pci
from inventory.parsers.dcgm import parse_diag
from lab.faults import FAULTS
from lab.hardware import Shape
from lab.machine import Machine
from lab.shell import answer
from lab.shell.local import run_here
from lab.shell.reply import Reply


def asked(machine: Machine, command: Command[Any]) -> Any:
    """What the command's own reader makes of the node's answer."""
    return command.parse(said(machine, command).stdout)


def said(machine: Machine, command: Command[Any]) -> Reply:
    """The node's answer."""
    return asyncio.run(run_here(machine, command.argv))


def broken(machine: Machine, fault: str) -> Machine:
    """The node with a fault injected."""
    FAULTS[fault].apply(machine)
    return machine


def ring(machine: Machine, test: nccl.NcclAsked) -> nccl.NcclRun:
    """A NCCL test, read."""
    return asked(machine, nccl.nccl_command(test))


def test_a_healthy_node_reaches_its_figures(node: Machine) -> None:
    """NVLS all-reduce, ring all-gather, loop-back through the adapters: the plateaus and their transports."""
    runs = {test.test: ring(node, test) for test in (nccl.all_reduce(8), nccl.all_gather(8), nccl.loopback_net(8))}
    assert {
        "nccl_all_reduce": pytest.approx(480.0, rel=0.03),
        "nccl_all_gather": pytest.approx(360.0, rel=0.03),
        "nccl_loopback_net": pytest.approx(46.0, rel=0.03),
    } == {name: run.plateau_gb_s for name, run in runs.items()}
    assert [(), (), ()] == [run.problems for run in runs.values()]
    assert [True, False] == [runs[name].transport.nvls for name in ("nccl_all_reduce", "nccl_loopback_net")]
    assert {"NET/IB/GDRDMA"} == set(runs["nccl_loopback_net"].transport.ways)


def test_a_node_without_nvlink_goes_over_pcie(make_node) -> None:
    """No NVLS, peer-to-peer within a socket and shared memory between, some 40 GB/s."""
    run = ring(make_node(Shape.PROCESSORS), nccl.all_reduce(8))
    assert pytest.approx(40.0, rel=0.03) == run.plateau_gb_s
    assert (False, {"P2P", "SHM"}) == (run.transport.nvls, set(run.transport.ways))


def test_gpu_lost(node: Machine) -> None:
    """Seven GPUs, a sentence naming the eighth, Xid 79, and NCCL that does not begin."""
    lost = broken(node, "gpu_lost").state.gpus[3]
    log = asked(node, nvidia_smi.QUERY)
    assert 7 == len(log.gpus)
    assert (f"Unable to determine the device handle for GPU3: {lost.pci_address}: Unknown Error",) == log.unread
    assert ("79", lost.pci_address) in {(event.code, event.subject) for event in asked(node, kernel_log.DMESG)}
    assert lost.pci_address not in {device.address for device in asked(node, pci.LSPCI)}
    assert 1 == said(node, nccl.nccl_command(nccl.all_reduce(8))).exit


def test_driver_missing(node: Machine) -> None:
    """nvidia-smi refuses with exit 9, the GPUs are still on the bus, and CUDA finds no device."""
    broken(node, "driver_missing")
    reply = said(node, nvidia_smi.QUERY)
    assert (9, True) == (reply.exit, "couldn't communicate with the NVIDIA driver" in reply.stdout)
    assert 8 == sum(device.ids == "10de:2330" for device in asked(node, pci.LSPCI))
    assert "no CUDA-capable device" in said(node, nccl.nccl_command(nccl.all_reduce(8))).stdout


def test_fabric_manager_skew(node: Machine) -> None:
    """One build off: the service failed, the fabric never completes, links are inactive, CUDA says 802's words."""
    broken(node, "fabricmanager_version_skew")
    assert node.software["driver"] != asked(node, host.FABRIC_MANAGER)
    assert asked(node, host.FABRIC_MANAGER_ACTIVE) is False
    assert {"In Progress"} == {gpu.fabric_state for gpu in asked(node, nvidia_smi.QUERY).gpus}
    assert {0} == {gpu.up for gpu in asked(node, nvlink.STATUS)}
    assert "system not yet initialized" in said(node, nccl.nccl_command(nccl.all_reduce(8))).stdout


def test_memory_faults(node: Machine) -> None:
    """Uncorrectable errors and a pending remap in the document, and what DCGM makes of them."""
    broken(broken(node, "ecc_uncorrectable"), "remap_pending")
    gpus = asked(node, nvidia_smi.QUERY).gpus
    assert [3, 1] == [gpus[2].ecc_uncorrectable, gpus[2].ecc_volatile_uncorrectable]
    assert [True, 1] == [gpus[5].remap_pending, gpus[5].remapped_rows_uncorrectable]
    diag = parse_diag(answer(node, ("dcgmi", "diag", "-r", "2", "-j")).stdout)
    failed = {(result.test, result.gpu) for result in diag.results if result.status == "fail"}
    assert {("memory", "2"), ("software", "5")} == failed


def test_nvlink_down(node: Machine) -> None:
    """Seventeen links on one GPU, errors counted on the dead one, and a slower collective."""
    broken(node, "nvlink_down")
    assert [18, 17] == [asked(node, nvlink.STATUS)[index].up for index in (0, 1)]
    assert {7} == {counter.link for counter in asked(node, nvlink.ERRORS) if counter.value}
    assert pytest.approx(480.0 * 17 / 18, rel=0.03) == ring(node, nccl.all_reduce(8)).plateau_gb_s


def test_pcie_half_width(node: Machine) -> None:
    """Half the width in the document and on the bus, half the bandwidth to and from the host."""
    address = broken(node, "pcie_half_width").state.gpus[4].pci_address
    assert 8 == asked(node, nvidia_smi.QUERY).gpus[4].pcie_width
    assert [address] == [link.device for link in pci.links(asked(node, pci.LSPCI)) if link.degraded]
    figures = asked(node, nvbandwidth_command())["h2d_gb_s"]
    assert [pytest.approx(55.0, rel=0.01), pytest.approx(27.5, rel=0.01)] == [figures[0], figures[4]]


def test_nic_half_rate(node: Machine) -> None:
    """The rate in sysfs, the write bandwidth of that adapter alone, and the loop-back of all."""
    broken(node, "nic_half_rate")
    rates = {device.name: device.ports[0].rate_gbit_s for device in asked(node, infiniband.SYSFS)}
    assert [400.0, 200.0] == [rates["mlx5_0"], rates["mlx5_6"]]
    assert pytest.approx(196.0, rel=0.01) == asked(node, ib_write_bw_command("mlx5_6", 6)).ib_write_bw_gbit_s
    assert pytest.approx(23.0, rel=0.03) == ring(node, nccl.loopback_net(8)).plateau_gb_s


def test_socket_fallback_shows_only_through_the_network(node: Machine) -> None:
    """Over NVLink nothing is seen; through the network it is sockets and about one GB/s, exit 0."""
    broken(node, "nccl_socket_fallback")
    assert pytest.approx(480.0, rel=0.03) == ring(node, nccl.all_reduce(8)).plateau_gb_s
    run = ring(node, nccl.loopback_net(8))
    assert ("Socket", {"NET/Socket"}) == (run.transport.network, set(run.transport.ways))
    assert run.plateau_gb_s < 2


def test_gdr_missing(node: Machine) -> None:
    """InfiniBand without GDRDMA, at a third of the line, and no nvidia_peermem loaded."""
    run = ring(broken(node, "gdr_missing"), nccl.loopback_net(8))
    assert {"NET/IB"} == set(run.transport.ways)
    assert pytest.approx(46.0 * 0.34, rel=0.03) == run.plateau_gb_s
    assert "nvidia_peermem" not in answer(node, ("lsmod",)).stdout


def test_a_throttling_gpu_shows_after_load_and_not_before(node: Machine) -> None:
    """Clocks event reasons are clean until a load has run, then both hardware flags stand."""
    broken(node, "gpu_throttles")
    assert [()] * 8 == [gpu.throttled_by for gpu in asked(node, load_command())]
    burn = asked(node, gpu_burn_command())
    throttled = {gpu.index: gpu.throttled_by for gpu in asked(node, load_command()) if gpu.throttled_by}
    assert {7: ("hardware slowdown", "hardware thermal slowdown")} == throttled
    assert pytest.approx(0.82, rel=0.02) == burn[7].gemm_tflops / burn[0].gemm_tflops


def test_a_slow_gpu_is_slow_everywhere_and_throttles_nowhere(node: Machine) -> None:
    """A straggler: its own figures and every collective follow its pace."""
    burn = asked(broken(node, "gpu_slow"), gpu_burn_command())
    assert pytest.approx(0.88, rel=0.02) == burn[2].gemm_tflops / burn[0].gemm_tflops
    assert pytest.approx(480.0 * 0.88, rel=0.03) == ring(node, nccl.all_reduce(8)).plateau_gb_s
    assert not any(gpu.throttled_by for gpu in asked(node, load_command()))


def test_ecc_errors_come_with_load(node: Machine) -> None:
    """The test passes its number while the counters move and an Xid is logged."""
    broken(node, "ecc_under_load")
    before = asked(node, nvidia_smi.QUERY).gpus[5]
    run = ring(node, nccl.all_reduce(8))
    after = asked(node, nvidia_smi.QUERY).gpus[5]
    assert [0, 1] == [before.ecc_uncorrectable, after.ecc_uncorrectable]
    assert pytest.approx(480.0, rel=0.03) == run.plateau_gb_s
    assert "48" in {event.code for event in asked(node, kernel_log.DMESG)}


def test_acs_on_switch_ports_follows_the_bios(node: Machine) -> None:
    """As the factory set it, switch ports redirect; with the profile's value they do not."""
    assert 8 == len(pci.redirecting_ports(asked(node, pci.LSPCI)))
    node.state.bios["PcieAcsControl"] = "Disable"
    assert () == pci.redirecting_ports(asked(node, pci.LSPCI))


def test_unknown_commands_are_refused(node: Machine) -> None:
    """Exit 127 with the shell's words."""
    assert Reply("", "frobnicate: command not found\n", 127) == answer(node, ("env", "A=b", "frobnicate", "-x"))
