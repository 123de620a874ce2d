"""One healthy answer of every tool, and a table of what must stand in it."""

from __future__ import annotations

import json

import pytest

from lab.machine import Machine
from lab.shell import answer

SAID = [
    ("nvidia-smi -L", "GPU 7: NVIDIA H100 80GB HBM3 (UUID: GPU-"),
    ("nvidia-smi", "Driver Version: 570.158.01"),
    ("nvidia-smi --version", "CUDA Version        : 12.8"),
    ("nvidia-smi --query-gpu=index,pcie.link.width.current --format=csv", "index, pcie.link.width.current\n0, 16"),
    ("nvidia-smi --query-gpu=power.limit,memory.total --format=csv,noheader", "700.00 W, 81559 MiB"),
    ("nvidia-smi --query-gpu=power.limit --format=csv,noheader,nounits", "700.00\n"),
    ("nvidia-smi --query-gpu=clocks_event_reasons.hw_slowdown --format=csv,noheader", "Not Active"),
    ("nvidia-smi topo -m", "NIC7: mlx5_7"),
    ("nvidia-smi nvlink -s", "Link 17: 26.562 GB/s"),
    ("nvidia-smi nvlink -e", "Link 0: CRC Errors: 0"),
    ("nvidia-smi -pm 1", "Enabled persistence mode"),
    ("lspci -nn -D", "0000:1b:00.0 3D controller [0302]"),
    ("lspci -vvv", "LnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)"),
    ("lspci -d 10de: -n", "1b:00.0 0302: 10de:2330"),
    ("ibstat mlx5_3", "\t\tRate: 400"),
    ("ibstat -l", "mlx5_0\nmlx5_1\n"),
    ("ibv_devinfo -d mlx5_0", "active_mtu:\t\t4096 (5)"),
    ("ibdev2netdev", "mlx5_0 port 1 ==> ibp26s0 (Up)"),
    ("ethtool eno1", "Speed: 10000Mb/s"),
    ("ethtool -S ibp26s0", "rx_symbol_err_phy: 0"),
    ("ethtool -i ibp26s0", "firmware-version: 28.39.1002"),
    ("cat /sys/class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE\n"),
    ("cat /proc/cmdline", "iommu=pt"),
    ("cat /proc/meminfo", "MemTotal:"),
    ("cat /etc/os-release", 'VERSION_ID="24.04"'),
    ("grep -r . /sys/class/infiniband/mlx5_0/ports/1/counters", "counters/symbol_error:0"),
    ("ls /sys/class/infiniband", "mlx5_0\nmlx5_1"),
    ("dmesg", "] Linux version"),
    ("dmesg -T", "] Linux version"),
    ("journalctl -k -o short-iso", "r1-n01 kernel: Linux version"),
    ("uname -r", "6.8.0-60-generic\n"),
    ("uname -a", "Linux r1-n01 6.8.0-60-generic"),
    ("hostname", "r1-n01\n"),
    ("whoami", "root\n"),
    ("date +%Y", "20"),
    ("uptime", "load average"),
    ("nproc", "224\n"),
    ("lscpu", "Xeon"),
    ("dmidecode -s system-serial-number", "CH"),
    ("dmidecode -t memory", "\tSize: 64 GB"),
    ("systemctl is-active nvidia-fabricmanager", "active\n"),
    ("systemctl is-active nvidia-persistenced", "active\n"),
    ("systemctl is-system-running", "running\n"),
    ("nv-fabricmanager --version", "570.158.01"),
    ("nvcc --version", "release 12.8"),
    ("dcgmi --version", "version: 4.2.3"),
    ("dcgmi diag -r 1 -j", '"test_categories"'),
    ("containerd --version", "v2.1.4"),
    ("kubelet --version", "Kubernetes v1.34.2"),
    ("dpkg-query -W -f=${Version} libnccl2", "2.26.2-1+cuda12.8"),
    ("chronyc tracking", "Leap status     : Normal"),
    ("sysctl -n net.ipv4.ip_forward", "1\n"),
    ("lsmod", "nvidia_peermem"),
    ("swapon --show", ""),
    ("sha256sum /etc/hostname", "  /etc/hostname"),
    ("head -n 1 /etc/os-release", "PRETTY_NAME"),
    ("timeout 30 env A=b nice -n 5 hostname", "r1-n01\n"),
]


@pytest.mark.parametrize(("line", "expected"), SAID, ids=[line for line, _ in SAID])
def test_a_tool_answers(node: Machine, line: str, expected: str) -> None:
    """Exit 0, and the words that matter."""
    reply = answer(node, tuple(line.split()))
    assert (0, "") == (reply.exit, reply.stderr)
    assert expected in reply.stdout


JSON = [
    ("ip -j addr", lambda body: body[1]["addr_info"][0]["local"], "127.78.1.1"),
    ("ip -j link", len, 10),
    ("lscpu -J", lambda body: body["lscpu"][1]["data"], "224"),
    ("nvme list -o json", lambda body: len(body["Devices"]), 3),
    ("lsblk -J -b", lambda body: body["blockdevices"][0]["children"][1]["mountpoints"], ["/"]),
    ("fio --name=a --rw=read --bs=128k --runtime=10 --output-format=json", lambda body: body["jobs"][0]["error"], 0),
    ("cat /etc/rackmint/image.json", lambda body: body["name"], "lab-ubuntu-24.04"),
    (
        "nvbandwidth -t device_to_device_memcpy_read_ce -j",
        lambda body: body["nvbandwidth"]["testcases"][0]["bandwidth_matrix"][3][3],
        "N/A",
    ),
]


@pytest.mark.parametrize(("line", "look", "expected"), JSON, ids=[row[0] for row in JSON])
def test_a_tool_answers_in_json(node: Machine, line: str, look, expected: object) -> None:
    """A document that loads, and the fact that matters."""
    assert expected == look(json.loads(answer(node, tuple(line.split())).stdout))


REFUSED = [
    ("nvidia-smi --query-gpu=nonsense --format=csv", 2),
    ("nvidia-smi --frobnicate", 2),
    ("cat /nowhere", 1),
    ("ls /nowhere", 2),
    ("ethtool nothing0", 75),
    ("ibstat mlx5_99", 255),
    ("dmidecode -s nothing", 2),
    ("dpkg-query -W nothing", 1),
    ("systemctl is-active nothing", 3),
    ("all_reduce_perf -b 8 -e 8 -g 9", 1),
    ("nothing-of-that-name", 127),
]


@pytest.mark.parametrize(("line", "code"), REFUSED, ids=[line for line, _ in REFUSED])
def test_a_tool_refuses(node: Machine, line: str, code: int) -> None:
    """The tool's own exit code for what it cannot do."""
    assert code == answer(node, tuple(line.split())).exit


def test_a_stopped_fabric_manager_takes_nvlink_down(node: Machine) -> None:
    """Stopping the service shows in the fabric, starting it heals."""
    answer(node, ("systemctl", "stop", "nvidia-fabricmanager"))
    assert "all links are inActive" in answer(node, ("nvidia-smi", "nvlink", "-s")).stdout
    answer(node, ("systemctl", "start", "nvidia-fabricmanager"))
    assert "26.562" in answer(node, ("nvidia-smi", "nvlink", "-s")).stdout


def test_stress_fails_on_a_broken_module(node: Machine) -> None:
    """A memory module that is not healthy fails stress-ng's verification."""
    argv = ("stress-ng", "--cpu", "4", "-t", "10", "--metrics")
    assert 0 == answer(node, argv).exit
    node.state.dimms[3].healthy = False
    assert 2 == answer(node, argv).exit
