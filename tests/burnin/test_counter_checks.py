"""Counters over a load, the kernel log, and what Xids mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from burnin.checks import check_counters
from burnin.log_checks import check_log
from burnin.xids import XID_ROWS, xid_row
from inventory.findings import Evidence, Finding, Outcome, Reading, Value

START = datetime(2026, 3, 3, 10, 0, tzinfo=UTC)
LOG = ("log_kernel_events", "node", 0)


def _readings(*rows: tuple[str, str, Value], minutes: float = 0) -> tuple[Reading, ...]:
    at = START + timedelta(minutes=minutes)
    seen = Evidence(asked="x", of="n1", at=at, took_s=0.1, status="exit 0", sha256="0" * 64)
    return tuple(Reading(metric=m, subject=s, value=v, evidence=seen) for m, s, v in rows)


def _one(metric: str, was: Value, now: Value, *, minutes: float = 1) -> Finding:
    before = _readings(LOG, (metric, "GPU slot 3", was))
    after = _readings(LOG, (metric, "GPU slot 3", now), minutes=minutes)
    return next(f for f in check_counters(before, after) if f.subject == "GPU slot 3")


@pytest.mark.parametrize(
    ("metric", "grows", "minutes", "outcome"),
    [
        ("ecc_uncorrectable", 0, 1, Outcome.PASS),
        ("ecc_uncorrectable", 1, 60, Outcome.FAIL),
        ("ecc_volatile_uncorrectable", 1, 1, Outcome.FAIL),
        ("remapped_rows_uncorrectable", 1, 1, Outcome.FAIL),
        ("pcie_replays", 31, 1, Outcome.PASS),
        ("pcie_replays", 32, 1, Outcome.FAIL),
        ("pcie_replays", 300, 10, Outcome.PASS),
        ("nvlink_crc_errors", 1, 1, Outcome.FAIL),
        ("nvlink_link_recovery_failed_events", 1, 1, Outcome.FAIL),
        ("port_symbol_error", 2, 1, Outcome.PASS),
        ("port_symbol_error", 3, 1, Outcome.FAIL),
        ("port_rcv_errors", 600, 1, Outcome.PASS),
        ("port_link_downed", 1, 60, Outcome.FAIL),
        ("log_aer_corrected", 1, 1, Outcome.PASS),
        ("log_aer_corrected", 5, 1, Outcome.FAIL),
        ("log_aer_uncorrected", 1, 1, Outcome.FAIL),
        ("log_carrier", 1, 1, Outcome.FAIL),
    ],
)
def test_growth_is_what_counts(metric: str, grows: int, minutes: float, outcome: Outcome) -> None:
    """Totals carry a former life; only what came over the load is judged, some of it by the minute."""
    assert outcome is _one(metric, 1000, 1000 + grows, minutes=minutes).outcome


@pytest.mark.parametrize(("was", "now"), [(None, 5), (5, None), (5, 4)])
def test_what_cannot_be_compared_is_an_error(was: Value, now: Value) -> None:
    """No answer before or after, or a counter that was reset in between."""
    finding = _one("ecc_uncorrectable", was, now)
    assert (Outcome.ERROR, True) == (finding.outcome, "GPU slot 3" in finding.sentence)


def test_a_counter_that_a_part_never_tells_is_not_applicable() -> None:
    """No answer both times: this part does not count it."""
    assert Outcome.NOT_APPLICABLE is _one("port_symbol_error", None, None).outcome


@pytest.mark.parametrize("lacking", ["before", "after"])
def test_a_counter_missing_from_one_reading_is_an_error(lacking: str) -> None:
    """A part that is told of only once could not be compared."""
    whole, less = (LOG, ("ecc_uncorrectable", "GPU slot 3", 0)), (LOG,)
    before, after = (less, whole) if lacking == "before" else (whole, less)
    findings = check_counters(_readings(*before), _readings(*after))
    assert Outcome.ERROR is next(f.outcome for f in findings if f.subject == "GPU slot 3")


def test_states_after_the_load_are_judged_as_such() -> None:
    """A remap that became pending, and clocks held down."""
    after = _readings(LOG, ("remap_pending", "GPU slot 3", True), ("throttled_by_hardware", "GPU slot 4", True))
    bad = {(f.metric, f.subject) for f in check_counters(_readings(LOG), after) if f.outcome is Outcome.FAIL}
    assert {("remap_pending_after_load", "GPU slot 3"), ("throttled_by_hardware_after_load", "GPU slot 4")} == bad


def test_a_new_xid_fails_and_an_old_one_does_not() -> None:
    """One more Xid 94 on a GPU; the one from before the load is history; clean-up and news are no faults."""
    before = _readings(LOG, ("log_xid_48", "GPU slot 1", 1))
    after = _readings(
        LOG, ("log_xid_48", "GPU slot 1", 1), ("log_xid_94", "GPU slot 3", 2), ("log_xid_43", "GPU slot 3", 1)
    )
    bad = [f for f in check_counters(before, after) if f.outcome is Outcome.FAIL]
    assert [("log_xid_94", "GPU slot 3")] == [(f.metric, f.subject) for f in bad]
    assert "Xid 94, contained ECC error, 2 time(s)" in bad[0].sentence


@pytest.mark.parametrize("lacking", ["before", "after"])
def test_a_log_that_was_not_read_twice_is_an_error(lacking: str) -> None:
    """Without both readings nobody knows whether something new came."""
    before = () if lacking == "before" else _readings(LOG)
    after = () if lacking == "after" else _readings(LOG)
    assert [("kernel_log_growth", Outcome.ERROR)] == [(f.metric, f.outcome) for f in check_counters(before, after)]


def test_a_log_since_boot_is_clean_or_says_what_is_in_it() -> None:
    """Xids by their meaning, benign NVSwitch codes left alone, redirecting ports and narrow links told."""
    clean = tuple(
        check_log(_readings(LOG, ("acs_redirecting_switch_ports", "node", 0), ("log_sxid_12028", "0000:05:00.0", 9)))
    )
    assert {Outcome.PASS} == {f.outcome for f in clean}
    rows = (
        LOG,
        ("log_xid_79", "GPU slot 3", 1),
        ("log_xid_9999", "GPU slot 4", 1),
        ("log_sxid_20034", "0000:05:00.0", 1),
        ("log_mce", "CPU 2", 1),
        ("acs_redirecting_switch_ports", "node", 4),
        ("pcie_link_degraded", "PCI 0000:01:00.0", "x2 of x4, 16 of 16 GT/s"),
    )
    told = {f.metric: f.sentence for f in check_log(_readings(*rows)) if f.outcome is Outcome.FAIL}
    assert {metric for metric, _, _ in rows[1:]} == set(told)
    assert "GPU slot 3: Xid 79, the GPU has fallen off the bus" in told["log_xid_79"]
    assert "not in our table" in told["log_xid_9999"]


def test_an_unread_log_is_no_clean_log() -> None:
    """Absence is not health."""
    assert [("kernel_log", Outcome.ERROR)] == [
        (f.metric, f.outcome) for f in check_log(_readings(("ecc_uncorrectable", "GPU slot 3", 0)))
    ]


def test_no_xid_has_two_meanings() -> None:
    """Each code stands in one row, and an unknown one is bad until somebody looked it up."""
    codes = [code for row in XID_ROWS for code in row.codes]
    assert len(codes) == len(set(codes))
    assert (True, False, True) == (xid_row(79).bad, xid_row(43).bad, xid_row(9999).bad)
