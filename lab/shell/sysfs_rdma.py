"""`/sys/class/infiniband`: every adapter's firmware, state, rate and counters, as the mlx5 driver shows them."""

from __future__ import annotations

from lab.hardware import NicState

# Rate word of sysfs by Gbit/s of a four-lane port. Source: drivers/infiniband/core/sysfs.c, rate_show.
_SPEEDS = {10: "SDR", 40: "QDR", 56: "FDR", 100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_DOWN_RATE_GBIT_S = 10  # what a port without a link shows; source: ibstat on an unplugged ConnectX

_COUNTERS = (
    "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
    "multicast_rcv_packets", "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors", "port_rcv_packets",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
    "port_xmit_data", "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error",
    "unicast_rcv_packets", "unicast_xmit_packets", "VL15_dropped",
)  # fmt: skip
_HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "out_of_buffer",
    "out_of_sequence", "packet_seq_err", "req_cqe_error", "resp_cqe_error", "rnr_nak_retry_err",
    "roce_adp_retrans", "rp_cnp_handled", "rx_icrc_encapsulated",
)  # fmt: skip


def rate_gbit_s(nic: NicState) -> int:
    """What the port runs at."""
    return nic.rate_gbit_s if nic.link_up else _DOWN_RATE_GBIT_S


def guid_words(guid: str) -> str:
    """A GUID as sysfs writes it: four groups of four hex digits."""
    digits = guid.replace(":", "").lower()
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def rdma_files(nic: NicState) -> dict[str, str]:
    """Path → text of one adapter, below /sys/class/infiniband."""
    root = f"/sys/class/infiniband/{nic.name}"
    return {
        **{f"{root}/{name}": text for name, text in _device(nic).items()},
        **{f"{root}/ports/1/{name}": text for name, text in _port(nic).items()},
    }


def _device(nic: NicState) -> dict[str, str]:
    guid = guid_words(nic.guid)
    return {
        "board_id": "MT_0000000838",
        "fw_ver": nic.firmware,
        "hca_type": "MT4129",
        "hw_rev": "0",
        "node_desc": f"{nic.name}",
        "node_guid": guid,
        "node_type": "1: CA",
        "sys_image_guid": guid,
        "device/uevent": f"DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={nic.pci_address}",
        "device/vendor": "0x15b3",
        "device/device": "0x1021",
        "device/current_link_speed": "32.0 GT/s PCIe",
        "device/current_link_width": str(nic.pcie_width),
        "device/max_link_speed": "32.0 GT/s PCIe",
        "device/max_link_width": "16",
        "device/numa_node": str(nic.index // 4),
    }


def _port(nic: NicState) -> dict[str, str]:
    rate = rate_gbit_s(nic)
    gid = f"fe80:0000:0000:0000:{guid_words(nic.guid)}"
    told = {"symbol_error": nic.symbol_errors, "link_downed": nic.link_downed}
    return {
        "state": "4: ACTIVE" if nic.link_up else "1: DOWN",
        "phys_state": "5: LinkUp" if nic.link_up else "2: Polling",
        "rate": f"{rate} Gb/sec (4X {_SPEEDS[rate]})",
        "link_layer": nic.link_layer,
        "lid": f"0x{nic.index + 1:x}" if nic.link_up else "0xffff",
        "sm_lid": "0x1" if nic.link_up else "0x0",
        "gids/0": gid,
        **{f"counters/{name}": str(told.get(name, 0)) for name in _COUNTERS},
        **{f"hw_counters/{name}": "0" for name in _HW_COUNTERS},
    }
