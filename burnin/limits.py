"""Limits packs: what a node must reach, each limit a fraction of a named expectation with its source and date."""

from __future__ import annotations

import hashlib
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from inventory.data_files import read_file, read_folders
from inventory.findings import Finding, Outcome, Reading, Threshold
from inventory.model import Frozen

_SHIPPED = Path(__file__).parent / "limits"


class Expectation(Frozen):
    """A figure somebody stands for: what a healthy part reaches, who says so and since when."""

    value: float = Field(gt=0)
    unit: str = Field(min_length=1)
    kind: Literal["measured", "specified", "modelled"]
    source: str = Field(min_length=10)
    date: date


class Share(Frozen):
    """A limit as a fraction of an expectation: at least, or at most, that share of it."""

    of: str  # name of the expectation
    at_least: float | None = Field(default=None, gt=0)
    at_most: float | None = Field(default=None, gt=0)
    remedy: str = Field(min_length=5)
    transport: tuple[str, ...] = ()  # how NCCL must have moved the data, one of these: "NVLS", "P2P", "NET/IB/GDRDMA"

    @model_validator(mode="after")
    def _limits_something(self) -> Share:
        if self.at_least is None and self.at_most is None:
            raise ValueError("limits nothing: give at_least or at_most")
        return self


class LimitsPack(Frozen):
    """All limits for one kind of node. What it holds for is said, since one figure per GPU model is not enough."""

    name: str
    version: str = Field(min_length=1)
    description: str
    gpu: str  # GPU model the figures hold for
    link: str  # "NVLink 4 through NVSwitch", "PCIe only"
    nvlink_domains: int = Field(ge=0)  # per collective; 0 = no NVLink
    expectations: dict[str, Expectation]
    thresholds: dict[str, Share]

    @model_validator(mode="after")
    def _every_share_has_its_expectation(self) -> LimitsPack:
        for metric, share in self.thresholds.items():
            if share.of not in self.expectations:
                raise ValueError(f"thresholds.{metric}.of names no expectation: {share.of!r}")
        return self

    @property
    def digest(self) -> str:
        """Changes with any figure, source or remedy; part of a burn-in's key."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def expectation(self, metric: str) -> Expectation | None:
        """The figure behind a metric's limit."""
        share = self.thresholds.get(metric)
        return self.expectations[share.of] if share else None

    def threshold(self, metric: str) -> Threshold | None:
        """The limit in the metric's own unit, with its share, expectation, source and date in words."""
        share = self.thresholds.get(metric)
        if share is None:
            return None
        expectation = self.expectations[share.of]
        return Threshold(
            metric=metric,
            at_least=_of(share.at_least, expectation),
            at_most=_of(share.at_most, expectation),
            remedy=share.remedy,
            source=f"{self.name} {self.version}: {_words(share)} of {share.of} "
            f"({expectation.value:g} {expectation.unit}, {expectation.kind}, {expectation.source}, {expectation.date})",
            unit=expectation.unit,
        )

    def judge(self, reading: Reading, *, cause: str = "") -> Finding:
        """Hold a reading against its limit. A metric without a limit is an error: absence is never a pass."""
        threshold = self.threshold(reading.metric)
        return threshold.judge(reading, cause=cause) if threshold else self._no_limit(reading)

    def transport(self, metric: str) -> tuple[str, ...]:
        """The ways NCCL may have moved the data for this metric; empty = none is named."""
        share = self.thresholds.get(metric)
        return share.transport if share else ()

    def _no_limit(self, reading: Reading) -> Finding:
        return Finding(
            metric=reading.metric,
            subject=reading.subject,
            outcome=Outcome.ERROR,
            observed=f"{reading.value} {reading.unit}".strip(),
            expected="a limit",
            remedy=f"Add a threshold for {reading.metric} with its source to limits pack {self.name}.",
            source=f"{self.name} {self.version}",
            cause=f"limits pack {self.name} has no limit for {reading.metric}, so nothing is proven",
            evidence=reading.evidence,
            value=reading.value,
            unit=reading.unit,
        )


def _of(fraction: float | None, expectation: Expectation) -> float | None:
    return None if fraction is None else round(fraction * expectation.value, 6)


def _words(share: Share) -> str:
    parts = [f"at least {share.at_least:.0%}"] if share.at_least is not None else []
    return " and ".join(parts + ([f"at most {share.at_most:.0%}"] if share.at_most is not None else []))


def load_limits(*folders: Path) -> dict[str, LimitsPack]:
    """All limits packs, shipped ones first; a site's pack of the same name wins.

    Raises `BadSettings` naming the file and the field.
    """
    return read_folders(load_pack, (_SHIPPED, *folders))


def load_pack(file: Path) -> LimitsPack:
    """One limits pack; raises `BadSettings` naming the file and the field."""
    return read_file(LimitsPack, file, "limits pack")
