"""A line of shell taken apart: quoted and bare words, operators, and the `$` forms that stand in for text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_OPERATORS = ("&&", "||", ">>", "2>&1", "1>&2", ">&2", "2>", "&>", ";;", ";", "|", "&", ">", "<", "\n", "(", ")")
_DOLLAR = re.compile(r"\$(?:\{(?P<braced>\w+|[@*#?$!])(?P<default>:-[^}]*)?\}|(?P<plain>\w+|[@*#?$!]))")


@dataclass(slots=True)
class Word:
    """Pieces of one word, each with its quote: `'`, `"` or nothing."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    @property
    def bare(self) -> str:
        """The text when nothing of it is quoted, else an empty string: only such words can be keywords."""
        return "".join(text for text, _ in self.pieces) if all(not quote for _, quote in self.pieces) else ""


@dataclass(frozen=True, slots=True)
class Operator:
    """`;`, `&&`, `|`, `>` and their like."""

    text: str


Token = Word | Operator


def tokens(script: str) -> list[Token]:
    """Words and operators of a script. Raises ValueError on a quote that never ends."""
    found: list[Token] = []
    word: Word | None = None
    at = 0
    while at < len(script):
        operator = next((o for o in _OPERATORS if script.startswith(o, at)), None)
        if operator and not (operator[0].isdigit() and word):
            found += [word] if word else []
            found.append(Operator(operator))
            word, at = None, at + len(operator)
        elif script[at] in " \t" or script.startswith("\\\n", at):
            found += [word] if word else []
            word, at = None, at + (2 if script[at] == "\\" else 1)
        elif script[at] == "#" and word is None:
            at = script.find("\n", at) if "\n" in script[at:] else len(script)
        else:
            word = word or Word()
            piece, at = _piece(script, at)
            word.pieces.append(piece)
    return found + ([word] if word else [])


def _piece(script: str, at: int) -> tuple[tuple[str, str], int]:
    """One quoted stretch, one `$(…)`, or one character."""
    if script[at] == "'":
        end = script.index("'", at + 1)
        return (script[at + 1 : end], "'"), end + 1
    if script[at] == '"':
        end = _end_of_double(script, at + 1)
        return (script[at + 1 : end], '"'), end + 1
    if script.startswith("$(", at):
        end = _end_of_paren(script, at + 2)
        return (script[at : end + 1], ""), end + 1
    if script[at] == "\\" and at + 1 < len(script):
        return (script[at + 1], "'"), at + 2
    return (script[at], ""), at + 1


def _end_of_double(script: str, at: int) -> int:
    while script[at : at + 1] != '"':
        if at >= len(script):
            raise ValueError("Unterminated quoted string")
        if script.startswith("$(", at):
            at = _end_of_paren(script, at + 2)
        at += 2 if script[at] == "\\" else 1
    return at


def _end_of_paren(script: str, at: int) -> int:
    depth = 1
    while at < len(script):
        depth += {"(": 1, ")": -1}.get(script[at], 0)
        if not depth:
            return at
        at += 1
    raise ValueError("end of file unexpected (expecting ')')")


def substitute(text: str, look_up: Callable[[str], str]) -> str:
    """The text with `$NAME`, `${NAME}`, `${NAME:-default}` and `$1` replaced."""

    def value(match: re.Match[str]) -> str:
        got = look_up(match["braced"] or match["plain"])
        return got or (match["default"] or ":-")[2:]

    return _DOLLAR.sub(value, text)
