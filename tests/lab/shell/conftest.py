"""A node with an installed OS, and SSH servers for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lab.clock import LabClock
from lab.hardware import NodeState, Shape, build_node
from lab.hostkey import make_host_key, public_part
from lab.image import LAB_SOFTWARE


@dataclass(eq=False)
class BootedNode:
    """A machine whose OS is up, without power or BMC around it."""

    state: NodeState
    key: str = field(default_factory=make_host_key)  # the operator's
    clock: LabClock = field(default_factory=lambda: LabClock(10_000.0))
    software: dict[str, str] = field(default_factory=lambda: dict(LAB_SOFTWARE))
    boot_id: str = "0a1b2c3d-0000-4000-8000-000000000001"
    boot_log: list[str] = field(default_factory=list)
    joined: dict[str, Any] | None = None
    running: bool = True
    ssh_host_key: str = field(default_factory=make_host_key)
    ssh_address: str = ""

    @property
    def seed(self) -> dict[str, str]:
        """What the installer left."""
        return {
            "authorized_key": public_part(self.key),
            "user": "root",
            "host_name": self.state.name,
            "image_name": "lab-ubuntu-24.04",
            "image_digest": "ab" * 32,
        }

    @property
    def kernel_log(self) -> list[str]:
        """Boot lines, then Xids."""
        xids = [
            f"NVRM: Xid (PCI:{gpu.pci_address.rsplit('.', 1)[0]}): {code}, {text}"
            for gpu in self.state.gpus
            for code, text in gpu.xids
        ]
        return [*self.boot_log, *xids]

    def fault(self, name: str) -> bool:
        """Whether a fault is planted."""
        return name in self.state.faults


def booted(shape: Shape = Shape.HGX, number: int = 1) -> BootedNode:
    """A healthy node with the lab image on it."""
    return BootedNode(build_node("R1", number, shape))


@pytest.fixture
def node() -> BootedNode:
    """A healthy HGX node."""
    return booted()
