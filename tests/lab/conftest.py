"""What the lab's own tests share: an image service as nodes meet it, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

Until = Callable[..., None]


@pytest.fixture
def until() -> Until:
    """Wait until something holds, or fail naming it."""

    def wait(there: Callable[[], object], limit_s: float = 15.0) -> None:
        ends = time.monotonic() + limit_s
        while not there():
            assert time.monotonic() < ends, f"not within {limit_s} s"
            time.sleep(0.01)

    return wait
