"""Chassis: the box, its power supplies, and the PCIe devices that stand in it."""

from __future__ import annotations

from collections.abc import Mapping

from lab.bmc import gpus
from lab.bmc.answers import Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc
from lab.hardware import GpuState, NicState, Shape

_BOARD = "HGX_Chassis_0"
_ROT = "HGX_ERoT_"  # a root of trust beside each GPU: its id contains "GPU", and it is none


def chassis_list(bmc: Bmc) -> Resource:
    """All chassis; a baseboard brings one a GPU, and one for each GPU's root of trust."""
    layout = bmc.layout
    ids = [layout.chassis]
    if layout.baseboard and bmc.machine.posted:
        present = [layout.gpu.format(gpu.module) for gpu in bmc.machine.state.gpus_present]
        ids += [_BOARD, *(f"HGX_{gpu}" for gpu in present), *(f"{_ROT}{gpu}" for gpu in present)]
    return collection("/Chassis", "Chassis", ids)


def chassis(bmc: Bmc, chassis: str) -> Resource | None:
    """One chassis."""
    state, path = bmc.machine.state, f"/Chassis/{chassis}"
    if chassis == bmc.layout.chassis:
        return _main(bmc)
    if not bmc.layout.baseboard or not bmc.machine.posted:
        return None
    if chassis == _BOARD:
        return _chassis(path, "Zone", "NVIDIA", "HGX H100 8-GPU", state.board_serial)
    if chassis.startswith(_ROT):
        return _chassis(path, "Component", "NVIDIA", "ERoT", None)
    gpu = gpus.gpu_of(bmc, chassis.removeprefix("HGX_"))
    if gpu is None or not gpu.present:
        return None
    return {**_chassis(path, "Module", "NVIDIA", gpu.model, gpu.serial), "PCIeDevices": link(f"{path}/PCIeDevices")}


def _chassis(path: str, kind: str, maker: str, model: str, serial: str | None) -> Resource:
    name = path.rsplit("/", 1)[-1]
    return resource(
        path,
        "Chassis.v1_22_0.Chassis",
        name,
        ChassisType=kind,
        Manufacturer=maker,
        Model=model,
        SerialNumber=serial,
        Status=status(),
    )


def _main(bmc: Bmc) -> Resource:
    state, path = bmc.machine.state, bmc.chassis
    parts = ("NetworkAdapters", "PCIeDevices", "PowerSubsystem", "Assembly")
    return {
        **_chassis(path, "RackMount", state.manufacturer, state.model, state.serial),
        "SKU": state.sku,
        "AssetTag": state.asset_tag,
        "PowerState": "On" if bmc.machine.power == "On" else "Off",
        "LocationIndicatorActive": bmc.machine.locating,
        "Links": {"ComputerSystems": [link(bmc.host)], "ManagedBy": [link(bmc.manager)]},
        **{part: link(f"{path}/{part}") for part in parts},
    }


def assembly(bmc: Bmc, chassis: str) -> Resource | None:
    """The boards inside, with the system board's own serial."""
    if chassis != bmc.layout.chassis:
        return None
    board = {"MemberId": "0", "Name": "System Board", "SerialNumber": bmc.machine.state.board_serial}
    return resource(f"{bmc.chassis}/Assembly", "Assembly.v1_4_0.Assembly", "Assembly", Assemblies=[board])


# --- power supplies ------------------------------------------------------------------------------------------------


def power_subsystem(bmc: Bmc, chassis: str) -> Resource | None:
    """The power supplies' place."""
    if chassis != bmc.layout.chassis:
        return None
    path = f"{bmc.chassis}/PowerSubsystem"
    supplies = link(f"{path}/PowerSupplies")
    return resource(path, "PowerSubsystem.v1_1_0.PowerSubsystem", "Power", PowerSupplies=supplies, Status=status())


def power_supplies(bmc: Bmc, chassis: str) -> Resource | None:
    """All power supplies."""
    if chassis != bmc.layout.chassis:
        return None
    ids = [f"PSU{number}" for number in range(1, len(bmc.machine.state.psus) + 1)]
    return collection(f"{bmc.chassis}/PowerSubsystem/PowerSupplies", "PowerSupply", ids)


def power_supply(bmc: Bmc, chassis: str, supply: str) -> Resource | None:
    """One power supply."""
    serials = {f"PSU{number}": serial for number, serial in enumerate(bmc.machine.state.psus, 1)}
    if chassis != bmc.layout.chassis or supply not in serials:
        return None
    return resource(
        f"{bmc.chassis}/PowerSubsystem/PowerSupplies/{supply}",
        "PowerSupply.v1_5_0.PowerSupply",
        supply,
        Manufacturer="Lab Power",
        Model="LP3000T",
        SerialNumber=serials[supply],
        FirmwareVersion="00.01.07",
        PowerCapacityWatts=3000,
        Status=status(),
    )


# --- PCIe devices --------------------------------------------------------------------------------------------------


def _devices(bmc: Bmc, chassis: str) -> Mapping[str, GpuState | NicState]:
    """PCIe devices of a chassis by id: GPUs under their maker's name for the slot, network adapters as NICn."""
    state, found = bmc.machine.state, {}
    if chassis == bmc.layout.chassis:
        found = {f"NIC{nic.index + 1}": nic for nic in state.nics}
    for gpu in sorted(state.gpus_present, key=lambda gpu: gpu.module):
        place, device = gpu_device(bmc, gpu)
        if place == chassis:
            found[device] = gpu  # type: ignore[assignment]  # one mapping of both kinds
    return found


def gpu_device(bmc: Bmc, gpu: GpuState) -> tuple[str, str]:
    """Chassis and device id under which a GPU is listed."""
    name = bmc.layout.gpu.format(gpu.module)
    if bmc.machine.state.shape is Shape.HGX:
        return f"HGX_{name}", name
    if bmc.machine.state.shape is Shape.PCIE:
        return bmc.layout.chassis, name
    return bmc.layout.chassis, f"slot_{gpu.module}"


def pcie_devices(bmc: Bmc, chassis: str) -> Resource | None:
    """PCIe devices of one chassis."""
    if chassis_missing(bmc, chassis):
        return None
    return collection(f"/Chassis/{chassis}/PCIeDevices", "PCIeDevice", list(_devices(bmc, chassis)))


def chassis_missing(bmc: Bmc, name: str) -> bool:
    """Whether there is no such chassis now."""
    return chassis(bmc, name) is None


def pcie_device(bmc: Bmc, chassis: str, device: str) -> Resource | None:
    """One PCIe device."""
    found = None if chassis_missing(bmc, chassis) else _devices(bmc, chassis).get(device)
    if found is None:
        return None
    path = f"/Chassis/{chassis}/PCIeDevices/{device}"
    facts = _gpu_facts(bmc, found) if isinstance(found, GpuState) else _nic_facts(found)
    named_by_slot = isinstance(found, GpuState) and bmc.machine.state.shape is Shape.PROCESSORS
    return resource(
        path,
        "PCIeDevice.v1_5_0.PCIeDevice",
        found.model if named_by_slot else device,
        PCIeFunctions=link(f"{path}/PCIeFunctions"),
        Links={"Chassis": [link(f"/Chassis/{chassis}")]},
        Status=status(),
        **facts,
    )


# What stands on the box beside a GPU's slot, by shape.
_SLOT_LABELS = {Shape.HGX: "SXM{}", Shape.PCIE: "GPU{}", Shape.PROCESSORS: "PCIe {}"}


def _gpu_facts(bmc: Bmc, gpu: GpuState) -> Resource:
    shape = bmc.machine.state.shape
    label = _SLOT_LABELS[shape].format(gpu.module)
    place = {"LocationType": "Slot", "LocationOrdinalValue": gpu.module, "ServiceLabel": label}
    facts: Resource = {
        "Manufacturer": "NVIDIA",
        "Model": "N/A" if shape is Shape.PROCESSORS else gpu.model,  # that maker puts it into Name
        "SerialNumber": gpu.serial,
        "PartNumber": gpu.part_number,
        "FirmwareVersion": gpu.vbios,
        "DeviceType": "MultiFunction",
        "PCIeInterface": gpus.pcie_interface(gpu.pcie_width, gpu.pcie_generation),
        "Slot": {"Location": {"PartLocation": place}},
    }
    if shape is Shape.PCIE:  # this maker has the fields and leaves them empty
        facts["Oem"] = {"Lab": {"GPUSlot": gpu.module, "GPUVendor": "NVIDIA", "ECCStatistic": None, "GPUGuid": None}}
    if shape is Shape.HGX:
        facts["UUID"] = gpu.uuid
    return facts


def _nic_facts(nic: NicState) -> Resource:
    return {
        "Manufacturer": "Mellanox Technologies",
        "Model": nic.model,
        "SerialNumber": nic.serial,
        "PartNumber": nic.part_number,
        "FirmwareVersion": nic.firmware,
        "DeviceType": "SingleFunction",
        "PCIeInterface": gpus.pcie_interface(nic.pcie_width, 5),
    }


def pcie_functions(bmc: Bmc, chassis: str, device: str) -> Resource | None:
    """The one function of a device."""
    if device not in _devices(bmc, chassis):
        return None
    return collection(f"/Chassis/{chassis}/PCIeDevices/{device}/PCIeFunctions", "PCIeFunction", ["0"])


def pcie_function(bmc: Bmc, chassis: str, device: str, function: str) -> Resource | None:
    """One function with its vendor and device id."""
    found = _devices(bmc, chassis).get(device)
    if found is None or function != "0":
        return None
    is_gpu = isinstance(found, GpuState)
    return resource(
        f"/Chassis/{chassis}/PCIeDevices/{device}/PCIeFunctions/0",
        "PCIeFunction.v1_2_3.PCIeFunction",
        device,
        FunctionId=0,
        FunctionType="Physical",
        DeviceClass="DisplayController" if is_gpu else "NetworkController",
        VendorId="0x10de" if is_gpu else "0x15b3",  # pci-ids: NVIDIA, Mellanox
        DeviceId=gpus.GPU_DEVICE_ID if is_gpu else "0x1021",  # pci-ids: H100 SXM5 80GB, MT2910 ConnectX-7
        Links={"PCIeDevice": link(f"/Chassis/{chassis}/PCIeDevices/{device}")},
        Status=status(),
    )
