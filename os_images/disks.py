"""Which disk an image is laid on: one explicit rule, and never somebody else's data unasked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from os_images.agent import DiskFacts

OURS = "rackmint"  # a signature that begins so was laid by us and may be overwritten


class DiskRefused(Exception):
    """No disk of this machine may be written; the text says why and what to do."""


def choose_disk(disks: tuple[DiskFacts, ...], rule: Mapping[str, Any]) -> DiskFacts:
    """The one disk the rule means. Raises `DiskRefused` when it means none, several, or somebody else's data.

    Never "the first disk": without a path, WWN or model in the rule it is the smallest one that holds the image, and
    two of the same size are one too many.
    """
    meant = [disk for disk in disks if _meant(disk, rule)]
    if not meant:
        raise DiskRefused(f"no disk fits the rule {_words(rule)}; {_seen(disks)}. Check the drive bay and the class")
    large = [disk for disk in meant if disk.size_bytes >= int(rule.get("min_disk_bytes", 0))]
    if not large:
        raise DiskRefused(f"too small for {rule['min_disk_bytes']} bytes; {_seen(tuple(meant))}. Use another disk")
    smallest = min(disk.size_bytes for disk in large)
    chosen = [disk for disk in large if disk.size_bytes == smallest]
    if len(chosen) > 1:
        raise DiskRefused(f"{len(chosen)} disks fit alike; {_seen(tuple(chosen))}. Name boot_disk.by_path in the class")
    return _not_foreign(chosen[0], wipe=bool(rule.get("wipe")))


def _meant(disk: DiskFacts, rule: Mapping[str, Any]) -> bool:
    named = all(not rule.get(key) or rule[key] == getattr(disk, key) for key in ("by_path", "wwn", "model"))
    return named and disk.size_bytes <= int(rule.get("size_bytes_at_most") or disk.size_bytes)


def _not_foreign(disk: DiskFacts, *, wipe: bool) -> DiskFacts:
    if disk.signature and not disk.signature.startswith(OURS) and not wipe:
        raise DiskRefused(
            f"disk {disk.by_path} ({disk.model}, serial {disk.serial}) carries {disk.signature}: somebody else's data. "
            "Look at it, then approve wiping it"
        )
    return disk


def _words(rule: Mapping[str, Any]) -> str:
    said = [f"{key} {rule[key]}" for key in ("by_path", "wwn", "model", "size_bytes_at_most") if rule.get(key)]
    return ", ".join(said) or "smallest that holds the image"


def _seen(disks: tuple[DiskFacts, ...]) -> str:
    shown = "; ".join(f"{d.by_path} {d.model} {d.size_bytes} bytes" for d in disks)
    return f"seen: {shown or 'no disk at all'}"
