"""One simulated server with power and time: it POSTs, boots what it is told to, and dies when power is cut.

Everything it shows is derived from its `NodeState`; what runs after POST stands in `lab/boots.py`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lab import boots
from lab.clock import LabClock
from lab.hardware import DriveState, NodeState
from lab.image import read_image

# (share of the POST gone by, BootProgress.LastState). Names: DMTF ComputerSystem schema; shares are our choice.
POST_STEPS = (
    (0.0, "PrimaryProcessorInitializationStarted"),
    (0.1, "MemoryInitializationStarted"),
    (0.5, "PCIResourceConfigStarted"),
    (0.9, "SystemHardwareInitializationComplete"),
)
POST_S = 300.0  # GPU servers POST in 5 to 10 minutes
POWER_ON_S = 5.0  # "PoweringOn" until the rails are good; our choice
GRACEFUL_OFF_S = 20.0  # an OS shutting down; our choice
FORCE_OFF_S = 2.0  # our choice
_EVENTS_KEPT = 200  # a real SEL is small too
RESETS_FROM_OFF = frozenset({"On", "ForceOn"})

Work = Coroutine[Any, Any, None]
Wire = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass
class Override:
    """The boot source override as the BMC keeps it."""

    target: str = "None"
    enabled: str = "Disabled"
    mode: str = "UEFI"
    http_uri: str = ""

    def consume(self) -> str:
        """The target for this boot; `Once` is gone afterwards."""
        target = self.target if self.enabled != "Disabled" else "None"
        if self.enabled == "Once":
            self.target, self.enabled = "None", "Disabled"
        return target


@dataclass
class MediaSlot:
    """The virtual CD drive."""

    image: str = ""
    write_protected: bool = True


class PointlessReset(Exception):
    """Asked to switch on what is on, or off what is off: the BMC answers 409."""


@dataclass(eq=False)  # a machine is itself, whatever another looks like
class Machine:
    """Power, POST, boot and what came of it."""

    state: NodeState
    clock: LabClock
    power: str = "Off"  # On | Off | PoweringOn | PoweringOff
    post_s: float = POST_S
    override: Override = field(default_factory=Override)
    media: MediaSlot = field(default_factory=MediaSlot)
    locating: bool = False  # the identification light
    progress: str = "None"  # BootProgress.LastState
    progress_at: str = ""
    reset_at: str = ""  # when the last POST began
    posts: int = 0
    boots: list[str] = field(default_factory=list)  # "agent", "disk", "nothing"
    os_up: bool = False
    boot_id: str = ""
    boot_log: list[str] = field(default_factory=list)  # what the kernel said at boot, before any Xid
    agent_log: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)  # the BMC's event log: (time, text)
    ssh_address: str = ""  # "127.78.1.1:22022"
    joined: dict[str, str] | None = None  # kubeadm join's result; None = not in a cluster
    watchers: list[Callable[[], None]] = field(default_factory=list)  # told when faults change
    scars: dict[str, list[tuple[Any, str, Any]]] = field(default_factory=dict)  # fault → (part, attribute, old value)
    wire: Wire = dict  # what the network makes of a credential on its way to this node
    _life: asyncio.Task[None] | None = None
    _side: set[asyncio.Task[None]] = field(default_factory=set)
    _own: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The node's name in the book."""
        return self.state.name

    def fault(self, name: str) -> bool:
        """Whether a fault is injected here and has not worn off."""
        return name in self.state.faults and name not in self.state.recovered

    def wear_off(self, name: str) -> None:
        """A fault that ends by itself has ended."""
        self.state.recovered.add(name)

    def tell_watchers(self) -> None:
        """Faults have changed: who must act on it at once does."""
        for watcher in self.watchers:
            watcher()

    # --- what runs on it -------------------------------------------------------------------------------------------

    @property
    def boot_drive(self) -> DriveState | None:
        """The disk the firmware boots: the first with a whole image on it."""
        drives = sorted(self.state.drives, key=lambda drive: not drive.boot)
        return next((drive for drive in drives if drive.content and read_image(drive.content)), None)

    @property
    def running(self) -> bool:
        """Whether the installed OS is up."""
        return self.os_up and self.power == "On"

    @property
    def software(self) -> dict[str, str]:
        """What the image on the boot disk carries, as it was built."""
        drive = self.boot_drive
        return read_image(drive.content) if drive and drive.content else {}

    @property
    def seed(self) -> dict[str, str]:
        """What the installer left for the first boot."""
        drive = self.boot_drive
        return drive.seed if drive else {}

    @property
    def ssh_host_key(self) -> str:
        """The private host key of the installed OS, OpenSSH text; empty before its first boot."""
        drive = self.boot_drive
        return drive.host_key if drive else ""

    @property
    def kernel_log(self) -> list[str]:
        """The kernel ring buffer's text: boot lines, then every Xid of every GPU."""
        if not self.running:
            return []
        xids = [
            f"NVRM: Xid (PCI:{gpu.pci_address.rsplit('.', 1)[0]}): {code}, {text}"
            for gpu in self.state.gpus
            for code, text in gpu.xids
        ]
        return [*self.boot_log, *xids]

    @property
    def posted(self) -> bool:
        """Whether hardware initialisation is through, so that a GPU baseboard answers."""
        return self.power == "On" and self.progress in boots.AFTER_POST

    # --- power -----------------------------------------------------------------------------------------------------

    def reset(self, kind: str) -> None:
        """Begin a power transition; it goes on in the background. Raises `PointlessReset`."""
        if self._pointless(kind):
            raise PointlessReset(f"{kind} while {self.power}")
        if self.fault("power_accepted_no_effect"):
            return
        graceful = kind.startswith("Graceful") or kind == "PushPowerButton"
        if kind in RESETS_FROM_OFF:
            self._begin(self._power_on())
        elif kind in {"ForceOff", "GracefulShutdown", "PushPowerButton"}:
            self._begin(self._power_off(graceful))
        else:
            self._begin(self._restart(graceful))

    def _pointless(self, kind: str) -> bool:
        """Off asked of what is off, On of what is on; a shutdown under way may be forced, or followed by On."""
        if kind in RESETS_FROM_OFF:
            return self.power in {"On", "PoweringOn"}
        return self.power == "Off" or (self.power == "PoweringOff" and kind != "ForceOff")

    def switch_on_idle(self) -> None:
        """Stand powered, POSTed and with nothing booted, as a racked server does whose power came back."""
        self.power = "On"
        self.reach(boots.NOTHING_TO_BOOT)

    def halt(self) -> None:
        """The OS on it has ended the session by itself: power goes off."""
        self.power = "PoweringOff"
        self._begin(self._power_off(graceful=False))

    def reach(self, progress: str) -> None:
        """Note how far the boot has come."""
        self.progress = progress
        self.progress_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.events.append((self.progress_at, f"Boot progress: {progress}"))
        del self.events[:-_EVENTS_KEPT]

    def next_boot(self) -> str:
        """The target the override asks for at this boot."""
        sticks = self.fault("boot_once_sticks")
        return self.override.target if sticks else self.override.consume()

    def aside(self, work: Work) -> None:
        """Run something beside the boot that a power cut ends too."""
        task = asyncio.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    def keep(self, work: Work) -> None:
        """Run something of the BMC's own, which goes on without host power."""
        task = asyncio.create_task(work)
        self._own.add(task)
        task.add_done_callback(self._own.discard)

    async def stop(self) -> None:
        """End every task of this machine; used when the lab goes down."""
        tasks = [task for task in (self._life, *self._side, *self._own) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, life: Work) -> None:
        current = self._life
        self._life = asyncio.create_task(life)
        if current and current is not asyncio.current_task():
            current.cancel()

    async def _power_on(self) -> None:
        self._lose_power()
        self.power = "PoweringOn"
        self.reach("None")
        await self.clock.sleep(POWER_ON_S)
        await self._post_and_boot()

    async def _power_off(self, graceful: bool) -> None:
        self.power = "PoweringOff"
        await self.clock.sleep(GRACEFUL_OFF_S if graceful and self.os_up else FORCE_OFF_S)
        self._lose_power()
        self.power = "Off"
        self.reach("None")

    async def _restart(self, graceful: bool) -> None:
        await self.clock.sleep(GRACEFUL_OFF_S if graceful and self.os_up else FORCE_OFF_S)
        self._lose_power()
        await self._post_and_boot()

    def _lose_power(self) -> None:
        self.os_up = False
        for task in list(self._side):
            task.cancel()
        for gpu in self.state.gpus:
            gpu.ecc_volatile_uncorrectable = 0

    async def _post_and_boot(self) -> None:
        self.power = "On"
        self.posts += 1
        self.reset_at = datetime.now(UTC).isoformat(timespec="seconds")
        for (share, progress), (until, _) in zip(POST_STEPS, (*POST_STEPS[1:], (1.0, "")), strict=True):
            self.reach(progress)
            if progress == "PCIResourceConfigStarted":
                await self._configure()
            await self.clock.sleep(self.post_s * (until - share))
        await boots.boot(self)

    async def _configure(self) -> None:
        """The middle of POST: staged BIOS settings take hold, and a broken board may stay here for ever."""
        self.apply_bios()
        if self.fault("post_never_ends"):
            await asyncio.Event().wait()

    def apply_bios(self) -> None:
        """Staged settings take hold; with `bios_setting_reverts` the first of them does not."""
        pending = dict(self.state.bios_pending)
        self.state.bios_pending.clear()
        if pending and self.fault("bios_setting_reverts"):
            pending.pop(min(pending))
        self.state.bios.update(pending)

    def new_boot_id(self) -> None:
        """A booted kernel's own id, new at every boot."""
        self.boot_id = str(uuid.uuid4())
