"""The kernel log: Xid, SXid, "fallen off the bus", AER, EDAC and machine checks, carrier loss; a storm is one event.

Forms differ: `PCI:` may be missing, a MIG suffix may follow the address, the pid may be quoted or absent, and a GPU can
fall off the bus with no Xid at all, in one line or three. Lines may come from dmesg (plain, -T), /dev/kmsg, journal or
syslog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.nvidia_smi import pci_address
from inventory.parsers.words import met

_PREFIX = re.compile(
    r"^(?:\[ *\d+\.\d+\]|\[\w{3} \w{3} +\d+ |<\d+>|\w{3} +\d+ \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT|\d+,\d+,\d+,|kern +:)"
)
_PCI = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_PCI}(?:\.\d)?(?: *GPU-I:\d+)?\): (\d+)")
_SXID = re.compile(rf"SXid \((?:PCI:)?{_PCI}(?:\.\d)?\): (\d+), (?!Data)(?:(Fatal|Non-fatal))?", re.IGNORECASE)
_OFF_BUS = re.compile(r"fallen off the bus", re.IGNORECASE)
_GPU_AT = re.compile(rf"NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?{_PCI}")
_AER = re.compile(rf"{_PCI}(\.\d): PCIe Bus Error: severity=(Corrected|Uncorrected|Uncorrectable)[^,]*")
_EDAC = re.compile(r"EDAC (MC\d+): (\d+) (CE|UE) .*? on (\S.*?)(?: \(|$)")
_MCE = re.compile(r"mce: \[Hardware Error\]: .*?(CPU \d+).*Machine Check", re.IGNORECASE)
_CARRIER = re.compile(r"(?:^|\s)(\S+?): (?:lost carrier|(?:NIC )?Link (?:is )?down)\b", re.IGNORECASE)
_NARROW = re.compile(rf"{_PCI}(\.\d)?: [\d.]+ Gb/s available PCIe bandwidth, limited by (.+? link)")
_NIC_POWER = re.compile(rf"mlx5_core {_PCI}(\.\d)?.*Detected insufficient power", re.IGNORECASE)
_RECOVERY = re.compile(r"recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]+)\)")
_FUNCTION = ".0"  # GPUs and switches have one function each


class KernelEvent(Frozen):
    """One thing that happened, however many lines the log spent on it."""

    kind: str  # xid | sxid | off_bus | aer | edac | mce | carrier | nic_power | pcie_limited
    code: str  # "79", "Corrected", "UE"; empty where there is none
    subject: str  # PCI address, interface, memory controller label
    count: int = 1
    text: str = ""  # the first line
    last: str = ""  # the last line: of Xid 154 only the last recovery action holds

    @property
    def recovery_action(self) -> str | None:
        """What an Xid 154 asks for in the end, as "None", "GPU Reset", "Node Reboot"."""
        found = _RECOVERY.search(self.last)
        return found[1] if found else None


def parse_kernel_log(text: str) -> tuple[KernelEvent, ...]:
    """All events, storms folded, in the order they began. Raises `ValueError` when no line is a log line."""
    lines = text.replace("\r", "").splitlines()
    if not any(_PREFIX.match(line) for line in lines):
        raise ValueError(f"expected kernel log lines such as `[   12.345678] …`, {met(text)}")
    found: dict[tuple[str, str, str], KernelEvent] = {}
    for event in _events(lines):
        key = (event.kind, event.code, event.subject)
        so_far = found.get(key)
        more = {"count": so_far.count + event.count, "last": event.text} if so_far else {}
        found[key] = so_far.model_copy(update=more) if so_far else event
    return tuple(found.values())


DMESG = Command("kernel-log", ("dmesg",), parse_kernel_log, 15.0)


def _events(lines: list[str]) -> Iterator[KernelEvent]:
    last_gpu = "unknown GPU"
    for line in lines:
        at = _GPU_AT.search(line)
        last_gpu = _address(at[1]) if at else last_gpu
        event = _gpu_event(line, last_gpu) or _host_event(line)
        if event:
            yield event


def _gpu_event(line: str, last_gpu: str) -> KernelEvent | None:
    if xid := _XID.search(line):
        return _event("xid", xid[2], _address(xid[1]), line)
    if sxid := _SXID.search(line):
        return _event("sxid", sxid[2], _address(sxid[1]), line)
    if _OFF_BUS.search(line):
        return _event("off_bus", "", last_gpu, line)
    return None


def _host_event(line: str) -> KernelEvent | None:
    for kind, pattern, reads in _HOST_EVENTS:
        if match := pattern.search(line):
            code, subject, times = reads(match)
            return _event(kind, code, subject, line, times)
    return None


def _event(kind: str, code: str, subject: str, line: str, times: int = 1) -> KernelEvent:
    said = line.strip()[:300]
    return KernelEvent(kind=kind, code=code, subject=subject, count=times, text=said, last=said)


def _address(text: str) -> str:
    """Domain, bus and device as the kernel writes a function: `0000:9b:00.0`."""
    return pci_address(f"{text}{_FUNCTION}") or text


# kind, its line, and (code, subject, how often) out of the match; the first that fits counts.
_HOST_EVENTS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], tuple[str, str, int]]], ...] = (
    ("aer", _AER, lambda m: (m[3].replace("able", "ed"), f"{_address(m[1])[:-2]}{m[2]}", 1)),
    ("edac", _EDAC, lambda m: (m[3], f"{m[1]} {m[4]}", int(m[2]))),
    ("mce", _MCE, lambda m: ("", m[1], 1)),
    ("nic_power", _NIC_POWER, lambda m: ("", _address(m[1]), 1)),
    ("pcie_limited", _NARROW, lambda m: (m[3], _address(m[1]), 1)),
    ("carrier", _CARRIER, lambda m: ("", m[1], 1)),
)
