"""The files of a running node that somebody may read: /proc, /sys, /etc and whatever was uploaded."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

from lab.machine import Machine
from lab.shell.net_state import netdev_files
from lab.shell.node import memory
from lab.shell.sysfs_rdma import rdma_files

_PATTERN = re.compile(r"[*?\[]")  # where a path becomes a pattern
_PROC_MEM_SHARE = 0.985  # of the installed memory that the kernel calls MemTotal; our choice, in life 98 to 99 %


def files(machine: Machine) -> dict[str, str]:
    """Every readable path with its text; uploads lie over what the system shows."""
    found = {**_proc(machine), **_dmi(machine), **_etc(machine), **_software(machine), **netdev_files(machine)}
    for nic in machine.state.nics:
        found |= rdma_files(nic)
    found |= {path: data.decode(errors="replace") for path, data in memory(machine).files.items()}
    return found


def host_name(machine: Machine) -> str:
    """What the installer named it, else its name in the rack."""
    return machine.seed.get("host_name") or machine.state.name


def memory_kib(machine: Machine) -> int:
    """MemTotal."""
    installed = sum(dimm.size_mib for dimm in machine.state.dimms if dimm.present)
    return int(installed * 1024 * _PROC_MEM_SHARE)


def matching(machine: Machine, pattern: str) -> list[str]:
    """The paths, files and folders, that a shell pattern stands for; a star does not cross a slash."""
    depth, parts = pattern.count("/"), pattern.split("/")
    begin = _PATTERN.split(pattern, maxsplit=1)[0]
    heads = {"/".join(path.split("/")[: depth + 1]) for path in files(machine) if path.startswith(begin)}
    return sorted(h for h in heads if len(p := h.split("/")) == len(parts) and all(map(fnmatchcase, p, parts)))


def below(machine: Machine, folder: str) -> list[str]:
    """All files below a folder, sorted."""
    return sorted(path for path in files(machine) if path.startswith(folder.rstrip("/") + "/"))


def is_folder(machine: Machine, path: str) -> bool:
    """Whether a folder of this name is there."""
    return path.rstrip("/") in memory(machine).folders or path == "/" or bool(below(machine, path))


def _proc(machine: Machine) -> dict[str, str]:
    total = memory_kib(machine)
    return {
        "/proc/sys/kernel/random/boot_id": f"{machine.boot_id}\n",
        "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz root=LABEL=root ro console=tty0 console=ttyS0,115200n8 iommu=pt\n",
        "/proc/meminfo": f"MemTotal:       {total} kB\nMemFree:        {total - 8_000_000} kB\nSwapTotal:      0 kB\n",
        "/proc/version": f"Linux version {machine.software.get('kernel', '')} (build@lab) #1 SMP\n",
        "/proc/loadavg": "0.08 0.03 0.01 1/1204 2001\n",
        "/proc/uptime": "321.00 71000.00\n",
        "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        "/proc/sys/kernel/hostname": f"{host_name(machine)}\n",
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {_driver(machine)}\n",
    }


def _driver(machine: Machine) -> str:
    return machine.software.get("driver", "")


def _dmi(machine: Machine) -> dict[str, str]:
    state, root = machine.state, "/sys/class/dmi/id"
    return {
        f"{root}/product_uuid": f"{state.uuid}\n",
        f"{root}/product_serial": f"{state.serial}\n",
        f"{root}/product_name": f"{state.model}\n",
        f"{root}/sys_vendor": f"{state.manufacturer}\n",
        f"{root}/board_serial": f"{state.board_serial}\n",
        f"{root}/chassis_serial": f"{state.serial}\n",
        f"{root}/bios_version": f"{state.bios_version}\n",
        "/sys/devices/system/edac/mc/mc0/ce_count": "0\n",
        "/sys/devices/system/edac/mc/mc0/ue_count": f"{sum(not d.healthy for d in state.dimms)}\n",
        "/sys/devices/system/edac/mc/mc1/ce_count": "0\n",
        "/sys/devices/system/edac/mc/mc1/ue_count": "0\n",
    }


def _etc(machine: Machine) -> dict[str, str]:
    name, _, version = machine.software.get("os", "ubuntu 24.04").partition(" ")
    image = {"name": machine.seed.get("image_name", ""), "digest": machine.seed.get("image_digest", "")}
    return {
        "/etc/os-release": (
            f'PRETTY_NAME="{name.capitalize()} {version} LTS"\nNAME="{name.capitalize()}"\n'
            f'VERSION_ID="{version}"\nID={name}\nID_LIKE=debian\n'
        ),
        "/etc/rackmint/image.json": json.dumps(image) + "\n",
        "/etc/hostname": f"{host_name(machine)}\n",
        "/etc/machine-id": machine.state.uuid.replace("-", "") + "\n",
    }


def _software(machine: Machine) -> dict[str, str]:
    software, found = machine.software, {}
    if cuda := software.get("cuda"):
        found["/usr/local/cuda/version.json"] = json.dumps({"cuda": {"name": "CUDA SDK", "version": cuda}}, indent=3)
    if nccl := software.get("nccl"):
        major, minor, patch = [*nccl.split("."), "0", "0"][:3]
        defines = zip(("MAJOR", "MINOR", "PATCH"), (major, minor, patch), strict=True)
        found["/usr/include/nccl.h"] = "".join(f"#define NCCL_{name} {value}\n" for name, value in defines)
    if machine.joined:
        found["/etc/kubernetes/kubelet.conf"] = "apiVersion: v1\nkind: Config\n"
    return found
