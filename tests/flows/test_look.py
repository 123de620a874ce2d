"""`rackmint look`: any BMC, read and not changed, with and without settings, for people and for programs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.cli_process import Ran, rackmint
from tests.flows.conftest import SCALE

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Three shapes of node."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(nodes=4, scale=SCALE)) as lab:
        yield lab


def look(lab: LabHandle, node: str, *options: str) -> Ran:
    """Look at a lab node's BMC, with the lab's settings in the folder."""
    return rackmint("look", lab.rack.bmcs[node].url, *options, cwd=lab.settings_file.parent)


@pytest.mark.parametrize("node", ["r1-n01", "r1-n03", "r1-n04"])
def test_each_shape_of_node_has_its_eight_gpus(lab: LabHandle, node: str) -> None:
    """Whichever of its places a BMC keeps them in; a fact that is absent is null and explained."""
    told = json.loads(look(lab, node, "--json").out)
    [seen] = told["nodes"]
    assert {"identity", "gpus", "nics", "firmware", "bios", "missing"} <= seen.keys()
    assert {"serial", "model", "uuid", "firmware", "slot"} <= seen["gpus"][0].keys()
    assert told["requests"] > 0
    assert all(gap["reason"] for gap in seen["missing"])


def test_people_get_tables_with_gaps_folded(lab: LabHandle) -> None:
    """100 columns, and eight GPUs that do not tell one fact are one line."""
    ran = look(lab, "r1-n01")
    assert (0, "") == (ran.code, ran.err)
    assert [] == [line for line in ran.out.splitlines() if len(line) > 100]
    gaps = [line for line in ran.out.splitlines() if line.startswith("not read: ")]
    assert len(gaps) == len({gap.partition(" ×")[0] for gap in gaps})


def test_the_sites_login_is_not_sent_in_the_clear(lab: LabHandle, tmp_path: Path) -> None:
    """Over http:// a BMC is asked without the site's password, unless the operator names one for it."""
    (tmp_path / "rackmint.toml").write_text(
        'site = "x"\n[bmc]\nusername = "env:NOBODY_HAS_THIS"\npassword = "env:NOBODY_HAS_THIS"\n'
    )
    ran = rackmint("look", "http://127.0.0.1:9", cwd=tmp_path)
    assert 2 == ran.code
    assert "NOBODY_HAS_THIS" not in ran.sentence
    assert 3 == rackmint("look", "https://127.0.0.1:9", cwd=tmp_path).code


def test_a_wrong_address_is_wrong_usage(tmp_path: Path) -> None:
    """What is no web address is told before anything is sent."""
    assert 3 == rackmint("look", "ftp://10.0.0.1", cwd=tmp_path).code


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    """A captured tree, served read-only."""
    tree, tool = SHARED / f"redfish_trees/{request.param}.tar.xz", SHARED / "tools/serve-tree"
    if not tree.exists() or not tool.exists():
        pytest.skip(f"{tree} or {tool} is not beside the repository")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen([sys.executable, tool, tree, "--port", str(port)], stdout=subprocess.DEVNULL)
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    child.terminate()
    child.wait()


@pytest.mark.shared
@pytest.mark.parametrize("served", ["dgx_h100", "sys_821ge_hgx_h100"], indirect=True)
def test_captured_machines_have_their_eight_gpus(served: str, tmp_path: Path) -> None:
    """Two real machines' trees, without settings or login: 8 GPUs each."""
    ran = rackmint("look", served, "--json", cwd=tmp_path)
    told: Any = json.loads(ran.out)
    assert (0, [8]) == (ran.code, [len(seen["gpus"]) for seen in told["nodes"]])
