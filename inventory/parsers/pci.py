"""`lspci -D -nn -vvv`: link width and speed against what both ends can do, ACS redirection below switches, serials.

"downgraded" in lspci's own words only means "less than this device's own best": a Gen5 port that holds a Gen4 card
always says so. What counts is the lesser of both ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import met, undressed

N = TypeVar("N", int, float)

_DEVICE = re.compile(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7]) (.+)$")
_IDS = re.compile(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_LINK = re.compile(r"\b(LnkCap|LnkSta):\s.*?Speed ([\d.]+)GT/s[^,]*, Width x(\d+)")  # not LnkCap2 and LnkSta2
_BUS = re.compile(r"\bBus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_KIND = re.compile(r"\bExpress \(v\d+\) ([A-Za-z ]+?)(?: \(|,|$)", re.MULTILINE)
_ACS = re.compile(r"\bACSCtl:\s(.+)$", re.MULTILINE)
_VPD = re.compile(r"\[(PN|SN)\] (?:Part|Serial) number: (.+?)\s*$")
_REDIRECTS = ("ReqRedir+", "CmpltRedir+")  # PCIe 4.0, 6.12: these send peer traffic up to the root complex


class PciDevice(Frozen):
    """One function on the bus."""

    address: str  # "0000:1b:00.0"
    title: str  # "3D controller: NVIDIA Corporation …"
    ids: str | None = None  # "10de:2330", with -nn
    kind: str | None = None  # "Endpoint", "Root Port", "Downstream Port", "Upstream Port"
    width: int | None = None
    width_max: int | None = None
    speed_gt_s: float | None = None
    speed_max_gt_s: float | None = None
    secondary_bus: str | None = None  # "0000:1b", of bridges
    acs: tuple[str, ...] = ()  # the flags that are switched on
    part_number: str | None = None
    serial: str | None = None  # from the vital product data, where the card has one
    access_denied: bool = False

    @property
    def bus(self) -> str:
        """Domain and bus."""
        return self.address.rsplit(":", 1)[0]


class PciLink(Frozen):
    """One link: what it runs at and the most that both its ends can do."""

    device: str
    upstream: str | None
    width: int | None
    width_expected: int | None
    speed_gt_s: float | None
    speed_expected_gt_s: float | None

    @property
    def degraded(self) -> bool:
        """Narrower or slower than both ends could be."""
        narrow = self.width is not None and self.width_expected is not None and self.width < self.width_expected
        slow = (self.speed_gt_s or 0) < (self.speed_expected_gt_s or 0) and self.speed_gt_s is not None
        return narrow or slow


def parse_lspci(text: str) -> tuple[PciDevice, ...]:
    """All functions; raises `ValueError` when there is none."""
    devices = tuple(_device(head, rows) for head, rows in _blocks(text))
    if not devices:
        raise ValueError(f"expected `0000:00:00.0 Host bridge: …`, {met(text)}")
    return devices


LSPCI = Command("lspci", ("lspci", "-D", "-nn", "-vvv"), parse_lspci, 30.0)


def links(devices: tuple[PciDevice, ...]) -> tuple[PciLink, ...]:
    """Every endpoint's link, against the bridge above it where that is known."""
    bridges = {device.secondary_bus: device for device in devices if device.secondary_bus}
    return tuple(_link(d, bridges.get(d.bus)) for d in devices if d.kind == "Endpoint" and d.width is not None)


def redirecting_ports(devices: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """Switch ports that send peer-to-peer traffic through the root complex: GPUDirect is slow or hangs there."""
    return tuple(d for d in devices if d.kind == "Downstream Port" and any(flag in d.acs for flag in _REDIRECTS))


def _blocks(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    rows: list[str] = []
    for line in undressed(text):
        match = _DEVICE.match(line)
        if match and head:
            yield head, rows
        if match:
            head, rows = match, []
        else:
            rows.append(line)
    if head:
        yield head, rows


def _device(head: re.Match[str], rows: list[str]) -> PciDevice:
    domain, bus, slot, function, title = head.groups()
    body = "\n".join(rows)
    found = {m[1]: (float(m[2]), int(m[3])) for row in rows if (m := _LINK.search(row))}
    (speed, width), (speed_max, width_max) = (found.get(key, (None, None)) for key in ("LnkSta", "LnkCap"))
    domain = f"{int(domain or '0', 16):04x}"
    below, ids, acs, kind = _BUS.search(body), _IDS.findall(title), _ACS.search(body), _KIND.search(body)
    vpd = {m[1]: m[2] for row in rows if (m := _VPD.search(row))}
    return PciDevice(
        address=f"{domain}:{bus}:{slot}.{function}",
        title=title,
        ids=ids[-1] if ids else None,
        kind=kind[1] if kind else None,
        width=width,
        width_max=width_max,
        speed_gt_s=speed,
        speed_max_gt_s=speed_max,
        secondary_bus=f"{domain}:{below[2]}" if below else None,
        acs=tuple(flag for flag in acs[1].split() if flag.endswith("+")) if acs else (),
        part_number=vpd.get("PN"),
        serial=vpd.get("SN"),
        access_denied="<access denied>" in body,
    )


def _link(device: PciDevice, above: PciDevice | None) -> PciLink:
    return PciLink(
        device=device.address,
        upstream=above.address if above else None,
        width=device.width,
        width_expected=_lesser(device.width_max, above.width_max if above else None),
        speed_gt_s=device.speed_gt_s,
        speed_expected_gt_s=_lesser(device.speed_max_gt_s, above.speed_max_gt_s if above else None),
    )


def _lesser(one: N | None, other: N | None) -> N | None:
    return min((value for value in (one, other) if value is not None), default=None)
