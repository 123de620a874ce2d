"""NVLink state and error counters, and the sentences that stand in their place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.nvlink import parse_errors, parse_status

Text = Callable[[str], str]


def test_a_link_is_up_only_where_a_figure_stands(transcript: Text) -> None:
    """Two of three, none for all-inactive and for boards without, unknown under MIG."""
    gpus = parse_status(transcript("nvlink/status-mixed.txt"))
    assert [2, 0, 0, None] == [gpu.up for gpu in gpus]
    assert (212.496, None, 212.496) == gpus[0].speeds_gbit_s
    assert 212.496 == gpus[0].slowest_gbit_s
    assert "aaaaaaaa-0000-4000-8000-000000000011" == gpus[0].uuid
    assert "MIG mode" in gpus[3].note


def test_a_gpu_without_links_and_without_a_word_is_unknown() -> None:
    """A list that ends behind a GPU's name says nothing about its links."""
    gpus = parse_status("GPU 0: NVIDIA H100 (UUID: GPU-a)\n")
    assert (None, "cut off: no links and no word about them") == (gpus[0].up, gpus[0].note)


def test_counters_are_per_link_and_unknown_stays_unknown(transcript: Text) -> None:
    """Names become metrics; N/A is None; bit error rates keep their value."""
    hopper = parse_errors(transcript("nvlink/errors-hopper.txt"))
    assert [
        (0, "replay_errors", 1.0),
        (0, "recovery_errors", 0.0),
        (0, "crc_errors", 4.0),
        (1, "replay_errors", None),
    ] == [(c.link, c.name, c.value) for c in hopper]
    blackwell = {c.name: c.value for c in parse_errors(transcript("nvlink/errors-blackwell.txt"))}
    assert {"tx_packets": 991.0, "effective_ber": 15e-255, "link_recovery_successful_events": 2.0} == blackwell


@pytest.mark.parametrize("text", ["", "CA 'mlx5_0'\n", "\t Link 0: 26.562 GB/s\n"])
def test_other_text_is_refused(text: str) -> None:
    """Without a GPU's name no link can be anybody's."""
    for parse in (parse_status, parse_errors):
        with pytest.raises(ValueError, match="expected `GPU 0: model"):
            parse(text)


@pytest.mark.shared
def test_recorded_states(sample: Text) -> None:
    """A100s with all links inactive, and with twelve at 25 GB/s."""
    assert [0] == [gpu.up for gpu in parse_status(sample("azhc_bad_nvlink_status.txt"))]
    assert [12] == [gpu.up for gpu in parse_status(sample("azhc_good_nvlink_status.txt"))]
    eight = parse_status(sample("nvlink_status_8xA100.txt"))
    assert [(12, 200.0)] * 8 == [(gpu.up, gpu.slowest_gbit_s) for gpu in eight]
