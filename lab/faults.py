"""Everything that can be broken in the lab, by name, each with the public report that says it happens in life.

A fault changes the machine's state, or is a flag that one surface reads; every other surface follows from the state.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.fault import (
    Fault,
    Touch,
    another_serial,
    another_uuid,
    boot_drive,
    dimm,
    every_nic,
    gpu,
    nic,
    xid,
)
from lab.hardware import Shape

_WITH_NVLINK = frozenset({Shape.HGX, Shape.PCIE})

# Texts of Xid lines as the NVIDIA driver writes them, shortened.
_LOST = (79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
_DBE = (48, "pid=2716, name=python3, An uncorrectable double bit error (DBE) has been detected")
_REMAP = (63, "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.")
_LINK = (74, "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 7(0x10000, 0x0, 0x0, 0x0)")

_FAULTS = (
    # --- discover: the BMC itself ---
    Fault(
        "bmc_503_burst",
        "discover",
        "The BMC is busy and answers 503 to a few requests, then recovers.",
        "check_redfish#89",
        knobs={"bmc_503_left": 4},
    ),
    Fault(
        "flaky_bmc",
        "discover",
        "The BMC resets every second connection for a while, then recovers.",
        "xcat-core#5656; NVIDIA/libredfish src/network.rs (RST on reused connections)",
        knobs={"bmc_resets_left": 5},
    ),
    Fault("bmc_dead", "discover", "The BMC does not listen any more.", "xcat-core#5656"),
    Fault(
        "gpu_lost",
        "inspect",
        "A GPU has fallen off the bus: seven are left.",
        "NVIDIA/dcgm-exporter#604",
        touches=(
            Touch(
                gpu(3),
                {
                    "present": False,
                    "xids": xid(*_LOST),
                },
            ),
        ),
    ),
    # --- inspect: parts ---
    Fault(
        "ecc_uncorrectable",
        "inspect",
        "A GPU has counted uncorrectable memory errors.",
        "NVIDIA/k8s-device-plugin#243",
        touches=(
            Touch(
                gpu(2),
                {
                    "ecc_uncorrectable": 3,
                    "ecc_volatile_uncorrectable": 1,
                    "xids": xid(*_DBE),
                },
            ),
        ),
    ),
    Fault(
        "remap_pending",
        "inspect",
        "A GPU has a row remapping that waits for a reset.",
        "gpud#987",
        touches=(
            Touch(
                gpu(5),
                {
                    "remap_pending": True,
                    "remapped_rows_uncorrectable": 1,
                    "xids": xid(*_REMAP),
                },
            ),
        ),
    ),
    Fault(
        "nvlink_down",
        "inspect",
        "One NVLink of a GPU does not train.",
        "NVIDIA/nvbandwidth#44; NVIDIA/NVSentinel#1526",
        touches=(
            Touch(
                gpu(1),
                {
                    "nvlinks_down": {7},
                    "xids": xid(*_LINK),
                },
            ),
        ),
        shapes=_WITH_NVLINK,
    ),
    Fault(
        "pcie_half_width",
        "inspect",
        "A GPU's PCIe link came up x8 instead of x16.",
        "Azure/azhpc-diagnostics#50; open-mpi/hwloc#653",
        touches=(Touch(gpu(4), {"pcie_width": 8}),),
    ),
    Fault(
        "nic_half_rate",
        "inspect",
        "A network port came up at half its rate.",
        "facebookresearch/gcm, sample ib_intf_bad_rate",
        touches=(Touch(nic(6), {"rate_gbit_s": 200}),),
    ),
    Fault(
        "gpu_swapped",
        "inspect",
        "A GPU was replaced: serial and UUID are new.",
        "NVIDIA/NVSentinel#1427",
        touches=(Touch(gpu(6), {"serial": another_serial, "uuid": another_uuid}),),
    ),
    Fault(
        "vbios_skew",
        "inspect",
        "One GPU carries an older VBIOS than its seven siblings.",
        "facebookresearch/gcm check vbios_mismatch",
        touches=(Touch(gpu(0), {"vbios": "96.00.74.00.01"}),),
    ),
    Fault(
        "dimm_missing",
        "inspect",
        "A memory module is not seen.",
        "OpenCHAMI/magellan#143",
        touches=(Touch(dimm(9), {"present": False}),),
    ),
    # --- image: power, boot, media, disk ---
    Fault(
        "power_accepted_no_effect",
        "image",
        "The BMC says yes to every power action and the host never moves.",
        "NICo#5355",
    ),
    Fault("post_never_ends", "image", "POST hangs at PCI resource configuration.", "NICo#1846"),
    Fault(
        "media_stale",
        "image",
        "Virtual media keeps its old image: insert and eject are accepted and change nothing.",
        "Ironic release note vmedia-stale-insert; community.general#7470",
        shapes=frozenset({Shape.HGX, Shape.PROCESSORS}),
    ),
    Fault(
        "boot_once_sticks", "image", "The BMC never forgets a one-time boot override.", "redhat-performance/jetlag#18"
    ),
    Fault(
        "wrong_disk",
        "image",
        "The boot disk carries somebody else's data.",
        "NICo PR#1748",
        touches=(Touch(boot_drive, {"foreign": "LVM2_member", "content": None}),),
    ),
    Fault(
        "image_checksum_mismatch",
        "image",
        "The network hands the node an image with one bit flipped.",
        "warewulf/warewulf#1600",
    ),
    Fault(
        "agent_lost",
        "image",
        "The deploy ramdisk boots and its agent never speaks.",
        "tinkerbell/smee#125",
    ),
    Fault(
        "driver_missing",
        "image",
        "The NVIDIA kernel driver of the image does not load.",
        "kubernetes-sigs/dra-driver-nvidia-gpu#1380",
    ),
    Fault(
        "fabricmanager_version_skew",
        "image",
        "Fabric Manager is one build off the driver and refuses to start.",
        "NVIDIA/gpu-operator#1043; NVIDIA/nccl#1488",
        shapes=_WITH_NVLINK,
    ),
    # --- tune ---
    Fault(
        "bios_setting_reverts",
        "tune",
        "One staged BIOS setting is accepted and has its old value after POST.",
        "HewlettPackard/python-redfish-utility#91",
    ),
    # --- burn in ---
    Fault("ssh_hangs", "burn_in", "Commands over SSH begin and never end.", "NVIDIA/NVSentinel#1576"),
    Fault(
        "nccl_socket_fallback",
        "burn_in",
        "NCCL finds no InfiniBand and falls back to sockets.",
        "areal-project/AReaL#639; NVIDIA/nccl#952",
    ),
    Fault("nccl_slow", "burn_in", "NCCL reaches half of what this class reaches.", "NVIDIA/nccl-tests#293"),
    Fault(
        "gdr_missing",
        "burn_in",
        "nvidia-peermem is not loaded: no GPUDirect RDMA.",
        "Mellanox/nv_peer_memory#50; NVIDIA/nccl#988",
        touches=(Touch(every_nic, {"gdr": False}),),
    ),
    Fault(
        "gpu_throttles",
        "burn_in",
        "A GPU gets hot and slows down under load.",
        "Azure/azurehpc#595",
        touches=(Touch(gpu(7), {"throttles_under_load": True, "speed": 0.82, "temperature_c": 41}),),
    ),
    Fault(
        "gpu_slow",
        "burn_in",
        "A GPU computes at 88 % of its siblings and says nothing about it.",
        "NVIDIA/nccl#820",
        touches=(Touch(gpu(2), {"speed": 0.88}),),
    ),
    Fault(
        "ecc_under_load",
        "burn_in",
        "A GPU counts an uncorrectable error with every load, and the test still passes its number.",
        "NVIDIA/DCGM#313",
        touches=(Touch(gpu(5), {"ecc_errors_under_load": 1}),),
    ),
    # --- record ---
    Fault("netbox_down", "record", "NetBox answers 503.", "netbox-community/netbox#7848", surface="netbox"),
    Fault(
        "netbox_conflict",
        "record",
        "Somebody edits the device in NetBox between our reading and our writing.",
        "netbox-community/netbox#12531",
        surface="netbox",
    ),
    # --- join ---
    Fault(
        "k8s_stale_node",
        "join",
        "A Node object of this name is left over from the last life of the machine.",
        "kubernetes/kubernetes#81056",
        surface="kubernetes",
    ),
    Fault(
        "k8s_plugin_dead",
        "join",
        "The GPU device plugin does not register: the node joins with no GPU to give.",
        "NVIDIA/k8s-device-plugin#1228",
        surface="kubernetes",
    ),
)

FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _FAULTS}
