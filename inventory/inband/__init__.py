"""What a node says of itself once its operating system runs: parts, software, counters, and what it would not tell.

Each command is declared beside its parser in `inventory/parsers/`; none of them changes the node. As they run:

    uname -r                            cat /etc/os-release       cat /proc/sys/kernel/random/boot_id
    cat /sys/class/dmi/id/product_uuid  cat /sys/class/dmi/id/product_serial
    nvidia-smi -q -x                    nvidia-smi nvlink -s      nvidia-smi nvlink -e
    lspci -D -nn -vvv                   ip -j addr                dmesg
    sh -c 'grep -sH "" /sys/class/infiniband/*/fw_ver …'
    cat /etc/rackmint/image.json        cat /usr/local/cuda/version.json
    dpkg-query -W -f=${Version} libnccl2
    nv-fabricmanager --version          systemctl is-active nvidia-fabricmanager
    dcgmi --version                     containerd --version      kubelet --version         kubeadm version -o short

A tool that is not installed answers with exit 127, as `timeout` does; for a file that is not there `cat` says exit 1.
"""

from inventory.inband.asking import Asking
from inventory.inband.counters import counters_of, read_counters
from inventory.inband.reading import InBand, read_inband, read_software

__all__ = ["Asking", "InBand", "counters_of", "read_counters", "read_inband", "read_software"]
