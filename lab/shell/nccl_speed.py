"""How fast a node's GPUs and adapters move data together: the lab's own model, from which NCCL's figures come.

The figures of a healthy node: 480 GB/s all-reduce over eight H100 with the switch's help (NVLS), 370 without, 360
for the gathering collectives, 40 where GPUs only have PCIe, 46 through each GPU's own 400 Gbit/s adapter. They are of
the order public runs show (nccl-tests issues 212 and 272, nccl issue 1374); the exact values are our choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.hardware import NicState, NodeState
from lab.machine import Machine
from lab.shell.node import links_up

NVLS_GB_S = 480.0
NVLINK_RING_GB_S = 370.0
GATHER_GB_S = 360.0
PCIE_GB_S = 40.0
NIC_SHARE = 0.925  # of the adapter's rate that NCCL reaches; 46 of 50 GB/s
SOCKET_GB_S = 1.2  # TCP over the management port
NO_GDR_SHARE = 0.34  # of the line when data goes through host memory; nv_peer_memory issue 50 tells of a third
_PCIE_LANE_GB_S = 3.94  # PCIe 5.0, one lane, one way

# Bus bandwidth over algorithm bandwidth. Source: doc/PERFORMANCE.md of NVIDIA/nccl-tests.
FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}


def factor(collective: str, ranks: int) -> float:
    """What nccl-tests multiplies algorithm bandwidth with."""
    return FACTORS[collective] * (ranks - 1) / ranks if ranks > 1 else 1.0


def slowest_gpu(machine: Machine) -> float:
    """The share of the healthy figure that the slowest GPU leaves to all: its own pace, and its links that are up."""
    gpus = machine.state.gpus_present
    return min(g.speed * (links_up(g) / g.nvlinks if g.nvlinks else g.pcie_width / 16) for g in gpus)


def inside_gb_s(machine: Machine, collective: str, env: Mapping[str, str]) -> float:
    """The plateau over NVLink, or PCIe where there is none."""
    share = slowest_gpu(machine) * slowness(machine)
    if not has_nvlink(machine.state):
        return PCIE_GB_S * share
    if collective != "all_reduce":
        return GATHER_GB_S * share
    return (NVLS_GB_S if uses_nvls(machine, env) else NVLINK_RING_GB_S) * share


def slowness(machine: Machine) -> float:
    """Half, where NCCL is slow for no reason that any part shows (BIOS NUMA setting; nccl-tests issue 293)."""
    return 0.5 if machine.fault("nccl_slow") else 1.0


def has_nvlink(state: NodeState) -> bool:
    """Whether any GPU has links at all."""
    return any(gpu.nvlinks for gpu in state.gpus)


def uses_nvls(machine: Machine, env: Mapping[str, str]) -> bool:
    """Whether NCCL takes the switch's multicast: NVLink there, not switched off, no other algorithm asked for."""
    off = env.get("NCCL_NVLS_ENABLE") == "0" or env.get("NCCL_P2P_DISABLE") == "1"
    return has_nvlink(machine.state) and not off and env.get("NCCL_ALGO", "NVLS").upper().startswith("NVLS")


def adapters(machine: Machine, env: Mapping[str, str]) -> list[NicState]:
    """The adapters NCCL finds; none means it falls back to TCP."""
    if machine.fault("nccl_socket_fallback") or env.get("NCCL_IB_DISABLE") == "1":
        return []
    chosen = [name.partition(":")[0].lstrip("=") for name in env.get("NCCL_IB_HCA", "").split(",") if name]
    return [nic for nic in machine.state.nics if nic.link_up and (not chosen or nic.name in chosen)]


def has_gdr(machine: Machine, nic: NicState, env: Mapping[str, str]) -> bool:
    """Whether this adapter reaches GPU memory by itself."""
    return nic.gdr and not machine.fault("gdr_missing") and env.get("NCCL_NET_GDR_LEVEL") not in {"0", "LOC"}


def adapter_gb_s(machine: Machine, nic: NicState, env: Mapping[str, str]) -> float:
    """What one adapter brings: its rate, its PCIe link and its own health, a third of it without GPUDirect RDMA."""
    line = min(nic.rate_gbit_s / 8, nic.pcie_width * _PCIE_LANE_GB_S) * NIC_SHARE * nic.speed
    return line if has_gdr(machine, nic, env) else line * NO_GDR_SHARE


def network_gb_s(machines: Sequence[Machine], env: Mapping[str, str]) -> float:
    """The plateau of a ring through the network: per GPU on one node, over all adapters between two."""
    found = [[adapter_gb_s(m, nic, env) for nic in adapters(m, env)] for m in machines]
    if not all(found):
        return SOCKET_GB_S
    slowest = min(min(speeds) for speeds in found)
    if len(machines) == 1:
        shared = -(-len(machines[0].state.gpus_present) // len(found[0]))  # GPUs on the busiest adapter
        return slowest / shared * slowest_gpu(machines[0]) * slowness(machines[0])
    lines = min(len(speeds) for speeds in found)
    ring = lines * slowest * min(slowest_gpu(m) * slowness(m) for m in machines)
    return ring if all(has_nvlink(m.state) for m in machines) else min(ring, PCIE_GB_S)
