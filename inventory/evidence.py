"""Keeps raw answers by their sha256, in a folder or at any fsspec URL, and hands back `Evidence`."""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime

import fsspec

from inventory.errors import LedgerUnavailable
from inventory.findings import Evidence
from inventory.redact import Redactor


class EvidenceStore:
    """Raw answers, written once each under `<url>/<first two hex digits>/<sha256>`; secrets are blotted out first."""

    def __init__(self, url: str, redactor: Redactor | None = None) -> None:
        self._url = url.rstrip("/")
        self._fs, self._root = fsspec.core.url_to_fs(self._url)
        self._redactor = redactor or Redactor()

    def keep(self, raw: bytes, *, asked: str, of: str, at: datetime, took_s: float, status: str) -> Evidence:
        """Store one raw answer and describe it; raises `LedgerUnavailable` when the store is full or not writable."""
        clean = self._redactor.clean_bytes(raw)
        digest = hashlib.sha256(clean).hexdigest()
        path = self._path(digest)
        try:
            if not self._fs.exists(path):
                self._write(path, clean)
        except OSError as error:
            said = error.strerror or str(error)
            raise LedgerUnavailable(
                f"evidence {self._url}: {said}. Make room or mend its permissions, then run the same command again"
            ) from error
        return Evidence(
            asked=self._redactor.clean(asked), of=of, at=at, took_s=round(took_s, 3), status=status, sha256=digest
        )

    def _write(self, path: str, raw: bytes) -> None:
        """Whole or not at all, from many threads at once: a name of its own first, then the final one."""
        # fsspec's transactions are no help: one per file system, shared by all threads, and they trip over each other.
        begun = f"{path}.{uuid.uuid4().hex}"
        self._fs.makedirs(self._fs._parent(path), exist_ok=True)
        with self._fs.open(begun, "wb") as file:
            file.write(raw)
        self._fs.mv(begun, path)

    def read(self, sha256: str) -> bytes:
        """The raw answer behind an evidence; `FileNotFoundError` if it was never kept here."""
        with self._fs.open(self._path(sha256), "rb") as file:
            return bytes(file.read())

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"
