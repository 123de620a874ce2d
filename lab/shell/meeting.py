"""Where two commands on one node or two wait for each other: a host opens a meeting, a partner comes to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.net_state import node_address


@dataclass(eq=False)
class Meeting:
    """One open door. `over` says how the host's side ended, so that the partner can tell the same."""

    host: Call
    partner: asyncio.Future[Call] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    over: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


open_meetings: dict[tuple[str, str], Meeting] = {}  # (host address, port)


def address_of(machine: Machine) -> str:
    """The address other nodes reach this one at."""
    return node_address(machine)
