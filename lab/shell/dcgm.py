"""`dcgmi`: its version, and `diag -r N -j` in the layout of DCGM 4."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.loads import begin_load
from lab.shell.node import fabric_ready, has_driver
from lab.shell.reply import Reply, refused, said
from lab.shell.versions import not_installed

_GPU_GROUP = 1  # DCGM_FE_GPU
_TAKES_S = {1: 5.0, 2: 120.0, 3: 900.0, 4: 4800.0}  # seconds, about two and fifteen minutes, an hour and more

# (what a GPU's complaint is, error id, severity). Source for numbers: dcgm_errors.h; 2 is "isolate", 6 is "reset".
Complaint = tuple[str, int, int]


def dcgmi(call: Call) -> Reply:
    """`--version` or `diag`."""
    version = call.machine.software.get("dcgm", "")
    if not version:
        return not_installed("dcgmi")
    if call.has("--version", "-v"):
        return said("", f"dcgmi  version: {version}", "")
    if not call.has("diag"):
        return refused("PARSE ERROR: Couldn't find match for argument", 255)
    return _diag(call, int(call.option("-r", "--run", default="1")))


def _diag(call: Call, level: int) -> Reply:
    machine = call.machine
    metadata = {
        "DCGM Version": machine.software["dcgm"],
        "Driver Version Detected": machine.software.get("driver", ""),
        "version": machine.software["dcgm"],
    }
    if not has_driver(machine):
        error = "Error: Unable to complete diagnostic for group 2147483647. Return: (-29): NVML doesn't exist"
        return Reply(json.dumps({"DCGM Diagnostic": {"runtime_error": error}, "metadata": metadata}) + "\n", "", 226)
    gpus = machine.state.gpus_present
    begin_load(machine, gpus if level > 1 else [])
    categories = [_category(machine, gpus, *row[1:]) for row in _CATEGORIES if row[0] <= level]
    document = {
        "DCGM Diagnostic": {"test_categories": categories},
        "metadata": metadata,
        "entity_groups": _groups(gpus),
    }
    failed = any(test["test_summary"]["status"] == "Fail" for c in categories for test in c["tests"])
    return Reply(json.dumps(document, indent=2) + "\n", "", 226 if failed else 0, _TAKES_S.get(level, 900.0))


def _category(
    machine: Machine, gpus: list[GpuState], title: str, names: tuple[str, ...], judge: Judge
) -> dict[str, Any]:
    return {"category": title, "tests": [_test(machine, gpus, name, judge) for name in names]}


def _test(machine: Machine, gpus: list[GpuState], name: str, judge: Judge) -> dict[str, Any]:
    results = [_result(gpu, judge(machine, gpu, name)) for gpu in gpus]
    failed = any(result["status"] == "Fail" for result in results)
    return {"name": name, "results": results, "test_summary": {"status": "Fail" if failed else "Pass"}}


def _result(gpu: GpuState, complaint: Complaint | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "entity_group": "GPU",
        "entity_group_id": _GPU_GROUP,
        "entity_id": gpu.index,
        "status": "Fail" if complaint else "Pass",
    }
    if complaint:
        text, number, severity = complaint
        warning = {"warning": text, "error_id": number, "error_category": 1, "error_severity": severity}
        result["warnings"] = [warning]
    return result


def _groups(gpus: list[GpuState]) -> list[dict[str, Any]]:
    entities = [{"entity_id": g.index, "serial_num": g.serial, "device_id": "2330"} for g in gpus]
    return [{"entity_group": "GPU", "entity_group_id": _GPU_GROUP, "entities": entities}]


def _software(machine: Machine, gpu: GpuState, name: str) -> Complaint | None:
    if not gpu.ecc_enabled:
        return f"ECC is disabled on GPU {gpu.index}", 55, 5
    if gpu.remap_pending:
        return f"GPU {gpu.index} has a pending row remapping; it needs a reset", 83, 6
    if not fabric_ready(machine):
        return "Fabric Manager: training in progress", 94, 1
    return (f"GPU {gpu.index} had a row remapping failure", 82, 2) if gpu.remap_failed else None


def _link(machine: Machine, gpu: GpuState, name: str) -> Complaint | None:
    if gpu.pcie_width < 16:
        return f"PCIe link width of GPU {gpu.index} is {gpu.pcie_width}, expected at least 16", 39, 2
    return (f"{len(gpu.nvlinks_down)} NVLinks of GPU {gpu.index} are down", 27, 2) if gpu.nvlinks_down else None


def _memory(machine: Machine, gpu: GpuState, name: str) -> Complaint | None:
    bad = gpu.ecc_volatile_uncorrectable
    return (f"{bad} uncorrectable memory errors on GPU {gpu.index}", 12, 2) if bad else None


def _stress(machine: Machine, gpu: GpuState, name: str) -> Complaint | None:
    if gpu.throttles_under_load:
        return f"GPU {gpu.index}: clocks were lowered by thermal slowdown during {name}", 21, 1
    return (f"GPU {gpu.index} reached {gpu.speed:.0%} of what {name} asks for", 22, 2) if gpu.speed < 0.9 else None


Judge = Callable[[Machine, GpuState, str], Complaint | None]
_CATEGORIES: tuple[tuple[int, str, tuple[str, ...], Judge], ...] = (
    (1, "Deployment", ("software",), _software),
    (2, "Integration", ("pcie",), _link),
    (2, "Hardware", ("memory",), _memory),
    (3, "Hardware", ("diagnostic", "nvbandwidth"), _stress),
    (3, "Stress", ("memory_bandwidth", "targeted_stress", "targeted_power"), _stress),
    (4, "Stress", ("memtest", "pulse_test"), _memory),
)
