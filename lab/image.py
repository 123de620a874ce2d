"""The stand-in for an OS image: a marked header that says which software it carries, then padding.

What a booted node reports is what stands in the image on its boot disk, so laying the wrong image shows everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache

MARK = b"RACKMINT-LAB-IMAGE 1\n"
END = b"\nEND-OF-LAB-IMAGE\n"  # a cut-off image has no end and must not boot

# What the lab's own image carries. The versions are of one family, as they would be on a real HGX H100 image.
LAB_SOFTWARE: Mapping[str, str] = {
    "os": "ubuntu 24.04",
    "kernel": "6.8.0-60-generic",
    "driver": "570.158.01",
    "cuda": "12.8",
    "nccl": "2.26.2",
    "fabric_manager": "570.158.01",
    "dcgm": "4.2.3",
    "containerd": "2.1.4",
    "kubelet": "1.34.2",
    "kubeadm": "1.34.2",
    "nccl_tests": "2.16.4",
}


def make_image(software: Mapping[str, str], size: int) -> bytes:
    """An image of exactly `size` bytes; its padding is not compressible, as a real image's is not."""
    head = MARK + json.dumps(dict(software), sort_keys=True).encode() + b"\n"
    room = size - len(head) - len(END)
    if room < 0:
        raise ValueError(f"{size} bytes are too few for a lab image: {len(head) + len(END)} at least")
    return head + _padding(head, room) + END


def read_image(content: bytes) -> dict[str, str]:
    """The software a laid image carries; empty when what lies there is no whole image."""
    return dict(_read(content))


@lru_cache(maxsize=8)  # every command on every node asks; a rack holds one or two images
def _read(content: bytes) -> tuple[tuple[str, str], ...]:
    if not content.startswith(MARK) or not content.rstrip(b"\0").endswith(END):
        return ()
    line, _, _ = content[len(MARK) :].partition(b"\n")
    try:
        return tuple((str(name), str(value)) for name, value in json.loads(line).items())
    except ValueError:
        return ()


def _padding(seed: bytes, count: int) -> bytes:
    """Seeded noise: the same software gives the same bytes, and so the same digest, for ever."""
    return hashlib.shake_256(seed).digest(count)


_SHARED: dict[bytes, bytes] = {}


def share(content: bytes) -> bytes:
    """The same bytes for the same whole image, so that 64 imaged nodes hold one copy."""
    if not read_image(content):
        return content
    return _SHARED.setdefault(hashlib.sha256(content).digest(), content)
