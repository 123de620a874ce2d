"""What a fault is: which parts of a node it changes, and how that is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lab.hardware import NodeState, Shape
from lab.machine import Machine

Parts = Callable[[NodeState], Iterable[Any]]
_ALL = frozenset(Shape)


@dataclass(frozen=True)
class Touch:
    """Which parts of a node a fault changes, and to what; a callable value makes the new from the old."""

    parts: Parts
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """One way to break a node. `what` is one sentence; `cites` is the public report."""

    name: str
    stage: str  # where it should be found
    what: str
    cites: str
    touches: tuple[Touch, ...] = ()
    knobs: Mapping[str, float] = field(default_factory=dict)
    shapes: frozenset[Shape] = _ALL
    surface: str = "node"  # "netbox" and "kubernetes": also possible for the whole lab

    def apply(self, machine: Machine) -> None:
        """Break it; a second time changes nothing. Raises `ValueError` on a shape that cannot have it."""
        state = machine.state
        if state.shape not in self.shapes:
            raise ValueError(f"{self.name}: a {state.shape} machine cannot have it")
        state.recovered.discard(self.name)
        state.knobs.update(self.knobs)
        if self.name not in state.faults:
            state.faults.add(self.name)
            machine.scars[self.name] = [scar for touch in self.touches for scar in _change(touch, state)]
        machine.tell_watchers()

    def heal(self, machine: Machine) -> None:
        """Mend it; what was not broken stays as it is."""
        state = machine.state
        state.faults.discard(self.name)
        state.recovered.discard(self.name)
        for knob in self.knobs:
            state.knobs.pop(knob, None)
        for part, attribute, old in reversed(machine.scars.pop(self.name, [])):
            setattr(part, attribute, old)
        machine.tell_watchers()


def _change(touch: Touch, state: NodeState) -> list[tuple[Any, str, Any]]:
    """Set the new values; what stood there before is the scar."""
    scars = []
    for part in touch.parts(state):
        for attribute, new in touch.values.items():
            old = getattr(part, attribute)
            scars.append((part, attribute, old))
            setattr(part, attribute, new(deepcopy(old)) if callable(new) else deepcopy(new))
    return scars


def gpu(index: int) -> Parts:
    """The GPU of one nvidia-smi index."""
    return lambda state: [state.gpus[index]]


def nic(index: int) -> Parts:
    """One network adapter."""
    return lambda state: [state.nics[index]]


def every_nic(state: NodeState) -> Iterable[Any]:
    """All network adapters."""
    return state.nics


def dimm(index: int) -> Parts:
    """One memory module."""
    return lambda state: [state.dimms[index]]


def boot_drive(state: NodeState) -> Iterable[Any]:
    """The disk that the class wants imaged."""
    return [drive for drive in state.drives if drive.boot]


def xid(code: int, text: str) -> Callable[[list[tuple[int, str]]], list[tuple[int, str]]]:
    """One more line in the kernel log."""
    return lambda old: [*old, (code, text)]


def another_serial(old: str) -> str:
    """A serial of the same form."""
    return f"{old[:4]}{(int(old[4:]) + 4711) % 10 ** len(old[4:]):0{len(old) - 4}d}"


def another_uuid(old: str) -> str:
    """A UUID of the same form."""
    return f"{old[:-4]}{int(old[-4:], 16) ^ 0x0FF0:04x}"
