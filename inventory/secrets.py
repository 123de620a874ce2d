"""Secrets by reference only: `env:NAME`, `file:PATH`. The value is fetched where it is used and never stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from inventory.errors import BadSettings
from inventory.redact import REDACTOR, Redactor


class Secret:
    """A secret in memory: shown as `[secret]`, not picklable, `reveal()` is greppable."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "[secret]"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def resolve(reference: str, environment: Mapping[str, str], redactor: Redactor = REDACTOR) -> Secret:
    """Fetch the secret behind a reference; raises `BadSettings` naming the reference, never its value."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        if name not in environment:
            raise BadSettings(f"secret {reference}: the environment has no {name}. Export it, or use file:PATH")
        value = environment[name]
    elif kind == "file":
        value = _read_file(reference, Path(name).expanduser())
    else:
        raise BadSettings("a secret is named neither by env:NAME nor by file:PATH. Write where it is found, not itself")
    redactor.learn(value)
    return Secret(value)


def _read_file(reference: str, path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise BadSettings(f"secret {reference}: {error.strerror}. Check the path and its permissions") from error
