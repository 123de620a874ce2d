"""Tools asked for their version, and packages for theirs: what stands in the image on the boot disk."""

from __future__ import annotations

from lab.shell.call import Call
from lab.shell.node import fabric_manager_version
from lab.shell.reply import Reply, refused, said


def not_installed(name: str) -> Reply:
    """What a shell says of a program that is not there."""
    return refused(f"{name}: command not found", 127)


def _version_of(call: Call, key: str, form: str) -> Reply:
    version = call.machine.software.get(key, "")
    return said(form.format(version)) if version else not_installed(call.argv[0])


def fabric_manager(call: Call) -> Reply:
    """`nv-fabricmanager --version`."""
    version = fabric_manager_version(call.machine)
    return said(f"Fabric Manager version is : {version}") if version else not_installed(call.argv[0])


def nvcc(call: Call) -> Reply:
    """`nvcc --version`."""
    cuda = call.machine.software.get("cuda", "")
    if not cuda:
        return not_installed("nvcc")
    release = ".".join(cuda.split(".")[:2])
    return said(
        "nvcc: NVIDIA (R) Cuda compiler driver",
        "Copyright (c) 2005-2025 NVIDIA Corporation",
        f"Cuda compilation tools, release {release}, V{cuda if cuda.count('.') > 1 else cuda + '.61'}",
    )


def containerd(call: Call) -> Reply:
    """`containerd --version`."""
    return _version_of(call, "containerd", "containerd github.com/containerd/containerd/v2 v{} lab")


def kubelet(call: Call) -> Reply:
    """`kubelet --version`."""
    return _version_of(call, "kubelet", "Kubernetes v{}")


# Debian package → key in the image's list, and what the distribution appends to the version.
_PACKAGES = {
    "libnccl2": ("nccl", "-1+cuda{cuda}"),
    "libnccl-dev": ("nccl", "-1+cuda{cuda}"),
    "nvidia-fabricmanager-570": ("fabric_manager", "-1"),
    "nvidia-fabricmanager": ("fabric_manager", "-1"),
    "datacenter-gpu-manager-4-core": ("dcgm", "-1"),
    "containerd.io": ("containerd", "-1~ubuntu.24.04~noble"),
    "kubelet": ("kubelet", "-1.1"),
    "kubeadm": ("kubeadm", "-1.1"),
    "nccl-tests": ("nccl_tests", "-1"),
}


def dpkg_query(call: Call) -> Reply:
    """`dpkg-query -W -f=FORMAT PACKAGE…`."""
    form = call.option("-f", "--showformat") or "${Package}\t${Version}\\n"
    form = next((a[3:] for a in call.arguments if a.startswith("-f=")), form)
    names = [a for a in call.arguments if not a.startswith("-") and a != call.option("-f", "--showformat")]
    out, err = "", ""
    for name in names:
        version = _package_version(call, name)
        if not version:
            err += f"dpkg-query: no packages found matching {name}\n"
        shown = form.replace("${Version}", version).replace("${Package}", name)
        out += shown.replace("\\n", "\n").replace("\\t", "\t") if version else ""
    return Reply(out, err, 1 if err else 0)


def _package_version(call: Call, name: str) -> str:
    key, tail = _PACKAGES.get(name, ("", ""))
    version = fabric_manager_version(call.machine) if key == "fabric_manager" else call.machine.software.get(key, "")
    return version + tail.format(cuda=call.machine.software.get("cuda", "")) if version else ""
