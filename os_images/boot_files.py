"""Boot artifacts with one node's credential in them, made while they are read: no rebuild and no copy."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from os_images.credential import EMBED_SIZE, filled_area, find_embed_area

_PIECE = 1 << 18  # bytes a read; our choice


@dataclass(frozen=True, slots=True)
class BootFile:
    """One artifact as one node shall get it, byte for byte as long as the original."""

    path: Path
    size: int
    patch_at: int
    patch: bytes

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` to before `stop`, with the credential laid over them."""
        with self.path.open("rb") as file:
            file.seek(start)
            while start < stop and (piece := file.read(min(_PIECE, stop - start))):
                yield self._patched(piece, start)
                start += len(piece)

    def _patched(self, piece: bytes, start: int) -> bytes:
        first, last = max(start, self.patch_at), min(start + len(piece), self.patch_at + len(self.patch))
        if first >= last:
            return piece
        over = self.patch[first - self.patch_at : last - self.patch_at]
        return piece[: first - start] + over + piece[last - start :]


def boot_file(path: Path, credential: Mapping[str, str]) -> BootFile:
    """The artifact for one node. Raises `OSError` when it is not there, `ValueError` when it has no credential area.

    A signed boot artifact does not survive this: under Secure Boot the credential must come by another way.
    """
    stat = path.stat()
    return BootFile(path, stat.st_size, _area(path, stat.st_size, stat.st_mtime_ns), filled_area(credential))


@lru_cache(maxsize=16)
def _area(path: Path, size: int, mtime_ns: int) -> int:
    """Where the empty area lies; looked for once per version of a file."""
    if size < EMBED_SIZE:
        return find_embed_area(b"")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return find_embed_area(mapped)
