"""`nvidia-smi --query-gpu=… --format=csv`: single fields of every GPU as a table."""

from __future__ import annotations

from collections.abc import Callable

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.gpu_state import (
    event_reasons,
    fabric_status,
    is_throttled,
    link_generation,
    power_draw_w,
    temperature_c,
)
from lab.shell.node import memory
from lab.shell.reply import Reply, said
from lab.shell.smi_xml import long_address

Field = tuple[str, Callable[[Machine, GpuState], str]]  # unit, value

_ON = {True: "Enabled", False: "Disabled"}
_YES = {True: "Yes", False: "No"}

_FIELDS: dict[str, Field] = {
    "index": ("", lambda m, g: str(g.index)),
    "count": ("", lambda m, g: str(len(m.state.gpus_present))),
    "name": ("", lambda m, g: g.model),
    "serial": ("", lambda m, g: g.serial),
    "uuid": ("", lambda m, g: f"GPU-{g.uuid}"),
    "driver_version": ("", lambda m, g: m.software["driver"]),
    "vbios_version": ("", lambda m, g: g.vbios),
    "pci.bus_id": ("", lambda m, g: long_address(g)),
    "pci.device_id": ("", lambda m, g: "0x233010DE"),
    "pcie.link.gen.current": ("", lambda m, g: str(link_generation(m, g))),
    "pcie.link.gen.max": ("", lambda m, g: str(g.pcie_generation)),
    "pcie.link.gen.gpumax": ("", lambda m, g: "5"),
    "pcie.link.gen.hostmax": ("", lambda m, g: "5"),
    "pcie.link.width.current": ("", lambda m, g: str(g.pcie_width)),
    "pcie.link.width.max": ("", lambda m, g: "16"),
    "persistence_mode": ("", lambda m, g: _ON["nvidia-persistenced" not in memory(m).stopped]),
    "mig.mode.current": ("", lambda m, g: "Disabled"),
    "mig.mode.pending": ("", lambda m, g: "Disabled"),
    "memory.total": ("MiB", lambda m, g: str(g.memory_mib)),
    "memory.used": ("MiB", lambda m, g: "0"),
    "utilization.gpu": ("%", lambda m, g: "0"),
    "temperature.gpu": ("", lambda m, g: str(temperature_c(m, g))),
    "power.draw": ("W", lambda m, g: f"{power_draw_w(m, g):.2f}"),
    "power.limit": ("W", lambda m, g: f"{g.power_limit_w:.2f}"),
    "enforced.power.limit": ("W", lambda m, g: f"{g.power_limit_w:.2f}"),
    "power.default_limit": ("W", lambda m, g: "700.00"),
    "clocks.sm": ("MHz", lambda m, g: str(_sm_clock_mhz(m, g))),
    "clocks.max.sm": ("MHz", lambda m, g: "1980"),
    "ecc.mode.current": ("", lambda m, g: _ON[g.ecc_enabled]),
    "ecc.mode.pending": ("", lambda m, g: _ON[g.ecc_enabled]),
    "ecc.errors.corrected.volatile.total": ("", lambda m, g: "0"),
    "ecc.errors.corrected.aggregate.total": ("", lambda m, g: str(g.ecc_correctable)),
    "ecc.errors.uncorrected.volatile.total": ("", lambda m, g: str(g.ecc_volatile_uncorrectable)),
    "ecc.errors.uncorrected.aggregate.total": ("", lambda m, g: str(g.ecc_uncorrectable)),
    "remapped_rows.correctable": ("", lambda m, g: "0"),
    "remapped_rows.uncorrectable": ("", lambda m, g: str(g.remapped_rows_uncorrectable)),
    "remapped_rows.pending": ("", lambda m, g: _YES[g.remap_pending]),
    "remapped_rows.failure": ("", lambda m, g: _YES[g.remap_failed]),
    "fabric.state": ("", lambda m, g: fabric_status(m)[0]),
    "fabric.status": ("", lambda m, g: fabric_status(m)[1]),
    "clocks_event_reasons.active": ("", lambda m, g: f"0x{_mask(m, g):016X}"),
}

# Bits of NVML's clocks event reasons. Source: nvml.h, nvmlClocksEventReason*.
_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}


def query_gpu(machine: Machine, gpus: list[GpuState], arguments: list[str]) -> Reply:
    """One row a GPU; an unknown field refuses the whole query, as nvidia-smi does."""
    asked = _value(arguments, "--query-gpu").split(",")
    form = _value(arguments, "--format").split(",")
    fields = {name: _field(name.strip()) for name in asked}
    for name, field in fields.items():
        if field is None:
            return Reply(f'Field "{name}" is not a valid field to query.\n\n', "", 2)
    rows = [] if "noheader" in form else [", ".join(_title(n, f, form) for n, f in fields.items() if f)]
    for gpu in gpus:
        rows.append(", ".join(_cell(machine, gpu, f, form) for f in fields.values() if f))
    return said(*rows)


def _value(arguments: list[str], option: str) -> str:
    for position, argument in enumerate(arguments):
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{option}="):
            return argument.removeprefix(f"{option}=")
    return ""


def _field(name: str) -> Field | None:
    aliases = {"gpu_name": "name", "gpu_serial": "serial", "gpu_uuid": "uuid", "pci.bus": "pci.bus_id"}
    renamed = name.replace("clocks_throttle_reasons", "clocks_event_reasons")
    if renamed.startswith("clocks_event_reasons.") and renamed.rpartition(".")[2] in _BITS:
        reason = renamed.rpartition(".")[2]
        return "", lambda m, g: event_reasons(m, g)[reason]
    return _FIELDS.get(aliases.get(renamed, renamed))


def _title(name: str, field: Field, form: list[str]) -> str:
    return f"{name.strip()} [{field[0]}]" if field[0] else name.strip()


def _cell(machine: Machine, gpu: GpuState, field: Field, form: list[str]) -> str:
    unit, value = field
    return value(machine, gpu) + (f" {unit}" if unit and "nounits" not in form else "")


def _mask(machine: Machine, gpu: GpuState) -> int:
    return sum(bit for reason, bit in _BITS.items() if event_reasons(machine, gpu)[reason] == "Active")


def _sm_clock_mhz(machine: Machine, gpu: GpuState) -> int:
    if is_throttled(machine, gpu):
        return 1095
    return 1980 if memory(machine).busy else 345
