"""A node whose OS is up, without a BMC or POST around it, and an operator's key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.clock import LabClock
from lab.hardware import Shape, build_node
from lab.hostkey import make_host_key, public_part
from lab.image import LAB_SOFTWARE, make_image
from lab.machine import Machine

SCALE = 10_000.0  # a minute of load in six milliseconds

MakeNode = Callable[..., Machine]


@pytest.fixture(scope="session")
def operator_key() -> str:
    """The private key that the seed lets in."""
    return make_host_key()


@pytest.fixture
def make_node(operator_key: str) -> MakeNode:
    """Makes healthy nodes with the lab's image booted."""

    def make(shape: Shape = Shape.HGX, number: int = 1, scale: float = SCALE) -> Machine:
        machine = Machine(build_node("R1", number, shape), LabClock(scale))
        drive = machine.state.drives[0]
        drive.content = make_image(LAB_SOFTWARE, 4096)
        drive.host_key = make_host_key()
        drive.seed = {
            "authorized_key": public_part(operator_key),
            "user": "root",
            "host_name": machine.name,
            "image_name": "lab-ubuntu-24.04",
            "image_digest": "ab" * 32,
        }
        machine.power, machine.os_up = "On", True
        machine.new_boot_id()
        machine.boot_log = ["Linux version 6.8.0-60-generic (lab@build) #1 SMP"]
        machine.ssh_address = f"127.78.1.{number}:22"
        return machine

    return make


@pytest.fixture
def node(make_node: MakeNode) -> Machine:
    """A healthy HGX node."""
    return make_node()
