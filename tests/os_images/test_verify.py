"""Whether a node runs its image: digest and versions as the node tells them."""

from __future__ import annotations

import pytest

from inventory.findings import Outcome
from inventory.model import Software
from os_images.manifest import load_manifests
from os_images.verify import same_version, verify

IMAGE = load_manifests()["ubuntu-24.04-hgx-h100"]
AS_LAID = Software(
    os="Ubuntu 24.04",
    kernel="6.8.0-60-generic",
    driver="570.158.01",
    cuda="12.8",
    nccl="2.26.2",
    fabric_manager="570.158.01",
    dcgm="4.2.3",
    containerd="v2.1.4",
    kubelet="v1.34.2",
    kubeadm="v1.34.2",
)


def bad(software: Software, digest: str = IMAGE.digest, *, nvswitch: bool = True) -> list[tuple[str, Outcome]]:
    """What does not pass."""
    found = verify(software, digest, IMAGE, nvswitch=nvswitch)
    return [(f.metric, f.outcome) for f in found if f.outcome is not Outcome.PASS]


def test_a_node_as_its_image_passes() -> None:
    """Every stated version is held against what the node tells."""
    assert [] == bad(AS_LAID)
    assert 11 == len(verify(AS_LAID, IMAGE.digest, IMAGE))


@pytest.mark.parametrize("name", ["kernel", "driver", "cuda", "nccl", "fabric_manager", "dcgm", "kubelet"])
def test_another_version_fails_and_no_answer_is_an_error(name: str) -> None:
    """A drift is a failure; silence is an error, never a pass."""
    assert [(f"image_{name}", Outcome.FAIL)] == bad(AS_LAID.model_copy(update={name: "1.0"}))
    assert [(f"image_{name}", Outcome.ERROR)] == bad(AS_LAID.model_copy(update={name: None}))


def test_another_image_fails_and_none_told_is_an_error() -> None:
    """The digest is what a certificate binds."""
    assert [("image_digest", Outcome.FAIL)] == bad(AS_LAID, "0" * 64)
    assert [("image_digest", Outcome.ERROR)] == bad(AS_LAID, "")


def test_fabric_manager_out_of_step_names_the_driver() -> None:
    """The cause tells why it matters; where there are no switches it does not."""
    skewed = AS_LAID.model_copy(update={"fabric_manager": "570.124.06"})
    cause = next(f.cause for f in verify(skewed, IMAGE.digest, IMAGE) if f.cause)
    assert "fabric manager is 570.124.06" in cause
    assert "must equal the driver's 570.158.01" in cause
    assert [] == bad(skewed, nvswitch=False)


@pytest.mark.parametrize(
    ("name", "told", "stated", "same"),
    [
        ("cuda", "12.8.1", "12.8", True),
        ("cuda", "12.9", "12.8", False),
        ("nccl", "2.26.2", "2.26.2+cuda12.8", True),
        ("nccl", "2.26", "2.26.2", False),
        ("kernel", "6.8.0-60-nvidia", "6.8.0-60-generic", False),
        ("driver", "unknown", "570.1", False),
    ],
)
def test_when_versions_are_one(name: str, told: str, stated: str, same: bool) -> None:
    """Spelling may differ, numbers may not."""
    assert same == same_version(name, told, stated)
