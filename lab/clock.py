"""Compressed time: a POST that takes five minutes on a real server takes three seconds here, or less."""

from __future__ import annotations

import asyncio


class LabClock:
    """Turns the seconds a real machine would take into the seconds the lab takes."""

    def __init__(self, scale: float = 100.0) -> None:
        if scale <= 0:
            raise ValueError(f"a clock of scale {scale} never moves")
        self.scale = scale

    def real_s(self, machine_s: float) -> float:
        """How long the lab takes for what a machine does in `machine_s`."""
        return machine_s / self.scale

    async def sleep(self, machine_s: float) -> None:
        """Wait as long as a machine would, compressed."""
        await asyncio.sleep(self.real_s(machine_s))
