"""Whether the node runs what its image's manifest says, as the node itself tells after its first boot."""

from __future__ import annotations

from inventory.findings import Finding, Outcome
from inventory.model import Software
from os_images.compatibility import numbers
from os_images.manifest import ImageManifest

# Versions the node is asked for, in the order an operator reads them. Names are `Software`'s and the manifest's.
_ASKED = ("os", "kernel", "driver", "cuda", "nccl", "fabric_manager", "dcgm", "containerd", "kubelet", "kubeadm")
_WORD_FOR_WORD = ("os", "kernel")  # "6.8.0-60-generic" and "6.8.0-60-nvidia" have the same numbers
_AGAIN = "Image the node again; look whether it booted from the disk that was written"


def verify(
    software: Software, image_digest: str, manifest: ImageManifest, *, nvswitch: bool = True
) -> tuple[Finding, ...]:
    """The digest first, then one finding a version the manifest states. No answer is an error, never a pass."""
    asked = [name for name in _ASKED if name in manifest.versions and (nvswitch or name != "fabric_manager")]
    return (_digest(image_digest, manifest), *(_version(name, software, manifest) for name in asked))


def same_version(name: str, told: str, stated: str) -> bool:
    """Whether a node's version is the manifest's: "v1.34.2" is 1.34.2, and CUDA 12.8.1 is a 12.8."""
    if name in _WORD_FOR_WORD:
        return told.strip().lower() == stated.strip().lower()
    wanted, seen = numbers(stated), numbers(told)
    return bool(wanted) and (seen[: len(wanted)] if name == "cuda" else seen) == wanted


def _digest(told: str, manifest: ImageManifest) -> Finding:
    cause = f"the node runs another image than {manifest.name} {manifest.version}" if told else _silent("its image")
    return _finding("image_digest", told, manifest.digest, same=told.lower() == manifest.digest, cause=cause)


def _version(name: str, software: Software, manifest: ImageManifest) -> Finding:
    told, stated = str(getattr(software, name) or ""), manifest.versions[name]
    cause = f"{_label(name)} is {told}, image {manifest.name} {manifest.version} has {stated}"
    if not told:
        cause = _silent(f"its {_label(name)} version")
    elif name == "fabric_manager" and software.driver:
        cause += f"; it must equal the driver's {software.driver}, or NVLink stays down"
    return _finding(f"image_{name}", told, stated, same=same_version(name, told, stated), cause=cause)


def _finding(metric: str, told: str, stated: str, *, same: bool, cause: str) -> Finding:
    outcome = Outcome.ERROR if not told else Outcome.PASS if same else Outcome.FAIL
    good = outcome is Outcome.PASS
    return Finding(
        metric=metric,
        subject="node",
        outcome=outcome,
        observed=told or "no answer",
        expected=stated,
        source="the image's manifest",
        cause="" if good else cause,
        remedy="" if good else _AGAIN,
        value=told or None,
    )


def _label(name: str) -> str:
    return {"cuda": "CUDA", "nccl": "NCCL", "dcgm": "DCGM", "os": "OS"}.get(name, name.replace("_", " "))


def _silent(what: str) -> str:
    return f"the node does not tell {what}"
