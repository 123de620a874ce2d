"""A stand-in NetBox for the lab, over HTTP: what rackmint relies on, and nothing that is not in the real one.

`LabBook(nodes, site, token, bmc_urls)` is what it holds; `make_app(book, faults)` serves it.
"""

from __future__ import annotations

from collections.abc import Set

from aiohttp import web

from lab.book.state import LabBook
from lab.book.web import BookFace


def make_app(state: LabBook, faults: Set[str] = frozenset()) -> web.Application:
    """The HTTP face of a book. `faults` may be a live set; nodes' own `faults` count for their device alone.

    `netbox_down`: 503 on everything. `netbox_conflict`: somebody edits a device just before it is changed, once each.
    """
    return BookFace(state, faults).app()


__all__ = ["LabBook", "make_app"]
