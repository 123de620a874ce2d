"""Which nodes there are and what the book says of them: the stand-in and a real NetBox answer alike."""

from __future__ import annotations

import json

import pytest

from inventory.errors import BadSettings
from inventory.netbox.reading import _by_rest
from tests.inventory.netbox.hall import Hall, record


def test_the_version_is_told(hall: Hall) -> None:
    """A NetBox of 4.6 or newer is accepted and its version is given back."""
    major, minor = hall.netbox.check().split(".")[:2]
    assert (int(major), int(minor)) >= (4, 6)


def test_a_rack_lists_its_nodes_from_the_bottom(hall: Hall) -> None:
    """A rack's nodes come with unit, serial, class, status and BMC address."""
    refs = hall.netbox.nodes_in(hall.rack)
    assert [(n.name, n.unit, n.serial) for n in hall.nodes] == [(r.name, r.unit, r.serial) for r in refs]
    assert ["https://127.77.1.1:8443", "https://127.77.1.2:8443"] == [ref.bmc_url for ref in refs]
    assert {("lab-hgx", "staged", hall.rack)} == {(ref.node_class, ref.status, ref.rack) for ref in refs}


def test_a_status_chooses_among_the_nodes(hall: Hall) -> None:
    """Only nodes of the asked life-cycle state are listed."""
    first = hall.nodes[0].name
    hall.person.edit("dcim/devices", hall.person.device(first)["id"], status="offline")
    assert [hall.nodes[1].name] == [ref.name for ref in hall.netbox.nodes_in(hall.rack, "staged")]


def test_devices_without_a_node_class_are_not_ours(hall: Hall) -> None:
    """A switch in the same rack is no node."""
    device = hall.person.device(hall.nodes[0].name)
    hall.person.edit("dcim/devices", device["id"], custom_fields={"node_class": None})
    assert [hall.nodes[1].name] == [ref.name for ref in hall.netbox.nodes_in(hall.rack)]


def test_an_unknown_rack_names_the_near_ones(hall: Hall) -> None:
    """A misspelt rack is refused with what it may have meant."""
    with pytest.raises(BadSettings, match=f"no rack {hall.rack}9. There is .*{hall.rack}"):
        hall.netbox.nodes_in(f"{hall.rack}9")


def test_two_nodes_with_one_serial_are_both_named(hall: Hall) -> None:
    """A copied record stops the run before any node is touched."""
    twin = hall.person.device(hall.nodes[1].name)
    hall.person.edit("dcim/devices", twin["id"], serial=hall.nodes[0].serial)
    with pytest.raises(BadSettings, match=rf"{hall.nodes[0].name}.*and {hall.nodes[1].name}"):
        hall.netbox.nodes_in(hall.rack)


def test_one_request_reads_all_nodes_of_a_rack(hall: Hall) -> None:
    """Device, bays, parts, ports and custom fields of many nodes cost one request."""
    ids = hall.ids()
    before = hall.netbox.requests
    books = hall.netbox.read_many(ids)
    assert 1 == hall.netbox.requests - before
    assert [(node.name, 51) for node in hall.nodes] == [(book.name, len(book.bays)) for book in books]


def test_rest_says_what_graphql_says(hall: Hall) -> None:
    """Where GraphQL is switched off, four REST requests give the same book; ports' IP addresses are left out."""
    record(hall, hall.nodes[0])
    book = hall.netbox.read(hall.ids()[0])
    rest = _by_rest(hall.netbox._wire, book.id)
    assert sorted(bay.model_dump_json() for bay in book.bays) == sorted(bay.model_dump_json() for bay in rest.bays)
    assert [p.name for p in sorted(book.ports, key=_by_id)] == [p.name for p in sorted(rest.ports, key=_by_id)]
    apart = {"bays", "ports", "server_time"}
    assert _plain(book.model_dump(mode="json", exclude=apart)) == _plain(rest.model_dump(mode="json", exclude=apart))


def _plain(dumped: object) -> str:
    """One writing of UTC: GraphQL says +00:00, REST says Z."""
    return json.dumps(dumped, sort_keys=True).replace("+00:00", "Z")


def _by_id(port: object) -> int:
    return int(getattr(port, "id", 0))


def test_an_id_that_is_not_there_is_said(hall: Hall) -> None:
    """A device id nobody knows is refused in a sentence."""
    with pytest.raises(BadSettings, match="no device 99999999"):
        hall.netbox.read(99999999)


def test_a_machine_is_found_by_each_of_its_keys(hall: Hall) -> None:
    """UUID, serial, BMC MAC and name each lead to the device."""
    node = hall.nodes[0]
    record(hall, node)
    wanted = hall.ids()[0]
    for key in ({"serial": node.serial}, {"uuid": node.uuid}, {"bmc_mac": node.bmc_mac}, {"name": node.name}):
        assert wanted == hall.netbox.find(**key), key


def test_keys_that_disagree_name_both_devices(hall: Hall) -> None:
    """A serial of one device with the BMC MAC of another is a swapped board, and for a person."""
    one, two = hall.nodes
    with pytest.raises(BadSettings, match=rf"serial says {one.name}.*BMC MAC says {two.name}"):
        hall.netbox.find(serial=one.serial, bmc_mac=two.bmc_mac)


def test_a_placeholder_serial_finds_nobody(hall: Hall) -> None:
    """`To be filled by O.E.M.` identifies no machine, even when a device carries it."""
    device = hall.person.device(hall.nodes[0].name)
    hall.person.edit("dcim/devices", device["id"], serial="To be filled by O.E.M.")
    assert hall.netbox.look_up(serial="To be filled by O.E.M.") is None


def test_long_lists_of_values_are_asked_in_pieces(lab_hall: Hall) -> None:
    """Two hundred serials do not fit into one request line; all are asked for."""
    record(lab_hall, lab_hall.nodes[0])
    mine = [gpu.serial for gpu in lab_hall.nodes[0].gpus]
    before = lab_hall.netbox.requests
    rows = lab_hall.netbox._wire.listed_by("dcim/modules", "serial", [*mine, *("X" * 40 + str(n) for n in range(200))])
    assert (8, 4) == (len(rows), lab_hall.netbox.requests - before)


def test_a_misspelt_filter_never_leaves(hall: Hall) -> None:
    """NetBox would answer an unknown filter with the whole table, so it is refused before it is sent."""
    before = hall.netbox.requests
    with pytest.raises(ValueError, match="device_role"):
        hall.netbox._wire.listed("dcim/modules", device_role="gpu-node")
    with pytest.raises(ValueError, match="whole table"):
        hall.netbox._wire.listed("dcim/modules", device_id=None)
    assert 0 == hall.netbox.requests - before
