"""lspci: links against the lesser of both ends, redirection below switches, serials."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.pci import links, parse_lspci, redirecting_ports

Text = Callable[[str], str]


def test_a_narrow_link_is_degraded_and_an_older_card_is_not(transcript: Text) -> None:
    """x8 of x16 counts; a Gen4 card in a Gen5 port runs at all it can."""
    found = {link.device: link for link in links(parse_lspci(transcript("lspci/gpu-behind-switch.txt")))}
    gpu, nic = found["0000:1a:00.0"], found["0000:1b:00.0"]
    assert (8, 16, "0000:11:00.0", True) == (gpu.width, gpu.width_expected, gpu.upstream, gpu.degraded)
    assert (16.0, 16.0, False) == (nic.speed_gt_s, nic.speed_expected_gt_s, nic.degraded)


def test_only_switch_ports_that_redirect_are_named(transcript: Text) -> None:
    """A root port's redirection is not a detour below a switch; capabilities are not settings."""
    assert ["0000:11:00.0"] == [
        d.address for d in redirecting_ports(parse_lspci(transcript("lspci/gpu-behind-switch.txt")))
    ]


def test_ids_and_vital_product_data(transcript: Text) -> None:
    """Vendor and device from -nn, part number and serial without their padding."""
    nic = parse_lspci(transcript("lspci/gpu-behind-switch.txt"))[-1]
    assert ("15b3:101b", "MCX000000A-XXXX", "MT0000X00001") == (nic.ids, nic.part_number, nic.serial)


def test_without_root_nothing_is_known_of_links(transcript: Text) -> None:
    """`<access denied>` is told, and a bus without domain is in domain 0."""
    gpu = parse_lspci(transcript("lspci/not-root.txt"))[0]
    assert ("0000:1a:00.0", True, None) == (gpu.address, gpu.access_denied, gpu.width)


@pytest.mark.parametrize("text", ["", "lspci: Unable to load libkmod\n", "GPU 0: x (UUID: y)\n"])
def test_other_text_is_refused(text: str) -> None:
    """No function, no bus."""
    with pytest.raises(ValueError, match=r"expected `0000:00:00\.0"):
        parse_lspci(text)


@pytest.mark.shared
def test_a_recorded_server_has_full_gpu_links_and_redirecting_ports(sample: Text) -> None:
    """16,000 lines: eight H100 at x16, four switch ports redirect, and no "downgraded" concerns a GPU."""
    devices = parse_lspci(sample("lspci_vvv_8xH100_acs_on_switches.txt"))
    gpus = {d.address for d in devices if "NVIDIA Corporation Device 2330" in d.title}
    assert 8 == len(gpus)
    assert [(16, 32.0, False)] * 8 == [(x.width, x.speed_gt_s, x.degraded) for x in links(devices) if x.device in gpus]
    assert ["0000:82:00.0", "0000:82:01.0", "0000:82:02.0", "0000:82:03.0"] == [
        d.address for d in redirecting_ports(devices)
    ]
