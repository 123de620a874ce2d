"""An asyncio loop in a thread, so that synchronous callers, tests first of all, can have servers beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE_S = 60.0  # a lab that needs longer to start or stop is stuck; our choice
_GOODBYE_S = 0.02  # for connections that were just closed to be gone; our choice


class BackgroundLoop:
    """Runs coroutines for a thread that has no loop; a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="lab", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine's result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_PATIENCE_S)

    def stop(self) -> None:
        """Cancel what still runs, end the loop and its thread."""
        self.run(_cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_PATIENCE_S)
        self.loop.close()

    def __enter__(self) -> BackgroundLoop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.sleep(_GOODBYE_S)
