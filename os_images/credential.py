"""A node's own credential inside a boot artifact: an area of fixed size that is filled in place, with no rebuild.

Standard library only: it goes into the ramdisk with the agent.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping

EMBED_MARKER = b"#rackmint-" + b"credential#\n"  # in two pieces, so that this file is not taken for an embed area
EMBED_SIZE = 4096  # bytes, marker included; our choice: one page holds URL, ids, token and a CA certificate


def embed_area() -> bytes:
    """The bytes a ramdisk builder puts, uncompressed, into the boot artifact; the service fills them per node."""
    return EMBED_MARKER.ljust(EMBED_SIZE)


def find_embed_area(data: bytes | mmap.mmap) -> int:
    """Where the empty embed area begins; raises `ValueError` when the artifact has none."""
    at = data.find(embed_area())
    if at < 0:
        raise ValueError("no empty credential area in this boot artifact: build it with one")
    return at


def filled_area(credential: Mapping[str, str]) -> bytes:
    """The embed area with a credential in it, of the same size; raises `ValueError` when it does not fit."""
    area = EMBED_MARKER + json.dumps(dict(credential)).encode()
    if len(area) > EMBED_SIZE:
        raise ValueError(f"the credential needs {len(area)} bytes, the area has {EMBED_SIZE}")
    return area.ljust(EMBED_SIZE)


def read_credential(data: bytes) -> dict[str, str]:
    """The credential embedded in a boot artifact or file; raises `ValueError` when there is none."""
    at = data.find(EMBED_MARKER + b"{")
    if at < 0:
        raise ValueError("no credential embedded here: this boot artifact was not made for a node")
    credential = json.loads(data[at + len(EMBED_MARKER) : at + EMBED_SIZE])
    if not {"service", "attempt", "token"} <= set(credential):
        raise ValueError("the embedded credential lacks service, attempt or token")
    return {str(key): str(value) for key, value in credential.items()}
