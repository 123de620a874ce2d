"""Reads what nccl-tests prints, with NCCL's log in between: every layout since 2.0, whatever a launcher puts before it.

Raises `ValueError` where there is no single measurement to speak of. What is merely incomplete is said in `problems`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import median

from burnin.nccl_log import NcclTransport, read_transport, split_log
from inventory.model import Frozen

_GIB = 1 << 30

# Bus bandwidth over algorithm bandwidth for n ranks. Source: doc/PERFORMANCE.md of NVIDIA/nccl-tests.
_FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}

_STARTING = re.compile(r"# Collective test starting: (\w+?)_perf")
_OPTIONS = re.compile(r"# nThread\s+\d+\s+nGpus\s+(\d+)\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)\s.*?validation:\s*(\d+)")
_REDUCED = re.compile(r"# Reducing maxBytes to (\d+) due to memory limitation")
# "Group" came in September 2022; the bus id was "[0x07]" before it was "[0000:00:06]"; model names have spaces.
_RANK = re.compile(
    r"#?\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]+)\]\s+(.*\S)"
)
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\S+)\s+(OK|FAILED)")
_FOOTER = re.compile(r"# Avg bus bandwidth\s*:\s*(\S+)")
_ROW = re.compile(r"(?<![\w.])(\d+)\s+(\d+)\s+(float|half|double|bfloat16|u?int\d+|f8e\dm\d|fp8_\w+)(?=\s|$)(.*)")
_GLUED_LABEL = re.compile(r"\[\d+\](?=[\d.])")  # some launchers put "[0]" at each flush, even inside a row (nccl 1453)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# What a run says that came to nothing. Sources: common.cu of NVIDIA/nccl-tests, OpenMPI's launcher.
_ABORT = re.compile(
    r"Test (?:NCCL |CUDA )?failure|Invalid number of GPUs|Test timeout|not enough slots|command not found"
    r"|No such file or directory|CUDA failure|CUDA error|unhandled (?:system|cuda) error|mpirun detected"
)


class NcclTimes(Frozen):
    """One row's figures for one placement."""

    time_us: float
    busbw_gb_s: float
    wrong: int | None  # wrong elements; None = not checked


class NcclRow(Frozen):
    """One message size."""

    size_bytes: int
    out_of_place: NcclTimes
    in_place: NcclTimes | None = None


class NcclRank(Frozen):
    """One GPU that took part."""

    rank: int
    host: str
    device: int
    bus: str
    model: str


class NcclRun(Frozen):
    """One table of nccl-tests and the transport NCCL's log shows."""

    collective: str
    nccl_version: str
    ranks: tuple[NcclRank, ...]
    rank_count: int
    asked_max_bytes: int | None
    validated: bool
    wrong: int | None  # wrong elements in all; None = not checked
    rows: tuple[NcclRow, ...]  # without the zero-size ones
    transport: NcclTransport
    problems: tuple[str, ...]  # what keeps this from being a whole measurement

    @property
    def plateau(self) -> tuple[NcclRow, ...]:
        """The rows that count: 1 GiB and above, or the top three. Source: method in our reference, sizes our choice."""
        big = tuple(row for row in self.rows if row.size_bytes >= _GIB)
        return big if len(big) >= 2 else self.rows[-3:]

    @property
    def plateau_gb_s(self) -> float:
        """Median bus bandwidth, out of place, of the rows that count."""
        return round(median(row.out_of_place.busbw_gb_s for row in self.plateau), 2)

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """(bytes, bus bandwidth) of every row, for the report."""
        return tuple((row.size_bytes, row.out_of_place.busbw_gb_s) for row in self.rows)


def parse_nccl(text: str, *, collective: str = "") -> NcclRun:
    """Read one run. `collective` says what was asked, since old versions do not print it."""
    table, log = split_log(_ANSI.sub("", text))
    lines = [_GLUED_LABEL.sub("", line) for line in table]
    columns = _columns(lines)
    rows, zero_rows, cut = _rows(lines, columns)
    aborted = next((line.strip() for line in (*lines, *log) if _ABORT.search(line)), "")
    if not rows:
        raise ValueError(aborted or f"a table without rows ({zero_rows} of size zero)")
    return _run("\n".join(lines), log, rows, asked=collective, cut=cut, aborted=aborted)


def _columns(lines: list[str]) -> list[str]:
    headers = [line for line in lines if {"busbw", "time"} <= set(line.split())]
    if not headers:
        said = next((line.strip() for line in lines if _ABORT.search(line)), "") or _last(lines)
        raise ValueError(f"no nccl-tests table: {said or 'the answer is empty'}")
    if len(headers) > 1:
        raise ValueError(f"{len(headers)} tables where one was asked: each rank ran alone, or the test was repeated")
    words = headers[0].split()
    if "size" not in words:
        raise ValueError("a table of nccl-tests before 2.0 (times in ms), which is not read")
    return words[words.index("size") :]


def _last(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _rows(lines: list[str], columns: list[str]) -> tuple[list[NcclRow], int, bool]:
    found, zero, cut = [], 0, False
    for line in lines:
        match = _ROW.search(line)
        if match is None or "Rank" in line:
            continue
        size, groups = int(match[1]), _groups(match[4].split(), columns)
        if size == 0:
            zero += 1
        elif groups:
            found.append(NcclRow(size_bytes=size, out_of_place=groups[0], in_place=(*groups, None)[1]))
        cut = cut or not groups
    return found, zero, cut


def _groups(cells: list[str], columns: list[str]) -> list[NcclTimes]:
    """The figures of a row, from the left and by the header's names; empty when the row was cut off."""
    times = [i for i, name in enumerate(columns) if name == "time"]
    lead, width = columns[: times[0]], (times[1] if len(times) > 1 else len(columns)) - times[0]
    if cells and "redop" in lead and not _is_number(cells[0]):  # blank for some collectives up to 2.11
        cells = cells[1:]
    cells = cells[1:] if "root" in lead else cells
    names = columns[times[0] : times[0] + width]
    wanted = [cells[i * width : (i + 1) * width] for i in range(len(times))]
    if any(len(group) < width for group in wanted) or not all(_is_number(c) for g in wanted for c in g[:3]):
        return []
    return [_times(dict(zip(names, group, strict=True))) for group in wanted]


def _times(cells: dict[str, str]) -> NcclTimes:
    # "error" of old versions is a rounding difference that grows with the ranks, no count (nccl-tests 176, 52).
    wrong = cells.get("#wrong", "N/A")
    return NcclTimes(
        time_us=float(cells["time"]),
        busbw_gb_s=float(cells["busbw"]),
        wrong=int(float(wrong)) if _is_number(wrong) else None,
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.lower() not in ("nan", "inf", "-nan", "-inf")


def _run(text: str, log: list[str], rows: list[NcclRow], *, asked: str, cut: bool, aborted: str) -> NcclRun:
    ranks = tuple(
        NcclRank(rank=int(r), host=host, device=int(device), bus=bus, model=model)
        for r, host, device, bus, model in _RANK.findall(text)
    )
    starting, options = _STARTING.search(text), _OPTIONS.search(text)
    said = starting[1] if starting else ""
    if said and asked and said != asked:
        raise ValueError(f"the answer of {said}_perf where {asked}_perf was asked")
    listed_all = not re.search(r"^#?\s*\.\.\.", text, re.MULTILINE)  # nccl-tests cuts the list after 2048 bytes
    version = _VERSION.search(text) or _VERSION.search("\n".join(log))
    run = NcclRun(
        collective=said or asked,
        nccl_version=version[1] if version else "",
        ranks=ranks,
        rank_count=len(ranks) if listed_all else max(len(ranks), int(options[1]) if options else 0),
        asked_max_bytes=int(options[3]) if options else None,
        validated=bool(options and options[4] != "0"),
        wrong=_wrong(text, rows, bool(options and options[4] != "0")),
        rows=tuple(rows),
        transport=read_transport(log),
        problems=(),
    )
    return run.model_copy(update={"problems": _problems(run, text, cut, aborted)})


def _wrong(text: str, rows: list[NcclRow], validated: bool) -> int | None:
    counted = [t.wrong for row in rows for t in (row.out_of_place, row.in_place) if t and t.wrong is not None]
    bounds = _BOUNDS.search(text)
    if not validated or bounds is None or not (counted or "error" in text):
        return None
    of_footer = int(float(bounds[1])) if _is_number(bounds[1]) else 0
    return max(of_footer, sum(counted), int(bounds[2] == "FAILED"))


def _problems(run: NcclRun, text: str, cut: bool, aborted: str) -> tuple[str, ...]:
    sizes = [row.size_bytes for row in run.rows]
    reduced = _REDUCED.search(text)
    found = {
        f"it ended with: {aborted}": bool(aborted),
        "a row was cut off": cut,
        "the closing lines are missing: the answer was cut off": not (_FOOTER.search(text) and _BOUNDS.search(text)),
        "sizes do not grow from row to row": any(b <= a for a, b in pairwise(sizes)),
        f"the largest size was reduced to {reduced[1] if reduced else ''} bytes for lack of memory": bool(reduced),
        f"the largest size run is {sizes[-1]} bytes, {run.asked_max_bytes} were asked": bool(
            run.asked_max_bytes and sizes[-1] * 2 <= run.asked_max_bytes
        ),
        "no device line: the ranks are not known": not run.ranks,
        "one rank alone: nothing was communicated": run.rank_count == 1,
        "two ranks share one device": len({(r.host, r.device, r.bus) for r in run.ranks}) < len(run.ranks),
        _checksum(run): True,
    }
    return tuple(problem for problem, holds in found.items() if holds and problem)


def _checksum(run: NcclRun) -> str:
    """Bus bandwidth from size and time must be what is printed; 2 % and 0.02 GB/s cover the printed digits."""
    factor = _FACTORS.get(run.collective)
    if factor is None or run.rank_count < 2:
        return "" if factor else f"unknown collective {run.collective!r}: the figure cannot be checked"
    for row in run.rows:
        printed, time_us = row.out_of_place.busbw_gb_s, row.out_of_place.time_us
        computed = row.size_bytes / max(time_us, 1e-9) / 1e3 * factor(run.rank_count)
        if abs(computed - printed) > 0.02 * computed + 0.02:
            return f"{row.size_bytes} bytes in {time_us:g} us are {computed:.2f} GB/s, yet {printed:g} is printed"
    return ""
