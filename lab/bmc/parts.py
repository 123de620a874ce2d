"""Processors, memory modules and drives of a System."""

from __future__ import annotations

from lab.bmc import gpus
from lab.bmc.answers import Answer, Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc
from lab.bmc.systems import baseboard_asleep
from lab.hardware import DimmState, DriveState

_CPUS = ("CPU1", "CPU2")
_STORAGE = "NVMe"
_FPGA = "FPGA_0"  # a baseboard's Processors are not all GPUs


def processors(bmc: Bmc, system: str) -> Resource | Answer | None:
    """Processors of a System: CPUs of the host, GPUs of the baseboard, or both of the one System."""
    if system not in {bmc.layout.host, bmc.layout.baseboard}:
        return None
    if system == bmc.layout.baseboard:
        ids = [*gpus.gpu_ids(bmc), _FPGA]
        return baseboard_asleep(bmc) or collection(f"/Systems/{system}/Processors", "Processor", ids)
    ids = [*_CPUS, *(gpus.gpu_ids(bmc) if gpus.gpu_system(bmc) == system else ())]
    return collection(f"/Systems/{system}/Processors", "Processor", ids)


def processor(bmc: Bmc, system: str, processor: str) -> Resource | Answer | None:
    """One processor of any type."""
    if processor in _CPUS and system == bmc.layout.host:
        return _cpu(bmc, processor)
    if processor == _FPGA and system == bmc.layout.baseboard:
        return baseboard_asleep(bmc) or _fpga(system)
    return gpus.gpu_processor(bmc, system, processor)


def _cpu(bmc: Bmc, name: str) -> Resource:
    state = bmc.machine.state
    return resource(
        f"{bmc.host}/Processors/{name}",
        "Processor.v1_14_0.Processor",
        f"Processor {name[-1]}",
        ProcessorType="CPU",
        ProcessorArchitecture="x86",
        InstructionSet="x86-64",
        Manufacturer="Intel(R) Corporation",
        Model=state.cpu_model,
        Socket=name,
        TotalCores=state.cpu_cores,
        TotalThreads=state.cpu_cores * 2,
        MaxSpeedMHz=3800,
        Status=status(),
    )


def _fpga(system: str) -> Resource:
    path = f"/Systems/{system}/Processors/{_FPGA}"
    return resource(path, "Processor.v1_13_0.Processor", "FPGA", ProcessorType="FPGA", Status=status())


# --- memory --------------------------------------------------------------------------------------------------------


def memory(bmc: Bmc, system: str) -> Resource | Answer | None:
    """Memory modules of the host, or the GPUs' memories of the baseboard."""
    path = f"/Systems/{system}/Memory"
    if system == bmc.layout.host:
        return collection(path, "Memory", [dimm.slot for dimm in bmc.machine.state.dimms])
    if system == bmc.layout.baseboard:
        names = [f"{gpu}_DRAM_0" for gpu in gpus.gpu_ids(bmc)]
        return baseboard_asleep(bmc) or collection(path, "Memory", names)
    return None


def memory_module(bmc: Bmc, system: str, module: str) -> Resource | Answer | None:
    """One memory module."""
    if module.endswith("_DRAM_0"):
        return gpus.dram(bmc, system, module.removesuffix("_DRAM_0"))
    found = next((dimm for dimm in bmc.machine.state.dimms if dimm.slot == module), None)
    return _dimm(bmc, found) if found and system == bmc.layout.host else None


def memory_metrics(bmc: Bmc, system: str, module: str) -> Resource | Answer | None:
    """Counters of a GPU's memory; DIMMs have none here."""
    return gpus.dram_metrics(bmc, system, module.removesuffix("_DRAM_0")) if module.endswith("_DRAM_0") else None


def _dimm(bmc: Bmc, dimm: DimmState) -> Resource:
    path, kind = f"{bmc.host}/Memory/{dimm.slot}", "Memory.v1_14_0.Memory"
    place = {"PartLocation": {"LocationType": "Slot", "ServiceLabel": dimm.slot}}
    if not dimm.present:
        absent = {"State": "Absent", "Health": None}
        return resource(path, kind, dimm.slot, DeviceLocator=dimm.slot, Location=place, CapacityMiB=0, Status=absent)
    return resource(
        path,
        kind,
        dimm.slot,
        DeviceLocator=dimm.slot,
        Location=place,
        Manufacturer="Lab Memory",
        PartNumber="LM64G-DDR5-4800",
        SerialNumber=dimm.serial,
        CapacityMiB=dimm.size_mib,
        OperatingSpeedMhz=4800,
        AllowedSpeedsMHz=[4800],
        MemoryDeviceType="DDR5",
        MemoryType="DRAM",
        Status=status(dimm.healthy),
    )


# --- drives --------------------------------------------------------------------------------------------------------


def storages(bmc: Bmc, system: str) -> Resource | None:
    """The storage subsystems of the host."""
    return collection(f"{bmc.host}/Storage", "Storage", [_STORAGE]) if system == bmc.layout.host else None


def storage(bmc: Bmc, system: str, storage: str) -> Resource | None:
    """Directly attached NVMe."""
    if system != bmc.layout.host or storage != _STORAGE:
        return None
    path = f"{bmc.host}/Storage/{_STORAGE}"
    drives = [link(f"{path}/Drives/{drive.slot}") for drive in bmc.machine.state.drives]
    return resource(
        path, "Storage.v1_12_0.Storage", "NVMe", Drives=drives, Status=status(), **{"Drives@odata.count": len(drives)}
    )


def drive(bmc: Bmc, system: str, storage: str, drive: str) -> Resource | None:
    """One drive."""
    found = next((one for one in bmc.machine.state.drives if one.slot == drive), None)
    return _drive(bmc, found) if found and system == bmc.layout.host and storage == _STORAGE else None


def _drive(bmc: Bmc, drive: DriveState) -> Resource:
    return resource(
        f"{bmc.host}/Storage/{_STORAGE}/Drives/{drive.slot}",
        "Drive.v1_17_0.Drive",
        drive.slot,
        Manufacturer="Lab Flash",
        Model=drive.model,
        SerialNumber=drive.serial,
        Revision="LF1002",
        CapacityBytes=drive.size_bytes,
        Protocol="NVMe",
        MediaType="SSD",
        Identifiers=[{"DurableName": drive.wwn.removeprefix("eui."), "DurableNameFormat": "EUI"}],
        PhysicalLocation={"PartLocation": {"LocationType": "Bay", "ServiceLabel": drive.slot}},
        PredictedMediaLifeLeftPercent=100,
        FailurePredicted=False,
        Status=status(),
    )
