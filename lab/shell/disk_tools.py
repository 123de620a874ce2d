"""`nvme list` and `lsblk`: the drives as JSON."""

from __future__ import annotations

import json
from typing import Any

from lab.hardware import DriveState
from lab.shell.call import Call
from lab.shell.reply import Reply, refused, said


def nvme(call: Call) -> Reply:
    """`nvme list -o json`."""
    if not call.has("list"):
        return refused("Usage: nvme list [-o json]")
    rows = [
        {
            "NameSpace": 1,
            "DevicePath": f"/dev/nvme{number}n1",
            "Firmware": "LAB1.0",
            "ModelNumber": drive.model,
            "SerialNumber": drive.serial,
            "UsedBytes": len(drive.content or b""),
            "MaximumLBA": drive.size_bytes // 512,
            "PhysicalSize": drive.size_bytes,
            "SectorSize": 512,
        }
        for number, drive in enumerate(call.state.drives)
    ]
    return said(json.dumps({"Devices": rows}, indent=2))


def lsblk(call: Call) -> Reply:
    """`lsblk -J -b`: every drive, and the partitions of the one that is booted."""
    rows = [_disk(number, drive) for number, drive in enumerate(call.state.drives)]
    return said(json.dumps({"blockdevices": rows}, indent=3))


def _disk(number: int, drive: DriveState) -> dict[str, Any]:
    disk: dict[str, Any] = {
        "name": f"nvme{number}n1",
        "maj:min": f"259:{number}",
        "rm": False,
        "size": drive.size_bytes,
        "ro": False,
        "type": "disk",
        "mountpoints": [None],
        "model": drive.model,
        "serial": drive.serial,
        "wwn": drive.wwn,
    }
    if drive.content:
        disk["children"] = [
            {"name": f"nvme{number}n1p1", "size": 1 << 30, "type": "part", "mountpoints": ["/boot/efi"]},
            {"name": f"nvme{number}n1p2", "size": drive.size_bytes - (1 << 30), "type": "part", "mountpoints": ["/"]},
        ]
    return disk
