"""Which of a BMC's Systems is a node: never simply the first of the list."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from inventory.redfish.crawl import Reader, Resource

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
    asleep: tuple[str, ...] = ()  # URIs that answered 503: a baseboard whose host is off


def sort_systems(systems: tuple[Resource, ...]) -> Systems:
    """Hosts have BIOS and boot settings; what has neither carries GPUs; a DPU is nobody's host."""
    dpus = tuple(s for s in systems if is_dpu(s))
    others = tuple(s for s in systems if s not in dpus)
    named = tuple(s for s in others if not _BASEBOARD.match(s.id))
    most = max((_claim(s) for s in named), default=0)
    hosts = tuple(s for s in named if _claim(s) == most)
    return Systems(hosts, tuple(s for s in others if s not in hosts), dpus)


def find_systems(reader: Reader, uri: str) -> Systems:
    """All Systems of a BMC; what answers "not now" is not waited for, unless no host could be read without."""
    uris = reader.collection(uri, "systems") or ()
    reader.wire.be_patient(0.0)
    found = _read(reader, uris)
    if not sort_systems(found).hosts:
        reader.wire.be_patient()
        reader.forget(f"{uri}/")
        found = _read(reader, uris)
    reader.wire.be_patient()
    awake = {system.uri for system in found}
    return replace(sort_systems(found), asleep=tuple(uri for uri in uris if uri not in awake))


def _read(reader: Reader, uris: tuple[str, ...]) -> tuple[Resource, ...]:
    read = (reader.get(uri, f"systems[{uri.rpartition('/')[2]}]") for uri in uris)
    return tuple(system for system in read if system)


def is_dpu(system: Resource) -> bool:
    """Whether this is a DPU's own operating system."""
    return system.raw("SystemType") == "DPU" or bool(_DPU.search(system.id))


def _claim(system: Resource) -> int:
    """How much speaks for a host: a Bios link counts for more than boot settings."""
    boot = system.raw("Boot")
    return 2 * bool(system.link("Bios")) + bool(isinstance(boot, dict) and boot)
