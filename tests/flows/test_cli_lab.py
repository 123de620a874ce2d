"""`rackmint lab`: the simulated rack as a process of its own, brought up, looked at, broken, mended and taken down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.edits import EDITS
from lab.faults import FAULTS
from tests.flows.cli_process import rackmint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder in which a lab of two is up."""
    folder = tmp_path_factory.mktemp("operator")
    ran = rackmint("lab", "up", "--nodes", "2", "--scale", "1000", cwd=folder)
    assert 0 == ran.code, ran
    assert "Next: rackmint provision R1" in ran.out
    yield folder
    assert "The lab is down." in rackmint("lab", "down", cwd=folder).out
    assert "No lab was up" in rackmint("lab", "down", cwd=folder).out


def told(folder: Path, *argv: str) -> Any:
    """A lab command's JSON document."""
    return json.loads(rackmint("lab", *argv, "--json", cwd=folder).out)


def test_its_settings_are_linked_so_that_the_next_command_needs_none(folder: Path) -> None:
    """`rackmint status` in the same folder knows the site."""
    assert 0 == rackmint("status", cwd=folder).code


def test_a_second_lab_in_the_same_folder_is_refused(folder: Path) -> None:
    """With the command that takes the first one down."""
    ran = rackmint("lab", "up", cwd=folder)
    assert 3 == ran.code
    assert "Stop it with `rackmint lab down --folder lab-rack`" in ran.sentence


def test_a_node_is_broken_seen_and_mended(folder: Path) -> None:
    """Inject, status, heal; wrong names are wrong usage and named."""
    assert 0 == rackmint("lab", "inject", "r1-n02", "gpu_lost", cwd=folder).code
    assert [[], ["gpu_lost"]] == [node["faults"] for node in told(folder, "status")["nodes"]]
    assert 0 == rackmint("lab", "heal", "r1-n02", cwd=folder).code
    assert [[], []] == [node["faults"] for node in told(folder, "status")["nodes"]]
    for wrong in (("inject", "r9-n01", "gpu_lost"), ("inject", "r1-n01", "gpu_lots"), ("edit", "r1-n01", "nothing")):
        ran = rackmint("lab", *wrong, cwd=folder)
        assert 3 == ran.code
        assert ran.sentence.startswith("rackmint: the lab says: ")


def test_what_can_be_broken_is_listed_with_its_source(folder: Path) -> None:
    """At least the two dozen faults, each with a citation, and what people do behind one's back; in 100 columns."""
    assert set(FAULTS) == {fault["name"] for fault in told(folder, "faults")}
    assert set(EDITS) == {edit["name"] for edit in told(folder, "edits")}
    assert len(FAULTS) >= 24
    assert all(fault["cites"] for fault in told(folder, "faults"))
    shown = rackmint("lab", "faults", cwd=folder).out + rackmint("lab", "status", cwd=folder).out
    assert [] == [line for line in shown.splitlines() if len(line) > 100]


def test_without_a_lab_the_way_to_one_is_told(tmp_path: Path) -> None:
    """In an empty folder."""
    ran = rackmint("lab", "status", cwd=tmp_path)
    assert (3, "rackmint: no lab answers in lab-rack. Start one with `rackmint lab up`") == (ran.code, ran.sentence)
