"""`nvbandwidth -t … -j`: copies between host and GPU, between GPUs, and within a GPU's memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.loads import begin_load, jitter
from lab.shell.nccl_speed import has_nvlink
from lab.shell.node import fabric_ready, has_driver, links_up
from lab.shell.reply import Reply, refused, said

HOST_GB_S = 55.0  # pinned, PCIe 5.0 x16. Source: the order public runs on H100 show; the value is our choice
HBM_ONE_WAY_GB_S = 1450.0  # nvbandwidth counts a local copy once, memory moves twice that
PEER_GB_S = 390.0  # between two GPUs over NVLink, one way; our choice
PEER_PCIE_GB_S = 42.0  # without NVLink; our choice
_TAKES_S = 45.0

Figure = Callable[[Machine, GpuState, GpuState], float | None]


def host_share(gpu: GpuState) -> float:
    """What width and generation leave of a x16 Gen5 link; each generation is half of the next."""
    return gpu.pcie_width / 16 * 2.0 ** (gpu.pcie_generation - 5)


def _to_host(machine: Machine, gpu: GpuState, other: GpuState) -> float | None:
    return HOST_GB_S * host_share(gpu) * gpu.speed


def _local(machine: Machine, gpu: GpuState, other: GpuState) -> float | None:
    return HBM_ONE_WAY_GB_S * gpu.speed


def _peer(machine: Machine, gpu: GpuState, other: GpuState) -> float | None:
    if gpu is other:
        return None
    slower = min(gpu.speed, other.speed)
    if not has_nvlink(machine.state):
        return PEER_PCIE_GB_S * slower * min(host_share(gpu), host_share(other))
    return PEER_GB_S * slower * min(links_up(g) / g.nvlinks for g in (gpu, other))


# Test → title, whether it is a matrix of pairs, figure.
_TESTS: dict[str, tuple[str, bool, Figure]] = {
    "host_to_device_memcpy_ce": ("memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", False, _to_host),
    "device_to_host_memcpy_ce": ("memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", False, _to_host),
    "host_to_device_memcpy_sm": ("memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)", False, _to_host),
    "device_to_host_memcpy_sm": ("memcpy SM CPU(row) <- GPU(column) bandwidth (GB/s)", False, _to_host),
    "device_local_copy": ("memcpy local GPU(column) bandwidth (GB/s)", False, _local),
    "device_to_device_memcpy_read_ce": ("memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", True, _peer),
    "device_to_device_memcpy_write_ce": ("memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)", True, _peer),
}


def nvbandwidth(call: Call) -> Reply:
    """The chosen tests, or all, as JSON; text is not spoken."""
    machine = call.machine
    error = cuda_error(machine)
    body: dict[str, Any] = {
        "CUDA Runtime Version": _runtime(machine),
        "Driver Version": machine.software.get("driver", ""),
        "Git Version": "v0.8",
    }
    if error:
        return Reply(json.dumps({"nvbandwidth": {**body, "error": error}}) + "\n", "", 1)
    if not call.has("-j", "--json"):
        return refused("nvbandwidth: only -j is spoken here", 1)
    load = begin_load(machine, machine.state.gpus_present)
    body["testcases"] = [_case(machine, name, load) for name in _asked(call)]
    return said(json.dumps({"nvbandwidth": body}, indent=2), takes_s=_TAKES_S)


def cuda_error(machine: Machine) -> str:
    """Why CUDA does not start; empty when it does."""
    if not has_driver(machine):
        return "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    if not fabric_ready(machine):
        return "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"
    return "" if machine.state.gpus_present else "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"


def _runtime(machine: Machine) -> int:
    major, _, minor = machine.software.get("cuda", "12.8").partition(".")
    return int(major) * 1000 + int(minor.partition(".")[0] or 0) * 10


def _asked(call: Call) -> list[str]:
    """The names after `-t`, up to the next option."""
    words = call.arguments
    if "-t" not in words and "--testcase" not in words:
        return list(_TESTS)
    start = words.index("-t" if "-t" in words else "--testcase") + 1
    names = words[start:]
    end = next((place for place, word in enumerate(names) if word.startswith("-")), len(names))
    return names[:end]


def _case(machine: Machine, name: str, load: int) -> dict[str, Any]:
    if name not in _TESTS:
        return {"name": name, "status": "Not Found"}
    title, pairs, figure = _TESTS[name]
    if pairs and len(machine.state.gpus_present) < 2:
        return {"name": name, "status": "Waived"}
    gpus = machine.state.gpus_present
    rows = [[_cell(figure(machine, a, b), jitter(machine, name, load, a.serial, b.serial)) for b in gpus] for a in gpus]
    if not pairs:
        rows = [[rows[place][place] for place in range(len(gpus))]]
    known = [float(cell) for row in rows for cell in row if cell != "N/A"]
    return {
        "name": name,
        "status": "Passed",
        "bandwidth_description": title,
        "bandwidth_matrix": rows,
        "sum": round(sum(known), 2),
    }


def _cell(figure: float | None, noise: float) -> str:
    return "N/A" if figure is None else f"{figure * noise:.2f}"
