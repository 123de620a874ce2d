"""Blots out known secrets by value, in every way one may be written, before anything is kept or shown."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

BLOT = "[redacted]"
_SHORTEST = 4  # our choice: blotting out shorter values would eat ordinary text
_SHORTEST_ENCODED = 8  # our choice: shorter pieces of base64 are met by chance
_LONG_LINE = 24  # our choice: a line of a key file gives the key away, "-----BEGIN" does not
_WORD = re.compile(r"[A-Za-z0-9_-]{16,}")  # what a token we mint is written in, and no shorter than the shortest
_WORD_BYTES = re.compile(rb"[A-Za-z0-9_-]{16,}")
# A boot artifact's address carries its token, also when another process minted it. Source: os_images/service.py.
_BOOT = re.compile(r"(/boot/[^/\s\"]+/)[A-Za-z0-9_-]{16,}(/agent\.)")
_BOOT_BYTES = re.compile(rb"(/boot/[^/\s\"]+/)[A-Za-z0-9_-]{16,}(/agent\.)")
_WORDS_ALONE = frozenset({"outcome", "stage"})  # fields of our own that hold one of a few words: never blotted out


class Redactor:
    """Knows every secret that was resolved or minted in this process and replaces it by `[redacted]`."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._spellings: tuple[tuple[str, bytes], ...] = ()  # longest first, so that parts of one leave no rest
        self._tokens: set[str] = set()
        self._tokens_raw: set[bytes] = set()  # the same, as bytes
        self._lock = threading.Lock()

    def learn(self, secret: str) -> None:
        """From now on this value is never written: not as it is, escaped, quoted, in base64, nor line by line."""
        if secret in self._known:
            return
        with self._lock:
            written = {text for text, _ in self._spellings} | _spellings(secret)
            self._spellings = tuple((text, text.encode()) for text in sorted(written, key=len, reverse=True))
            self._known.add(secret)

    def learn_token(self, token: str) -> None:
        """As `learn`, for tokens of letters, digits, - and _ that we mint by the hundred: costs nothing per token."""
        with self._lock:
            words = _WORD.findall(token)
            self._tokens |= set(words)
            self._tokens_raw |= {word.encode() for word in words}

    def clean(self, text: str) -> str:
        """The text without any known secret."""
        for spelling, _ in self._spellings:
            if spelling in text:
                text = text.replace(spelling, BLOT)
        if not self._tokens.isdisjoint(_WORD.findall(text)):  # asked first: most texts carry none, and are long
            text = _WORD.sub(self._word, text)
        return _BOOT.sub(rf"\1{BLOT}\2", text)

    def clean_bytes(self, raw: bytes) -> bytes:
        """As `clean`, on bytes."""
        for _, spelling in self._spellings:
            if spelling in raw:
                raw = raw.replace(spelling, BLOT.encode())
        if not self._tokens_raw.isdisjoint(_WORD_BYTES.findall(raw)):
            raw = _WORD_BYTES.sub(self._word_bytes, raw)
        return _BOOT_BYTES.sub(rb"\1" + BLOT.encode() + rb"\2", raw)

    def clean_json(self, text: str) -> str:
        """JSON without any known secret in its texts; its keys stay, whatever somebody chose as a password."""
        if self.clean(text) == text:
            return text
        return json.dumps(self.clean_value(json.loads(text)))

    def clean_value(self, value: Any) -> Any:
        """As `clean_json`, on what JSON can say."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {key: held if key in _WORDS_ALONE else self.clean_value(held) for key, held in value.items()}
        return [self.clean_value(held) for held in value] if isinstance(value, list | tuple) else value

    def _word(self, found: re.Match[str]) -> str:
        return BLOT if found[0] in self._tokens else found[0]

    def _word_bytes(self, found: re.Match[bytes]) -> bytes:
        return BLOT.encode() if found[0] in self._tokens_raw else found[0]


def _spellings(secret: str) -> set[str]:
    """Every way a value may stand in a text."""
    values = [secret, *(line for line in secret.splitlines() if len(line) >= _LONG_LINE and not line.startswith("-"))]
    written = {way for value in values for way in (*_escaped(value), *encoded(value))}
    return {text for text in written if len(text) >= _SHORTEST}


def _escaped(value: str) -> Iterable[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield from (quote(value), quote(value, safe=""), quote_plus(value))


def encoded(value: str) -> Iterable[str]:
    """Base64 of a value wherever it begins in what was encoded, without the letters its neighbours share."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + value.encode()).decode()
        own = text[(0, 2, 3)[before] : (before + len(value.encode())) * 8 // 6]
        if len(own) >= _SHORTEST_ENCODED:
            yield own
            yield own.translate({ord("+"): "-", ord("/"): "_"})


REDACTOR = Redactor()  # one a process: a secret learnt at one door must not leave by another
