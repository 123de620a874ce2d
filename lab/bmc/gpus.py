"""GPUs where each maker puts them: Processors of a baseboard or of the host, or nothing but PCIe devices."""

from __future__ import annotations

from lab.bmc.answers import Answer, Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc
from lab.bmc.systems import baseboard_asleep
from lab.hardware import GpuState, Shape

NVLINK_GBIT_S = 212.496  # per link and way, as an H100's port says; DGX H100 tree
GPU_DEVICE_ID = "0x2330"  # H100 SXM5 80GB; pci-ids


def gpu_of(bmc: Bmc, gpu_id: str) -> GpuState | None:
    """The GPU behind an id, be it there or lost."""
    return next((gpu for gpu in bmc.machine.state.gpus if bmc.layout.gpu.format(gpu.module) == gpu_id), None)


def gpu_ids(bmc: Bmc) -> list[str]:
    """The ids listed, by module; a baseboard goes on listing a lost GPU as Absent, others drop it."""
    listed = [gpu for gpu in bmc.machine.state.gpus if gpu.present or bmc.layout.baseboard]
    return [bmc.layout.gpu.format(gpu.module) for gpu in sorted(listed, key=lambda gpu: gpu.module)]


def gpu_system(bmc: Bmc) -> str:
    """The System whose Processors the GPUs are; empty where they are only PCIe devices."""
    return "" if bmc.machine.state.shape is Shape.PCIE else bmc.layout.baseboard or bmc.layout.host


def gpu_processor(bmc: Bmc, system: str, processor: str) -> Resource | Answer | None:
    """One GPU as a Processor, where this maker shows it so."""
    gpu = gpu_of(bmc, processor)
    if gpu is None or system != gpu_system(bmc):
        return None
    if not bmc.layout.baseboard:
        return _sparse_processor(bmc, system, gpu) if gpu.present else None
    return baseboard_asleep(bmc) or _full_processor(system, processor, gpu)


def _sparse_processor(bmc: Bmc, system: str, gpu: GpuState) -> Resource:
    """A GPU without Model and Status, as a Lenovo SR670 V2 shows it."""
    device = f"{bmc.chassis}/PCIeDevices/slot_{gpu.module}"
    name = bmc.layout.gpu.format(gpu.module)
    return resource(
        f"/Systems/{system}/Processors/{name}",
        "Processor.v1_14_0.Processor",
        f"GPU {gpu.module}",
        ProcessorType="GPU",
        Manufacturer="NVIDIA Corporation",
        SerialNumber=gpu.serial,
        PartNumber=gpu.part_number,
        FirmwareVersion=gpu.vbios,
        ProcessorId={"VendorId": "0x10de"},
        Links={
            "Chassis": link(bmc.chassis),
            "PCIeDevice": link(device),
            "PCIeFunctions": [link(f"{device}/PCIeFunctions/0")],
        },
    )


def _full_processor(system: str, name: str, gpu: GpuState) -> Resource:
    path = f"/Systems/{system}/Processors/{name}"
    facts = {
        "Model": gpu.model,
        "Manufacturer": "NVIDIA",
        "SerialNumber": gpu.serial,
        "PartNumber": gpu.part_number,
        "UUID": gpu.uuid,
        "FirmwareVersion": gpu.vbios,
        "MemorySummary": {
            "ECCModeEnabled": gpu.ecc_enabled,
            "Metrics": link(f"{path}/MemorySummary/MemoryMetrics"),
        },
        "Metrics": link(f"{path}/ProcessorMetrics"),
        "EnvironmentMetrics": link(f"{path}/EnvironmentMetrics"),
        "Ports": link(f"{path}/Ports"),
        "SystemInterface": {"InterfaceType": "PCIe", "PCIe": pcie_interface(gpu.pcie_width, gpu.pcie_generation)},
        "Oem": {"Nvidia": {"MIGModeEnabled": False}},
        "Links": {
            "Chassis": link(f"/Chassis/HGX_{name}"),
            "Memory": [link(f"/Systems/{system}/Memory/{name}_DRAM_0")],
            "PCIeDevice": link(f"/Chassis/HGX_{name}/PCIeDevices/{name}"),
            "PCIeFunctions": [link(f"/Chassis/HGX_{name}/PCIeDevices/{name}/PCIeFunctions/0")],
        },
    }
    return resource(
        path,
        "Processor.v1_13_0.Processor",
        "Processor",
        ProcessorType="GPU",
        Location={"PartLocation": {"LocationType": "Embedded", "ServiceLabel": f"SXM{gpu.module}"}},
        Status=status(not gpu.remap_failed) if gpu.present else {"State": "Absent", "Health": None},
        **(facts if gpu.present else {}),
    )


def pcie_interface(width: int, generation: int) -> Resource:
    """A PCIeInterface object of a x16 Gen5 part."""
    return {"LanesInUse": width, "MaxLanes": 16, "PCIeType": f"Gen{generation}", "MaxPCIeType": "Gen5"}


# --- what only a baseboard tells -----------------------------------------------------------------------------------


def _on_baseboard(bmc: Bmc, system: str, gpu_id: str) -> GpuState | Answer | None:
    if not bmc.layout.baseboard or system != bmc.layout.baseboard:
        return None
    gpu = gpu_of(bmc, gpu_id)
    return baseboard_asleep(bmc) or (gpu if gpu and gpu.present else None)


def processor_metrics(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """Cache ECC, PCIe errors and throttle reasons."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    return resource(
        f"/Systems/{system}/Processors/{gpu}/ProcessorMetrics",
        "ProcessorMetrics.v1_4_0.ProcessorMetrics",
        f"{gpu} Processor Metrics",
        CacheMetricsTotal={"LifeTime": {"CorrectableECCErrorCount": 0, "UncorrectableECCErrorCount": 0}},
        PCIeErrors={"CorrectableErrorCount": 0, "FatalErrorCount": 0, "ReplayCount": found.pcie_replays},
        Oem={"Nvidia": {"ThrottleReasons": ["NA"]}},
    )


def environment_metrics(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """Temperature and power."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    return resource(
        f"/Systems/{system}/Processors/{gpu}/EnvironmentMetrics",
        "EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
        f"{gpu} Environment Metrics",
        TemperatureCelsius={"Reading": found.temperature_c},
        PowerWatts={"Reading": 72.4},
        PowerLimitWatts={"SetPoint": found.power_limit_w, "DefaultSetPoint": 700, "AllowableMax": 700},
    )


def memory_summary_metrics(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """The GPU's ECC totals."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    path = f"/Systems/{system}/Processors/{gpu}/MemorySummary/MemoryMetrics"
    return resource(path, "MemoryMetrics.v1_4_1.MemoryMetrics", f"{gpu} Memory Summary Metrics", LifeTime=_ecc(found))


def _ecc(gpu: GpuState) -> Resource:
    return {"CorrectableECCErrorCount": gpu.ecc_correctable, "UncorrectableECCErrorCount": gpu.ecc_uncorrectable}


def dram(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """A GPU's memory, with what row remapping waits for."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    path = f"/Systems/{system}/Memory/{gpu}_DRAM_0"
    remapping = {"RowRemappingPending": found.remap_pending, "RowRemappingFailed": found.remap_failed}
    return resource(
        path,
        "Memory.v1_11_0.Memory",
        "GPU memory",
        CapacityMiB=found.memory_mib,
        MemoryDeviceType="HBM",
        MemoryType="DRAM",
        ErrorCorrection="SingleBitECC",
        Links={"Processors": [link(f"/Systems/{system}/Processors/{gpu}")]},
        Metrics=link(f"{path}/MemoryMetrics"),
        Oem={"Nvidia": remapping},
        Status=status(not found.remap_failed),
    )


def dram_metrics(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """A GPU memory's ECC and remapped rows."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    rows = {
        "CorrectableRowRemappingCount": 0,
        "UncorrectableRowRemappingCount": found.remapped_rows_uncorrectable,
    }
    return resource(
        f"/Systems/{system}/Memory/{gpu}_DRAM_0/MemoryMetrics",
        "MemoryMetrics.v1_4_1.MemoryMetrics",
        f"{gpu} DRAM Metrics",
        LifeTime=_ecc(found),
        Oem={"Nvidia": {"RowRemapping": rows}},
    )


def nvlink_ports(bmc: Bmc, system: str, gpu: str) -> Resource | Answer | None:
    """The GPU's NVLink ports."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    path = f"/Systems/{system}/Processors/{gpu}/Ports"
    return collection(path, "Port", [f"NVLink_{number}" for number in range(found.nvlinks)])


def nvlink_port(bmc: Bmc, system: str, gpu: str, port: str) -> Resource | Answer | None:
    """One NVLink port."""
    found = _on_baseboard(bmc, system, gpu)
    if not isinstance(found, GpuState):
        return found
    number = int(port.removeprefix("NVLink_")) if port.removeprefix("NVLink_").isdigit() else -1
    if number not in range(found.nvlinks):
        return None
    up = number not in found.nvlinks_down
    return resource(
        f"/Systems/{system}/Processors/{gpu}/Ports/{port}",
        "Port.v1_4_0.Port",
        f"{port} Resource",
        PortProtocol="NVLink",
        LinkState="Enabled",
        LinkStatus="LinkUp" if up else "LinkDown",
        CurrentSpeedGbps=NVLINK_GBIT_S if up else 0,
        MaxSpeedGbps=NVLINK_GBIT_S,
        Metrics=link(f"/Systems/{system}/Processors/{gpu}/Ports/{port}/Metrics"),
        Status=status(up),
    )


def nvlink_metrics(bmc: Bmc, system: str, gpu: str, port: str) -> Resource | Answer | None:
    """One NVLink port's error counters."""
    found = nvlink_port(bmc, system, gpu, port)
    if not isinstance(found, dict):
        return found
    errors = {"RecoveryCount": 0, "ReplayCount": 0, "RuntimeError": found["LinkStatus"] == "LinkDown"}
    path = f"/Systems/{system}/Processors/{gpu}/Ports/{port}/Metrics"
    return resource(path, "PortMetrics.v1_3_0.PortMetrics", port, Oem={"Nvidia": {"NVLinkErrors": errors}})
