"""Which of a BMC's Systems is a node: never simply the first of the list."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inventory.redfish.crawl import Resource

# A BlueField's own BMC shows System "Bluefield"; newer firmware says SystemType DPU. Source: NVIDIA/libredfish.
_DPU = re.compile(r"bluefield", re.IGNORECASE)
# NVIDIA's GPU baseboards. Vera Rubin's has Bios too (NVIDIA/libredfish#107), so the name decides before the links do.
_BASEBOARD = re.compile(r"^HGX_Baseboard", re.IGNORECASE)


@dataclass(frozen=True)
class Systems:
    """A BMC's Systems by what they are."""

    hosts: tuple[Resource, ...]
    baseboards: tuple[Resource, ...]
    dpus: tuple[Resource, ...]


def sort_systems(systems: tuple[Resource, ...]) -> Systems:
    """Hosts have BIOS and boot settings; what has neither carries GPUs; a DPU is nobody's host."""
    dpus = tuple(s for s in systems if is_dpu(s))
    others = tuple(s for s in systems if s not in dpus)
    named = tuple(s for s in others if not _BASEBOARD.match(s.id))
    most = max((_claim(s) for s in named), default=0)
    hosts = tuple(s for s in named if _claim(s) == most)
    return Systems(hosts, tuple(s for s in others if s not in hosts), dpus)


def is_dpu(system: Resource) -> bool:
    """Whether this is a DPU's own operating system."""
    return system.raw("SystemType") == "DPU" or bool(_DPU.search(system.id))


def _claim(system: Resource) -> int:
    """How much speaks for a host: a Bios link counts for more than boot settings."""
    boot = system.raw("Boot")
    return 2 * bool(system.link("Bios")) + bool(isinstance(boot, dict) and boot)
