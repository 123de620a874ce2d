"""Node classes: the shipped ones are whole and point at things that exist; a broken one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bios_profiles.profile import load_profiles
from burnin.limits import load_limits
from burnin.node_tests import NODE_TESTS
from inventory.classes import NodeClass, load_class, load_classes
from inventory.errors import BadSettings
from os_images.manifest import load_manifests

CLASSES = load_classes()
LAB_IMAGES = {"lab-ubuntu-24.04"}  # made by the simulated rack when it comes up


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_shipped_class_refers_to_is_shipped_too(name: str) -> None:
    """BIOS profile, image, limits pack and every test exist by that name."""
    node_class = CLASSES[name]
    assert node_class.bios_profile in load_profiles()
    assert node_class.limits in load_limits()
    assert node_class.image in {*load_manifests(), *LAB_IMAGES}
    assert set() == set(node_class.tests) - set(NODE_TESTS)


@pytest.mark.parametrize("name", CLASSES)
def test_a_shipped_class_asks_for_something(name: str) -> None:
    """GPUs, adapters, memory and drives have figures, and the file is named as the class."""
    node_class = CLASSES[name]
    assert node_class.gpu.count
    assert node_class.gpu.pci_device_ids
    assert node_class.gpu.memory_mib_at_least
    assert node_class.nics
    assert node_class.dimms
    assert node_class.drives


def test_the_classes_we_ship() -> None:
    """The lab's three shapes and two real machines."""
    assert {"lab-hgx", "lab-pcie", "lab-processors", "hgx-h100-8", "dgx-h100"} <= set(CLASSES)


def test_a_sites_own_class_wins(tmp_path: Path) -> None:
    """A file of the same name replaces the shipped class."""
    shipped = (Path(__file__).parents[2] / "inventory" / "classes" / "lab-hgx.toml").read_text()
    (tmp_path / "lab-hgx.toml").write_text(shipped.replace("drives = 3", "drives = 2"))
    assert (3, 2) == (CLASSES["lab-hgx"].drives, load_classes(tmp_path)["lab-hgx"].drives)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "Mend the file"),
        ("name = 'x'\n", "description"),
        ("name = 'x'\nfrobnicate = 1\n", "Mend the field"),
        ("\xff", "Mend the file"),
    ],
)
def test_a_broken_class_names_file_and_field(tmp_path: Path, text: str, words: str) -> None:
    """Broken TOML, a missing field and an unknown one: the file, the field, and what to do."""
    file = tmp_path / "broken.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadSettings, match=r"broken\.toml") as caught:
        load_class(file)
    assert words in str(caught.value)


def test_a_class_without_a_source_is_refused() -> None:
    """A figure nobody can look up is no figure."""
    facts = CLASSES["lab-hgx"].model_dump() | {"source": "?"}
    with pytest.raises(ValueError, match="source"):
        NodeClass.model_validate(facts)
