"""The live rack: node × stage, age against budget, and what is waited for. Plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flows.board import BAD, Board, Cell
from flows.render.text import about, plain
from inventory.report import Stage

Row = tuple[str, dict[Stage, Cell]]

# (sign, style) by state; the sign alone tells the state where there is no colour.
_SIGNS = {
    "pass": ("ok", "green"),
    "not_applicable": ("n/a", "dim"),
    "reused": ("kept", "cyan"),
    "fail": ("FAIL", "bold red"),
    "error": ("ERROR", "bold yellow"),
    "not_run": ("not run", "yellow"),
}
_LONG = (Stage.IMAGE, Stage.BURN_IN)  # the stages whose beginning is worth a line of its own
_REFRESH_PER_S = 4  # our choice: smooth enough to look alive, cheap enough on a jump host
_BESIDE_ROWS = 4  # head, sums, and a line of air, so that the grid never scrolls


@contextmanager
def watching(board: Board, out: Console) -> Iterator[None]:
    """Show the board while the block runs."""
    if out.is_terminal:
        with Live(_Grid(board), console=out, refresh_per_second=_REFRESH_PER_S, vertical_overflow="crop"):
            yield
    else:
        board.listeners.append(lambda node, stage, cell: _line(out, node, stage, cell))
        yield


class _Grid:
    """Drawn anew at each refresh; on a rack taller than the screen, nodes where something happens come first."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.began = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = sorted(self.board.snapshot().items())
        room = max(1, (options.height or console.height) - _BESIDE_ROWS)
        shown = rows if len(rows) <= room else sorted(sorted(rows, key=_rank)[:room])
        yield Group(self._table(shown), self._sums(rows, len(rows) - len(shown)))

    def _table(self, rows: list[Row]) -> Table:
        table = Table(box=None, padding=(0, 1), expand=True)
        table.add_column("node", style="bold", no_wrap=True)
        for stage in Stage:
            table.add_column(_name(stage), no_wrap=True, min_width=7 if stage in _LONG else None)
        table.add_column("waits for / cause", no_wrap=True, overflow="ellipsis", ratio=1)
        for node, cells in rows:
            said = about(node, self.board.notes.get(node, "") or _doing(cells), 160)
            table.add_row(Text(plain(node, 20)), *(_cell(cells.get(stage)) for stage in Stage), Text(said))
        return table

    def _sums(self, rows: list[Row], hidden: int) -> Text:
        ranks = [_rank(row) for row in rows]
        words = f"{ranks.count(_BAD)} stopped, {ranks.count(_BUSY)} at work, {ranks.count(_CALM)} without trouble"
        more = f"; {hidden} more nodes are not shown" if hidden else ""
        return Text(f"\n {_span(time.monotonic() - self.began)}: {words}{more}", style="dim")


_BAD, _BUSY, _CALM = range(3)


def _rank(row: Row) -> int:
    """What an operator wants to see first."""
    states = {cell.state for cell in row[1].values()}
    return _BAD if states & BAD else _BUSY if "running" in states else _CALM


def _cell(cell: Cell | None) -> Text:
    if cell is None or not cell.state:
        return Text("·", style="dim")
    if cell.state == "running":
        age_s = time.monotonic() - cell.since
        late = "bold yellow" if cell.budget_s and age_s > 0.8 * cell.budget_s else "blue"
        return Text(f"{_span(age_s)}/{_span(cell.budget_s)}", style=late)
    sign, style = _SIGNS.get(cell.state, (cell.state, ""))
    return Text(sign, style=style)


def _doing(cells: dict[Stage, Cell]) -> str:
    for cell in cells.values():
        if cell.state in BAD:
            return cell.said
    for cell in cells.values():
        if cell.state == "running" and cell.waiting_for:
            return f"{cell.waiting_for} ({_span(cell.left_s)} left)"
    return ""


def _line(out: Console, node: str, stage: Stage, cell: Cell) -> None:
    """One line per transition, for logs and pipes."""
    if cell.state == "running":
        if stage not in _LONG:
            return
        text = f"{node} {_name(stage)}: begins, {_span(cell.budget_s)} at most"
    elif cell.state == "reused":
        text = f"{node} {_name(stage)}: kept"
    else:
        text = f"{node} {_name(stage)}: {_SIGNS.get(cell.state, (cell.state, ''))[0]} after {cell.took_s:.1f} s"
        text += f": {about(node, cell.said)}" if cell.said else ""
    out.print(Text(plain(text)), soft_wrap=True)


def _name(stage: Stage) -> str:
    return stage.value.replace("_", " ")


def _span(seconds: float) -> str:
    """Seconds as people say them: 45s, 12m, 3h."""
    if seconds < 100:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 6000 else f"{seconds / 3600:.0f}h"
