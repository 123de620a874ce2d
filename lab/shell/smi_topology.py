"""`nvidia-smi topo -m`: who sits near whom, in nvidia-smi's tabs and underlines."""

from __future__ import annotations

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.node import links_up
from lab.shell.reply import Reply, said

_LEGEND = (
    "Legend:",
    "",
    "  X    = Self",
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)",
    "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node",
    "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)",
    "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)",
    "  PIX  = Connection traversing at most a single PCIe bridge",
    "  NV#  = Connection traversing a bonded set of # NVLinks",
)


def topology(machine: Machine, gpus: list[GpuState]) -> Reply:
    """The matrix of GPUs and NICs, then the legends."""
    nics = machine.state.nics
    names = [f"GPU{gpu.index}" for gpu in gpus] + [f"NIC{nic.index}" for nic in nics]
    head = "".join(f"\t\x1b[4m{name}" for name in names)
    rows = [f"{head}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"]
    for gpu in gpus:
        cells = [_gpu_to_gpu(gpu, other) for other in gpus] + [_near(gpu.index, nic.index) for nic in nics]
        rows.append("\t".join([f"GPU{gpu.index}", *cells, *_affinity(machine, gpu.index)]))
    for nic in nics:
        cells = [_near(gpu.index, nic.index) for gpu in gpus]
        cells += [" X " if nic is other else _far(nic.index, other.index) for other in nics]
        rows.append("\t".join([f"NIC{nic.index}", *cells, "", "", ""]))
    names_of_nics = [f"  NIC{nic.index}: {nic.name}" for nic in nics]
    return said(*rows, "", *_LEGEND, "", "NIC Legend:", "", *names_of_nics, "")


def _gpu_to_gpu(gpu: GpuState, other: GpuState) -> str:
    if gpu is other:
        return " X "
    shared = min(links_up(gpu), links_up(other))
    return f"NV{shared}" if shared else _far(gpu.index, other.index)


def _near(gpu: int, nic: int) -> str:
    """GPU n and NIC n hang on the same PCIe switch."""
    return "PIX" if gpu == nic else _far(gpu, nic)


def _far(one: int, other: int) -> str:
    return "NODE" if one // 4 == other // 4 else "SYS"


def _affinity(machine: Machine, index: int) -> tuple[str, str, str]:
    cores, socket = machine.state.cpu_cores, index // 4
    first, second = socket * cores, (2 + socket) * cores
    return f"{first}-{first + cores - 1},{second}-{second + cores - 1}", str(socket), "N/A"
