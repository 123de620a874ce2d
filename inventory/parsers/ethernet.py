"""`ip -j addr`: the kernel's network interfaces, their state, MTU and addresses."""

from __future__ import annotations

import json
from typing import Any

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import known, met


class NetInterface(Frozen):
    """One interface."""

    name: str
    mac: str | None = None  # upper case
    mtu: int | None = None
    state: str | None = None  # "UP", "DOWN", "UNKNOWN"
    kind: str | None = None  # "ether", "infiniband", "loopback"
    carrier: bool | None = None
    addresses: tuple[str, ...] = ()  # "10.1.2.3/24"


def parse_ip(text: str) -> tuple[NetInterface, ...]:
    """All interfaces; raises `ValueError` for a cut-off or foreign document."""
    start = text.find("[")
    try:
        rows = json.loads(text[start:]) if start >= 0 else None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected a JSON list of interfaces: {error.msg} at line {error.lineno}, {met(text)}"
        ) from error
    found = tuple(_interface(row) for row in rows or () if isinstance(row, dict) and isinstance(row.get("ifname"), str))
    if not found:
        raise ValueError(f"expected a JSON list of interfaces with `ifname`, {met(text)}")
    return found


ADDRESSES = Command("ip-json", ("ip", "-j", "addr"), parse_ip, 15.0)


def _interface(row: dict[str, Any]) -> NetInterface:
    flags = row.get("flags")
    mtu = row.get("mtu")
    told = [a for a in row.get("addr_info") or () if isinstance(a, dict)]
    return NetInterface(
        name=row["ifname"],
        mac=(known(str(row.get("address") or "")) or "").upper() or None,
        mtu=mtu if isinstance(mtu, int) else None,
        state=known(str(row.get("operstate") or "")),
        kind=known(str(row.get("link_type") or "")),
        carrier="LOWER_UP" in flags if isinstance(flags, list) else None,
        addresses=tuple(f"{a['local']}/{a.get('prefixlen', '')}" for a in told if a.get("local")),
    )
