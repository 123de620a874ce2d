"""One site with its ledger and image, and one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.ledger import Ledger
from tests.os_images.boxes import Box, Site, fill


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of this test's own."""
    opened = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def site(ledger: Ledger, tmp_path: Path) -> Iterator[Site]:
    """A site whose services are not started yet; all that are started are stopped at the end."""
    made = Site(ledger, fill(tmp_path / "images"))
    yield made
    for service in made.services:
        service.stop()


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """The machine the attempts are for."""
    return Box(tmp_path)
