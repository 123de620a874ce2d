"""`ip -j addr`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from inventory.parsers.ethernet import parse_ip

Text = Callable[[str], str]


def test_interfaces_with_state_mtu_and_addresses(transcript: Text) -> None:
    """MACs in upper case; an interface without address or carrier is still told."""
    lo, up, down = parse_ip(transcript("ip/addr.json"))
    assert ("lo", ("127.0.0.1/8",)) == (lo.name, lo.addresses)
    assert ("A0:88:C2:11:44:55", 4200, "UP", True) == (up.mac, up.mtu, up.state, up.carrier)
    assert (None, "DOWN", False) == (down.mac, down.state, down.carrier)


@pytest.mark.parametrize("text", ["", "[]", "[{}]", "1: lo: <LOOPBACK,UP>", '[{"ifname":"lo"'])
def test_other_text_is_refused(text: str) -> None:
    """Plain `ip addr`, empty lists and cut documents are not interfaces."""
    with pytest.raises(ValueError, match="expected a JSON list"):
        parse_ip(text)


@pytest.mark.shared
def test_a_recorded_list_has_a_small_mtu(sample: Text) -> None:
    """MTU 1500 on a port that should have more."""
    rows = json.loads(sample("gcm_eth_learn_mtu_bad.json"))["intf_status"]
    assert 1500 in {interface.mtu for interface in parse_ip(json.dumps(rows))}
