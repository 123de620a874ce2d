"""The shipped classes of real machines against what such machines' BMCs really said."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from burnin.checks import check_out_of_band
from inventory.classes import load_classes
from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.findings import Outcome
from inventory.model import Inventory, NodeRef
from inventory.redfish import Bmc, PinStore

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture
def captured() -> Iterator[Callable[[str], Inventory]]:
    """Read a captured tree as a BMC; skips, saying so, where there are none."""
    servers: list[subprocess.Popen[bytes]] = []

    def read(name: str) -> Inventory:
        tree, serve = SHARED / "redfish_trees" / f"{name}.tar.xz", SHARED / "tools" / "serve-tree"
        if not tree.exists():
            pytest.skip(f"no captured tree {name} beside the repository")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        servers.append(subprocess.Popen([sys.executable, serve, tree, "--port", str(port)], stdout=subprocess.DEVNULL))
        _wait_for(port)
        store, deadline = EvidenceStore("memory://captured"), Deadline(name, 60)
        url = f"http://127.0.0.1:{port}"
        with Bmc(name, url, None, pins=PinStore.in_memory(), deadline=deadline, evidence=store) as bmc:
            return bmc.read()

    yield read
    for server in servers:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the captured tree did not answer on {port}")


@pytest.mark.shared
@pytest.mark.parametrize(("tree", "name"), [("dgx_h100", "dgx-h100"), ("sys_821ge_hgx_h100", "hgx-h100-8")])
def test_a_real_machine_is_what_its_class_says(captured: Callable[[str], Inventory], tree: str, name: str) -> None:
    """Eight GPUs, nothing fails, and what its BMC does not tell is left to the node."""
    inventory = captured(tree)
    findings = check_out_of_band(inventory, load_classes()[name], NodeRef(name="n1", node_class=name))
    assert 8 == len(inventory.gpus)
    assert [] == [f.sentence for f in findings if f.outcome in (Outcome.FAIL, Outcome.ERROR)]


@pytest.mark.shared
def test_a_machine_of_another_class_is_told_so(captured: Callable[[str], Inventory]) -> None:
    """The DGX is not a Supermicro, and no part has to fail for it to be said."""
    findings = check_out_of_band(captured("dgx_h100"), load_classes()["hgx-h100-8"], NodeRef(name="n1", node_class="x"))
    assert {"node_manufacturer", "node_model"} <= {f.metric for f in findings if f.outcome is Outcome.FAIL}
