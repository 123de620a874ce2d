"""`nvidia-smi nvlink -s` and `-e`: links and their error counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.node import fabric_ready
from lab.shell.reply import Reply, refused, said

# An H100's link as nvidia-smi prints it: the raw lane rate, of which 25 GB/s is payload.
_RATE = "26.562 GB/s"


def nvlink(machine: Machine, gpus: list[GpuState], arguments: list[str]) -> Reply:
    """Link state or errors of every GPU, or one sentence for all where NVLink is not there or not up."""
    views: dict[str, Callable[[GpuState], Iterable[str]]] = {
        "-s": _status,
        "--status": _status,
        "-e": _errors,
        "--errorcounters": _errors,
    }
    if not arguments or arguments[0] not in views:
        return refused("Invalid argument. Run 'nvidia-smi nvlink -h' for help.", 2)
    rows: list[str] = []
    for gpu in gpus:
        rows.append(f"GPU {gpu.index}: {gpu.model} (UUID: GPU-{gpu.uuid})")
        rows += _links(machine, gpu, views[arguments[0]])
    return said(*rows)


def _links(machine: Machine, gpu: GpuState, view: Callable[[GpuState], Iterable[str]]) -> Iterable[str]:
    if not gpu.nvlinks:
        return ["\tDevice does not have or support Nvlink"]
    if not fabric_ready(machine):
        return ["NVML: Unable to retrieve NVLink information as all links are inActive"]
    return view(gpu)


def _status(gpu: GpuState) -> Iterable[str]:
    return [f"\t Link {n}: {'<inactive>' if n in gpu.nvlinks_down else _RATE}" for n in range(gpu.nvlinks)]


def _errors(gpu: GpuState) -> Iterable[str]:
    """A dead link has counted many recoveries on its way down."""
    for number in range(gpu.nvlinks):
        down = number in gpu.nvlinks_down
        yield f"\t Link {number}: Replay Errors: {14 if down else 0}"
        yield f"\t Link {number}: Recovery Errors: {3 if down else 0}"
        yield f"\t Link {number}: CRC Errors: {27 if down else 0}"
