"""Reads the TOML files that describe kinds of things: node classes, BIOS profiles, image manifests, limits packs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import ValidationError

from inventory.errors import BadSettings
from inventory.model import Frozen


class Named(Protocol):
    """Anything that has a name of its own."""

    @property
    def name(self) -> str:
        """By which others refer to it."""
        ...


F = TypeVar("F", bound=Frozen)
N = TypeVar("N", bound=Named)


def read_file(kind: type[F], file: Path, what: str) -> F:
    """One file as one value; raises `BadSettings` naming the file and the field. `what` is how people call the kind."""
    try:
        return kind.model_validate(tomllib.loads(file.read_text()))
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{what} {file}: {error}. Mend the file") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise BadSettings(f"{what} {file}: {where}: {first['msg']}. Mend the field") from error


def read_folders(load: Callable[[Path], N], folders: Iterable[Path]) -> dict[str, N]:
    """Every `*.toml` of some folders by name; a later folder's file of the same name wins."""
    files = (file for folder in folders for file in sorted(folder.glob("*.toml")))
    return {value.name: value for value in map(load, files)}
