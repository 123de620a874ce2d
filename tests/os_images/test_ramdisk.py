"""The agent's real-machine half: disks from sysfs, what lies on them, and the seed in its partition."""

from __future__ import annotations

import functools
import json
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from os_images.agent import SEED_PARTITION, DiskFacts, Facts, run_agent
from os_images.first_boot import known, phone_home
from os_images.installers.agent_image import phoned_home
from os_images.ramdisk import open_disk, read_facts, signature_of, write_seed
from os_images.seed_disc import Partition, partitions, seed_disc
from tests.os_images.boxes import MIB, UUID, Site, manifest_for

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAItest"
SEED = {"authorized_key": "ssh-ed25519 AAAA ops", "user": "ops", "host_name": "r1-n01", "attempt": "a1", "token": "t"}


def gpt(*parts: Partition, sector: int = 512) -> bytes:
    """The first bytes of a disk with these partitions, as UEFI lays them out; checksums are left out."""
    table = b""
    for part in parts:
        first, last = part.start // sector, (part.start + part.size) // sector - 1
        name = part.name.encode("utf-16-le").ljust(72, b"\0")
        table += struct.pack("<16s16sQQQ72s", uuid.uuid4().bytes, uuid.uuid4().bytes, first, last, 0, name)
    header = b"EFI PART" + bytes(64) + struct.pack("<QII", 2, len(parts), 128) + bytes(4)
    return (bytes(510) + b"\x55\xaa").ljust(sector, b"\0") + header.ljust(sector, b"\0") + table


ROOT = Partition("root", 1 * MIB, 2 * MIB)
OURS = Partition(SEED_PARTITION, 3 * MIB, 1 * MIB)


def at(offset: int, magic: bytes) -> bytes:
    """Bytes with a magic at an offset."""
    return bytes(offset) + magic + bytes(200_000 - offset - len(magic))


@pytest.mark.parametrize(
    ("head", "tail", "said"),
    [
        (bytes(200_000), bytes(1024), ""),
        (gpt(ROOT, OURS), b"", "rackmint image"),
        (gpt(ROOT, OURS, sector=4096), b"", "rackmint image"),
        (gpt(ROOT), b"", "gpt"),
        (at(510, b"\x55\xaa"), b"", "dos"),
        (at(512, b"LABELONE"), b"", "LVM2_member"),
        (at(1080, b"\x53\xef"), b"", "ext4"),
        (at(4096, b"\xfc\x4e\x2b\xa9"), b"", "linux_raid_member"),
        (at(131072, b"\x0c\xb1\xba\0\0\0\0\0"), b"", "zfs_member"),
        (at(7, b"x"), b"", "unknown data"),
        (bytes(200_000), b"Intel Raid ISM Cfg. Sig. 1.3.00".ljust(1024, b"\0"), "isw_raid_member"),
        (b"", b"", ""),
    ],
)
def test_what_lies_on_a_disk_is_named(head: bytes, tail: bytes, said: str) -> None:
    """Ours, a known name, "unknown data", or nothing at all."""
    assert said == signature_of(head, tail)


def test_a_table_that_lies_is_no_table() -> None:
    """Entries beyond what was read, or of no size, are left out."""
    assert (ROOT, OURS) == partitions(gpt(ROOT, OURS))
    assert (ROOT,) == partitions(gpt(ROOT, OURS)[:-100])
    broken = bytearray(gpt(ROOT))
    broken[512 + 84 : 512 + 88] = bytes(4)
    assert () == partitions(bytes(broken))


def machine(root: Path, content: bytes = b"") -> Path:
    """A machine's /sys and /dev: one NVMe disk, and four things that are no place for an image."""
    for name, files in {
        "nvme0n1": {"size": "16384", "wwid": "eui.0001", "ro": "0", "removable": "0"},
        "nvme9n1": {"size": "16384", "ro": "0", "removable": "0"},  # has no name under by-path
        "sr0": {"size": "100", "ro": "1", "removable": "1"},
        "loop0": {"size": "100", "ro": "0", "removable": "0"},
        "sdz": {"size": "100", "ro": "0", "removable": "1"},
    }.items():
        block = root / "sys/block" / name
        (block / "device").mkdir(parents=True) if name != "loop0" else block.mkdir(parents=True)
        for file, text in files.items():
            (block / file).write_text(f"{text}\n")
    (root / "sys/block/nvme0n1/device/serial").write_text("S6TEST  \n")
    (root / "sys/block/nvme0n1/device/model").write_text("LAB M.2   \n")
    for file, text in {
        "sys/class/dmi/id/product_uuid": UUID.upper(),
        "sys/class/dmi/id/product_serial": "CH12345678",
        "sys/class/net/eth0/address": "02:aa:00:00:00:01",
        "sys/class/net/lo/address": "00:00:00:00:00:00",
        "etc/ssh/ssh_host_ed25519_key.pub": f"{HOST_KEY} root@r1-n01",
        "proc/sys/kernel/random/boot_id": "b-1",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(f"{text}\n")
    (root / "dev/disk/by-path").mkdir(parents=True)
    disk = root / "dev/nvme0n1"
    disk.write_bytes(content.ljust(16384 * 512, b"\0"))
    (root / "dev/disk/by-path/pci-0000:01:00.0-nvme-1").symlink_to("../../nvme0n1")
    (root / "dev/disk/by-path/pci-0000:01:00.0-nvme-1-part1").symlink_to("../../nvme0n1p1")
    return disk


def test_only_disks_that_can_be_named_are_reported(tmp_path: Path) -> None:
    """Optical, removable, loop and nameless devices are not there."""
    machine(tmp_path, gpt(ROOT))
    expected = DiskFacts("pci-0000:01:00.0-nvme-1", 8 * MIB, "eui.0001", "S6TEST", "LAB M.2", "gpt")
    assert Facts(UUID, "CH12345678", ("02:AA:00:00:00:01",), (expected,)) == read_facts(tmp_path)


def test_an_image_is_laid_on_a_real_looking_machine_and_phones_home(site: Site, tmp_path: Path) -> None:
    """Facts from sysfs, image onto the block file, seed into its partition, and the first boot's words are heard."""
    root = tmp_path / "machine"
    disk = machine(root)
    raw = gpt(ROOT, OURS).ljust(4 * MIB, b"\0")
    (site.folder / "image.raw").write_bytes(raw)
    site.image = manifest_for(site.folder / "image.raw")
    site.start()
    credential = site.begin()
    said: list[str] = []
    result = run_agent(
        credential,
        read_facts(root),
        functools.partial(open_disk, root=root),
        functools.partial(write_seed, root=root),
        tell=said.append,
        sleep=lambda _: None,
    )
    assert ("done", said) == (result, said)
    content = disk.read_bytes()
    assert raw[: OURS.start] == content[: OURS.start]
    found = content[OURS.start : OURS.start + OURS.size]
    assert (b"\1CD001", b"CIDATA") == (found[32768:32774], found[32808:32814])
    begins = found.index(b'{"authorized_key"')
    seed = json.JSONDecoder().raw_decode(found[begins:].decode("latin-1"))[0]
    assert 204 == phone_home(seed, known(root))
    home = phoned_home(site.events(credential))
    assert home is not None
    assert (HOST_KEY, ("127.0.0.1:22",), site.image.digest) == (home.ssh_host_key, home.addresses, home.image_digest)
    assert "rackmint image" == read_facts(root).disks[0].signature


def test_an_image_without_a_seed_partition_fails_in_words(site: Site, tmp_path: Path) -> None:
    """A node that could never be reached is not called done."""
    root = tmp_path / "machine"
    machine(root)
    (site.folder / "image.raw").write_bytes(gpt(ROOT).ljust(4 * MIB, b"\0"))
    site.image = manifest_for(site.folder / "image.raw")
    site.start()
    seeding = functools.partial(write_seed, root=root)
    result = run_agent(
        site.begin(), read_facts(root), functools.partial(open_disk, root=root), seeding, tell=lambda _: None
    )
    assert "failed: the image has no partition named rackmint-seed: build it with one" == result


def test_the_seed_disc_is_an_iso_9660_of_whole_sectors() -> None:
    """Label, directory and both byte orders agree; the same seed gives the same bytes."""
    disc = seed_disc(SEED)
    little, big = struct.unpack_from("<I", disc, 32768 + 80)[0], struct.unpack_from(">I", disc, 32768 + 84)[0]
    assert (len(disc), len(disc)) == (little * 2048, big * 2048)
    names = [b"META-DATA.;1", b"RACKMINT.JSON;1", b"USER-DATA.;1"]
    directory = disc[20 * 2048 : 21 * 2048]
    assert names == [name for name in names if name in directory]
    assert b'"ssh_authorized_keys": ["ssh-ed25519 AAAA ops"]' in disc
    assert disc == seed_disc(SEED)


def test_a_first_boot_waits_for_the_service(site: Site, tmp_path: Path) -> None:
    """Refused connections are ridden out; a refusal for good ends it."""
    machine(tmp_path)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            site.start()

    seed = {"phone_home_url": f"{site.url}/agent/v1/phone-home", "attempt": "a", "token": "t", "image_digest": ""}
    assert (403, [5.0, 5.0]) == (phone_home(seed, known(tmp_path), sleep=sleep), slept)


def test_an_empty_host_key_is_said(tmp_path: Path) -> None:
    """A power cut right after the first boot leaves one, and sshd never starts again."""
    machine(tmp_path)
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").write_text("")
    with pytest.raises(OSError, match="host key is empty"):
        known(tmp_path)


@pytest.mark.parametrize("module", ["agent", "ramdisk", "first_boot", "seed_disc"])
def test_what_goes_onto_a_node_needs_the_standard_library_only(module: str) -> None:
    """Imported by a Python that has no other packages."""
    argv = [sys.executable, "-S", "-c", f"import os_images.{module}"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
