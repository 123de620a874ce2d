"""take up: how far an imaging attempt is that another process began, and whether to go on with it or give it up.

A wipe must never begin twice: whoever starts a new attempt has first closed the old one in the ledger, in a write that
does not happen once the old agent has its job. A closed attempt's agent gets no job.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from flows.site import NodeSite
from inventory.ledger import AttemptEvent
from inventory.redfish import Bmc
from inventory.report import Stage
from os_images.attempts import ENDINGS, ending
from os_images.installers.agent_image import phoned_home

_ON = frozenset({"On", "PoweringOn"})
_SETUP = "SetupEntered"  # where firmware ends when nothing boots
# BootProgress.LastState once firmware is through with its boot sources. Source: DMTF DSP8010.
HANDED_OVER = frozenset({"OSBootStarted", "OSRunning", _SETUP})


class Far(StrEnum):
    """How far an attempt is that is worth going on with."""

    NOWHERE = "nowhere"  # there is none
    AGENT = "agent"  # its agent is at work, or will be when POST is through
    LAID = "laid"  # the image is on the disk, which has not been booted
    DISK = "disk"  # the disk's first boot is under way


class UnderWay(NamedTuple):
    """An attempt another process began."""

    far: Far
    attempt_id: str = ""


NOTHING = UnderWay(Far.NOWHERE)


def under_way(site: NodeSite, bmc: Bmc) -> UnderWay:
    """The attempt to go on with; any other that is open is closed for good."""
    ledger = site.site.ledger
    attempt = ledger.last_attempt(site.node.key)
    if attempt is None:
        return NOTHING
    events = ledger.attempt_events(attempt.attempt_id)
    end = ending(events)
    wanted = attempt.job["image"]["sha256"] == site.manifest.digest
    if end == "failed" or phoned_home(events) or (end and not wanted):
        return NOTHING
    steps = _steps(site, attempt.attempt_id)
    on = bmc.power() in _ON
    if end:
        booting = on and ("boot_disk" in steps or _woken_since(site, events[-1].at))
        return UnderWay(Far.DISK if booting else Far.LAID, attempt.attempt_id)
    go_on = UnderWay(Far.AGENT, attempt.attempt_id)
    if on and wanted and (_registered(events) or ("power_on" in steps and _may_come(bmc, events))):
        return go_on
    return NOTHING if give_up(site, attempt.attempt_id, cut_off=not (on and wanted)) else go_on


def _steps(site: NodeSite, attempt_id: str) -> set[str]:
    """What runs that were killed or stopped had noted for this attempt, each before it did it."""
    left = site.site.ledger.cut_off(site.node.key, Stage.IMAGE)
    return {step.step for step in left if step.detail.get("attempt") == attempt_id}


def _woken_since(site: NodeSite, at: datetime) -> bool:
    """Whether discovery found the node off since then, and powered it on from its disk."""
    ledger = site.site.ledger
    looks = [kept.record_id for kept in ledger.history(site.node.key) if kept.stage is Stage.DISCOVER]
    return any(step.step == "power_on" and step.at > at for look in looks for step in ledger.steps(look))


def _registered(events: tuple[AttemptEvent, ...]) -> bool:
    return any(event.kind == "registered" for event in events)


def _may_come(bmc: Bmc, events: tuple[AttemptEvent, ...]) -> bool:
    """Whether the agent may still come up: it was fetched, or firmware has yet to look for it."""
    progress, _ = bmc.boot_progress()
    if progress == _SETUP:
        return False
    return bool(events) or progress not in HANDED_OVER


def give_up(site: NodeSite, attempt_id: str, *, cut_off: bool = False) -> bool:
    """Close an attempt for good; False when its agent got the job in this very moment and must not be disturbed.

    `cut_off`: its agent is known to be gone, or to write what nobody wants any more.
    """
    said = {"text": "given up: the run that began it has ended, and the node is booted anew"}
    ledger = site.site.ledger
    bars = ENDINGS if cut_off else (*ENDINGS, "registered")
    return ledger.attempt_event(attempt_id, "failed", said, unless=bars) or bool(
        ending(ledger.attempt_events(attempt_id))
    )
