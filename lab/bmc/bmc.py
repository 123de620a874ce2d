"""One BMC's own memory: who is logged in, which tasks run, how often it was asked."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from lab.bmc.layout import LAYOUTS, Layout
from lab.machine import Machine

SESSION_LIMIT = 8  # an iDRAC's order of magnitude; check_redfish#89
SESSION_IDLE_S = 1800  # DMTF SessionService's usual default
TASK_KEPT_S = 60.0  # finished tasks are purged soon, as Dell does; our choice


@dataclass
class Session:
    """One login."""

    id: str
    token: str
    username: str
    used_at: float


@dataclass
class Task:
    """One long operation: running until `done_at`, then completed, then purged."""

    id: str
    name: str
    done_at: float
    failed: str = ""

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return time.monotonic() < self.done_at

    @property
    def purged(self) -> bool:
        """Whether the BMC has forgotten it."""
        return time.monotonic() > self.done_at + TASK_KEPT_S


@dataclass(frozen=True)
class Login:
    """The one account of a lab BMC."""

    username: str
    password: str


@dataclass
class Bmc:
    """A machine, how its maker lays out the tree, and the BMC's own memory."""

    machine: Machine
    login: Login
    sessions: dict[str, Session] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    requests: int = 0
    changes: int = 0  # requests meant to change anything but a login
    numbers: int = 0

    @property
    def layout(self) -> Layout:
        """Names and habits of this maker's BMC."""
        return LAYOUTS[self.machine.state.shape]

    @property
    def host(self) -> str:
        """Path of the host System."""
        return f"/Systems/{self.layout.host}"

    @property
    def chassis(self) -> str:
        """Path of the main chassis."""
        return f"/Chassis/{self.layout.chassis}"

    @property
    def manager(self) -> str:
        """Path of the host's manager."""
        return f"/Managers/{self.layout.manager}"

    def open_session(self, username: str) -> Session | None:
        """A new session; None when all slots are taken."""
        now = time.monotonic()
        self.sessions = {key: one for key, one in self.sessions.items() if now - one.used_at < SESSION_IDLE_S}
        if len(self.sessions) >= SESSION_LIMIT:
            return None
        session = Session(self.number(), secrets.token_hex(16), username, now)
        self.sessions[session.id] = session
        return session

    def session_of(self, token: str) -> Session | None:
        """The session a token belongs to; using it keeps it alive."""
        session = next((one for one in self.sessions.values() if token and one.token == token), None)
        if session:
            session.used_at = time.monotonic()
        return session

    def begin_task(self, name: str, machine_s: float) -> Task:
        """A task that takes `machine_s` on a real machine."""
        task = Task(self.number(), name, time.monotonic() + self.machine.clock.real_s(machine_s))
        self.tasks[task.id] = task
        return task

    def number(self) -> str:
        """The next id for a session or task."""
        self.numbers += 1
        return str(self.numbers)
