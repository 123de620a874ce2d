"""Which tool answers which name. Everything said comes from the node's hardware state and the image on its disk."""

from __future__ import annotations

from collections.abc import Mapping

from lab.machine import Machine
from lab.shell import (
    disk_tools,
    file_tools,
    host_loads,
    host_tools,
    kernel_log,
    net_tools,
    pci,
    rdma_tools,
    versions,
)
from lab.shell.call import Call, Tool, unwrap
from lab.shell.dcgm import dcgmi
from lab.shell.gpu_burn import gpu_burn
from lab.shell.nccl import nccl_tests
from lab.shell.nvbandwidth import nvbandwidth
from lab.shell.reply import Reply, refused
from lab.shell.smi import nvidia_smi

TOOLS: dict[str, Tool] = {
    "nvidia-smi": nvidia_smi,
    "all_reduce_perf": nccl_tests,
    "all_gather_perf": nccl_tests,
    "reduce_scatter_perf": nccl_tests,
    "alltoall_perf": nccl_tests,
    "nvbandwidth": nvbandwidth,
    "gpu_burn": gpu_burn,
    "dcgmi": dcgmi,
    "stress-ng": host_loads.stress_ng,
    "fio": host_loads.fio,
    "lspci": pci.lspci,
    "ibstat": rdma_tools.ibstat,
    "ibv_devinfo": rdma_tools.ibv_devinfo,
    "ibdev2netdev": rdma_tools.ibdev2netdev,
    "ip": net_tools.ip,
    "ethtool": net_tools.ethtool,
    "dmesg": kernel_log.dmesg,
    "journalctl": kernel_log.journalctl,
    "uname": host_tools.uname,
    "hostname": host_tools.hostname,
    "date": host_tools.date,
    "whoami": host_tools.who,
    "id": host_tools.who,
    "uptime": host_tools.uptime,
    "reboot": host_tools.power,
    "poweroff": host_tools.power,
    "shutdown": host_tools.power,
    "nproc": host_tools.nproc,
    "lscpu": host_tools.lscpu,
    "dmidecode": host_tools.dmidecode,
    "systemctl": host_tools.systemctl,
    "chronyc": host_tools.chronyc,
    "sysctl": host_tools.sysctl,
    "lsmod": host_tools.lsmod,
    "swapon": host_tools.silent,
    "swapoff": host_tools.silent,
    "modprobe": host_tools.silent,
    "nvme": disk_tools.nvme,
    "lsblk": disk_tools.lsblk,
    "nv-fabricmanager": versions.fabric_manager,
    "nvcc": versions.nvcc,
    "containerd": versions.containerd,
    "kubelet": versions.kubelet,
    "dpkg-query": versions.dpkg_query,
    "cat": file_tools.cat,
    "grep": file_tools.grep,
    "ls": file_tools.ls,
    "test": file_tools.test,
    "[": file_tools.test,
    "mkdir": file_tools.mkdir,
    "rm": file_tools.rm,
    "install": file_tools.install,
    "cp": file_tools.install,
    "mv": file_tools.install,
    "tee": file_tools.tee,
    "head": file_tools.head,
    "tail": file_tools.tail,
    "wc": file_tools.wc,
    "sha256sum": file_tools.sha256sum,
    "chmod": file_tools.nothing,
    "chown": file_tools.nothing,
    "touch": file_tools.nothing,
    "sync": file_tools.nothing,
    "true": file_tools.nothing,
    ":": file_tools.nothing,
    "false": lambda call: Reply(exit=1),
}


def answer(
    machine: Machine,
    argv: tuple[str, ...],
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    folder: str = "/root",
) -> Reply:
    """What the node says to a command, wrappers such as `timeout 30 env A=b …` taken off. Unknown: exit 127."""
    words, found = unwrap(argv)
    if not words:
        return Reply()
    tool = TOOLS.get(words[0].rpartition("/")[2])
    if tool is None:
        return refused(f"{words[0]}: command not found", 127)
    return tool(Call(machine, words, stdin, {**(env or {}), **found}, folder))
