"""How one fact is held against a demand, with a sentence that names the part."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from inventory.findings import Finding, Outcome, Reading, Threshold, Value
from inventory.model import Gpu, Nic, Source

View = Literal["out-of-band", "in-band"]  # who tells: the BMC, or the running node

_NUMBER_AT_END = re.compile(r"(\d+)\D*$")


def held(
    threshold: Threshold,
    subject: str,
    value: Value,
    *,
    part: str,
    says: str,
    where: Source | str | None = None,
    seen: Source | None = None,
) -> Finding:
    """Judge one value; `part` is how an operator calls it, `says` what is wrong, `where` who told.

    `seen` is what it was read from, when `where` only says so in words.
    """
    source = where if isinstance(where, Source) else seen
    observed = "no answer" if value is None else said(value)
    trouble = f"{says}: {observed}, expected {threshold.expected}" if value is not None else f"{says} is not known"
    finding = threshold.judge(
        Reading(
            metric=threshold.metric,
            subject=subject,
            value=value,
            unit=threshold.unit,
            evidence=source.evidence if source else None,
        ),
        cause=f"{part}: {trouble}; {threshold.remedy[0].lower()}{threshold.remedy[1:]}",
    )
    place = from_where(where) if isinstance(where, Source) else where
    told = f"{finding.observed} ({place})" if place else finding.observed
    return finding.model_copy(update={"observed": told})


def not_applicable(metric: str, subject: str, observed: str, expected: str, source: str) -> Finding:
    """A fact that this view does not offer and another one will."""
    return Finding(
        metric=metric,
        subject=subject,
        outcome=Outcome.NOT_APPLICABLE,
        observed=observed,
        expected=expected,
        source=source,
    )


def unread(metric: str, subject: str, observed: str, expected: str, *, source: str, remedy: str, cause: str) -> Finding:
    """A fact that should have been there and was not: never a pass."""
    return Finding(
        metric=metric,
        subject=subject,
        outcome=Outcome.ERROR,
        observed=observed,
        expected=expected,
        source=source,
        remedy=remedy,
        cause=cause,
    )


def said(value: Value) -> str:
    """A value in an operator's words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def slot_number(gpu: Gpu) -> int | None:
    """The module number, which Redfish writes as `GPU_SXM_3`, `SXM3` or `3` and nvidia-smi as `3`."""
    match = _NUMBER_AT_END.search(gpu.slot or "")
    return int(match[1]) if match else None


def gpu_subject(gpu: Gpu) -> str:
    """The same short name from every view."""
    number = slot_number(gpu)
    return f"GPU slot {number}" if number is not None else f"GPU {gpu.serial or gpu.uuid or gpu.id}"


def gpu_part(gpu: Gpu) -> str:
    """How an operator finds it: slot and serial."""
    number = slot_number(gpu)
    place = f"GPU in slot {number}" if number is not None else f"GPU {gpu.id}"
    return f"{place} (serial {gpu.serial})" if gpu.serial else place


def nic_part(nic: Nic) -> str:
    """How an operator finds it: slot or name, and serial."""
    place = f"NIC {nic.id}" + (f" in {nic.slot}" if nic.slot else "")
    return f"{place} (serial {nic.serial})" if nic.serial else place


def from_where(source: Source | None) -> str:
    """Who told."""
    return source.uri if source else ""


def listed(words: Iterable[str]) -> str:
    """Words for a sentence, each once."""
    return ", ".join(dict.fromkeys(words))
