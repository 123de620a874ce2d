"""Recorded and hand-written answers of tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def transcript() -> Callable[[str], str]:
    """The text of one hand-written answer."""
    return lambda name: (ROOT / "tests" / "transcripts" / name).read_text()


@pytest.fixture
def sample() -> Callable[[str], str]:
    """The text of one recorded answer beside the repository; skips, saying so, where it is not there."""

    def read(name: str) -> str:
        file = ROOT.parent / "shared" / "samples" / name
        if not file.exists():
            pytest.skip(f"no recorded sample {name} beside the repository")
        return file.read_text(errors="replace")

    return read
