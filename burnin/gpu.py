"""GPUs one by one: host links and memory by nvbandwidth, arithmetic by gpu-burn, compared with limits and siblings.

gpu-burn (wilicc/gpu-burn, with tensor cores) is the arithmetic test: it compares its own results bit by bit and is
public. Its exit code is 0 even when a GPU is faulty (its issue 12) and it says OK with no work done (14, 123), so
neither is believed. nvbandwidth counts a local copy one way; memory moves twice that, read and written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from statistics import median
from typing import Any

from inventory.command import Command
from inventory.model import Frozen

_BURN_S = 60  # our choice: power and clocks of an H100 are steady after about 20 s

# nvbandwidth's test → our metric, and how many bytes move per byte it counts
_COPIES: Mapping[str, tuple[str, float]] = {
    "host_to_device_memcpy_ce": ("h2d_gb_s", 1.0),
    "device_to_host_memcpy_ce": ("d2h_gb_s", 1.0),
    "device_local_copy": ("hbm_gb_s", 2.0),
}


def nvbandwidth_command() -> Command[dict[str, tuple[float | None, ...]]]:
    """Host to GPU, GPU to host, and within each GPU's memory."""
    # In PCI order, so that a figure's place is nvidia-smi's index and not CUDA's guess at the fastest.
    argv = ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "nvbandwidth", "-j", "-t", *_COPIES)
    return Command("nvbandwidth", argv, parse_nvbandwidth, timeout_s=300.0)


def parse_nvbandwidth(text: str) -> dict[str, tuple[float | None, ...]]:
    """Our metric → one figure per GPU index. Raises `ValueError` when a test is missing, waived or failed."""
    body = _json_body(text)
    root = body.get("nvbandwidth", {})
    error = root.get("error") or body.get("error")
    if error:
        raise ValueError(f"nvbandwidth says: {error}")
    cases = {case.get("name"): case for case in root.get("testcases", [])}
    return {
        metric: tuple(_scaled(cell, by) for cell in _first_row(name, cases.get(name)))
        for name, (metric, by) in _COPIES.items()
    }


def _json_body(text: str) -> dict[str, Any]:
    """The JSON document among whatever warnings stand before and after it."""
    start = re.search(r"\{\s*\"", text)
    if start is None:
        raise ValueError(f"no JSON: {text.strip()[-200:] or 'the answer is empty'}")
    try:
        body, _ = json.JSONDecoder().raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        raise ValueError(f"JSON cut off or broken: {error}") from error
    return dict(body)


def _first_row(name: str, case: Mapping[str, Any] | None) -> list[Any]:
    if case is None or case.get("status") != "Passed":
        raise ValueError(f"{name} was {case.get('status', '?') if case else 'not run'}")
    matrix = case.get("bandwidth_matrix") or []
    if len(matrix) != 1 or not matrix[0]:
        raise ValueError(f"{name} has {len(matrix)} rows where one was expected")
    return list(matrix[0])


def _scaled(cell: str | float, by: float) -> float | None:
    try:
        return round(float(cell) * by, 2)
    except (TypeError, ValueError):
        return None  # "N/A": asked and not answered


class GpuBurn(Frozen):
    """What gpu-burn came to on one GPU."""

    index: int
    processed: int  # matrix products done; 0 = it never worked
    gemm_tflops: float | None  # median over the second half, when clocks are steady
    errors: int
    died: bool = False
    temperature_c: float | None = None  # highest seen
    status: str = ""  # "OK" | "FAULTY" | "" when the closing lines are missing


_PROGRESS = re.compile(r"proc'd:\s*(.*?)\s+errors:\s*(.*?)(?:\s+temps:\s*(.*?))?(?=\s*\d+\.\d+%|\s*[\r\n]|$)")
_WORK = re.compile(r"(-?\d+)\s*\(([\d.]+) Gflop/s\)")
_STATUS = re.compile(r"^\s*GPU (\d+): (OK|FAULTY)\s*$", re.MULTILINE)


def gpu_burn_command(seconds: int = _BURN_S) -> Command[tuple[GpuBurn, ...]]:
    """All GPUs at once under full power, tensor cores in use."""
    argv = ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "gpu_burn", "-tc", str(seconds))
    return Command("gpu_burn", argv, parse_gpu_burn, timeout_s=seconds + 120.0)


def parse_gpu_burn(text: str) -> tuple[GpuBurn, ...]:
    """One entry per GPU that gpu-burn spoke of. Raises `ValueError` when it never reported work."""
    lines = _PROGRESS.findall(text.replace("\x00", ""))
    states = {int(index): status for index, status in _STATUS.findall(text)}
    if not lines:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "the answer is empty")
        raise ValueError(f"gpu-burn reported no work: {last}")
    work = [_WORK.findall(processed) for processed, _, _ in lines]
    errors = [part.split(" - ") for _, part, _ in lines]
    temps = [re.findall(r"(\d+|--) C", part) for _, _, part in lines]
    count = max((len(cells) for cells in work), default=0)
    return tuple(_burn(i, _column(work, i), _column(errors, i), _column(temps, i), states) for i in range(count))


def _column(table: list[list[Any]], index: int) -> list[Any]:
    return [row[index] for row in table if index < len(row)]


def _burn(index: int, work: list[Any], errors: list[str], temps: list[str], states: Mapping[int, str]) -> GpuBurn:
    speeds = [float(gflops) / 1e3 for _, gflops in work if float(gflops) > 0]
    steady = speeds[len(speeds) // 2 :]
    counts = [int(match[0]) for match in (re.search(r"-?\d+", cell) for cell in errors) if match]
    degrees = [float(cell) for cell in temps if cell != "--"]
    return GpuBurn(
        index=index,
        processed=max((int(done) for done, _ in work), default=0),
        gemm_tflops=round(median(steady), 2) if steady else None,
        errors=max(counts, default=0),
        died=any("DIED" in cell for cell in errors) or any(count < 0 for count in counts),
        temperature_c=max(degrees, default=None),
        status=states.get(index, ""),
    )
