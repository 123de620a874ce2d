"""Counters: how much each may grow over a load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from burnin.judging import held, unread
from burnin.log_checks import LOG_READ, log_fault, log_read
from burnin.xids import XID_SOURCE
from inventory.findings import Finding, Outcome, Reading, Threshold, Value

_DCGM = "DCGM health watches, NVLink"
_NVSENTINEL = "NVIDIA/NVSentinel, InfiniBand port counters"
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CounterRow:
    """How much one counter may grow: at all, or in each minute begun."""

    pattern: str
    source: str
    remedy: str
    says: str
    at_most: float = 0
    each_minute: bool = False

    def allowed(self, minutes: float) -> float:
        """The limit for a window."""
        return self.at_most * max(1.0, minutes) if self.each_minute else self.at_most


_RERUN = "Run the memory diagnostic; replace the GPU if it grows again"
_LINK = "Reset the GPUs and test again; a link that counts again is the board's"
_CABLE = "Clean or replace cable and transceiver, then try another switch port"

COUNTER_ROWS: tuple[CounterRow, ...] = (
    CounterRow(
        "ecc_uncorrectable",
        "our gate for a node: no uncorrectable error under load",
        _RERUN,
        "uncorrectable ECC errors came under load",
    ),
    CounterRow(
        "ecc_volatile_uncorrectable",
        "our gate for a node: no uncorrectable error under load",
        _RERUN,
        "uncorrectable ECC errors came under load",
    ),
    CounterRow(
        "remapped_rows_uncorrectable",
        "NVML row remapper: each remap is an uncorrectable error",
        _RERUN,
        "rows were remapped under load",
    ),
    # ceil(GT/s / 1000 * 60 * lanes) of a Gen5 x16 link
    CounterRow(
        "pcie_replays",
        "DCGM health: 31 replays a minute on Gen5 x16",
        "Reseat the GPU, then riser and retimer",
        "its PCIe link replays too often",
        at_most=31,
        each_minute=True,
    ),
    CounterRow("nvlink_replay_errors", _DCGM, _LINK, "its NVLinks replayed under load"),
    CounterRow("nvlink_recovery_errors", _DCGM, _LINK, "its NVLinks recovered under load"),
    CounterRow("nvlink_crc_errors", _DCGM, _LINK, "its NVLinks counted CRC errors under load"),
    CounterRow("nvlink_.*(error|fail).*", _DCGM, _LINK, "its NVLinks counted errors under load"),
    CounterRow(
        "port_symbol_error",
        _NVSENTINEL + ": 120 an hour",
        _CABLE,
        "its port counts symbol errors",
        at_most=2,
        each_minute=True,
    ),
    CounterRow(
        "port_rcv_errors",
        _NVSENTINEL + ": 10 a second",
        _CABLE,
        "its port counts receive errors",
        at_most=600,
        each_minute=True,
    ),
    CounterRow("port_.*", _NVSENTINEL + ": any is fatal", _CABLE, "its port counted link errors under load"),
    CounterRow(
        "log_aer_corrected",
        "our choice: more than one a minute is a marginal link",
        "Reseat the part at this address",
        "its PCIe link had corrected errors",
        at_most=1,
        each_minute=True,
    ),
    CounterRow(
        "log_edac_ce",
        "our choice: more than one a minute is a bad DIMM",
        "Replace the DIMM the label names",
        "corrected memory errors",
        at_most=1,
        each_minute=True,
    ),
    CounterRow(
        "log_(aer_uncorrected|edac_ue|mce|gpu_off_bus|off_bus|nic_power|pcie_limited.*)",
        "our gate for a node: none of these is normal",
        "Read the kernel log around it, reseat or replace the part",
        "the kernel log has an error",
    ),
    CounterRow("log_carrier", "Azure/azurehpc-health-checks: any flap fails", _CABLE, "its link lost its carrier"),
)

# What must hold after a load as before it, whatever it was.
_STATES: tuple[tuple[str, str, str, str], ...] = (
    ("remap_pending", "row remapping pending after the load", "Reset the GPU and test again", "NVML row remapper"),
    ("remap_failed", "row remapping failed", "Replace the GPU", "NVML row remapper: failure is an RMA"),
    (
        "throttled_by_hardware",
        "the hardware held its clocks down",
        "Check power supplies, power brake and cooling",
        "NVML clock event reasons: hardware, thermal and power-brake slowdown",
    ),
)


def check_growth(before: tuple[Reading, ...], after: tuple[Reading, ...]) -> Iterator[Finding]:
    """Every counter of either reading; one that is missing from the second could not be compared."""
    first, second = _by_key(before), _by_key(after)
    minutes = _minutes(before, after)
    logs = (log_read(before), log_read(after))
    for key in dict.fromkeys((*first, *second)):
        metric = key[0]
        if metric == LOG_READ:
            continue
        if metric.startswith("log_"):
            yield from _log_growth(first.get(key), second.get(key), logs, minutes)
        elif row := _row(metric):
            yield _grown(row, first.get(key), second.get(key), minutes)
    yield from _after(second)
    yield _log_itself(before, after)


def _grown(row: CounterRow, first: Reading | None, second: Reading | None, minutes: float) -> Finding:
    was, now = _figure(first), _figure(second)
    metric, subject = next((reading.metric, reading.subject) for reading in (first, second) if reading)
    expected = f"at most {row.allowed(minutes):g} more"
    if was is None and now is None and first is not None and second is not None:
        return Finding(
            metric=f"{metric}_growth",
            subject=subject,
            outcome=Outcome.NOT_APPLICABLE,
            observed="this part does not count it",
            expected=expected,
            source=row.source,
        )
    if was is None or now is None or now < was:
        told = "counted backwards" if was is not None and now is not None else "could not be compared"
        return unread(
            f"{metric}_growth",
            subject,
            f"before {_word(was)}, after {_word(now)}: {told}",
            expected,
            source=row.source,
            remedy="Read the counters again; a reset between two readings starts them anew",
            cause=f"{subject}: {metric} {told} over the load (before {_word(was)}, after {_word(now)})",
        )
    good = now - was <= row.allowed(minutes)
    return Finding(
        metric=f"{metric}_growth",
        subject=subject,
        outcome=Outcome.PASS if good else Outcome.FAIL,
        observed=f"{now - was:g} more",
        expected=expected,
        remedy="" if good else row.remedy,
        source=row.source,
        cause="" if good else f"{subject}: {row.says} ({now - was:g} more {metric})",
        evidence=second.evidence if second else None,
        value=now - was,
    )


def _log_growth(
    first: Reading | None, second: Reading | None, logs: tuple[bool, bool], minutes: float
) -> Iterator[Finding]:
    """An event that was not in the first log counts from nothing, when that log was read."""
    if second is None or not all(logs):
        return
    more = (_figure(second) or 0) - (_figure(first) or 0)
    if more <= 0:
        return
    row = _row(second.metric)
    if row:
        yield _grown(row, first or second.model_copy(update={"value": 0}), second, minutes)
    elif fault := log_fault(second, grown=more):
        yield fault


def _log_itself(before: tuple[Reading, ...], after: tuple[Reading, ...]) -> Finding:
    total = {reading.metric: _figure(reading) for reading in (*before, *after) if reading.metric == LOG_READ}
    if not (log_read(before) and log_read(after)) or not total:
        return unread(
            "kernel_log_growth",
            "node",
            "the kernel log was not read before and after",
            "no new error",
            source=XID_SOURCE,
            remedy="Run dmesg on the node by hand",
            cause="the kernel log could not be compared over the load",
        )
    return Finding(
        metric="kernel_log_growth",
        subject="node",
        outcome=Outcome.PASS,
        observed="read before and after",
        expected="read before and after",
        source=XID_SOURCE,
    )


def _after(second: Mapping[tuple[str, str], Reading]) -> Iterator[Finding]:
    for (metric, subject), reading in second.items():
        for name, says, remedy, source in _STATES:
            if metric == name and reading.value is not None:
                limit = Threshold(metric=f"{metric}_after_load", equals=False, remedy=remedy, source=source)
                yield held(limit, subject, reading.value, part=subject, says=says)


def _row(metric: str) -> CounterRow | None:
    return next((row for row in COUNTER_ROWS if re.fullmatch(row.pattern, metric)), None)


def _by_key(readings: tuple[Reading, ...]) -> dict[tuple[str, str], Reading]:
    return {(reading.metric, reading.subject): reading for reading in readings}


def _figure(reading: Reading | None) -> float | None:
    value: Value = reading.value if reading else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _word(value: float | None) -> str:
    return "no answer" if value is None else f"{value:g}"


def _minutes(before: tuple[Reading, ...], after: tuple[Reading, ...]) -> float:
    starts = [r.evidence.at for r in before if r.evidence]
    ends = [r.evidence.at for r in after if r.evidence]
    return (max(ends) - min(starts)).total_seconds() / _SECONDS if starts and ends else 1.0
