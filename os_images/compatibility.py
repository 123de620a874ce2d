"""Whether the versions in an image go together and go with the hardware: rules as rows, each with source and date."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inventory.findings import Finding, Outcome
from os_images.manifest import ImageManifest

# CUDA major → first driver branch that runs it. Source: NVIDIA CUDA compatibility guide, minor-version table.
_DRIVER_FOR_CUDA = {11: (450,), 12: (525,), 13: (580,)}
# Source: NVIDIA driver installation guide, kernel modules: these architectures run with the open modules only.
_OPEN_ONLY = ("B100", "B200", "B300", "GB200", "GB300", "GH200")
_B200_DRIVER = "570.133.20"
_KUBELET_BEHIND = 3  # minor versions a kubelet may be older than kubeadm. Source: Kubernetes version skew policy


@dataclass(frozen=True, slots=True)
class Case:
    """One image on one kind of hardware."""

    manifest: ImageManifest
    gpu_models: tuple[str, ...]
    nvswitch: bool

    def version(self, name: str) -> str:
        """A version the manifest states; empty when it does not."""
        return self.manifest.versions.get(name, "")

    def has_gpu(self, words: Iterable[str]) -> bool:
        """Whether a GPU model carries one of these words."""
        return any(word in re.split(r"[\s\-_/]+", model.upper()) for model in self.gpu_models for word in words)


@dataclass(frozen=True, slots=True)
class Said:
    """What a rule came to."""

    outcome: Outcome
    observed: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what must hold, how it is looked at, who says so and when that was last checked."""

    id: str
    expected: str
    look: Callable[[Case], Said]
    remedy: str
    source: str
    checked_on: str  # versions age: a row without a date cannot be trusted


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, "570.158.01" → (570, 158, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+", maxsplit=1)[0]))


def _judged(holds: bool, observed: str) -> Said:
    return Said(Outcome.PASS if holds else Outcome.FAIL, observed)


def _does_not_apply(why: str) -> Said:
    return Said(Outcome.NOT_APPLICABLE, why)


def _driver_runs_cuda(case: Case) -> Said:
    cuda, driver = numbers(case.version("cuda")), numbers(case.version("driver"))
    observed = f"CUDA {case.version('cuda')} on driver {case.version('driver')}"
    if not cuda or cuda[0] not in _DRIVER_FOR_CUDA:
        return Said(Outcome.ERROR, f"{observed}: no row for this CUDA")
    return _judged(driver >= _DRIVER_FOR_CUDA[cuda[0]], observed)


def _fabric_manager_there(case: Case) -> Said:
    if not case.nvswitch:
        return _does_not_apply("no NVSwitch")
    return _judged(bool(case.version("fabric_manager")), case.version("fabric_manager") or "none in the image")


def _fabric_manager_equal(case: Case) -> Said:
    fabric, driver = case.version("fabric_manager"), case.version("driver")
    if not case.nvswitch or not fabric:
        return _does_not_apply("no NVSwitch" if not case.nvswitch else "none in the image")
    return _judged(numbers(fabric) == numbers(driver), f"Fabric Manager {fabric}, driver {driver}")


def _nccl_built_for_cuda(case: Case) -> Said:
    nccl = case.version("nccl")
    built_for = case.version("nccl_cuda") or nccl.partition("+cuda")[2]
    if not built_for:
        return _does_not_apply(f"NCCL {nccl}: the manifest does not say for which CUDA it was built")
    same = numbers(built_for)[:1] == numbers(case.version("cuda"))[:1]
    return _judged(same, f"NCCL {nccl} for CUDA {built_for}, toolkit {case.version('cuda')}")


def _open_modules(case: Case) -> Said:
    if not case.has_gpu(_OPEN_ONLY):
        return _does_not_apply("these GPUs run with either kind")
    return _judged(case.manifest.modules == "open", f"{case.manifest.modules} modules")


def _b200_driver(case: Case) -> Said:
    if not case.has_gpu(("B200",)):
        return _does_not_apply("no B200")
    return _judged(numbers(case.version("driver")) >= numbers(_B200_DRIVER), f"driver {case.version('driver')}")


def _kubelet_not_ahead(case: Case) -> Said:
    kubelet, kubeadm = numbers(case.version("kubelet")), numbers(case.version("kubeadm"))
    if len(kubelet) < 2 or len(kubeadm) < 2:
        return _does_not_apply("no kubelet and kubeadm in the image")
    near = kubelet[0] == kubeadm[0] and 0 <= kubeadm[1] - kubelet[1] <= _KUBELET_BEHIND
    return _judged(near, f"kubelet {case.version('kubelet')}, kubeadm {case.version('kubeadm')}")


def _gpu_supported(case: Case) -> Said:
    words = tuple(word.upper() for word in case.manifest.supports.gpus)
    if not words:
        return _does_not_apply("the manifest names no GPUs")
    strange = [m for m in case.gpu_models if not Case(case.manifest, (m,), case.nvswitch).has_gpu(words)]
    return _judged(not strange, ", ".join(strange or case.gpu_models) or "no GPU")


RULES = (
    Rule(
        "DRV-CUDA",
        "a driver branch that runs this CUDA major: 11 needs 450, 12 needs 525, 13 needs 580",
        _driver_runs_cuda,
        "Build the image with a newer driver or an older CUDA toolkit",
        "NVIDIA CUDA compatibility guide, minor-version compatibility table",
        "2026-11-30",
    ),
    Rule(
        "FM-NEED",
        "Fabric Manager on a board with NVSwitches",
        _fabric_manager_there,
        "Add nvidia-fabricmanager of the driver's version to the image",
        "NVIDIA Fabric Manager user guide: HGX A100, H100 and H200 boards do not bring NVLink up without it",
        "2026-11-30",
    ),
    Rule(
        "FM-EQ",
        "Fabric Manager's version equal to the driver's, in all fields",
        _fabric_manager_equal,
        "Build the image with both from one driver release, and hold the packages",
        "NVIDIA Fabric Manager user guide; Talos documentation; NVIDIA/NVSentinel issue 883 for what a node then shows",
        "2026-11-30",
    ),
    Rule(
        "NCCL-MAJ",
        "NCCL built for the toolkit's CUDA major",
        _nccl_built_for_cuda,
        "Take the NCCL build whose +cuda suffix has the toolkit's major",
        "NVIDIA's NCCL redistribution index: one build a CUDA major",
        "2026-11, second hand",
    ),
    Rule(
        "OPEN-REQ",
        "open kernel modules for Blackwell and Grace Hopper",
        _open_modules,
        "Build the image with the open kernel modules",
        "NVIDIA driver installation guide, kernel modules",
        "2026-11, second hand",
    ),
    Rule(
        "B200-MIN",
        f"driver {_B200_DRIVER} or newer for HGX B200",
        _b200_driver,
        "Build the image with a newer driver",
        "NVIDIA GPU Operator platform notes (cloud-native-docs, pull request 184)",
        "2026-11-30",
    ),
    Rule(
        "K8S-SKEW",
        f"a kubelet not newer than kubeadm and at most {_KUBELET_BEHIND} minor versions older",
        _kubelet_not_ahead,
        "Install kubelet and kubeadm of one minor version",
        "Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy), held against kubeadm",
        "2026-11-30",
    ),
    Rule(
        "FIT-GPU",
        "a GPU model the image is made for",
        _gpu_supported,
        "Name another image in the node class, or add the model to `supports` once it was tried",
        "the image's own manifest",
        "2026-11-30",
    ),
)


def check_compatibility(manifest: ImageManifest, gpu_models: tuple[str, ...], *, nvswitch: bool) -> tuple[Finding, ...]:
    """One finding a rule; a rule that does not concern this hardware says so."""
    case = Case(manifest, gpu_models, nvswitch)
    return tuple(_finding(rule, rule.look(case), manifest) for rule in RULES)


def _finding(rule: Rule, said: Said, manifest: ImageManifest) -> Finding:
    bad = said.outcome in (Outcome.FAIL, Outcome.ERROR)
    return Finding(
        metric="image_compatibility",
        subject=rule.id,
        outcome=said.outcome,
        observed=said.observed,
        expected=rule.expected,
        remedy=rule.remedy if bad else "",
        source=f"{rule.source} (checked on {rule.checked_on})",
        cause=f"image {manifest.name} {manifest.version}: {said.observed}, expected {rule.expected}" if bad else "",
    )
