"""The terminal, or the pipe, that reports are written to."""

from __future__ import annotations

import shutil

from rich.console import Console, RenderableType

_WIDTH = 100  # our choice where nobody says how wide it is: logs and mails bear it, and every table fits


def console(*, stderr: bool = False) -> Console:
    """A console that guesses no markup in what machines said; as wide as the terminal, else 100 columns."""
    wide = shutil.get_terminal_size((_WIDTH, 40)).columns
    return Console(stderr=stderr, width=wide, markup=False, highlight=False, emoji=False)


def show(what: RenderableType) -> None:
    """Print to standard output."""
    console().print(what)
