"""An audit's differences for a terminal of 100 columns and for a spreadsheet; the same one on many nodes is one row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.difference import Difference
from flows.render.text import cell, names, plain

_CSV = ("node", "kind", "subject", "book", "seen", "right", "since", "first", "fix", "rule")
_STYLE = {"unreachable": "bold yellow", "stale certificate": "yellow"}


def audit_table(found: Sequence[Difference], looked_at: int, notes: Iterable[str] = ()) -> RenderableType:
    """What differs, who is right and since when; under each row what to do about it."""
    said = [Text(f"note: {plain(note)}", style="yellow") for note in notes]
    if not found:
        return Group(Text(f"{looked_at} nodes: books and hall agree.", style="green"), *said)
    rows = fold(found)
    table = Table(box=None, padding=(0, 1), collapse_padding=True)
    for column, width in (("node", 18), ("what", 22), ("book", 20), ("there", 20), ("right", 6)):
        table.add_column(column, overflow="fold", max_width=width)
    lines: list[RenderableType] = []
    for number, (one, nodes) in enumerate(rows, 1):
        what = Text(f"{plain(one.subject)} {one.kind}", style=_STYLE.get(one.kind, "bold red"))
        table.add_row(
            Text(f"{number} {names(nodes)}"), what, Text(plain(one.book, 120)), Text(plain(one.seen, 160)), one.right
        )
        lines.append(_todo(number, one, nodes))
    sums = Text(f"\n{len(found)} differences on {len({d.node for d in found})} of {looked_at} nodes", style="bold")
    return Group(table, Text("\nWhat to do"), *lines, sums, *said)


def _todo(number: int, one: Difference, nodes: Sequence[str]) -> Text:
    first = f"{plain(one.first)}, then " if one.first else ""
    return Text(f"{number:3} since {one.since}; {first}").append(_for_all(one, nodes), style="bold")


def fold(found: Iterable[Difference]) -> tuple[tuple[Difference, tuple[str, ...]], ...]:
    """Each difference once, with the names of all nodes that have it: a fleet-wide drift is one thing to do."""
    folded: dict[tuple[str, ...], list[Difference]] = {}
    for one in found:
        told = (one.kind, one.subject, one.book, one.seen, one.right, one.first, one.fix)
        folded.setdefault(tuple(text.replace(one.node, "{node}") for text in told), []).append(one)
    return tuple((same[0], tuple(one.node for one in same)) for same in folded.values())


def _for_all(one: Difference, nodes: Sequence[str]) -> str:
    """The one command for all nodes of a row."""
    fix = one.fix
    for option in ("--node", "--reimage"):
        fix = fix.replace(f"{option} {one.node}", " ".join(f"{option} {name}" for name in nodes))
    return plain(fix.replace(one.node, " ".join(nodes)) if fix.startswith("kubectl") else fix, 4000)


def audit_csv(found: Iterable[Difference]) -> str:
    """One line a difference. A cell that a spreadsheet would run begins with an apostrophe instead."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(_CSV)
    writer.writerows([cell(str(getattr(one, column))) for column in _CSV] for one in found)
    return out.getvalue()
