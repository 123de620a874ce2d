"""Limits packs: every limit is a share of a figure with a source, and a broken pack is refused by file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnin.limits import LimitsPack, load_limits, load_pack
from inventory.classes import load_classes
from inventory.errors import BadSettings
from inventory.findings import Outcome, Reading

_PACK = """
name = "here"
version = "1"
description = "a pack of this test"
gpu = "X"
link = "none"
nvlink_domains = 0
[expectations.line]
value = 400.0
unit = "Gbit/s"
kind = "specified"
source = "the adapter's data sheet"
date = 2026-01-02
[thresholds.ib_write_bw_gbit_s]
of = "line"
at_least = 0.9
remedy = "Look at the cable."
"""


def _written(folder: Path, text: str) -> Path:
    file = folder / "here.toml"
    file.write_text(text)
    return file


def test_every_class_finds_its_pack(packs: dict[str, LimitsPack]) -> None:
    """No shipped node class names a limits pack that is not there."""
    lacking = {c.limits for c in load_classes().values() if c.name.startswith("lab-")} - set(packs)
    assert set() == lacking


def test_every_pack_limits_every_measured_metric(packs: dict[str, LimitsPack]) -> None:
    """A metric without a limit would be an error on every node."""
    nccl = {f"nccl_{what}_busbw_gb_s" for what in ("all_reduce", "all_gather", "loopback_net", "pair")}
    parts = {"h2d_gb_s", "d2h_gb_s", "hbm_gb_s", "gemm_tflops", "gpu_temperature_c", "ib_write_bw_gbit_s"}
    lacking = {(name, metric) for name, pack in packs.items() for metric in (nccl | parts) - set(pack.thresholds)}
    assert set() == lacking


def test_every_bandwidth_names_its_transport(packs: dict[str, LimitsPack]) -> None:
    """A NCCL figure is no proof without the way the data went."""
    without = [(name, m) for name, p in packs.items() for m in p.thresholds if "busbw" in m and not p.transport(m)]
    assert [] == without


def test_a_threshold_prints_share_expectation_source_and_date(tmp_path: Path) -> None:
    """The limit in its unit, and everything one needs to doubt it."""
    threshold = load_pack(_written(tmp_path, _PACK)).threshold("ib_write_bw_gbit_s")
    assert threshold is not None
    assert ("at least 360 Gbit/s", 360.0) == (threshold.expected, threshold.at_least)
    wanted = "here 1: at least 90% of line (400 Gbit/s, specified, the adapter's data sheet, 2026-01-02)"
    assert wanted == threshold.source


def test_a_metric_without_a_limit_is_an_error(pack: LimitsPack) -> None:
    """Absence is never a pass."""
    finding = pack.judge(Reading(metric="nvme_read_gb_s", subject="node", value=6.0, unit="GB/s"))
    assert (Outcome.ERROR, "6.0 GB/s") == (finding.outcome, finding.observed)


def test_a_site_pack_of_the_same_name_wins(tmp_path: Path) -> None:
    """A site's own golden run replaces ours."""
    _written(tmp_path, _PACK.replace('"here"', '"lab-hgx"'))
    assert "a pack of this test" == load_limits(tmp_path)["lab-hgx"].description


def test_the_digest_changes_with_any_figure(tmp_path: Path) -> None:
    """A burn-in is repeated when its limits change."""
    before = load_pack(_written(tmp_path, _PACK)).digest
    after = load_pack(_written(tmp_path, _PACK.replace("400.0", "401.0"))).digest
    assert before != after


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("value = 400.0", "", "expectations.line.value: Field required"),
        ("value = 400.0", "value = 0", "expectations.line.value: Input should be greater than 0"),
        ("the adapter's data sheet", "?", "expectations.line.source: String should have at least 10"),
        ("date = 2026-01-02", "", "expectations.line.date: Field required"),
        ("at_least = 0.9", "", "thresholds.ib_write_bw_gbit_s: Value error, limits nothing"),
        ('of = "line"', 'of = "lime"', "names no expectation: 'lime'"),
        ("at_least = 0.9", "at_leest = 0.9", "at_leest: Extra inputs are not permitted"),
        ("value = 400.0", "value = = 400", "Invalid value"),
    ],
)
def test_a_broken_pack_is_refused_by_file_and_field(tmp_path: Path, old: str, new: str, says: str) -> None:
    """Before any node is touched, and with the place to mend."""
    file = _written(tmp_path, _PACK.replace(old, new))
    with pytest.raises(BadSettings) as refused:
        load_pack(file)
    assert says in str(refused.value)
    assert str(file) in str(refused.value)
