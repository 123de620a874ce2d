"""What the lab leaves in its folder: site settings, secrets, the OS image with its manifest, the deploy ramdisk."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.hostkey import make_host_key
from lab.image import LAB_SOFTWARE, make_image
from os_images.agent import embed_area

IMAGE = "lab-ubuntu-24.04"
_RAMDISK_BYTES = 32768  # a stand-in for 20 MB of kernel and initrd; our choice


@dataclass(frozen=True)
class LabSecrets:
    """What opens the lab's doors; kept in files that only the owner may read."""

    bmc_user: str
    bmc_password: str
    netbox_token: str
    fleet_token: str
    ssh_key: str


def make_secrets(folder: Path) -> LabSecrets:
    """The secrets of this folder, made at the first call."""
    place = folder / "secrets"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return LabSecrets(
        bmc_user=_secret(place / "bmc_user", "rackmint"),
        bmc_password=_secret(place / "bmc_password", secrets.token_urlsafe(18)),
        netbox_token=_secret(place / "netbox_token", secrets.token_hex(20)),
        fleet_token=_secret(place / "fleet_token", secrets.token_urlsafe(24)),
        ssh_key=_secret(place / "ssh_key", make_host_key()),
    )


def _secret(file: Path, value: str) -> str:
    if not file.exists():
        write_private(file, value)
    return file.read_text()


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)


def write_images(folder: Path, image_bytes: int, software: Mapping[str, str] = LAB_SOFTWARE) -> None:
    """The lab's OS image, its manifest, and the ramdisk in both forms, ready for the image service."""
    place = folder / "images"
    place.mkdir(parents=True, exist_ok=True)
    image = make_image(software, image_bytes)
    (place / f"{IMAGE}.img").write_bytes(image)
    (place / f"{IMAGE}.toml").write_text(_manifest(image, software))
    for kind in ("iso", "efi"):
        (place / f"agent.{kind}").write_bytes(_ramdisk(kind))


def _ramdisk(kind: str) -> bytes:
    """Bytes around an empty credential area, as a real artifact has them around its own."""
    head = f"RACKMINT-LAB-RAMDISK {kind}\n".encode().ljust(_RAMDISK_BYTES // 2, b"\0")
    return (head + embed_area()).ljust(_RAMDISK_BYTES, b"\0")


def _manifest(image: bytes, software: Mapping[str, str]) -> str:
    versions = "".join(f"{name} = {json.dumps(value)}\n" for name, value in software.items())
    return f"""\
# For the simulated rack only: this image boots nowhere else.
name = "{IMAGE}"
version = "1"
source = "made by the lab: a header that says what it carries, and padding"
min_disk_bytes = 64000000000

[artifact]
file = "{IMAGE}.img"
sha256 = "{hashlib.sha256(image).hexdigest()}"
size = {len(image)}
format = "raw"

[versions]
{versions}
[supports]
gpus = ["H100"]
platforms = ["lab-hgx", "lab-pcie", "lab-processors"]
"""


def write_settings(folder: Path, *, netbox_url: str, images_port: int, scale: float) -> Path:
    """The site's settings, so that the next command needs no option but this file."""
    poll_s = max(0.05, min(1.0, 40.0 / scale))  # one look per 40 s of machine time, in bounds; our choice
    text = f"""\
# Written by `rackmint lab up`: the simulated rack as a site.
site = "lab"
state = {json.dumps(str(folder / "state"))}

[bmc]
username = "file:{folder}/secrets/bmc_user"
password = "file:{folder}/secrets/bmc_password"
tls = "pin"

[ssh]
user = "root"
private_key = "file:{folder}/secrets/ssh_key"

[netbox]
url = "{netbox_url}"
token = "file:{folder}/secrets/netbox_token"

[fleet]
kubeconfig = {json.dumps(str(folder / "secrets" / "kubeconfig"))}

[images]
listen = "127.0.0.1:{images_port}"
url = "http://127.0.0.1:{images_port}"
folder = {json.dumps(str(folder / "images"))}

[pace]
poll_s = {poll_s:g}
scale = {scale:g}

[limits]
nodes_parallel = 64
image_parallel = 16
"""
    file = folder / "rackmint.toml"
    write_private(file, text)
    return file
