"""What a machine said, made harmless for a terminal or a table: one line, no control characters, bounded length."""

from __future__ import annotations

import unicodedata

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
