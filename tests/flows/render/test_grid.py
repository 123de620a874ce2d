"""The live rack: on a terminal a grid that never scrolls, in a pipe a line per transition."""

from __future__ import annotations

import io
import re

from rich.console import Console

from flows.board import Board
from flows.render.grid import watching
from inventory.report import Stage


def watched(board: Board, *, terminal: bool, height: int = 12) -> tuple[Console, io.StringIO]:
    """A console of 100 columns that remembers what it was given."""
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=100, height=height, color_system=None), out


def test_a_pipe_gets_one_line_a_transition_without_the_name_twice() -> None:
    """Long stages say that they begin; what was kept is said to be kept; a cause is told once."""
    board = Board()
    console, out = watched(board, terminal=False)
    with watching(board, console):
        board.begin("r1-n01", Stage.DISCOVER, 60)
        board.end("r1-n01", Stage.DISCOVER, "pass")
        board.begin("r1-n01", Stage.IMAGE, 3600)
        board.end("r1-n01", Stage.IMAGE, "error", "r1-n01: no answer\x1b[2J")
        board.end("r1-n01", Stage.TUNE, "reused")
    lines = out.getvalue().splitlines()
    assert "r1-n01 discover: ok after 0.0 s" == lines[0]
    assert "r1-n01 image: begins, 60m at most" == lines[1]
    assert "r1-n01 image: ERROR after 0.0 s: no answer [2J" == lines[2]
    assert "r1-n01 tune: kept" == lines[3]


def test_a_rack_taller_than_the_screen_shows_trouble_and_work_first() -> None:
    """64 nodes on 12 lines: the one that failed and the one at work are there, the rest is counted."""
    board = Board()
    for number in range(1, 65):
        board.add(f"r1-n{number:02}")
        board.end(f"r1-n{number:02}", Stage.DISCOVER, "pass")
    board.begin("r1-n40", Stage.IMAGE, 3600)
    board.waiting("r1-n40", Stage.IMAGE, "POST", 600)
    board.end("r1-n60", Stage.INSPECT, "fail", "GPU in slot 6 is missing")
    console, out = watched(board, terminal=True)
    with watching(board, console):
        pass
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", out.getvalue())  # without the terminal's own orders
    assert "GPU in slot 6 is missing" in shown
    assert "POST (10m left)" in shown
    assert "1 stopped, 1 at work, 62 without trouble; 56 more nodes are not shown" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
