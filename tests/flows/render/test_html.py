"""The report as a page: whole, self-contained, and with links that open."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from flows.render.html import page
from inventory.evidence import EvidenceStore
from inventory.findings import Outcome
from inventory.model import now
from inventory.report import Stage, StageRecord
from tests.flows.render.reports import AT, finding, node, rack


def test_the_verdict_and_the_causes_come_first() -> None:
    """Before any table: how many of each, and each node's cause with what to do."""
    shown = page(rack(node("r1-n01", finding(cause="GPU 1 is an H20")), node("r1-n02", finding(Outcome.PASS))))
    head = shown[: shown.index("<table")]
    assert "1 undecided</span>, <span" in head  # r1-n02 has not been through all stages
    assert "1 rejected" in head
    assert "GPU 1 is an H20" in head
    assert "Swap the GPU" in head


def test_every_finding_is_there_with_reading_limit_source_and_evidence() -> None:
    """Passes too, though folded away."""
    shown = page(rack(node("r1-n01", finding(Outcome.PASS, observed="80 GB", expected="at least 80 GB"))))
    for said in ("80 GB", "at least 80 GB", "class x: the order of 2026", "ababababab"):
        assert said in shown


def test_links_to_evidence_open_from_where_the_page_lies(tmp_path: Path) -> None:
    """Relative to the page, with blanks and all, to the raw answer itself."""
    store = EvidenceStore(str(tmp_path / "the state" / "evidence"))
    kept = store.keep(b"raw", asked="x", of="r1-n01", at=now(), took_s=0.0, status="exit 0")
    file = tmp_path / "reports" / "report.html"
    shown = page(rack(node("r1-n01", finding(evidence=kept))), evidence_url=str(tmp_path / "the state" / "evidence"),
                 beside=file)  # fmt: skip
    links = {link for link in re.findall(r'href="([^#"]+)"', shown) if link.endswith(kept.sha256)}
    assert [b"raw"] == [(file.parent / unquote(link)).resolve().read_bytes() for link in links]


def test_evidence_that_no_browser_opens_is_named_and_not_linked() -> None:
    """In a bucket: the digest, no dead link."""
    shown = page(rack(node("r1-n01", finding())), evidence_url="s3://bucket/evidence", beside=Path("/r/report.html"))
    assert "ababababab" in shown
    assert not re.findall(r'href="[^#"]', shown)


def test_nothing_is_fetched_and_nothing_runs() -> None:
    """No script, no style sheet, no image, no font from anywhere; the page forbids it to itself."""
    shown = page(rack(node("r1-n01", finding())))
    assert not re.findall(r"<(script|link|img|iframe|object)\b", shown)
    assert "default-src &#39;none&#39;" in shown or "default-src 'none'" in shown
    assert "url(" not in shown


def test_a_curve_is_drawn_with_its_limit() -> None:
    """What a bandwidth test measured over message size, as a picture without any script."""
    judged = finding(
        Outcome.PASS, metric="nccl_all_reduce_busbw_gb_s", observed="478.8", expected="at least 446.4 GB/s"
    )
    curve = {"tests": {"nccl_all_reduce": {"curve": [[8, 100.0], [1024, 400.0], [2**33, 480.0]]}, "gemm": {}}}
    record = StageRecord(stage=Stage.BURN_IN, findings=(judged,), details=curve, started_at=AT, ended_at=AT)
    shown = page(rack(node("r1-n01").plus(record)))
    assert 1 == shown.count("<polyline")
    assert 1 == shown.count("<line ")
    assert "478.8 GB/s, expected at least 446.4 GB/s; 8 B to 8 GiB" in shown


def test_eight_parts_that_say_the_same_are_one_row_with_all_their_evidence() -> None:
    """A rack of 64 must open on a phone."""
    found = [finding(Outcome.PASS, f"GPU slot {n}") for n in range(1, 9)]
    shown = page(rack(node("r1-n01", *found)))
    assert "GPU slot 1…8" in shown
