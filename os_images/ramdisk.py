"""The deploy agent on a real machine: disks from sysfs, the seed into its partition, power off at the end.

In the ramdisk, with this package's `agent.py`, `credential.py`, `ramdisk.py` and `seed_disc.py` in /rackmint/os_images:
`cd /rackmint && python3 -m os_images.ramdisk /rackmint.credential`, where that file is the embed area, kept in an
archive of its own that is not compressed, so that the service can fill it. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from os_images.agent import SEED_PARTITION, DiskFacts, Facts, read_credential, run_agent
from os_images.seed_disc import partitions, seed_disc

OURS = "rackmint image"
_HEAD = 160 << 10  # bytes; reaches the last magic below

# (offset, bytes, name) as libblkid knows them. Source: util-linux, libblkid/src/superblocks and partitions.
_MAGIC = (
    (0, b"LUKS\xba\xbe", "crypto_LUKS"),
    (0, b"XFSB", "xfs"),
    (0, b"bluestore block device", "ceph_bluestore"),
    (3, b"NTFS    ", "ntfs"),
    (512, b"LABELONE", "LVM2_member"),
    (0, b"LABELONE", "LVM2_member"),
    (1080, b"\x53\xef", "ext4"),
    (4086, b"SWAPSPACE2", "swap"),
    (4096, b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (0, b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (65600, b"_BHRfS_M", "btrfs"),
    (131072, b"\x0c\xb1\xba\x00\x00\x00\x00\x00", "zfs_member"),
    (32769, b"CD001", "iso9660"),
    (512, b"EFI PART", "gpt"),
    (4096, b"EFI PART", "gpt"),
    (510, b"\x55\xaa", "dos"),
)
_TAIL_MAGIC = ((1024, b"Intel Raid ISM Cfg. Sig.", "isw_raid_member"), (512, b"\xde\x11\xde\x11", "ddf_raid_member"))


def signature_of(head: bytes, tail: bytes = b"") -> str:
    """What lies on a disk, by its first and last bytes: ours, a known name, "unknown data", or nothing."""
    if any(part.name == SEED_PARTITION for part in partitions(head)):
        return OURS
    for offset, magic, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return name
    for before_end, magic, name in _TAIL_MAGIC:
        if len(tail) >= before_end and tail[len(tail) - before_end :].startswith(magic):
            return name
    return "unknown data" if any(head) else ""


def read_facts(root: Path = Path("/")) -> Facts:
    """Which machine this is and which disks it has, from sysfs and /dev."""
    dmi = root / "sys/class/dmi/id"
    macs = sorted({_text(net / "address").upper() for net in (root / "sys/class/net").glob("*") if net.name != "lo"})
    by_path = _by_path(root)
    disks = [_disk(root, block, by_path[block.name]) for block in _blocks(root) if block.name in by_path]
    return Facts(_text(dmi / "product_uuid").lower(), _text(dmi / "product_serial"), tuple(macs), tuple(disks))


def _blocks(root: Path) -> list[Path]:
    """Whole disks with a device behind them: no loop, no mapper, no optical or removable drive, none read-only."""
    found = (root / "sys/block").glob("*")
    return sorted(b for b in found if (b / "device").exists() and not {_text(b / "removable"), _text(b / "ro")} & {"1"})


def _by_path(root: Path) -> dict[str, str]:
    """Kernel name → name under /dev/disk/by-path. A disk without one cannot be named safely and is left out."""
    links = sorted((root / "dev/disk/by-path").glob("*"))
    return {link.readlink().name: link.name for link in reversed(links) if link.is_symlink()}


def _disk(root: Path, block: Path, by_path: str) -> DiskFacts:
    size = int(_text(block / "size") or 0) * 512  # always in units of 512; Documentation/ABI/stable/sysfs-block
    return DiskFacts(
        by_path=by_path,
        size_bytes=size,
        wwn=_text(block / "wwid") or _text(block / "device/wwid"),
        serial=_text(block / "device/serial"),
        model=_text(block / "device/model"),
        signature=_signature(root / "dev" / block.name, size),
    )


def _signature(device: Path, size: int) -> str:
    """A disk that cannot be read is not known to be empty."""
    try:
        with device.open("rb") as disk:
            head = disk.read(_HEAD)
            disk.seek(max(0, size - 1024))
            return signature_of(head, disk.read(1024))
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip().strip("\0")
    except OSError:
        return ""


@contextlib.contextmanager
def open_disk(by_path: str, root: Path = Path("/")) -> Iterator[BinaryIO]:
    """A disk to write, alone: O_EXCL refuses one that is mounted or in an array. Closed = on the medium."""
    descriptor = os.open(root / "dev/disk/by-path" / by_path, os.O_RDWR | os.O_EXCL)
    with os.fdopen(descriptor, "r+b") as disk:
        yield disk
        disk.flush()
        os.fsync(disk.fileno())


def write_seed(by_path: str, seed: Mapping[str, str], root: Path = Path("/")) -> None:
    """Lay the seed into the image's seed partition; raises `OSError` when the image has none or it is too small."""
    disc = seed_disc(seed)
    with open_disk(by_path, root) as disk:
        found = next((part for part in partitions(disk.read(_HEAD)) if part.name == SEED_PARTITION), None)
        if found is None:
            raise OSError(f"the image has no partition named {SEED_PARTITION}: build it with one")
        if found.size < len(disc):
            raise OSError(f"partition {SEED_PARTITION} has {found.size} bytes, the seed needs {len(disc)}")
        disk.seek(found.start)
        disk.write(disc)


def main(argv: list[str]) -> int:
    """Do the job of the credential in the named file, then power off; the reason of a failure stays on the console."""
    credential = read_credential(Path(argv[1] if len(argv) > 1 else "/rackmint.credential").read_bytes())
    result = run_agent(credential, read_facts(), open_disk, write_seed, tell=_say)
    _say(result)
    os.sync()
    subprocess.run(["poweroff", "-f"], check=False)
    return 0 if result == "done" else 1


def _say(line: str) -> None:
    sys.stdout.write(f"rackmint: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
