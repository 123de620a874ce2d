"""One adapter by itself: RDMA writes from a port to itself, by ib_write_bw of perftest.

It proves the adapter, its port's rate setting and its PCIe link both ways. It does not leave the adapter, so cable
and switch are proven by pairs.
"""

from __future__ import annotations

import re
import shlex

from inventory.command import Command
from inventory.model import Frozen

_FIRST_PORT = 18515  # perftest's own default; one port per adapter, so that a stuck server harms no other

# "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]"
_HEADER = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\S+?)\]\s+BW average\[(\S+?)\]")
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+|inf)\s+([\d.]+)\b", re.MULTILINE)
# perftest's "MB/sec" is 2^20 bytes, as its source divides by 0x100000.
_TO_GBIT_S = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
_TROUBLE = re.compile(r"couldn't|failed|error|unable|is down|not found|no such", re.IGNORECASE)


class WriteBandwidth(Frozen):
    """One row of ib_write_bw."""

    bytes: int
    iterations: int
    ib_write_bw_gbit_s: float
    link_type: str = ""  # "IB" | "Ethernet"
    mtu: int | None = None


def ib_write_bw_command(adapter: str, number: int) -> Command[WriteBandwidth]:
    """Server and client on one adapter; both end with the script, whatever happens."""
    test = f"timeout 60 {shlex.join(_rail(adapter, number))}"
    script = f"{test} >/dev/null 2>&1 & sleep 1; {test} localhost"
    return Command(f"ib_write_bw {adapter}", ("sh", "-c", script), parse_ib_write_bw, timeout_s=90.0)


def rail_server(adapter: str, number: int, timeout_s: float) -> Command[str]:
    """The listening side of one rail between two nodes; it ends with its client or its time."""
    return Command(f"rail {adapter} listens", ("timeout", "60", *_rail(adapter, number)), str, timeout_s)


def rail_client(adapter: str, number: int, host: str, timeout_s: float) -> Command[WriteBandwidth]:
    """The writing side; its table holds the figure. `host` is where the listening node answers."""
    argv = ("timeout", "60", *_rail(adapter, number), host)
    return Command(f"rail {adapter} writes", argv, parse_ib_write_bw, timeout_s)


def _rail(adapter: str, number: int) -> tuple[str, ...]:
    # Four queue pairs: one alone may stop at 284 of 400 Gbit/s (nccl issue 2409).
    sizes = ("--report_gbits", "-F", "-q", "4", "-s", "1048576", "-n", "5000")
    return ("ib_write_bw", "-d", adapter, "-p", str(_FIRST_PORT + number), *sizes)


def adapters_command() -> Command[tuple[str, ...]]:
    """The names of all RDMA adapters, for when nobody says which to test."""
    return Command("ibstat", ("ibstat", "-l"), parse_adapters, timeout_s=30.0)


def parse_adapters(text: str) -> tuple[str, ...]:
    """One name a line; anything with a blank is an error sentence."""
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not names or any(re.search(r"\s", name) for name in names):
        raise ValueError(f"expected adapter names, got: {text.strip()[:200] or 'nothing'}")
    return names


def parse_ib_write_bw(text: str) -> WriteBandwidth:
    """The slowest row, in Gbit/s whatever unit was printed. Other processes' lines in between do not matter."""
    header = _HEADER.search(text)
    row = min(_ROW.findall(text, header.end()) if header else [], key=lambda cells: float(cells[3]), default=None)
    if header is None or row is None:
        trouble = next((line.strip() for line in text.splitlines() if _TROUBLE.search(line)), "")
        raise ValueError(f"no ib_write_bw figure: {trouble or text.strip()[-200:] or 'the answer is empty'}")
    if header[2] not in _TO_GBIT_S:
        raise ValueError(f"unit {header[2]} is not known")
    link, mtu = re.search(r"Link type\s*:\s*(\S+)", text), re.search(r"Mtu\s*:\s*(\d+)", text)
    return WriteBandwidth(
        bytes=int(row[0]),
        iterations=int(row[1]),
        ib_write_bw_gbit_s=round(float(row[3]) * _TO_GBIT_S[header[2]], 2),
        link_type=link[1] if link else "",
        mtu=int(mtu[1]) if mtu else None,
    )
