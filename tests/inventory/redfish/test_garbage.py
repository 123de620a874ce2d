"""A BMC that answers nonsense in any one place is still read, or refused in our own words; nothing else comes out."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from inventory.errors import NodeTrouble
from inventory.model import Inventory
from inventory.redfish import Bmc

OpenBmc = Callable[..., AbstractContextManager[Bmc]]
NONSENSE = (
    None,
    "",
    " ",
    0,
    -1,
    1e308,
    float("inf"),
    float("nan"),
    True,
    [],
    {},
    [[]],
    [None, 3],
    {"x": None},
    "ü\x1b[31m",
)


def link(uri: str) -> dict[str, str]:
    """A link."""
    return {"@odata.id": uri}


def whole_tree(tree: dict[str, Any]) -> dict[str, Any]:
    """The least tree, with something of every kind hung into it."""
    system, chassis, manager = "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1", "/redfish/v1/Managers/1"
    gpu, nic = f"{system}/Processors/G1", f"{chassis}/NetworkAdapters/N1"
    tree["/redfish/v1"] |= {"UpdateService": link("/redfish/v1/UpdateService"), "Oem": {"Maker": {}}}
    tree[system] |= {
        "Processors": link(f"{system}/Processors"),
        "Memory": link(f"{system}/Memory"),
        "Storage": link(f"{system}/Storage"),
        "BootProgress": {"LastState": "OSRunning", "LastStateTime": "2026-01-01T00:00:00Z"},
        "Links": {"Chassis": [link(chassis)], "ManagedBy": [link(manager)]},
    }
    tree |= {
        f"{system}/Processors": {"Members": [link(gpu)], "Members@odata.count": 1},
        gpu: {
            "Id": "G1",
            "ProcessorType": "GPU",
            "SerialNumber": "S1",
            "Links": {"Memory": [link(f"{system}/Memory/G1")]},
            "Metrics": link(f"{gpu}/Metrics"),
            "Ports": link(f"{gpu}/Ports"),
            "Status": {"State": "Enabled"},
        },
        f"{gpu}/Metrics": {"PCIeErrors": {"ReplayCount": 1}, "Oem": {"Nvidia": {"ThrottleReasons": ["NA"]}}},
        f"{gpu}/Ports": {"Members": [link(f"{gpu}/Ports/0")]},
        f"{system}/Memory/G1": {"CapacityMiB": 81559, "Oem": {"Nvidia": {"RowRemappingPending": False}}},
        f"{system}/Memory": {"Members": [link(f"{system}/Memory/D1")]},
        f"{system}/Memory/D1": {"Id": "D1", "CapacityMiB": 65536, "Status": {"State": "Enabled"}},
        f"{system}/Storage": {"Members": [link(f"{system}/Storage/1")]},
        f"{system}/Storage/1": {"Drives": [link(f"{system}/Storage/1/Drives/1")]},
        f"{system}/Storage/1/Drives/1": {"Id": "1", "CapacityBytes": 960_000_000_000},
        f"{system}/Bios": {
            "Attributes": {"A": "x"},
            "@Redfish.Settings": {"SettingsObject": link(f"{system}/Bios/SD")},
        },
        f"{system}/Bios/SD": {"Attributes": {"A": "y"}},
        chassis: {"NetworkAdapters": link(f"{chassis}/NetworkAdapters"), "Power": link(f"{chassis}/Power")},
        f"{chassis}/Power": {"PowerSupplies": [{"SerialNumber": "P1"}]},
        f"{chassis}/NetworkAdapters": {"Members": [link(nic)]},
        nic: {
            "Id": "N1",
            "Controllers": [{"FirmwarePackageVersion": "28", "Links": {"Ports": [link(f"{nic}/Ports/1")]}}],
        },
        f"{nic}/Ports/1": {"Ethernet": {"AssociatedMACAddresses": ["02:00:00:00:00:01"]}, "LinkStatus": "LinkUp"},
        manager: {"FirmwareVersion": "1.8", "EthernetInterfaces": link(f"{manager}/EthernetInterfaces")},
        f"{manager}/EthernetInterfaces": {"Members": [link(f"{manager}/EthernetInterfaces/1")]},
        f"{manager}/EthernetInterfaces/1": {"MACAddress": "02:00:00:00:00:02"},
        "/redfish/v1/UpdateService": {"FirmwareInventory": link("/redfish/v1/UpdateService/F")},
        "/redfish/v1/UpdateService/F": {"Members": [link("/redfish/v1/UpdateService/F/1")]},
        "/redfish/v1/UpdateService/F/1": {"Id": "1", "Name": "BIOS", "Version": "2.4", "Updateable": True},
    }
    return tree


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a body, the body itself included."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*path, key))


def spoilt(tree: dict[str, Any], place: tuple[Any, ...], nonsense: Any) -> dict[str, Any]:
    """The tree with nonsense in one place."""
    tree = copy.deepcopy(tree)
    here: Any = tree
    for step in place[:-1]:
        here = here[step]
    here[place[-1]] = nonsense
    return tree


def test_the_whole_tree_is_read(odd: Any, connect: OpenBmc) -> None:
    """Unspoilt, everything is there."""
    whole_tree(odd.tree)
    with connect(odd.url) as bmc:
        read = bmc.read()
    counts = [len(kind) for kind in (read.gpus, read.nics, read.dimms, read.drives, read.psus, read.firmware)]
    assert ([1, 1, 1, 1, 1, 1], {"A": "y"}, "02:00:00:00:00:02") == (counts, read.bios.pending, read.identity.bmc_mac)


@pytest.mark.parametrize("seed", range(4))
def test_nonsense_in_any_place_is_borne(odd: Any, connect: OpenBmc, seed: int) -> None:
    """Either an inventory or one of our own sentences; never a foreign exception, never a hang."""
    chance = random.Random(seed)
    sound = whole_tree(odd.tree)
    everywhere = [place for place in places(sound) if place]
    for _ in range(60):
        place, nonsense = chance.choice(everywhere), chance.choice(NONSENSE)
        odd.tree = spoilt(sound, place, nonsense)
        try:
            with connect(odd.url, budget_s=10) as bmc:
                read = bmc.read()
        except NodeTrouble:
            continue
        assert isinstance(read, Inventory), (place, nonsense)
        read.model_dump_json()
