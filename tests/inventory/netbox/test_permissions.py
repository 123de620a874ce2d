"""The least-privilege token does the whole path on a real NetBox, and is refused what it does not need."""

from __future__ import annotations

import uuid

import pytest

from inventory.errors import ChangeRefused
from inventory.netbox.permissions import RECORDER
from tests.inventory.netbox.hall import Hall, record


def _least_privileged(hall: Hall) -> Hall:
    """The same NetBox through a user who has the shipped permission set and no more."""
    person, name = hall.person, f"recorder-{uuid.uuid4().hex[:6]}"
    user = person.add("users/users", {"username": name, "password": f"Aa1!{uuid.uuid4().hex}"})["id"]
    for number, permission in enumerate(RECORDER):
        body = {
            "name": f"{name}-{number}",
            "object_types": list(permission.object_types),
            "actions": list(permission.actions),
            "constraints": permission.only,
            "users": [user],
        }
        person.add("users/permissions", body)
    token = person.add("users/tokens", {"user": user, "write_enabled": True})
    return Hall(hall.url, f"nbt_{token['key']}.{token['token']}", hall.nodes)


@pytest.mark.parametrize("hall", [pytest.param("real", marks=[pytest.mark.shared, pytest.mark.slow])], indirect=True)
def test_the_shipped_permission_set_is_enough_and_no_more(hall: Hall) -> None:
    """Find, read, record, re-record and activate pass; module types and devices of other roles are refused."""
    record(hall, hall.nodes[0])  # a catalogue token has entered the module types
    least, node = _least_privileged(hall), hall.nodes[1]
    try:
        assert record(least, node) > 0
        assert 0 == record(least, node, "run-2")
        ref = least.netbox.look_up(serial=node.serial, uuid=node.uuid, bmc_mac=node.bmc_mac, name=node.name)
        assert ref and 1 == least.netbox.set_status(ref.netbox_id or 0, "active", "run-1")
        with pytest.raises(ChangeRefused, match="HTTP 403 You do not have permission"):
            least.netbox._wire.post("dcim/module-types", [{"manufacturer": 1, "model": "x"}], node.name)
        assert not least.netbox._wire.may_add("dcim/module-types")
    finally:
        least.close()
