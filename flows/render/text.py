"""What a machine said, made harmless for a terminal or a table: one line, no control characters, bounded length."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from inventory.redact import REDACTOR

# Our choice: longer than any honest error line, shorter than a screen.
_LONGEST = 400


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text without known secrets, terminal escapes, line breaks, direction marks or other control characters."""
    shown = "".join(c if _harmless(c) else " " for c in REDACTOR.clean(text))
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
    """Many names in few words: r1-n01…r1-n08, GPU slot 1…8, mlx5_0/1…mlx5_7/1."""
    runs: list[list[str]] = []
    for name in sorted((plain(name, 64) for name in of), key=_by_number):
        if runs and _goes_on(runs[-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]}…{run[-1].rpartition(' ')[2]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _by_number(name: str) -> list[tuple[str, int]]:
    """Pieces of a name with their numbers, so that slot 10 comes after slot 9."""
    return [(word, int(number or -1)) for word, number in re.findall(r"(\D*)(\d{0,15})", name)]


def _goes_on(run: list[str], name: str) -> bool:
    """Whether a name is the next one: the same but for one number, one higher, and the same one all along."""
    steps = [_step(before, after) for before, after in pairwise([*run[-2:], name])]
    return steps[-1] is not None and len(set(steps)) == 1


def _step(before: str, after: str) -> int | None:
    """Which number of a name went up by one, if that is all that changed."""
    one, other = (re.split(r"(\d+)", text) for text in (before, after))
    if len(one) != len(other):
        return None
    changed = [place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
    if len(changed) != 1 or not changed[0] % 2:
        return None
    low, high = one[changed[0]], other[changed[0]]
    return changed[0] if int(high) == int(low) + 1 else None
