"""The live rack: node × stage, age against budget, and what is waited for. Plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flows.board import BAD, Board, Cell
from flows.render.text import plain
from inventory.report import Stage

# (sign, style) by state; the sign alone tells the state where there is no colour.
_SIGNS = {
    "pass": ("ok", "green"),
    "not_applicable": ("n/a", "dim"),
    "reused": ("kept", "cyan"),
    "fail": ("FAIL", "bold red"),
    "error": ("ERROR", "bold yellow"),
    "not_run": ("not run", "yellow"),
}
_REFRESH_PER_S = 4  # our choice: smooth enough to look alive, cheap enough on a jump host


@contextmanager
def watching(board: Board, console: Console) -> Iterator[None]:
    """Show the board while the block runs."""
    if console.is_terminal:
        with Live(_Grid(board), console=console, refresh_per_second=_REFRESH_PER_S, transient=False):
            yield
    else:
        board.listeners.append(lambda node, stage, cell: _line(console, node, stage, cell))
        yield


class _Grid:
    """Drawn anew at each refresh."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def __rich__(self) -> Table:
        table = Table(box=None, padding=(0, 1), expand=False)
        table.add_column("node", style="bold", no_wrap=True)
        for stage in Stage:
            table.add_column(stage.value.replace("_", " "), no_wrap=True)
        table.add_column("waiting for / cause", overflow="fold")
        for node, cells in sorted(self.board.snapshot().items()):
            said = plain(self.board.notes.get(node, "") or _doing(cells), 160)
            table.add_row(Text(plain(node, 32)), *(_cell(cells.get(stage)) for stage in Stage), Text(said))
        return table


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


def _line(console: Console, node: str, stage: Stage, cell: Cell) -> None:
    """One line per transition, for logs and pipes."""
    if cell.state == "running":
        text = f"{node} {stage.value}: begins, {_span(cell.budget_s)} at most"
    else:
        text = f"{node} {stage.value}: {_SIGNS.get(cell.state, (cell.state, ''))[0]} after {cell.took_s:.1f} s"
        text += f": {cell.said}" if cell.said else ""
    console.print(Text(plain(text)), soft_wrap=True)


def _span(seconds: float) -> str:
    """Seconds as people say them: 45s, 12m, 3h."""
    if seconds < 100:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 6000 else f"{seconds / 3600:.0f}h"
