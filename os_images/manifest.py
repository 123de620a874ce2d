"""What an image is: its artifact and digest, the versions it carries, the hardware it is for. One TOML file each."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from inventory.data_files import read_file, read_folders
from inventory.findings import Finding, Outcome
from inventory.model import Frozen

_SHIPPED = Path(__file__).parent
_MIB = 1 << 20

# What must be stated: without these nothing can be verified on the node. Our choice.
_STATED_ALWAYS = ("os", "kernel", "driver", "cuda", "nccl")
_STATED_MAYBE = ("fabric_manager", "dcgm", "containerd", "kubelet", "kubeadm", "nccl_tests", "nccl_cuda")


class Artifact(Frozen):
    """The bytes that are laid on the disk: a file beside the manifest, or a URL that the node can reach."""

    file: str = ""  # absolute once loaded
    url: str = ""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")  # of the bytes as sent
    size: int = Field(gt=0)  # bytes as sent
    size_raw: int | None = Field(default=None, gt=0)  # bytes on the disk; the same as `size` for raw
    format: Literal["raw", "raw.gz", "raw.xz"] = "raw"  # what the agent can unpack while streaming

    @model_validator(mode="after")
    def _one_place(self) -> Artifact:
        if bool(self.file) == bool(self.url):
            raise ValueError("an artifact has either a file or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url} is not an HTTP URL")
        if self.format != "raw" and self.size_raw is None:
            raise ValueError(f"{self.format}: size_raw is needed to know whether the image fits a disk")
        return self

    @property
    def bytes_on_disk(self) -> int:
        """How much of the disk the image takes."""
        return self.size_raw or self.size


class Supports(Frozen):
    """The hardware an image is for. An empty tuple says nothing and is not judged."""

    gpus: tuple[str, ...] = ()  # a word of the model name: "H100"
    platforms: tuple[str, ...] = ()  # node class names or makers' model names


class ImageManifest(Frozen):
    """One image. Its digest is what a certificate binds; its versions are what the node must tell afterwards."""

    name: str = Field(min_length=1)
    version: str = Field(min_length=1)
    source: str = Field(min_length=10)  # who built it and how, or where it comes from
    artifact: Artifact
    versions: dict[str, str]
    supports: Supports = Supports()
    min_disk_bytes: int = Field(default=0, ge=0)
    modules: Literal["open", "proprietary"] = "open"  # NVIDIA kernel modules

    @field_validator("versions")
    @classmethod
    def _known_and_stated(cls, versions: dict[str, str]) -> dict[str, str]:
        lacking = [name for name in _STATED_ALWAYS if not versions.get(name)]
        unknown = sorted(set(versions) - {*_STATED_ALWAYS, *_STATED_MAYBE})
        if lacking or unknown:
            raise ValueError(f"lacking: {', '.join(lacking) or 'none'}; not known: {', '.join(unknown) or 'none'}")
        return versions

    @property
    def digest(self) -> str:
        """The sha256 the node is held to."""
        return self.artifact.sha256

    @property
    def disk_bytes(self) -> int:
        """The smallest disk it may be laid on."""
        return max(self.min_disk_bytes, self.artifact.bytes_on_disk)


def load_manifests(*folders: Path) -> dict[str, ImageManifest]:
    """All manifests by name, shipped ones first; a site's manifest of the same name wins.

    Raises `BadSettings` naming the file and the field.
    """
    return read_folders(load_manifest, (_SHIPPED, *folders))


def load_manifest(file: Path) -> ImageManifest:
    """One manifest, its artifact's path made absolute; raises `BadSettings` naming the file and the field."""
    manifest = read_file(ImageManifest, file, "image manifest")
    if not manifest.artifact.file:
        return manifest
    place = str((file.parent / manifest.artifact.file).resolve())
    return manifest.model_copy(update={"artifact": manifest.artifact.model_copy(update={"file": place})})


def artifact_trouble(manifest: ImageManifest) -> str:
    """Why the artifact cannot be served, seen without reading it; empty when it can."""
    artifact = manifest.artifact
    if artifact.url:
        return ""
    try:
        size = Path(artifact.file).stat().st_size
    except OSError as error:
        return f"{artifact.file}: {error.strerror}"
    return "" if size == artifact.size else f"{artifact.file} has {size} bytes, the manifest says {artifact.size}"


def prove_artifact(manifest: ImageManifest) -> Finding:
    """Read the whole artifact and hold its sha256 against the manifest; an artifact elsewhere is not read here."""
    if manifest.artifact.url:
        return _artifact_finding(manifest, Outcome.NOT_APPLICABLE, "not read: it lies at a URL, the agent proves it")
    trouble = artifact_trouble(manifest)
    if trouble:
        return _artifact_finding(manifest, Outcome.FAIL, trouble)
    digest = file_digest(Path(manifest.artifact.file))
    return _artifact_finding(manifest, Outcome.PASS if digest == manifest.digest else Outcome.FAIL, digest)


def file_digest(file: Path) -> str:
    """The sha256 of a file, read piece by piece."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(_MIB):
            digest.update(piece)
    return digest.hexdigest()


def _artifact_finding(manifest: ImageManifest, outcome: Outcome, observed: str) -> Finding:
    bad = outcome is Outcome.FAIL
    return Finding(
        metric="image_artifact_sha256",
        subject=manifest.name,
        outcome=outcome,
        observed=observed,
        expected=manifest.digest,
        source="the image's own manifest",
        cause=f"image {manifest.name} {manifest.version}: the artifact is not what the manifest says" if bad else "",
        remedy="Copy the artifact again, or build the image and its manifest anew" if bad else "",
    )
