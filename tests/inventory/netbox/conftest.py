"""A NetBox to test against: the lab's stand-in always; a real one as well where there is one.

`RACKMINT_TEST_NETBOX="URL TOKEN"` names a real NetBox; without it, one is brought up by ../shared/netbox/netbox-up when
`RACKMINT_TEST_NETBOX=up` asks for it, and taken down afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hardware import NodeState
from lab.netbox import LabBook, make_app
from tests.inventory.netbox.hall import TOKEN, Hall, Served, bmc_urls, copy_to, nodes_of

ASKED = os.environ.get("RACKMINT_TEST_NETBOX", "")
SCRIPTS = Path(__file__).parents[4] / "shared" / "netbox"
WHERE = ["lab", pytest.param("real", marks=[pytest.mark.shared, pytest.mark.slow])]


@pytest.fixture(scope="session")
def real_netbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and token of a real NetBox, or a skip that says how to have one."""
    if not ASKED:
        pytest.skip("no real NetBox asked for: RACKMINT_TEST_NETBOX='URL TOKEN', or 'up' where ../shared/netbox is")
    if ASKED != "up":
        url, _, token = ASKED.partition(" ")
        yield url, token
        return
    if not (SCRIPTS / "netbox-up").exists():
        pytest.skip("RACKMINT_TEST_NETBOX=up, but ../shared/netbox/netbox-up is not there")
    folder = str(tmp_path_factory.mktemp("netbox"))
    command = [str(SCRIPTS / "netbox-up"), "-d", folder, "-p", "8765", "--no-worker", "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield said["NETBOX_URL"], said["NETBOX_TOKEN"]
    subprocess.run([str(SCRIPTS / "netbox-down"), "-d", folder, "--wipe"], check=True, capture_output=True)


@pytest.fixture(params=WHERE)
def hall(request: pytest.FixtureRequest) -> Iterator[Hall]:
    """A filled NetBox with two nodes in a rack of its own: the stand-in, and the real one where there is one."""
    if request.param == "real":
        yield from _real(*request.getfixturevalue("real_netbox"))
    else:
        yield from _lab(nodes_of("R1"))


@pytest.fixture
def lab_hall() -> Iterator[Hall]:
    """The stand-in alone, for what a real NetBox cannot be made to do on demand."""
    yield from _lab(nodes_of("R1"))


@pytest.fixture
def rack_hall() -> Iterator[Hall]:
    """The stand-in with eight nodes in its rack."""
    yield from _lab(nodes_of("R1", count=8))


def _lab(nodes: list[NodeState]) -> Iterator[Hall]:
    book = LabBook(nodes, "lab", TOKEN, bmc_urls(nodes))
    faults: set[str] = set()
    served = Served(make_app(book, faults))
    made = Hall(served.url, TOKEN, nodes, book, faults)
    yield made
    made.close()
    served.stop()


def _real(url: str, token: str) -> Iterator[Hall]:
    nodes = nodes_of(f"R{uuid.uuid4().hex[:6].upper()}", seed=uuid.uuid4().int % 10**6)
    book = LabBook(nodes, "lab", TOKEN, bmc_urls(nodes))
    made = Hall(url, token, nodes)
    made.netbox.ensure_catalogue()
    copy_to(made.person, book)
    yield made
    made.close()
