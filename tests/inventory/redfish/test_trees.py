"""Three captured trees of real GPU servers: eight GPUs each, within the request budget, every gap explained."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inventory.redfish import look, look_as_json

SHARED = Path(__file__).parents[3].parent / "shared"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not (SHARED / "redfish_trees").is_dir(),
        reason=f"no captured trees at {SHARED / 'redfish_trees'}: not proven here",
    ),
]


@pytest.fixture
def serve() -> Iterator[Callable[[str], str]]:
    """Serve a captured tree read-only on loopback; ended by its own process."""
    running: list[subprocess.Popen[str]] = []

    def start(tree: str) -> str:
        command = [sys.executable, str(SHARED / "tools/serve-tree"), str(SHARED / f"redfish_trees/{tree}.tar.xz")]
        process = subprocess.Popen([*command, "--port", str(_free_port())], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout
        return process.stdout.readline().strip()

    yield start
    for process in running:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def asked(url: str) -> dict[str, int]:
    """The requests the server has seen, by path."""
    with urllib.request.urlopen(url.replace("/redfish/v1", "/_stats")) as answer:  # noqa: S310 (loopback)
        seen: dict[str, int] = json.load(answer)["paths"]
    return seen


def test_a_dgx_h100(serve: Callable[[str], str]) -> None:
    """Baseboard GPUs with serial, UUID, VBIOS, slot and ECC, in at most 120 requests; firmware counted apart."""
    url = serve("dgx_h100")
    told = look_as_json(url)
    (node,) = told["nodes"]
    assert (8, "Systems/HGX_Baseboard_0/Processors") == (len(node["gpus"]), node["gpus_found_in"])
    first = node["gpus"][0]
    assert ("1652923003067", "9dad5bfd-a732-23fe-40ad-465d0cbe5f95") == (first["serial"], first["uuid"])
    assert ("H100 80GB HBM3", "96.00.89.00.01", "SXM1") == (first["model"], first["firmware"], first["slot"])
    assert (True, 0, 0) == (first["ecc_enabled"], first["ecc_correctable"], first["ecc_uncorrectable"])
    assert (False, False, 0) == (first["remap_pending"], first["remap_failed"], first["remapped_rows_uncorrectable"])
    assert ("10de:2330", 16, 5, 18) == (
        first["pci_device_id"],
        first["pcie_width"],
        first["pcie_generation"],
        first["nvlinks_total"],
    )
    assert (12, 32, 2, 6, 66) == tuple(len(node[kind]) for kind in ("nics", "dimms", "cpus", "psus", "firmware"))
    assert "1662923610124" == node["identity"]["serial"]
    assert told["requests_by_lane"]["fast"] <= 120
    assert sum(asked(url).values()) == told["requests"]


def test_a_sys_821ge(serve: Callable[[str], str]) -> None:
    """GPUs that are PCIe devices only, in at most 70 requests; what the BMC does not know is null and explained."""
    url = serve("sys_821ge_hgx_h100")
    told = look_as_json(url)
    (node,) = told["nodes"]
    assert (8, "Chassis/1/PCIeDevices") == (len(node["gpus"]), node["gpus_found_in"])
    assert 8 == len({gpu["serial"] for gpu in node["gpus"]})
    assert {str(n) for n in range(1, 9)} == {gpu["slot"] for gpu in node["gpus"]}
    assert {"96.00.61.00.01"} == {gpu["firmware"] for gpu in node["gpus"]}
    assert {None} == {gpu["uuid"] for gpu in node["gpus"]}
    missing = {entry["fact"]: entry["reason"] for entry in node["missing"]}
    assert "null" == missing["gpus[GPU1].uuid"]
    assert (10, "94:6D:AE:91:FB:22") == (len(node["nics"]), node["nics"][0]["ports"][0]["mac"])
    assert told["requests_by_lane"]["fast"] <= 70
    assert sum(asked(url).values()) == told["requests"]


def test_an_sr670(serve: Callable[[str], str]) -> None:
    """GPUs among the host's Processors; the model comes from the PCIe device behind them."""
    url = serve("sr670v2_8gpu")
    (node,), requests, _ = look(url, firmware=False)
    assert (8, "Systems/1/Processors") == (len(node.gpus), node.gpus_found_in)
    assert {("NVIDIA L40", "95.02.39.00.01", "10de:26b5")} == {
        (gpu.model, gpu.firmware, gpu.pci_device_id) for gpu in node.gpus
    }
    assert {"PCIe 3"} <= {gpu.slot for gpu in node.gpus}
    assert (2, 16) == (len(node.nics), len(node.dimms))
    assert sum(asked(url).values()) == requests


@pytest.mark.parametrize("tree", ["dgx_h100", "sys_821ge_hgx_h100", "sr670v2_8gpu"])
def test_nothing_is_asked_twice_and_nothing_is_written(serve: Callable[[str], str], tree: str) -> None:
    """A look costs each resource once and changes none."""
    url = serve(tree)
    look(url)
    assert [] == [path for path, times in asked(url).items() if times > 1 or path.startswith("WRITE")]


@pytest.mark.parametrize("tree", ["dgx_h100", "sys_821ge_hgx_h100", "sr670v2_8gpu"])
def test_the_json_leaves_no_fact_out(serve: Callable[[str], str], tree: str) -> None:
    """Each null of a GPU that Redfish was asked for has its reason in missing[]."""
    (node,) = look_as_json(serve(tree), firmware=False)["nodes"]
    missing = {entry["fact"] for entry in node["missing"]}
    asked_for = ("serial", "model", "uuid", "firmware", "slot", "ecc_enabled", "memory_mib", "nvlinks_up", "pcie_width")
    lacking = [f"gpus[{g['id']}].{fact}" for g in node["gpus"] for fact in asked_for if g[fact] is None]
    assert set(lacking) <= missing


def test_a_deep_look_reads_every_link(serve: Callable[[str], str]) -> None:
    """With `deep`, each NVLink is asked singly where the BMC gives them no other way."""
    (node,), _, _ = look(serve("dgx_h100"), firmware=False, deep=True)
    first: Any = node.gpus[0]
    assert (18, 18, 212.496) == (first.nvlinks_up, first.nvlinks_total, first.nvlink_speed_gbit_s)
