"""RDMA devices from sysfs and ibstat."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.infiniband import SYSFS, colons, parse_ibstat, parse_sysfs, parse_sysfs_json

Text = Callable[[str], str]


def test_sysfs_tells_ports_counters_and_names(transcript: Text) -> None:
    """An InfiniBand port with its GUID and counters; IPoIB's long address is no MAC."""
    device = parse_sysfs(transcript("rdma/sysfs.txt"))[0]
    port = device.ports[0]
    assert ("mlx5_0", "28.39.0001", "0000:1b:00.0", "ibs1", None) == (
        device.name,
        device.firmware,
        device.pci_address,
        device.interface,
        device.mac,
    )
    assert ("ACTIVE", "LinkUp", 400.0, "InfiniBand") == (
        port.state,
        port.physical_state,
        port.rate_gbit_s,
        port.link_layer,
    )
    assert "A0:88:C2:03:00:11:22:33" == port.guid
    assert {"symbol_error": 7, "link_downed": None, "out_of_sequence": 3} == port.counters


def test_a_port_in_init_and_an_empty_gid(transcript: Text) -> None:
    """INIT stays INIT, zeros are no GUID, an Ethernet port has a MAC."""
    device = parse_sysfs(transcript("rdma/sysfs.txt"))[1]
    assert ("INIT", None, "A0:88:C2:11:44:55") == (device.ports[0].state, device.ports[0].guid, device.mac)


def test_ibstat_tells_the_same_words(transcript: Text) -> None:
    """Active, Initializing and Down in sysfs's words; the rate of a port that is down is what it says."""
    devices = parse_ibstat(transcript("rdma/ibstat.txt"))
    assert [("ACTIVE", 400.0), ("INIT", 400.0), ("DOWN", 10.0)] == [
        (d.ports[0].state, d.ports[0].rate_gbit_s) for d in devices
    ]
    assert ("A0:88:C2:03:00:11:22:33", "Polling") == (devices[0].ports[0].guid, devices[2].ports[0].physical_state)


@pytest.mark.parametrize("text", ["", "grep: No such file\n", "GPU 0: x\n", "/sys/class/infiniband/mlx5_0/fw_ver:1\n"])
def test_other_text_is_refused(text: str) -> None:
    """Without a port there is no adapter to speak of."""
    with pytest.raises(ValueError, match="expected"):
        parse_sysfs(text)
    with pytest.raises(ValueError, match="expected"):
        parse_ibstat(text)


def test_a_node_without_adapters_answers_with_none() -> None:
    """No file at all is an answer, which the class judges."""
    assert () == SYSFS.parse("")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}'])
def test_other_json_is_refused(text: str) -> None:
    """Neither a list nor a cut document passes for a tree."""
    with pytest.raises(ValueError, match="expected"):
        parse_sysfs_json(text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0xa088c20300112233", "A0:88:C2:03:00:11:22:33"),
        ("a088:c203:0011:2233", "A0:88:C2:03:00:11:22:33"),
        ("0000:0000:0000:0000", None),
        ("node_guid", None),
        (None, None),
    ],
)
def test_guids_in_any_spelling(written: str | None, expected: str | None) -> None:
    """Upper case with colons, or nothing."""
    assert expected == colons(written)


@pytest.mark.shared
def test_recorded_trees(sample: Text) -> None:
    """EDR where HDR was wanted; two ports without a subnet manager."""
    slow = parse_sysfs_json(sample("gcm_learn_ib_intf_bad_rate.json"))
    assert {100.0} == {port.rate_gbit_s for device in slow for port in device.ports}
    stuck = parse_sysfs_json(sample("gcm_learn_stuck_ib_intf.json"))
    assert {"mlx5_8", "mlx5_6"} == {d.name for d in stuck for p in d.ports if p.state == "INIT"}
    assert "0000:ba:00.0" == stuck[0].pci_address
