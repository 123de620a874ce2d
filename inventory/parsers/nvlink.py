"""`nvidia-smi nvlink -s` and `-e`: which links of each GPU carry traffic, and what they counted.

A link is up only where a figure stands. A sentence instead of links ("all links are inActive", "not supported … in MIG
mode") may stand on a line of its own or behind the header, in either spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import known, met, number, undressed

_GPU = re.compile(r"^\s*GPU (\d+): (.*?) \(UUID: (?:GPU-)?([^)]+)\)\s*(.*)$")
_LINK = re.compile(r"^\s*Link (\d+): (.+?)\s*$")
_COUNTER = re.compile(r"^\s*Link (\d+): ([^:]+): (.+?)\s*$")
# The sentences in which nvidia-smi says that there are no figures. Source: drivers 470 to 590.
_ALL_INACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)


class GpuLinks(Frozen):
    """One GPU's links: the raw lane rate of each that is up, in Gbit/s one way, and None for one that is not."""

    index: int
    model: str
    uuid: str
    speeds_gbit_s: tuple[float | None, ...] = ()
    note: str = ""  # what was said instead of links

    @property
    def up(self) -> int | None:
        """How many carry traffic; None when the tool did not tell."""
        if self.speeds_gbit_s or _ALL_INACTIVE.search(self.note):
            return sum(speed is not None for speed in self.speeds_gbit_s)
        return 0 if "support nvlink" in self.note.lower() else None

    @property
    def slowest_gbit_s(self) -> float | None:
        """The slowest link that is up."""
        return min((speed for speed in self.speeds_gbit_s if speed is not None), default=None)


class LinkCounter(Frozen):
    """One error counter of one link."""

    uuid: str
    link: int
    name: str  # "replay_errors", "effective_ber"
    value: float | None


def parse_status(text: str) -> tuple[GpuLinks, ...]:
    """All GPUs with their links; raises `ValueError` when no GPU is named."""
    return tuple(_links(gpu, rows) for gpu, rows in _blocks(text))


def parse_errors(text: str) -> tuple[LinkCounter, ...]:
    """All error counters of all links; empty where the tool says there are no links to tell of."""
    return tuple(
        LinkCounter(uuid=gpu[3].lower(), link=int(m[1]), name=_metric(m[2]), value=number(m[3]))
        for gpu, rows in _blocks(text)
        for row in rows
        if (m := _COUNTER.match(row))
    )


STATUS = Command("nvlink-status", ("nvidia-smi", "nvlink", "-s"), parse_status, 30.0)
ERRORS = Command("nvlink-errors", ("nvidia-smi", "nvlink", "-e"), parse_errors, 30.0)


def _blocks(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    rows: list[str] = []
    for line in undressed(text):
        match = _GPU.match(line)
        if not match:
            rows.append(line)
            continue
        if head:
            yield head, rows
        head, rows = match, [match[4]]
    if not head:
        raise ValueError(f"expected `GPU 0: model (UUID: …)`, {met(text)}")
    yield head, rows


def _links(gpu: re.Match[str], rows: list[str]) -> GpuLinks:
    links = {int(m[1]): m[2] for row in rows if (m := _LINK.match(row))}
    said = " ".join(row.strip() for row in rows if row.strip() and not _LINK.match(row))
    speeds = tuple(_gbit_s(links.get(n)) for n in range(max(links) + 1)) if links else ()
    return GpuLinks(
        index=int(gpu[1]),
        model=gpu[2],
        uuid=gpu[3].lower(),
        speeds_gbit_s=speeds,
        note="" if links else said or "cut off: no links and no word about them",
    )


def _gbit_s(text: str | None) -> float | None:
    """`26.562 GB/s` in bits; `<inactive>` and everything without a figure is None."""
    value = number(known(text)) if text and "B/s" in text else None
    return value * 8 if value else None


def _metric(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
