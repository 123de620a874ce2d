"""What a BMC, a node or NetBox says is hostile until it was made harmless: terminal, page, Markdown, spreadsheet."""

from __future__ import annotations

import html.parser
import io
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from flows.render.html import page
from flows.render.markdown import node_page, rack_rows
from flows.render.terminal import node_report, rack_report
from flows.render.text import cell, plain
from lab.rack import LabHandle
from tests.flows.cli_process import rackmint
from tests.flows.render.reports import HOSTILE, hostile


class Elements(html.parser.HTMLParser):
    """Which elements and links a page really has, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        self.tags.add(tag)
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "onclick", "action")}


def printed(what: object) -> str:
    """What goes to the terminal, byte for byte."""
    out = io.StringIO()
    Console(file=out, force_terminal=False, width=100, markup=False).print(what)
    return out.getvalue()


def controls(text: str) -> set[str]:
    """Characters that give orders rather than show themselves."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_gets_no_orders(text: str) -> None:
    """No escape, no direction mark reaches the terminal, from the rack's report or from a node's."""
    report = hostile(text)
    shown = printed(rack_report(report)) + printed(node_report(report.nodes[0], all_findings=True))
    assert set() == controls(shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_gets_no_elements_and_no_links(text: str) -> None:
    """A page with hostile text has the elements it has without, and links only into itself and to evidence."""
    seen, calm = Elements(), Elements()
    shown = page(hostile(text), evidence_url="/e", beside=Path("/r/report.html"))
    seen.feed(shown)
    calm.feed(page(hostile("plain"), evidence_url="/e", beside=Path("/r/report.html")))
    assert (calm.tags, calm.links) == (seen.tags, seen.links)
    assert set() == controls(shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_stays_text(text: str) -> None:
    """In Prefect's artifacts nothing opens a tag, a link or a new line of its own."""
    report = hostile(text)
    body = node_page(report.nodes[0])
    bare = body.replace("\\\\", "").replace("\\<", "").replace("\\[", "").replace("\\]", "")
    assert not {"<", "[", "]"} & set(bare)
    assert set() == controls(body)
    assert len(node_page(hostile("plain").nodes[0]).splitlines()) == len(body.splitlines())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_spreadsheet_gets_no_formula(text: str) -> None:
    """No cell of the table begins as a formula does."""
    cells = [value for row in rack_rows(hostile(text)) for value in row.values()]
    assert [] == [value for value in cells if value[:1] in ("=", "+", "-", "@")]


def test_plain_text_is_bounded_and_one_line() -> None:
    """A megabyte of answer is a screen at most."""
    assert 400 == len(plain("x" * 10**6))
    assert "a b c" == plain("a\nb\tc")
    assert "'=1+1" == cell("=1+1")


def test_a_hostile_machine_is_looked_at_and_shown(make_lab: Callable[..., LabHandle]) -> None:
    """Over real Redfish, through the real command: a GPU whose model is markup and a terminal's orders."""
    lab = make_lab(nodes=1)
    gpu = lab.machines["r1-n01"].state.gpus[0]
    text = "<script>alert(1)</script>\x1b[2Jabc\u202egpj"
    lab.call(lambda: setattr(gpu, "model", text))
    ran = rackmint("look", lab.rack.bmcs["r1-n01"].url, cwd=lab.settings_file.parent)
    assert 0 == ran.code, ran
    assert "<script>" in ran.out
    assert set() == controls(ran.out)
