"""Watches the GPUs while a load runs: a GPU that throttles may still reach its figure, and must be named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from inventory.command import Answer, Command, Shell, ask
from inventory.errors import CommandFailed, NodeTrouble, OutputNotUnderstood, RackmintError
from inventory.evidence import EvidenceStore
from inventory.findings import Evidence, Finding, Outcome
from inventory.model import Frozen

# Bits of NVML's clocks event reasons that no healthy GPU shows under load. The software power cap (0x4) is normal at
# full power and no fault. Source: nvml.h, nvmlClocksEventReason*.
_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_FIELDS = "index,clocks_event_reasons.active,temperature.gpu,power.draw,clocks.sm"
_EVERY_S = 1.0  # at least 1 Hz, else short thermal dips are missed; our choice


class GpuLoad(Frozen):
    """One GPU at one moment under load."""

    index: int
    reasons: int | None
    temperature_c: float | None
    power_w: float | None
    sm_mhz: float | None

    @property
    def throttled_by(self) -> tuple[str, ...]:
        """The reasons that are no healthy ones, in words."""
        return tuple(word for bit, word in _REASONS.items() if (self.reasons or 0) & bit)


def load_command() -> Command[tuple[GpuLoad, ...]]:
    """Throttle reasons, temperature, power and clock of every GPU."""
    argv = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
    return Command("gpu_load", argv, parse_load, timeout_s=30.0)


def parse_load(text: str) -> tuple[GpuLoad, ...]:
    """One row a GPU; anything else, such as an error sentence, is not understood."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) != 5 or not row[0].isdigit() for row in rows):
        raise ValueError(f"expected rows of {_FIELDS}, got: {text.strip()[:200] or 'nothing'}")
    return tuple(
        GpuLoad(
            index=int(index),
            reasons=int(reasons, 16) if reasons.startswith("0x") else None,
            temperature_c=_number(celsius),
            power_w=_number(watts),
            sm_mhz=_number(mhz),
        )
        for index, reasons, celsius, watts, mhz in rows
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None  # "[N/A]", "[Not Supported]": asked and not answered


class Watch:
    """The samples of one load, and the trouble that kept some from being taken."""

    def __init__(self) -> None:
        self.answers: list[Answer[tuple[GpuLoad, ...]]] = []
        self.trouble: list[NodeTrouble] = []

    def sample(self, shell: Shell, store: EvidenceStore) -> None:
        """Look once; trouble is kept and becomes an error finding, for the load itself may still succeed."""
        try:
            self.answers.append(ask(shell, load_command(), store))
        except (CommandFailed, OutputNotUnderstood) as trouble:
            self.trouble.append(trouble)

    @property
    def samples(self) -> list[GpuLoad]:
        """Every GPU of every look."""
        return [gpu for answer in self.answers for gpu in answer.value]


@contextmanager
def watching(shell: Shell, store: EvidenceStore, *, every_s: float = _EVERY_S) -> Iterator[Watch]:
    """Sample beside the load at a steady pace and once right after it, before clocks come down."""
    watch, over = Watch(), threading.Event()

    def look() -> None:
        with suppress(RackmintError):  # a cancel or a lost lease: the load meets the same and tells
            while not over.wait(every_s):
                watch.sample(shell, store)

    beside = threading.Thread(target=look, name=f"watch-{shell.node}", daemon=True)
    beside.start()
    try:
        yield watch
        watch.sample(shell, store)
    finally:
        over.set()
        beside.join(timeout=35.0)  # a little over the look's own time-out


def judge_load(test: str, watch: Watch, name: Callable[[int], str]) -> tuple[Finding, ...]:
    """Each GPU that throttled under this load, by name; one pass when none did; an error when none was seen."""
    evidence = watch.answers[-1].evidence if watch.answers else None
    if not watch.samples or all(gpu.reasons is None for gpu in watch.samples):
        said = str(watch.trouble[-1]) if watch.trouble else "nvidia-smi does not tell"
        cause = f"throttle reasons not seen during {test}"
        return (_finding(test, "node", Outcome.ERROR, seen=said, cause=cause, evidence=evidence),)
    reasons: dict[int, set[str]] = {}
    for gpu in watch.samples:
        if gpu.throttled_by:
            reasons.setdefault(gpu.index, set()).update(gpu.throttled_by)
    if not reasons:
        seen = f"none in {len(watch.answers)} looks"
        return (_finding(test, "node", Outcome.PASS, seen=seen, evidence=evidence),)
    return tuple(
        _finding(
            test,
            name(index),
            Outcome.FAIL,
            seen=", ".join(sorted(words)),
            cause=f"{name(index)} throttles under {test}: {', '.join(sorted(words))}",
            evidence=evidence,
        )
        for index, words in sorted(reasons.items())
    )


def _finding(
    test: str, subject: str, outcome: Outcome, *, seen: str, cause: str = "", evidence: Evidence | None
) -> Finding:
    return Finding(
        metric=f"{test}_throttle",
        subject=subject,
        outcome=outcome,
        observed=seen,
        expected="no slowdown, thermal or power-brake reason under load",
        remedy=""
        if outcome is Outcome.PASS
        else "All GPUs at once: power supplies or a BMC power cap. One GPU: its cooling and its board's supply.",
        source="nvml.h: the reasons that are not the software power cap",
        cause=cause,
        evidence=evidence,
    )
