"""The topology matrix with colours, wrapped affinities and NICs under their legend's names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.topology import parse_topology

Text = Callable[[str], str]


def test_paths_affinity_and_nic_names(transcript: Text) -> None:
    """NIC0 is called mlx5_4; GPU NUMA ID is N/A and left out; a CPU list with a comma stays whole."""
    topology = parse_topology(transcript("topo/h100-with-nics.txt"))
    assert ("GPU0", "GPU1", "mlx5_4", "mlx5_bond_0") == topology.devices
    assert ("NV18", "PIX", "SYS") == (
        topology.path("GPU0", "GPU1"),
        topology.path("GPU0", "mlx5_4"),
        topology.path("GPU0", "mlx5_bond_0"),
    )
    assert {"GPU0": "0-47,96-143", "GPU1": "48-95,144-191"} == topology.cpu_affinity
    assert {"GPU0": "0", "GPU1": "1"} == topology.numa


def test_a_matrix_cut_anywhere_in_its_rows_is_refused(transcript: Text) -> None:
    """Fewer rows than columns, or half a row, are not a matrix."""
    lines = transcript("topo/h100-with-nics.txt").splitlines(keepends=True)
    for kept in range(5):
        with pytest.raises(ValueError, match="expected"):
            parse_topology("".join(lines[:kept]))
    with pytest.raises(ValueError, match="expected 4 paths"):
        parse_topology("".join([*lines[:2], "GPU1\tNV18\n", *lines[3:]]))


@pytest.mark.parametrize("text", ["", "No devices were found\n", "<nvidia_smi_log/>\n"])
def test_other_text_is_refused(text: str) -> None:
    """No header, no matrix."""
    with pytest.raises(ValueError, match="expected a header"):
        parse_topology(text)
