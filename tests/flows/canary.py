"""Looks for secrets where none may be: in files, texts and databases, as they are, in base64 and URL-encoded."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus


def spellings(secret: str) -> set[bytes]:
    """Ways a secret may be written. Made here anew, not by the code under test."""
    raw = secret.encode()
    ways = {raw, json.dumps(secret)[1:-1].encode(), quote(secret, safe="").encode(), quote_plus(secret).encode()}
    ways |= {raw.hex().encode(), repr(secret)[1:-1].encode(), quote(secret).encode()}
    for shift in range(3):  # base64 of a text it stands in, at any place: the letters that only it decides
        whole = base64.b64encode(b"x" * shift + raw)
        inner = whole[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        ways |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return ways


def found(secrets: Mapping[str, str], places: Iterable[tuple[str, bytes]]) -> list[str]:
    """Each secret met, and where: empty is what one wants."""
    ways = {name: spellings(secret) for name, secret in secrets.items()}
    return [
        f"{name} in {place}"
        for place, content in places
        for name, spelt in ways.items()
        if any(way in content for way in spelt)
    ]


def files_below(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """Every file as it lies on the disk, journals of databases included."""
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.is_symlink():
                yield str(file), file.read_bytes()


class Watcher:
    """Reads the arguments and the environment of every process below one, many times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self.arguments: dict[bytes, str] = {}
        self.environments: dict[bytes, str] = {}  # of those below, not of the one that was given secrets
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            own = _read(Path(f"/proc/{self._pid}/cmdline"))
            for pid in (self._pid, *_below(self._pid)):
                self._note(self.arguments, pid, "cmdline")
                if _read(Path(f"/proc/{pid}/cmdline")) != own:  # one that has not begun yet still shows its parent's
                    self._note(self.environments, pid, "environ")

    def _note(self, seen: dict[bytes, str], pid: int, what: str) -> None:
        content = _read(Path(f"/proc/{pid}/{what}"))
        if content:
            command = _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode(errors="replace")
            seen.setdefault(content, f"{what} of {command[:200]}")

    def places(self) -> Iterator[tuple[str, bytes]]:
        """All that was seen."""
        for content, where in (*self.arguments.items(), *self.environments.items()):
            yield where, content


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _below(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        stat = _read(folder / "stat") if folder.name.isdigit() else b""
        if stat:
            parents[int(folder.name)] = int(stat.rpartition(b")")[2].split()[1])
    below: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *below}} - below:
        below |= more
    return below
