"""What a machine said, made harmless for a terminal or a table: one line, no control characters, bounded length."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Our choice: longer than any honest error line, shorter than a screen.
_LONGEST = 400


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text without terminal escapes, line breaks, direction marks or other control characters."""
    shown = "".join(c if _harmless(c) else " " for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _harmless(character: str) -> bool:
    # Cc control, Cf format (direction overrides), Cs surrogates, Co private use, Zl/Zp line and paragraph ends.
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def about(node: str, text: str, longest: int = _LONGEST) -> str:
    """What was said of a node, without the node's own name in front: the line it stands in names it already."""
    return plain(text, longest).removeprefix(f"{plain(node)}: ")


def cell(text: str) -> str:
    """As `plain`, for a spreadsheet: what begins like a formula is quoted with an apostrophe."""
    shown = plain(text, 2000)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown


def markdown(text: str) -> str:
    """As `plain`, for a page that renders Markdown and HTML: shown as it was said, whatever it tries to be."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&-])", r"\\\1", plain(text))


def names(of: Iterable[str]) -> str:
    """Many names in few words: r1-n01…r1-n08, r2-n01."""
    runs: list[list[str]] = []
    for name in sorted(plain(name, 64) for name in of):
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]}…{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _follows(before: str, name: str) -> bool:
    one, other = (re.fullmatch(r"(.*?)(\d{1,9})", text) for text in (before, name))
    return bool(
        one and other and one[1] == other[1] and len(one[2]) == len(other[2]) and int(other[2]) == int(one[2]) + 1
    )
