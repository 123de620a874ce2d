"""What a load does to a node: errors it brings out, GPUs that get hot, ports that count."""

from __future__ import annotations

from collections.abc import Iterable

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.node import chance, memory


def begin_load(machine: Machine, gpus: Iterable[GpuState]) -> int:
    """Put these GPUs under load: counters move where a fault says so. Returns the number of this load."""
    held = memory(machine)
    for gpu in gpus:
        if gpu.throttles_under_load:
            held.throttled.add(gpu.index)
        if gpu.ecc_errors_under_load:
            _ecc(gpu)
    return next(held.loads)


def _ecc(gpu: GpuState) -> None:
    """Uncorrectable errors of a load: counted twice, as volatile and for life, and told in the kernel log."""
    gpu.ecc_volatile_uncorrectable += gpu.ecc_errors_under_load
    gpu.ecc_uncorrectable += gpu.ecc_errors_under_load
    gpu.xids.append((48, "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC event in GPU memory"))


def jitter(machine: Machine, *about: object) -> float:
    """Half a percent up or down, as good runs differ."""
    return chance(machine, *about).uniform(0.995, 1.005)
