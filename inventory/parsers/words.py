"""How tools say that they do not know, and the dressing that logs put around a line."""

from __future__ import annotations

import math
import re

# Source: the words met in recorded nvidia-smi, dcgmi and mlxlink output from driver 470 to 595. None of them is a zero.
_NOT_KNOWN = frozenset(
    {
        "",
        "-",
        "n/a",
        "[n/a]",
        "not specified",
        "not supported",
        "[not supported]",
        "requested functionality has been deprecated",
        "[requested functionality has been deprecated]",
        "insufficient permissions",
        "[insufficient permissions]",
        "err!",
        "[err!]",
        "unknown error",
        "[unknown error]",
        "unknown",
        "unknown!",
        "gpu is lost",
        "[gpu is lost]",
        "none",
    }
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")  # ECMA-48 control sequences, xterm titles
# `srun -l`, `mpirun --tag-output`, `kubectl logs --timestamps`, `stern`: what launchers put before a line.
_LABEL = re.compile(r"^(?:\d+: |\[\d+,\d+\]<std(?:out|err)>:\s?|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )")
_FIRST_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def known(text: str | None) -> str | None:
    """The text without its padding, or None where the tool said that it does not know."""
    clean = (text or "").strip()
    return None if clean.lower() in _NOT_KNOWN else clean


def number(text: str | None) -> float | None:
    """The number before the unit: "700.00 W" is 700, "16x" is 16; None where there is none."""
    clean = known(text)
    match = _FIRST_NUMBER.match(clean) if clean else None
    value = float(match[0]) if match else None
    return value if value is not None and math.isfinite(value) else None


def count(text: str | None) -> int | None:
    """A whole number, or None."""
    value = number(text)
    return int(value) if value is not None and value == int(value) else None


def yes(text: str | None, word: str = "yes", other: str = "no") -> bool | None:
    """True for the one word, False for the other, None for everything else."""
    clean = (known(text) or "").lower()
    return {word: True, other: False}.get(clean)


def undressed(text: str) -> list[str]:
    """The lines without colours, carriage returns and launcher labels."""
    return [_LABEL.sub("", line.rstrip("\r")) for line in _ANSI.sub("", text).split("\n")]


def met(text: str) -> str:
    """What a reader met instead of what it expected: the first line that says anything, shortened."""
    line = next((line.strip() for line in _ANSI.sub("", text).splitlines() if line.strip()), "")
    return f"met {line[:120]!r}" if line else "met nothing"
