"""Blots out known secrets by value before anything is written or shown."""

from __future__ import annotations

import threading

_SHORTEST = 4  # our choice: blotting out shorter values would eat ordinary text


class Redactor:
    """Knows every secret that was resolved in this process and replaces it by `[redacted]`."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._lock = threading.Lock()

    def learn(self, secret: str) -> None:
        """From now on this value is never written."""
        if len(secret) >= _SHORTEST:
            with self._lock:
                self._values.add(secret)

    def clean(self, text: str) -> str:
        """The text without any known secret; the longest are taken first, so that parts of one leave no rest."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "[redacted]")
        return text

    def clean_bytes(self, raw: bytes) -> bytes:
        """As `clean`, on bytes."""
        for value in sorted(self._values, key=len, reverse=True):
            raw = raw.replace(value.encode(), b"[redacted]")
        return raw


REDACTOR = Redactor()  # one a process: a secret learnt at one door must not leave by another
