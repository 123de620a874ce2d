"""What the shell sees of a machine, and what a running OS remembers until the next boot."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakKeyDictionary

from lab.hardware import GpuState
from lab.machine import Machine


@dataclass
class Memory:
    """What lives only as long as one boot: uploaded files, loads so far, GPUs that throttled, stopped services."""

    boot_id: str
    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"/", "/run", "/tmp", "/etc", "/root", "/etc/kubernetes"})  # noqa: S108
    stopped: set[str] = field(default_factory=set)
    loads: count[int] = field(default_factory=lambda: count(1))
    throttled: set[int] = field(default_factory=set)  # GPU indices that have slowed down since boot
    busy: int = 0  # loads running now
    removed: list[str] = field(default_factory=list)  # what `rm` was asked for, for tests to look at


_MEMORY: WeakKeyDictionary[Machine, Memory] = WeakKeyDictionary()


def memory(machine: Machine) -> Memory:
    """What the running boot remembers; a reboot starts afresh."""
    held = _MEMORY.get(machine)
    if held is None or held.boot_id != machine.boot_id:
        held = _MEMORY[machine] = Memory(machine.boot_id)
    return held


def has_driver(machine: Machine) -> bool:
    """Whether the NVIDIA kernel driver of the image works."""
    return not machine.fault("driver_missing") and bool(machine.software.get("driver"))


def fabric_manager_version(machine: Machine) -> str:
    """The installed Fabric Manager, which a skewed image has one build off."""
    version = str(machine.software.get("fabric_manager") or "")
    if not version or not machine.fault("fabricmanager_version_skew"):
        return version
    head, _, patch = version.rpartition(".")
    return f"{head}.{int(patch or 0) + 1:02d}"


def fabric_ready(machine: Machine) -> bool:
    """Whether NVLink may be used: no NVSwitch at all, or a Fabric Manager of exactly the driver's version running."""
    if not machine.state.nvswitch:
        return True
    same = fabric_manager_version(machine) == str(machine.software.get("driver"))
    return same and has_driver(machine) and "nvidia-fabricmanager" not in memory(machine).stopped


def chance(machine: Machine, *about: object) -> random.Random:
    """Noise that is the same for the same node, boot and subject."""
    return random.Random("/".join(map(str, (machine.state.serial, machine.boot_id, *about))))


def links_up(gpu: GpuState) -> int:
    """NVLinks that train."""
    return gpu.nvlinks - len(gpu.nvlinks_down)
