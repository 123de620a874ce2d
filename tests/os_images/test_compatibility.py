"""Whether versions go together: each rule meets a case that holds, one that breaks it, and one it does not concern."""

from __future__ import annotations

import pytest

from inventory.findings import Outcome
from os_images.compatibility import RULES, check_compatibility
from os_images.manifest import ImageManifest, load_manifests

H100 = ("NVIDIA H100 80GB HBM3",)
P, F, E, N = Outcome.PASS, Outcome.FAIL, Outcome.ERROR, Outcome.NOT_APPLICABLE


def image(modules: str = "open", gpus: tuple[str, ...] = (), **versions: str | None) -> ImageManifest:
    """The shipped example with other versions; None takes one away."""
    example = load_manifests()["ubuntu-24.04-hgx-h100"].model_dump()
    kept = {name: version for name, version in {**example["versions"], **versions}.items() if version is not None}
    changed = {"versions": kept, "modules": modules, "supports": {"gpus": gpus}}
    return ImageManifest.model_validate({**example, **changed})


def outcome(rule: str, manifest: ImageManifest, gpus: tuple[str, ...] = H100, *, nvswitch: bool = True) -> Outcome:
    """What one rule says."""
    return next(f.outcome for f in check_compatibility(manifest, gpus, nvswitch=nvswitch) if f.subject == rule)


@pytest.mark.parametrize(
    ("rule", "manifest", "gpus", "expected"),
    [
        ("DRV-CUDA", image(), H100, P),
        ("DRV-CUDA", image(cuda="13.0"), H100, F),
        ("DRV-CUDA", image(cuda="13.0", driver="580.65.06"), H100, P),
        ("DRV-CUDA", image(driver="520.61.05"), H100, F),
        ("DRV-CUDA", image(cuda="10.2"), H100, E),
        ("FM-NEED", image(fabric_manager=None), H100, F),
        ("FM-EQ", image(fabric_manager="570.124.06"), H100, F),
        ("FM-EQ", image(fabric_manager="570.158.1"), H100, P),
        ("FM-EQ", image(fabric_manager=None), H100, N),
        ("NCCL-MAJ", image(nccl="2.30.7+cuda13.0"), H100, F),
        ("NCCL-MAJ", image(nccl="2.26.2"), H100, N),
        ("NCCL-MAJ", image(nccl="2.26.2", nccl_cuda="12.4"), H100, P),
        ("OPEN-REQ", image(modules="proprietary"), H100, N),
        ("OPEN-REQ", image(modules="proprietary"), ("NVIDIA B200",), F),
        ("OPEN-REQ", image(), ("NVIDIA GH200 480GB",), P),
        ("B200-MIN", image(driver="570.124.06"), ("NVIDIA B200",), F),
        ("B200-MIN", image(driver="570.124.06"), ("NVIDIA GB200",), N),
        ("K8S-SKEW", image(kubelet="1.35.0"), H100, F),
        ("K8S-SKEW", image(kubelet="1.31.9"), H100, P),
        ("K8S-SKEW", image(kubelet="1.30.9"), H100, F),
        ("K8S-SKEW", image(kubelet=None), H100, N),
        ("FIT-GPU", image(gpus=("H100", "H200")), H100, P),
        ("FIT-GPU", image(gpus=("H200",)), H100, F),
        ("FIT-GPU", image(gpus=("H20",)), ("NVIDIA H200",), F),
        ("FIT-GPU", image(), H100, N),
    ],
)
def test_a_rule(rule: str, manifest: ImageManifest, gpus: tuple[str, ...], expected: Outcome) -> None:
    """One case of one rule."""
    assert expected == outcome(rule, manifest, gpus)


@pytest.mark.parametrize("rule", ["FM-NEED", "FM-EQ"])
def test_fabric_manager_is_for_boards_with_switches(rule: str) -> None:
    """GPUs on cards need none, and one in the image does no harm."""
    assert N == outcome(rule, image(fabric_manager="1.0"), nvswitch=False)


def test_the_example_holds_together_on_its_own_hardware() -> None:
    """Every rule speaks, none fails, and each says its source and date."""
    found = check_compatibility(load_manifests()["ubuntu-24.04-hgx-h100"], H100, nvswitch=True)
    assert len(RULES) == len(found)
    assert {P, N} == {f.outcome for f in found}
    assert all("checked on 2026" in f.source for f in found)
