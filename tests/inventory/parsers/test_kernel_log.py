"""The kernel log in its many forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.kernel_log import parse_kernel_log

Text = Callable[[str], str]


def test_every_kind_of_event_is_found_once(transcript: Text) -> None:
    """Forms with and without PCI:, MIG suffix, hex domain; a storm is one event; a data line counts nothing."""
    events = parse_kernel_log(transcript("kernel-log/many-faults.txt"))
    assert [
        ("xid", "79", "0000:1a:00.0", 1),
        ("off_bus", "", "0000:1a:00.0", 1),
        ("xid", "154", "0000:1a:00.0", 2),
        ("xid", "13", "0000:2b:00.0", 1),
        ("xid", "94", "0000:3c:00.0", 1),
        ("xid", "149", "000d:01:00.0", 1),
        ("xid", "45", "0000:4d:00.0", 3),
        ("off_bus", "", "0000:5e:00.0", 1),
        ("sxid", "12028", "0000:05:00.0", 1),
        ("sxid", "20034", "0000:05:00.0", 1),
        ("aer", "Corrected", "0000:00:1c.0", 1),
        ("aer", "Uncorrected", "0000:01:00.0", 1),
        ("edac", "CE", "MC0 CPU_SrcID#0_MC#0_Chan#1_DIMM#0", 2),
        ("mce", "", "CPU 2", 1),
        ("pcie_limited", "32.0 GT/s PCIe x8 link", "0000:6f:00.0", 1),
        ("nic_power", "", "0000:6f:00.0", 1),
        ("carrier", "", "ens3f0", 1),
    ] == [(e.kind, e.code, e.subject, e.count) for e in events]


def test_of_recovery_actions_the_last_one_holds(transcript: Text) -> None:
    """Xid 154 twice: what counts is where it ended."""
    events = parse_kernel_log(transcript("kernel-log/many-faults.txt"))
    assert ["Drain and Reset"] == [e.recovery_action for e in events if e.code == "154"]


def test_syslog_and_kmsg_prefixes(transcript: Text) -> None:
    """Either spelling of lost; a GSP time-out with its history is one event."""
    assert [("carrier", "ib3", 2)] == [
        (e.kind, e.subject, e.count) for e in parse_kernel_log(transcript("kernel-log/syslog-flap.txt"))
    ]
    assert [("119", 1)] == [(e.code, e.count) for e in parse_kernel_log(transcript("kernel-log/kmsg.txt"))]


def test_a_quiet_log_has_no_events() -> None:
    """Lines without trouble are read as such."""
    assert () == parse_kernel_log("[    0.000000] Linux version 6.8\n[    1.0] usb 1-1: new device\n")


@pytest.mark.parametrize(
    "text", ["", "dmesg: read kernel buffer failed: Operation not permitted\n", "<nvidia_smi_log>"]
)
def test_other_text_is_refused(text: str) -> None:
    """Silence is no health: not one log line is an error."""
    with pytest.raises(ValueError, match="expected kernel log lines"):
        parse_kernel_log(text)


@pytest.mark.shared
def test_recorded_logs(sample: Text) -> None:
    """Dozens of lines of one GSP time-out are one event; six losses of carrier on one port."""
    gsp = parse_kernel_log(sample("dmesg_xid119_gsp_timeout.log"))
    assert [("xid", "119", "0000:9b:00.0")] == [(e.kind, e.code, e.subject) for e in gsp]
    flaps = parse_kernel_log(sample("azhc_1dev_6flap_syslog"))
    assert [("carrier", "ib6", 6)] == [(e.kind, e.subject, e.count) for e in flaps]
