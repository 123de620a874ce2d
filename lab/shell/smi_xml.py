"""`nvidia-smi -q -x`: a 570-generation document (DTD v12) written from a node's GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.gpu_state import event_reasons, fabric_status, link_generation, power_draw_w, temperature_c
from lab.shell.node import memory

Tree = Mapping[str, "Tree | str"]

_HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
_NO = "N/A"


def document(machine: Machine, gpus: list[GpuState]) -> str:
    """The whole log of the GPUs that answer."""
    rows = [
        f"<timestamp>{datetime.now(UTC):%a %b %e %H:%M:%S %Y}</timestamp>",
        f"<driver_version>{escape(machine.software['driver'])}</driver_version>",
        f"<cuda_version>{escape(cuda_of_driver(machine))}</cuda_version>",
        f"<attached_gpus>{len(gpus)}</attached_gpus>",
    ]
    body = [f"\t{row}" for row in rows]
    for gpu in gpus:
        body += [f'\t<gpu id="{long_address(gpu)}">', *_rows(_gpu(machine, gpu), 2), "\t</gpu>"]
    return _HEAD + "\n".join(["<nvidia_smi_log>", *body, "</nvidia_smi_log>"]) + "\n"


def long_address(gpu: GpuState) -> str:
    """The PCI address with NVML's eight-digit domain."""
    return f"0000{gpu.pci_address}".upper()


def cuda_of_driver(machine: Machine) -> str:
    """The newest CUDA the driver serves, as nvidia-smi prints it: major.minor."""
    return ".".join(machine.software.get("cuda", "12.8").split(".")[:2])


def _rows(tree: Tree, depth: int) -> Iterator[str]:
    indent = "\t" * depth
    for name, value in tree.items():
        if isinstance(value, str):
            yield f"{indent}<{name}>{escape(value)}</{name}>"
        else:
            yield f"{indent}<{name}>"
            yield from _rows(value, depth + 1)
            yield f"{indent}</{name}>"


def _gpu(machine: Machine, gpu: GpuState) -> Tree:
    return {
        **_identity(machine, gpu),
        "pci": _pci(machine, gpu),
        "performance_state": "P0",
        "clocks_event_reasons": {f"clocks_event_reason_{k}": v for k, v in event_reasons(machine, gpu).items()},
        "fb_memory_usage": {
            "total": f"{gpu.memory_mib} MiB",
            "reserved": "468 MiB",
            "used": "0 MiB",
            "free": f"{gpu.memory_mib - 468} MiB",
        },
        "compute_mode": "Default",
        "utilization": {"gpu_util": "0 %", "memory_util": "0 %"},
        **_ecc(gpu),
        **_remap(gpu),
        **_climate(machine, gpu),
        "fabric": _fabric(machine),
        "processes": {},
    }


def _identity(machine: Machine, gpu: GpuState) -> Tree:
    switched = "Disabled" if "nvidia-persistenced" in memory(machine).stopped else "Enabled"
    return {
        "product_name": gpu.model,
        "product_brand": "NVIDIA",
        "product_architecture": "Hopper",
        "persistence_mode": switched,
        "addressing_mode": "None",
        "mig_mode": {"current_mig": "Disabled", "pending_mig": "Disabled"},
        "mig_devices": "None",
        "serial": gpu.serial,
        "uuid": f"GPU-{gpu.uuid}",
        "minor_number": str(gpu.index),
        "vbios_version": gpu.vbios,
        "multigpu_board": "No",
        "board_id": f"0x{gpu.pci_address[5:7]}00",
        "board_part_number": "692-0LAB0-0100-000",
        "gpu_part_number": gpu.part_number,
        "platformInfo": {
            "chassis_serial_number": _NO,
            "slot_number": _NO,
            "tray_index": _NO,
            "host_id": _NO,
            "peer_type": _NO,
            "module_id": str(gpu.module),
        },
        "inforom_version": {"img_version": "LAB0.0100.00.01", "oem_object": "2.1", "ecc_object": "7.1"},
        "gpu_reset_status": {
            "reset_required": "Requested functionality has been deprecated",
            "drain_and_reset_recommended": "Requested functionality has been deprecated",
        },
        "gpu_recovery_action": "GPU Reset" if gpu.remap_pending else "None",
        "gsp_firmware_version": machine.software["driver"],
    }


def _pci(machine: Machine, gpu: GpuState) -> Tree:
    now_gen, widest_gen = link_generation(machine, gpu), 5
    return {
        "pci_bus": gpu.pci_address[5:7].upper(),
        "pci_device": gpu.pci_address[8:10],
        "pci_domain": gpu.pci_address[:4],
        "pci_base_class": "3",
        "pci_sub_class": "2",
        "pci_device_id": "233010DE",
        "pci_bus_id": long_address(gpu),
        "pci_sub_system_id": "16C110DE",
        "pci_gpu_link_info": {
            "pcie_gen": {
                "max_link_gen": str(gpu.pcie_generation),
                "current_link_gen": str(now_gen),
                "device_current_link_gen": str(now_gen),
                "max_device_link_gen": str(widest_gen),
                "max_host_link_gen": str(widest_gen),
            },
            "link_widths": {"max_link_width": "16x", "current_link_width": f"{gpu.pcie_width}x"},
        },
        "replay_counter": str(gpu.pcie_replays),
        "replay_rollover_counter": "0",
    }


def _ecc(gpu: GpuState) -> Tree:
    mode = "Enabled" if gpu.ecc_enabled else "Disabled"
    if not gpu.ecc_enabled:
        counts: Tree = {"volatile": _counts(None, None), "aggregate": _counts(None, None)}
    else:
        counts = {
            "volatile": _counts(0, gpu.ecc_volatile_uncorrectable),
            "aggregate": {**_counts(gpu.ecc_correctable, gpu.ecc_uncorrectable), "sram_threshold_exceeded": "No"},
        }
    return {"ecc_mode": {"current_ecc": mode, "pending_ecc": mode}, "ecc_errors": counts}


def _counts(correctable: int | None, uncorrectable: int | None) -> Tree:
    zero = _NO if correctable is None else "0"
    return {
        "sram_correctable": zero,
        "sram_uncorrectable_parity": zero,
        "sram_uncorrectable_secded": zero,
        "dram_correctable": _NO if correctable is None else str(correctable),
        "dram_uncorrectable": _NO if uncorrectable is None else str(uncorrectable),
    }


def _remap(gpu: GpuState) -> Tree:
    banks = 2560  # H100: banks that row remapping watches; source: driver 570 output of a healthy board
    touched = 1 if gpu.remapped_rows_uncorrectable else 0
    return {
        "remapped_rows": {
            "remapped_row_corr": "0",
            "remapped_row_unc": str(gpu.remapped_rows_uncorrectable),
            "remapped_row_pending": "Yes" if gpu.remap_pending else "No",
            "remapped_row_failure": "Yes" if gpu.remap_failed else "No",
            "row_remapper_histogram": {
                "row_remapper_histogram_max": f"{banks - touched} bank(s)",
                "row_remapper_histogram_high": f"{touched} bank(s)",
                "row_remapper_histogram_partial": "0 bank(s)",
                "row_remapper_histogram_low": "0 bank(s)",
                "row_remapper_histogram_none": "0 bank(s)",
            },
        },
    }


def _climate(machine: Machine, gpu: GpuState) -> Tree:
    warm = temperature_c(machine, gpu)
    return {
        "temperature": {
            "gpu_temp": f"{warm} C",
            "gpu_temp_tlimit": f"{87 - warm} C",  # 87 C: where a Hopper board starts to slow down (our choice)
            "gpu_temp_max_tlimit_threshold": "-8 C",
            "gpu_temp_slow_tlimit_threshold": "-2 C",
            "gpu_temp_max_gpu_tlimit_threshold": "0 C",
            "memory_temp": f"{warm + 6} C",
        },
        "gpu_power_readings": {
            "power_state": "P0",
            "power_draw": f"{power_draw_w(machine, gpu):.2f} W",
            "current_power_limit": f"{gpu.power_limit_w:.2f} W",
            "requested_power_limit": f"{gpu.power_limit_w:.2f} W",
            "default_power_limit": "700.00 W",
            "min_power_limit": "200.00 W",
            "max_power_limit": "700.00 W",
        },
        "module_power_readings": {"power_state": "P0", "power_draw": _NO},
        "clocks": {"graphics_clock": "345 MHz", "sm_clock": "345 MHz", "mem_clock": "2619 MHz"},
        "max_clocks": {"graphics_clock": "1980 MHz", "sm_clock": "1980 MHz", "mem_clock": "2619 MHz"},
    }


def _fabric(machine: Machine) -> Tree:
    state, status = fabric_status(machine)
    return {
        "state": state,
        "status": status,
        "cliqueId": "0",
        "clusterUuid": "00000000-0000-0000-0000-000000000000",
        "health": {"bandwidth": _NO, "route_recovery_in_progress": _NO, "route_unhealthy": _NO},
    }
