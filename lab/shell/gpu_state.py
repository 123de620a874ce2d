"""What a GPU tells of itself at this moment: clocks, link, climate, fabric. Every nvidia-smi view reads these."""

from __future__ import annotations

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.node import chance, fabric_ready, memory

_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "display_clocks_setting",
)


def event_reasons(machine: Machine, gpu: GpuState) -> dict[str, str]:
    """Why the clocks are where they are; a GPU that throttled under load keeps its two hardware flags up."""
    active = {"hw_slowdown", "hw_thermal_slowdown"} if is_throttled(machine, gpu) else set()
    active |= set() if memory(machine).busy else {"gpu_idle"}
    return {reason: "Active" if reason in active else "Not Active" for reason in _REASONS}


def is_throttled(machine: Machine, gpu: GpuState) -> bool:
    """Whether a load has made this GPU slow down since boot, and its cooling is still as bad."""
    return gpu.throttles_under_load and gpu.index in memory(machine).throttled


def link_generation(machine: Machine, gpu: GpuState) -> int:
    """The link's generation now. The lab's boards keep it up when idle, as servers with ASPM off do (our choice)."""
    return gpu.pcie_generation


def temperature_c(machine: Machine, gpu: GpuState) -> int:
    """Degrees now: 86 where cooling failed under load."""
    return 86 if is_throttled(machine, gpu) else gpu.temperature_c


def power_draw_w(machine: Machine, gpu: GpuState) -> float:
    """Watts: some seventy when idle, near the limit under load."""
    noise = chance(machine, "power", gpu.serial).uniform(-2.0, 2.0)
    return (gpu.power_limit_w * 0.93 if memory(machine).busy else 70.0) + noise


def fabric_status(machine: Machine) -> tuple[str, str]:
    """Fabric state and status. Without a matching Fabric Manager a board with NVSwitches stays "In Progress" for ever.

    Source: gpu-operator issues 2511 and 1043.
    """
    if not machine.state.nvswitch:
        return "N/A", "N/A"
    return ("Completed", "Success") if fabric_ready(machine) else ("In Progress", "N/A")
