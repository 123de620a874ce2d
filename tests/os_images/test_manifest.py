"""Image manifests: what is refused at load, and whether an artifact is what its manifest says."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory.errors import BadSettings
from inventory.findings import Outcome
from os_images.manifest import load_manifests, prove_artifact
from tests.os_images.boxes import Site

GOOD = """
name = "mine"
version = "1"
source = "built by this test"
[artifact]
file = "mine.raw"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
size = 3
[versions]
os = "ubuntu 24.04"
kernel = "6.8.0"
driver = "570.1.2"
cuda = "12.8"
nccl = "2.26.2"
"""  # the digest is SHA-256's own test vector for "abc", FIPS 180-2


def test_a_site_s_manifest_is_found_with_its_artifact(tmp_path: Path) -> None:
    """The artifact lies beside the manifest and is proven by reading it."""
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "mine.raw").write_bytes(b"abc")
    mine = load_manifests(tmp_path)["mine"]
    assert (str(tmp_path / "mine.raw"), 3, Outcome.PASS) == (
        mine.artifact.file,
        mine.disk_bytes,
        prove_artifact(mine).outcome,
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("[versions]", "[versions", "Mend the file"),
        ("ba7816", "XX7816", "artifact.sha256"),
        ("size = 3", "size = 0", "artifact.size"),
        ('file = "mine.raw"', "", "either a file or a url"),
        ('file = "mine.raw"', 'url = "ftp://x/y"', "not an HTTP URL"),
        ("size = 3", 'size = 3\nformat = "qcow2"', "artifact.format"),
        ("size = 3", 'size = 3\nformat = "raw.xz"', "size_raw is needed"),
        ('driver = "570.1.2"', "", "lacking: driver"),
        ('cuda = "12.8"', 'cuda = "12.8"\nflavour = "x"', "not known: flavour"),
        ('source = "built by this test"', "", "source"),
        ("[artifact]", "modules = 'none'\n[artifact]", "modules"),
    ],
)
def test_a_broken_manifest_is_refused_by_file_and_field(tmp_path: Path, before: str, after: str, said: str) -> None:
    """The sentence names the file and what to mend."""
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(before, after))
    with pytest.raises(BadSettings) as raised:
        load_manifests(tmp_path)
    assert str(file) in str(raised.value)
    assert said in str(raised.value)


def test_an_artifact_that_is_not_what_the_manifest_says_fails(site: Site) -> None:
    """Another byte, another length, gone: each is a failure with its cause; elsewhere is not looked at."""
    file = site.folder / "image.raw"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert (Outcome.FAIL, True) == (
        (found := prove_artifact(site.image)).outcome,
        "not what the manifest" in found.cause,
    )
    file.write_bytes(content + b"x")
    assert "the manifest says" in prove_artifact(site.image).observed
    file.unlink()
    assert "No such file" in prove_artifact(site.image).observed
    (site.folder / "image.raw").write_bytes(content)
    there = {"file": "", "url": "https://images.example/x.raw"}
    elsewhere = site.image.model_copy(update={"artifact": site.image.artifact.model_copy(update=there)})
    assert Outcome.NOT_APPLICABLE == prove_artifact(elsewhere).outcome


def test_the_shipped_example_can_never_be_laid() -> None:
    """It stands for an image that the site has to build."""
    assert Outcome.FAIL == prove_artifact(load_manifests()["ubuntu-24.04-hgx-h100"]).outcome
