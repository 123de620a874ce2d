"""What a node says of itself once its operating system runs: parts, software, counters, and what it would not tell.

Each command is declared beside its parser in `inventory/parsers/`; none of them changes the node. In the order they run:

    nvidia-smi -q -x                    nvidia-smi nvlink -s      nvidia-smi nvlink -e      nvidia-smi topo -m
    lspci -D -nn -vvv                   ip -j addr                dmesg
    sh -c 'cd /sys/class/infiniband && grep -sH "" */fw_ver */hca_type */board_id */node_guid */device/uevent …'
        (grep's form `mlx5_0/ports/1/rate:400 Gb/sec (4X NDR)`; also ports/*/{state,phys_state,rate,link_layer},
        ports/*/gids/0, ports/*/counters/*, ports/*/hw_counters/*)
    cat /etc/os-release                 uname -r                  cat /proc/sys/kernel/random/boot_id
    cat /sys/class/dmi/id/product_uuid  cat /sys/class/dmi/id/product_serial
    cat /etc/rackmint/image.json        cat /usr/local/cuda/version.json
    dpkg-query -W -f=${Version} libnccl2
    nv-fabricmanager --version          systemctl is-active nvidia-fabricmanager
    dcgmi --version                     containerd --version      kubelet --version         kubeadm version -o short

A tool that is not installed answers with exit 127, as `timeout` does; a file that is not there makes `cat` answer exit 1.
"""
