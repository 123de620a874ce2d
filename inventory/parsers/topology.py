"""`nvidia-smi topo -m`: who sits near whom, with NICs under their RDMA names."""

from __future__ import annotations

import re

from pydantic import Field

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import known, met, undressed

_DEVICE = re.compile(r"^(GPU\d+|NIC\d+|mlx\S+)$")
_LEGEND = re.compile(r"^\s*(NIC\d+): (\S+)\s*$")
_SYMBOL = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")
_GAP = re.compile(r"\t+ *| {2,}")


class Topology(Frozen):
    """The matrix by device name, and each GPU's CPUs and NUMA node."""

    devices: tuple[str, ...]
    paths: dict[str, dict[str, str]]  # device → device → "NV18", "PIX", …
    cpu_affinity: dict[str, str] = Field(default_factory=dict)
    numa: dict[str, str] = Field(default_factory=dict)

    def path(self, one: str, other: str) -> str | None:
        """How two devices reach each other."""
        return self.paths.get(one, {}).get(other)


def parse_topology(text: str) -> Topology:
    """The matrix. Raises `ValueError` for a missing header or a row that is cut off."""
    lines = undressed(text)
    at, columns = _header(lines, text)
    devices = [column for column in columns if _DEVICE.match(column)]
    rows = {}
    for line in lines[at + 1 :]:
        cells = [cell.strip() for cell in line.strip("\r\n").split("\t")]
        if cells[0] in devices:
            rows[cells[0]] = _row(cells, devices)
    lacking = [device for device in devices if device not in rows]
    if lacking:
        raise ValueError(f"expected a row for {', '.join(lacking)}: the matrix is cut off after {len(rows)} rows")
    names = {m[1]: m[2] for line in lines if (m := _LEGEND.match(line))}
    return _named(devices, columns, rows, names)


TOPOLOGY = Command("nvidia-smi-topo", ("nvidia-smi", "topo", "-m"), parse_topology, 30.0)


def _header(lines: list[str], text: str) -> tuple[int, list[str]]:
    for at, line in enumerate(lines):
        cells = [cell.strip() for cell in _GAP.split(line.strip())]
        if cells and _DEVICE.match(cells[0]) and not any(_SYMBOL.match(cell) for cell in cells):
            return at, cells
    raise ValueError(f"expected a header of GPU0 … columns, {met(text)}")


def _row(cells: list[str], devices: list[str]) -> list[str]:
    values = cells[1:]
    wrong = [value for value in values[: len(devices)] if not _SYMBOL.match(value)]
    if len(values) < len(devices) or wrong:
        raise ValueError(f"expected {len(devices)} paths, met {' '.join(cells)[:120]!r}")
    return values


def _named(devices: list[str], columns: list[str], rows: dict[str, list[str]], names: dict[str, str]) -> Topology:
    called = [names.get(device, device) for device in devices]
    extra = columns[len(devices) :]
    by_title = {
        title: {
            names.get(device, device): value
            for device, values in rows.items()
            if (value := known(dict(zip(extra, values[len(devices) :], strict=False)).get(title)))
        }
        for title in ("CPU Affinity", "NUMA Affinity")
    }
    return Topology(
        devices=tuple(called),
        paths={names.get(d, d): dict(zip(called, rows[d], strict=False)) for d in devices},
        cpu_affinity=by_title["CPU Affinity"],
        numa=by_title["NUMA Affinity"],
    )
