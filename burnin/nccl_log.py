"""Reads NCCL's own log: which way the data went. A bandwidth without this is no proof of the fabric."""

from __future__ import annotations

import re
from collections import Counter

from pydantic import Field

from inventory.model import Frozen

# "host:pid:tid [dev] NCCL INFO …"; since NCCL 2.31 "NCCL DIAG …" as well. It may begin in the middle of a table row.
_LINE = re.compile(r"(?:\S+:\d+:\d+\s+\[\d+\]\s+)?NCCL (?:INFO|WARN|TRACE|DIAG)\b.*$")
# "via P2P/CUMEM", "via SHM/direct/direct", "[send] via NET/IB/0/GDRDMA", "via NET/Socket/0", "via NET/IBext_v8/3"
_VIA = re.compile(r"\bvia (P2P|SHM|NET|C2C)(?:/([^/\s]+))?(\S*)")
_NETWORK = re.compile(r"Using network (.+?)\s*$")
# Printed only when the communicator is really built; "multicast support is available" says no more than could be.
_NVLS = re.compile(r"NVLS comm 0x[0-9a-f]+|Connected NVLS tree|Algo (?:NVLS|NVLSTree)\b", re.IGNORECASE)
_BEGUN = re.compile(r"(?<![\w:.+-])\d+\s")  # the first cell of a row, as against a label or a time of day
_ADAPTER = re.compile(r"\[\d+\](\w+):\d+/(?:IB|RoCE)")


class NcclTransport(Frozen):
    """The ways the log shows, each with the number of channels."""

    logged: bool = False
    nvls: bool = False
    network: str = ""  # "IB", "Socket", "AWS Libfabric"
    ways: dict[str, int] = Field(default_factory=dict)  # "P2P", "SHM", "NET/IB/GDRDMA", "NET/IB", "NET/Socket"
    adapters: tuple[str, ...] = ()

    @property
    def used(self) -> frozenset[str]:
        """All ways data went."""
        return frozenset(self.ways) | (frozenset({"NVLS"}) if self.nvls else frozenset())

    @property
    def words(self) -> str:
        """The ways in words."""
        ways = [f"{way} on {channels} channels" for way, channels in sorted(self.ways.items())]
        return ", ".join((["NVLS"] if self.nvls else []) + ways) or "no way shown in NCCL's log"


def split_log(text: str) -> tuple[list[str], list[str]]:
    """Table lines and log lines apart; a row that a log line was written into is put together again."""
    table, log, begun = [], [], ""
    for line in re.split(r"[\r\n]+", text):
        match = _LINE.search(line)
        if match is None:
            table.append(begun + line)
            begun = ""
        else:
            log.append(match[0])
            before = line[: match.start()]
            begun += before if _BEGUN.search(before) else ""
    return [*table, begun] if begun else table, log


def read_transport(log: list[str]) -> NcclTransport:
    """What the log says about the way."""
    networks = [match[1] for match in map(_NETWORK.search, log) if match]
    return NcclTransport(
        logged=bool(log),
        nvls=any(_NVLS.search(line) for line in log),
        network=networks[-1] if networks else "",
        ways=dict(Counter(_way(match) for match in map(_VIA.search, log) if match)),
        adapters=tuple(sorted({name for line in log for name in _ADAPTER.findall(line)})),
    )


def _way(match: re.Match[str]) -> str:
    if match[1] != "NET":
        return match[1]
    plugin = "IB" if (match[2] or "").startswith("IB") else match[2] or "?"
    return f"NET/{plugin}/GDRDMA" if "GDRDMA" in match[3] else f"NET/{plugin}"
