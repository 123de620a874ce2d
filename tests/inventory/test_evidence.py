"""Raw answers are kept once, whole, by their digest, without secrets, by any number of threads."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inventory.evidence import EvidenceStore
from inventory.findings import Evidence
from inventory.model import now
from inventory.redact import Redactor


def keep(store: EvidenceStore, raw: bytes) -> Evidence:
    """Keep an answer."""
    return store.keep(raw, asked="GET /", of="n1", at=now(), took_s=0.1, status="HTTP 200")


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_what_was_kept_is_read_back(tmp_path: Path, where: str) -> None:
    """The digest names exactly the bytes that come back, in a folder and at an fsspec URL."""
    store = EvidenceStore(str(tmp_path / "e") if where == "folder" else "memory://kept")
    evidence = keep(store, b"an answer")
    assert hashlib.sha256(b"an answer").hexdigest() == evidence.sha256
    assert store.read(evidence.sha256) == b"an answer"


def test_many_threads_keep_the_same_and_other_answers(tmp_path: Path) -> None:
    """Sixteen threads at once lose nothing and leave no half-written file."""
    store = EvidenceStore(str(tmp_path))
    answers = [f"answer {number % 40}".encode() for number in range(400)]
    with ThreadPoolExecutor(16) as threads:
        kept = list(threads.map(lambda raw: keep(store, raw), answers))
    assert [store.read(evidence.sha256) for evidence in kept] == answers
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 40


def test_a_secret_is_blotted_out_before_it_is_kept(tmp_path: Path) -> None:
    """Neither the raw answer nor the question keeps a secret that is known."""
    redactor = Redactor()
    redactor.learn("hunter2secret")
    store = EvidenceStore(str(tmp_path), redactor)
    evidence = store.keep(b"pw=hunter2secret", asked="x hunter2secret", of="n", at=now(), took_s=0, status="exit 0")
    assert store.read(evidence.sha256) == b"pw=[redacted]"
    assert evidence.asked == "x [redacted]"
