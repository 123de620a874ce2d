"""`dmesg` and `journalctl -k`: the kernel's ring buffer with the clock in front that was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.reply import Reply, said
from lab.shell.tree import host_name

_STEP_S = 1.37  # between two lines; our choice


def kernel_lines(machine: Machine) -> list[tuple[float, str]]:
    """Seconds since boot and text: what the machine logged, and what drivers say of a link that came up narrow."""
    texts = list(machine.kernel_log)
    for nic in machine.state.nics:
        if nic.pcie_width < 16:
            texts.append(
                f"mlx5_core {nic.pci_address}: {nic.pcie_width * 31.506:.3f} Gb/s available PCIe bandwidth, "
                f"limited by 32.0 GT/s PCIe x{nic.pcie_width} link (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16)"
            )
    texts += [f"EDAC MC0: 1 UE memory read error on {dimm.slot}" for dimm in machine.state.dimms if not dimm.healthy]
    return [(number * _STEP_S, text) for number, text in enumerate(texts)]


def dmesg(call: Call) -> Reply:
    """Seconds since boot in brackets, a date with -T, ISO time with --time-format iso, level words with -x."""
    rows = kernel_lines(call.machine)
    if call.has("-T", "--ctime"):
        return said(*(f"[{_at(second):%a %b %e %H:%M:%S %Y}] {text}" for second, text in rows))
    if call.option("--time-format") == "iso":
        return said(*(f"{_at(second):%Y-%m-%dT%H:%M:%S,%f+00:00} {text}" for second, text in rows))
    return said(*(f"[{second:12.6f}] {text}" for second, text in rows))


def journalctl(call: Call) -> Reply:
    """`-k -o short-iso`: host name and unit in front. Other units say nothing."""
    if not call.has("-k", "--dmesg"):
        return said("-- No entries --")
    head, rows = f"{host_name(call.machine)} kernel:", kernel_lines(call.machine)
    return said(*(f"{_at(second):%Y-%m-%dT%H:%M:%S+0000} {head} {text}" for second, text in rows))


def _at(second: float) -> datetime:
    """A boot ten minutes ago: nobody here asks when it really was."""
    return datetime.now(UTC) - timedelta(seconds=600) + timedelta(seconds=second)
