"""What the operating system says of itself: release, image, kernel, boot, and the versions that must go together.

A tool that is not installed (exit 127) or a file that is not there (`cat`, exit 1) answers nothing: that is None, and
the class decides whether it may be. Words that are no version raise `ValueError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import met

_UUID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_ABSENT = frozenset({0, 1, 126, 127})  # cat: 1; timeout(1): 126 not executable, 127 not found
_TIMEOUT_S = 15.0  # our choice: all of these answer in milliseconds on a healthy node


class LaidImage(Frozen):
    """What the image says of itself in /etc/rackmint/image.json, written into it when it was laid."""

    name: str | None = None
    digest: str | None = None  # sha256, lower-case hex


def parse_os_release(text: str) -> str:
    """`ubuntu 24.04` from /etc/os-release."""
    facts = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', text, re.MULTILINE))
    if not facts.get("ID"):
        raise ValueError(f"expected ID=… of os-release, {met(text)}")
    return f"{facts['ID']} {facts.get('VERSION_ID', '')}".strip()


def parse_uuid(text: str) -> str:
    """A UUID in lower case; what a board maker never filled in is refused."""
    value = text.strip().lower()
    if not _UUID.match(value):
        raise ValueError(f"expected a UUID, {met(text)}")
    return value


def parse_kernel(text: str) -> str:
    """`6.8.0-45-generic` from `uname -r`."""
    value = text.strip()
    if not re.match(r"^\d+\.\d+\S*$", value):
        raise ValueError(f"expected a kernel release, {met(text)}")
    return value


def parse_serial(text: str) -> str | None:
    """The chassis serial from DMI; None where the maker left the field as shipped."""
    value = text.strip()
    # Source: SMBIOS strings board makers leave behind when nobody filled the field in.
    return (
        None
        if value.lower() in {"", "none", "not specified", "to be filled by o.e.m.", "default string", "0"}
        else value
    )


def parse_image(text: str) -> LaidImage:
    """The image's own name and digest; empty where there is no such file."""
    if not text.strip():
        return LaidImage()
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a JSON object: {error.msg}, {met(text)}") from error
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, {met(text)}")
    digest = str(document.get("digest") or document.get("sha256") or "").lower().removeprefix("sha256:")
    return LaidImage(name=document.get("name") or None, digest=digest if _SHA256.match(digest) else None)


def parse_cuda(text: str) -> str | None:
    """The toolkit's version from /usr/local/cuda/version.json."""
    if not text.strip():
        return None
    try:
        return str(json.loads(text)["cuda"]["version"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f'expected {{"cuda": {{"version": …}}}}, {met(text)}') from error


def parse_active(text: str) -> bool | None:
    """`systemctl is-active`: None where the unit is not known or systemd does not answer."""
    word = text.strip()
    return {"active": True, "inactive": False, "failed": False, "activating": False}.get(word)


def version_after(pattern: str) -> Callable[[str], str | None]:
    """A reader for the version that one group of the pattern takes; None for no answer at all."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str | None:
        if not text.strip():
            return None
        found = compiled.search(text)
        if not found:
            raise ValueError(f"expected a version ({pattern}), {met(text)}")
        return found[1]

    return parse


OS_RELEASE = Command("os-release", ("cat", "/etc/os-release"), parse_os_release, _TIMEOUT_S)
KERNEL = Command("kernel", ("uname", "-r"), parse_kernel, _TIMEOUT_S)
BOOT_ID = Command("boot-id", ("cat", "/proc/sys/kernel/random/boot_id"), parse_uuid, _TIMEOUT_S)
MACHINE_UUID = Command("machine-uuid", ("cat", "/sys/class/dmi/id/product_uuid"), parse_uuid, _TIMEOUT_S)
SERIAL = Command("machine-serial", ("cat", "/sys/class/dmi/id/product_serial"), parse_serial, _TIMEOUT_S)
IMAGE = Command("image", ("cat", "/etc/rackmint/image.json"), parse_image, _TIMEOUT_S, _ABSENT)
CUDA = Command("cuda", ("cat", "/usr/local/cuda/version.json"), parse_cuda, _TIMEOUT_S, _ABSENT)
NCCL = Command(
    "nccl", ("dpkg-query", "-W", "-f=${Version}", "libnccl2"), version_after(r"^(\d+\.\d+\.\d+)"), _TIMEOUT_S, _ABSENT
)
FABRIC_MANAGER = Command(
    "fabric-manager", ("nv-fabricmanager", "--version"), version_after(r"(\d+\.\d+(?:\.\d+)?)"), _TIMEOUT_S, _ABSENT
)
FABRIC_MANAGER_ACTIVE = Command(
    "fabric-manager-active",
    ("systemctl", "is-active", "nvidia-fabricmanager"),
    parse_active,
    _TIMEOUT_S,
    _ABSENT | {3, 4},  # systemctl(1): 3 not active, 4 no such unit
)
DCGM = Command("dcgm", ("dcgmi", "--version"), version_after(r"[Vv]ersion ?:? ?(\d+\.\d+\.\d+)"), _TIMEOUT_S, _ABSENT)
# "containerd containerd.io 1.7.25 …" or "containerd github.com/containerd/containerd v1.7.2 …"
CONTAINERD = Command(
    "containerd", ("containerd", "--version"), version_after(r" v?(\d+\.\d+\.\d+)"), _TIMEOUT_S, _ABSENT
)
KUBELET = Command("kubelet", ("kubelet", "--version"), version_after(r"v(\d+\.\d+\.\d+)"), _TIMEOUT_S, _ABSENT)
KUBEADM = Command(
    "kubeadm", ("kubeadm", "version", "-o", "short"), version_after(r"v(\d+\.\d+\.\d+)"), _TIMEOUT_S, _ABSENT
)
