"""An audit's differences for a terminal of 100 columns and for a spreadsheet; the same one on many nodes is one row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.difference import Difference
from flows.render.text import plain

_CSV = ("node", "kind", "subject", "book", "seen", "right", "since", "first", "fix", "rule")
_FORMULA = "=+-@"  # what makes a spreadsheet run a cell; source: OWASP "CSV Injection"
_STYLE = {"unreachable": "bold yellow", "stale certificate": "yellow"}


def audit_table(found: Sequence[Difference], nodes: int, notes: Iterable[str] = ()) -> RenderableType:
    """What differs, who is right and since when; under each row what to do about it."""
    said = [Text(f"note: {plain(note)}", style="yellow") for note in notes]
    if not found:
        return Group(Text(f"{nodes} nodes: books and hall agree.", style="green"), *said)
    rows = fold(found)
    table = Table(box=None, padding=(0, 1), collapse_padding=True)
    for column, width in (("node", 18), ("what", 22), ("book", 20), ("there", 20), ("right", 6)):
        table.add_column(column, overflow="fold", max_width=width)
    lines: list[RenderableType] = []
    for number, (one, names) in enumerate(rows, 1):
        what = Text(f"{plain(one.subject)} {one.kind}", style=_STYLE.get(one.kind, "bold red"))
        table.add_row(
            Text(f"{number} {_named(names)}"), what, Text(plain(one.book, 120)), Text(plain(one.seen, 160)), one.right
        )
        lines.append(_todo(number, one, names))
    sums = Text(f"\n{len(found)} differences on {len({d.node for d in found})} of {nodes} nodes", style="bold")
    return Group(table, Text("\nWhat to do"), *lines, sums, *said)


def _todo(number: int, one: Difference, names: Sequence[str]) -> Text:
    first = f"{plain(one.first)}, then " if one.first else ""
    return Text(f"{number:3} since {one.since}; {first}").append(_for_all(one, names), style="bold")


def _named(names: Sequence[str]) -> str:
    shown = [plain(name, 32) for name in names]
    return ", ".join(shown) if len(shown) <= 4 else f"{len(shown)} nodes: {', '.join(shown)}"


def fold(found: Iterable[Difference]) -> tuple[tuple[Difference, tuple[str, ...]], ...]:
    """Each difference once, with the names of all nodes that have it: a fleet-wide drift is one thing to do."""
    folded: dict[tuple[str, ...], list[Difference]] = {}
    for one in found:
        told = (one.kind, one.subject, one.book, one.seen, one.right, one.first, one.fix)
        folded.setdefault(tuple(text.replace(one.node, "{node}") for text in told), []).append(one)
    return tuple((same[0], tuple(one.node for one in same)) for same in folded.values())


def _for_all(one: Difference, names: Sequence[str]) -> str:
    """The one command for all nodes of a row."""
    fix = one.fix
    for option in ("--node", "--reimage"):
        fix = fix.replace(f"{option} {one.node}", " ".join(f"{option} {name}" for name in names))
    return plain(fix.replace(one.node, " ".join(names)) if fix.startswith("kubectl") else fix, 4000)


def audit_csv(found: Iterable[Difference]) -> str:
    """One line a difference. A cell that a spreadsheet would run begins with an apostrophe instead."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(_CSV)
    writer.writerows([_cell(str(getattr(one, column))) for column in _CSV] for one in found)
    return out.getvalue()


def _cell(text: str) -> str:
    shown = plain(text)
    return f"'{shown}" if shown[:1] and shown[0] in _FORMULA else shown
