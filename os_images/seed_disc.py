"""The seed as the installed OS finds it: an ISO 9660 file system labelled CIDATA, which cloud-init reads as NoCloud.

Beside cloud-init's two files it holds `rackmint.json`, the seed itself, for the image's own first-boot unit.
Standard library only: it goes into the ramdisk with the agent.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

_SECTOR = 2048  # ISO 9660 / ECMA-119
_ROOT_SECTOR = 20  # 16 primary descriptor, 17 terminator, 18 and 19 path tables
_GPT_ENTRY = struct.Struct("<16s16sQQQ72s")  # UEFI specification, GPT partition entry


@dataclass(frozen=True)
class Partition:
    """One GPT partition, in bytes."""

    name: str
    start: int
    size: int


def partitions(head: bytes) -> tuple[Partition, ...]:
    """The GPT partitions named in a disk's first bytes, for sectors of 512 or 4096 bytes; none when there is no GPT."""
    for sector in (512, 4096):
        header = head[sector : sector + 92]
        if len(header) == 92 and header[:8] == b"EFI PART":
            return _entries(head, header, sector)
    return ()


def _entries(head: bytes, header: bytes, sector: int) -> tuple[Partition, ...]:
    lba, count, size = struct.unpack_from("<QII", header, 72)
    if size < _GPT_ENTRY.size:
        return ()
    found = []
    for number in range(min(count, 128)):  # 128: what every tool makes; more are not ours
        entry = head[lba * sector + number * size :][: _GPT_ENTRY.size]
        if len(entry) < _GPT_ENTRY.size or entry[:16] == bytes(16):
            continue
        _, _, first, last, _, name = _GPT_ENTRY.unpack(entry)
        text = name.decode("utf-16-le", errors="replace").split("\0", 1)[0]
        found.append(Partition(text, first * sector, (last - first + 1) * sector))
    return tuple(found)


def seed_disc(seed: Mapping[str, str]) -> bytes:
    """The file system's bytes."""
    host = seed.get("host_name", "")
    user = {
        "hostname": host,
        "users": [
            {"name": seed.get("user", "root"), "lock_passwd": True, "ssh_authorized_keys": [seed["authorized_key"]]}
        ],
        "ssh_pwauth": False,
        "disable_root": False,
    }
    meta = {"instance-id": seed.get("attempt") or str(uuid.uuid4()), "local-hostname": host}
    return iso9660(
        "CIDATA",
        {
            "META-DATA": json.dumps(meta).encode(),  # JSON is YAML
            "RACKMINT.JSON": json.dumps(dict(seed)).encode(),
            "USER-DATA": b"#cloud-config\n" + json.dumps(user).encode(),
        },
    )


def iso9660(label: str, files: Mapping[str, bytes]) -> bytes:
    """A flat ISO 9660 file system. Linux shows the names in lower case and without the version."""
    at, records, content = _ROOT_SECTOR + 1, b"", b""
    for name, data in sorted(files.items()):
        full = name if "." in name else f"{name}."
        records += _record(f"{full};1".encode(), at, len(data), 0)
        content += _padded(data)
        at += len(_padded(data)) // _SECTOR
    root = _record(b"\0", _ROOT_SECTOR, _SECTOR, 2)
    directory = root + _record(b"\1", _ROOT_SECTOR, _SECTOR, 2) + records
    if len(directory) > _SECTOR:
        raise ValueError("too many files for one directory sector")
    tables = _padded(_path_entry("<")) + _padded(_path_entry(">"))
    return bytes(16 * _SECTOR) + _descriptor(label, at, root) + _terminator() + tables + _padded(directory) + content


def _record(name: bytes, sector: int, size: int, flags: int) -> bytes:
    """A directory record, ECMA-119 section 9.1. No date: the same seed gives the same bytes."""
    pad = b"" if len(name) % 2 else b"\0"
    body = b"\0" + _both32(sector) + _both32(size) + bytes(7) + bytes([flags, 0, 0]) + _both16(1)
    body += bytes([len(name)]) + name + pad
    return bytes([len(body) + 1]) + body


def _descriptor(label: str, sectors: int, root: bytes) -> bytes:
    """The primary volume descriptor, ECMA-119 section 8.4."""
    head = b"\1CD001\1\0" + b" " * 32 + label.encode().ljust(32) + bytes(8) + _both32(sectors) + bytes(32)
    head += _both16(1) + _both16(1) + _both16(_SECTOR) + _both32(len(_path_entry("<")))
    head += struct.pack("<II", 18, 0) + struct.pack(">II", 19, 0) + root
    head += b" " * (128 * 4 + 37 * 3)  # volume set, publisher, preparer, application; three file names
    return _padded(head + (b"0" * 16 + b"\0") * 4 + b"\1\0")


def _terminator() -> bytes:
    return _padded(b"\xffCD001\1")


def _path_entry(order: str) -> bytes:
    return bytes([1, 0]) + struct.pack(f"{order}IH", _ROOT_SECTOR, 1) + b"\0\0"


def _both16(number: int) -> bytes:
    return struct.pack("<H", number) + struct.pack(">H", number)


def _both32(number: int) -> bytes:
    return struct.pack("<I", number) + struct.pack(">I", number)


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // _SECTOR) * _SECTOR, b"\0")
