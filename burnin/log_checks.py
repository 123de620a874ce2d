"""The kernel log since boot, and PCIe links and ports as lspci shows them: faults in themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from burnin.judging import held, unread
from burnin.xids import BENIGN_SXIDS, XID_SOURCE, XidRow, xid_row
from inventory.findings import Finding, Outcome, Reading, Threshold

LOG_READ = "log_kernel_events"  # there whenever the kernel log was read


def check_log(counters: tuple[Reading, ...]) -> Iterator[Finding]:
    """What the kernel log holds since this boot, and links and ports that are not as they must be."""
    if not log_read(counters):
        yield unread(
            "kernel_log",
            "node",
            "not read",
            "no error in it",
            source=XID_SOURCE,
            remedy="Run dmesg on the node by hand",
            cause="the kernel log could not be read",
        )
    bad = [f for reading in counters if (f := _standing(reading)) is not None]
    yield from bad
    if log_read(counters) and not any(f.metric.startswith("log_") for f in bad):
        yield Finding(
            metric="kernel_log",
            subject="node",
            outcome=Outcome.PASS,
            observed="no error in it",
            expected="no Xid, SXid, AER, EDAC or machine check error",
            source=XID_SOURCE,
        )


def _standing(reading: Reading) -> Finding | None:
    """A reading that is a fault in itself, without a second one to compare with."""
    if reading.metric == "pcie_link_degraded":
        return _fault(
            reading,
            "its PCIe link is narrower or slower than both ends can do",
            "Reseat the card or its riser",
            "lspci: the lesser of both ends' capabilities",
        )
    if reading.metric == "acs_redirecting_switch_ports":
        limit = Threshold(
            metric=reading.metric,
            at_most=0,
            remedy="Switch ACS off in the BIOS or below the switches with setpci",
            source="NCCL user guide, PCI access control: redirected peer traffic is slow or hangs",
        )
        says = "PCIe switch ports send peer-to-peer traffic through the root complex"
        return held(limit, reading.subject, reading.value, part="node", says=says)
    return log_fault(reading)


def log_fault(reading: Reading, *, grown: float | None = None) -> Finding | None:
    """The finding a logged event is in itself, unless it is benign."""
    row = _log_row(reading.metric)
    if row is None or not row.bad:
        return None
    return _fault(reading, _log_says(reading, row), row.remedy, XID_SOURCE, grown=grown)


def _log_says(reading: Reading, row: XidRow) -> str:
    code = re.search(r"^log_(s?xid)_(\d+)$", reading.metric)
    return f"{code[1].replace('xid', 'Xid').replace('sX', 'SX')} {code[2]}, {row.means}" if code else row.means


def _log_row(metric: str) -> XidRow | None:
    if match := re.match(r"^log_xid_(\d+)$", metric):
        return xid_row(int(match[1]))
    if match := re.match(r"^log_sxid_(\d+)$", metric):
        benign = int(match[1]) in BENIGN_SXIDS
        return XidRow(frozenset(), "an NVSwitch error", "Read the Fabric Manager log, reset the GPUs", bad=not benign)
    if metric in ("log_off_bus", "log_mce", "log_edac_ue", "log_aer_uncorrected", "log_nic_power", "log_pcie_limited"):
        words = {
            "log_off_bus": "the GPU has fallen off the bus",
            "log_mce": "the processor reported a machine check",
            "log_edac_ue": "uncorrectable memory error",
            "log_aer_uncorrected": "uncorrected PCIe error",
            "log_nic_power": "the slot does not give the adapter enough power",
            "log_pcie_limited": "the adapter's PCIe link is narrower than it could be",
        }
        return XidRow(frozenset(), words[metric], "Read the kernel log around it, reseat or replace the part")
    return None


def _fault(reading: Reading, says: str, remedy: str, source: str, *, grown: float | None = None) -> Finding:
    often = reading.value if grown is None else f"{grown:g}"
    times = f", {often} time(s)" if reading.metric.startswith("log_") else ""
    return Finding(
        metric=reading.metric,
        subject=reading.subject,
        outcome=Outcome.FAIL,
        observed=f"{reading.value}",
        expected="none",
        remedy=remedy,
        source=source,
        cause=f"{reading.subject}: {says}{times}; {remedy[0].lower()}{remedy[1:]}",
        evidence=reading.evidence,
        value=reading.value,
    )


def log_read(readings: tuple[Reading, ...]) -> bool:
    """Whether the kernel log answered at all."""
    return any(reading.metric == LOG_READ for reading in readings)
