"""GPUs, looked for in all four places a BMC may keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inventory.model import Gpu
from inventory.redfish.crawl import Reader, Resource

# PCI vendor ids: NVIDIA, AMD, Intel. Source: pci-ids.ucw.cz
_GPU_VENDORS = frozenset({"0x10de", "0x1002", "0x8086"})
_GPU_CLASSES = frozenset({"DisplayController", "ProcessingAccelerators"})  # PCIeFunction.DeviceClass, DMTF DSP8010
_GPU_OEM_TYPE = re.compile(r"GPU")  # Supermicro: "#SmcGPUExtensions.v1_0_0.GPU"
_NVLINK_NEEDS = ("LinkStatus", "CurrentSpeedGbps")
_GENERATION = re.compile(r"Gen(\d)")  # PCIeTypes: "Gen1".."Gen6"


def find_gpus(
    reader: Reader, host: Resource, baseboards: tuple[Resource, ...], chassis: tuple[Resource, ...]
) -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs and the place that knew them; an empty tuple and `None`, with the reason noted, when none did."""
    for place, found in _places(reader, host, baseboards, chassis):
        if found:
            reader.notes.had("gpus")
            return found, place
    if not reader.notes.knows("gpus"):
        state = "no GPU in Processors, PCIeDevices or OEM devices"
        awake = "absent: " if reader.host_on else "unknown while host is off: "
        reader.notes.lack("gpus", host.uri, awake + state)
    return (), None


def _places(
    reader: Reader, host: Resource, baseboards: tuple[Resource, ...], chassis: tuple[Resource, ...]
) -> Iterator[tuple[str, tuple[Gpu, ...]]]:
    for system in (*baseboards, host):
        yield _short(system, "Processors"), _processors(reader, system)
    for part in chassis:
        yield _short(part, "PCIeDevices"), _pcie_devices(reader, part)
    for part in chassis:
        yield _short(part, "Oem/Hpe/Devices"), _hpe_devices(reader, part)


def _short(owner: Resource, last: str) -> str:
    return f"{owner.uri.removeprefix('/redfish/v1/').strip('/')}/{last}"


# --- Processors of a baseboard or of the host -------------------------------------------------------------------------


def _processors(reader: Reader, system: Resource) -> tuple[Gpu, ...]:
    uri = system.link("Processors")
    members = reader.members(uri, "gpus", "gpus", ("ProcessorType", "Id")) if uri else ()
    # By type, never by id: ERoT chassis carry "GPU" in their ids and have UUIDs of their own.
    return tuple(_processor(reader, member) for member in members or () if member.raw("ProcessorType") == "GPU")


def _processor(reader: Reader, gpu: Resource) -> Gpu:
    name = gpu.about
    metrics = _follow(reader, gpu, "metrics", "Metrics")
    memory = reader.get(gpu.links("Links", "Memory")[0], f"{name}.memory") if gpu.links("Links", "Memory") else None
    memory_metrics = _memory_metrics(reader, gpu, memory)
    function = _first_linked(reader, gpu, "pci_device_id", "Links", "PCIeFunctions")
    device = None if gpu.raw("SystemInterface") else _follow(reader, gpu, "pcie", "Links", "PCIeDevice")
    link = device.renamed(name) if device else gpu
    interface = ("PCIeInterface",) if device else ("SystemInterface", "PCIe")
    up, total, speed = _nvlinks(reader, gpu)
    return Gpu(
        id=gpu.id,
        serial=gpu.serial("serial", "SerialNumber"),
        uuid=_lower(gpu.serial("uuid", "UUID")),
        model=gpu.text("model", "Model") or (device.renamed(name).text("model", "Name") if device else None),
        manufacturer=gpu.text("manufacturer", "Manufacturer"),
        part_number=gpu.text("part_number", "PartNumber"),
        firmware=gpu.text("firmware", "FirmwareVersion"),
        slot=_slot(gpu, device),
        pci_address=None,
        pci_device_id=pci_device_id(function.renamed(name)) if function else None,
        memory_mib=_memory_mib(gpu, memory),
        ecc_enabled=gpu.flag("ecc_enabled", "MemorySummary", "ECCModeEnabled"),
        ecc_correctable=_ecc(name, metrics, memory_metrics, "ecc_correctable", "CorrectableECCErrorCount"),
        ecc_uncorrectable=_ecc(name, metrics, memory_metrics, "ecc_uncorrectable", "UncorrectableECCErrorCount"),
        sram_threshold_exceeded=_optional(metrics, "Oem", "Nvidia", "SRAMECCErrorThresholdExceeded"),
        remap_pending=_of(memory, name, "remap_pending", "RowRemappingPending"),
        remap_failed=_of(memory, name, "remap_failed", "RowRemappingFailed"),
        remapped_rows_uncorrectable=_remapped(memory_metrics, name),
        nvlinks_up=up,
        nvlinks_total=total,
        nvlink_speed_gbit_s=speed,
        pcie_width=link.whole("pcie_width", *interface, "LanesInUse"),
        pcie_width_max=link.whole("pcie_width_max", *interface, "MaxLanes"),
        pcie_generation=generation(link.text("pcie_generation", *interface, "PCIeType")),
        pcie_generation_max=generation(link.text("pcie_generation_max", *interface, "MaxPCIeType")),
        pcie_replays=metrics.renamed(name).whole("pcie_replays", "PCIeErrors", "ReplayCount") if metrics else None,
        throttle_reasons=_throttles(metrics),
        mig_enabled=_optional(gpu, "Oem", "Nvidia", "MIGModeEnabled"),
        state=gpu.text("state", "Status", "State"),
        health=gpu.text("health", "Status", "Health"),
        source=gpu.source,
    )


def _follow(reader: Reader, owner: Resource, fact: str, *path: str | int) -> Resource | None:
    uri = owner.link(*path)
    return reader.get(uri, f"{owner.about}.{fact}") if uri else None


def _first_linked(reader: Reader, owner: Resource, fact: str, *path: str | int) -> Resource | None:
    uris = owner.links(*path)
    return reader.get(uris[0], f"{owner.about}.{fact}") if uris else None


def _memory_metrics(reader: Reader, gpu: Resource, memory: Resource | None) -> Resource | None:
    """The DRAM's own metrics, which also count remapped rows; else the processor's summary of them."""
    uri = memory.link("Metrics") if memory else ""
    uri = uri or gpu.link("MemorySummary", "Metrics")
    return reader.get(uri, f"{gpu.about}.memory_metrics") if uri else None


def _ecc(name: str, metrics: Resource | None, memory: Resource | None, fact: str, key: str) -> int | None:
    """Lifetime count over caches and memory, as nvidia-smi's aggregate; half an answer is an answer."""
    cache = metrics.renamed(name).whole(fact, "CacheMetricsTotal", "LifeTime", key) if metrics else None
    dram = memory.renamed(name).whole(fact, "LifeTime", key) if memory else None
    known = [count for count in (cache, dram) if count is not None]
    return sum(known) if known else None


def _of(memory: Resource | None, name: str, fact: str, key: str) -> bool | None:
    return memory.renamed(name).flag(fact, "Oem", "Nvidia", key) if memory else None


def _remapped(metrics: Resource | None, name: str) -> int | None:
    path = ("Oem", "Nvidia", "RowRemapping", "UncorrectableRowRemappingCount")
    return metrics.renamed(name).whole("remapped_rows_uncorrectable", *path) if metrics else None


def _memory_mib(gpu: Resource, memory: Resource | None) -> int | None:
    found = memory.renamed(gpu.about).whole("memory_mib", "CapacityMiB") if memory else None
    return found or gpu.whole("memory_mib", "MemorySummary", "TotalMemorySizeMiB")


def _optional(resource: Resource | None, *path: str | int) -> bool | None:
    return resource.flag("", *path) if resource else None


def _throttles(metrics: Resource | None) -> tuple[str, ...] | None:
    reasons = metrics.texts("Oem", "Nvidia", "ThrottleReasons") if metrics else None
    return None if reasons is None else tuple(r for r in reasons if r.upper() not in ("NA", "NONE"))


def _slot(gpu: Resource, device: Resource | None) -> str | None:
    """The module or slot label; the Id only where it is the module's own name."""
    label = gpu.text("slot", "Location", "PartLocation", "ServiceLabel")
    if label is None and device is not None:
        label = device.renamed(gpu.about).text("slot", "Slot", "Location", "PartLocation", "ServiceLabel")
    return label


def _nvlinks(reader: Reader, gpu: Resource) -> tuple[int | None, int | None, float | None]:
    """Links up, links in all, slowest speed. 18 ports a GPU are counted, and read where one request gives them all."""
    uri = gpu.link("Ports")
    if not uri:
        return None, None, None
    ports = reader.members(uri, f"{gpu.about}.nvlinks", f"{gpu.about}.nvlink", _NVLINK_NEEDS, only=not reader.deep)
    if ports is None:
        uris = reader.collection(uri, f"{gpu.about}.nvlinks_total")
        total = None if uris is None else len(uris)
        reader.notes.lack(f"{gpu.about}.nvlinks_up", uri, f"not asked: {total} ports would cost a request each")
        reader.notes.lack(f"{gpu.about}.nvlink_speed_gbit_s", uri, "not asked: would cost a request a port")
        return None, total, None
    links = [port for port in ports if port.raw("PortProtocol") in ("NVLink", None)]
    up = [port for port in links if port.raw("LinkStatus") == "LinkUp"]
    speeds = [speed for port in up if (speed := port.number("", "CurrentSpeedGbps")) is not None]
    return len(up), len(links), min(speeds, default=None)


# --- PCIeDevices of a chassis -----------------------------------------------------------------------------------------


def _pcie_devices(reader: Reader, chassis: Resource) -> tuple[Gpu, ...]:
    uri = chassis.link("PCIeDevices")
    devices = (reader.members(uri, "gpus", "gpus", ("SerialNumber", "PCIeFunctions")) if uri else ()) or ()
    named = tuple(device for device in devices if _oem_says_gpu(device))
    if named:
        return tuple(_pcie_gpu(device, None) for device in named)
    asked = ((device, _gpu_function(reader, device)) for device in devices)
    return tuple(_pcie_gpu(device, function) for device, function in asked if function)


def _oem_says_gpu(device: Resource) -> bool:
    oem = device.raw("Oem")
    vendors = oem.values() if isinstance(oem, dict) else ()
    return any(_GPU_OEM_TYPE.search(str(v.get("@odata.type", ""))) for v in vendors if isinstance(v, dict))


def _gpu_function(reader: Reader, device: Resource) -> Resource | None:
    """The device's function when it is a GPU's; a BMC's own VGA is a display controller of another vendor."""
    uris = device.links("Links", "PCIeFunctions")
    if not uris and device.link("PCIeFunctions"):
        uris = reader.collection(device.link("PCIeFunctions"), f"{device.about}.functions") or ()
    function = reader.get(uris[0], f"{device.about}.functions") if uris else None
    if function is None or function.raw("DeviceClass") not in _GPU_CLASSES:
        return None
    return function if str(function.raw("VendorId")).lower() in _GPU_VENDORS else None


def _pcie_gpu(device: Resource, function: Resource | None) -> Gpu:
    return Gpu(
        id=device.id,
        serial=device.serial("serial", "SerialNumber"),
        uuid=_lower(device.serial("uuid", "UUID") or device.serial("uuid", "Oem", "Supermicro", "GPUGuid")),
        model=device.text("model", "Model"),
        manufacturer=device.text("manufacturer", "Manufacturer")
        or device.text("manufacturer", "Oem", "Supermicro", "GPUVendor"),
        part_number=device.text("part_number", "PartNumber"),
        firmware=device.text("firmware", "FirmwareVersion"),
        slot=device.text("slot", "Slot", "Location", "PartLocation", "ServiceLabel")
        or device.text("slot", "Oem", "Supermicro", "GPUSlot"),
        pci_device_id=pci_device_id(function.renamed(device.about)) if function else None,
        pcie_width=device.whole("pcie_width", "PCIeInterface", "LanesInUse"),
        pcie_width_max=device.whole("pcie_width_max", "PCIeInterface", "MaxLanes"),
        pcie_generation=generation(device.text("pcie_generation", "PCIeInterface", "PCIeType")),
        pcie_generation_max=generation(device.text("pcie_generation_max", "PCIeInterface", "MaxPCIeType")),
        state=device.text("state", "Status", "State"),
        health=device.text("health", "Status", "Health"),
        source=device.source,
    )


# --- HPE's own device list --------------------------------------------------------------------------------------------


def _hpe_devices(reader: Reader, chassis: Resource) -> tuple[Gpu, ...]:
    """HPE iLO 5 lists GPUs as HpeServerDevice only. Source: XL675d mockup, Cray-HPE/csm-redfish-interface-emulator."""
    uri = chassis.link("Oem", "Hpe", "Links", "Devices")
    devices = (reader.members(uri, "gpus", "gpus", ("DeviceType",)) if uri else ()) or ()
    return tuple(_hpe_gpu(device) for device in devices if device.raw("DeviceType") == "GPU")


def _hpe_gpu(device: Resource) -> Gpu:
    return Gpu(
        id=device.id,
        serial=device.serial("serial", "SerialNumber"),
        model=device.text("model", "Name"),
        manufacturer=device.text("manufacturer", "Manufacturer"),
        part_number=device.text("part_number", "ProductPartNumber"),
        firmware=device.text("firmware", "FirmwareVersion", "Current", "VersionString"),
        slot=device.text("slot", "Location"),
        state=device.text("state", "Status", "State"),
        health=device.text("health", "Status", "Health"),
        source=device.source,
    )


def generation(pcie_type: str | None) -> int | None:
    """The 5 of "Gen5"."""
    match = _GENERATION.search(pcie_type or "")
    return int(match.group(1)) if match else None


def pci_device_id(function: Resource) -> str | None:
    """Vendor and device of a PCIeFunction, as in "10de:2330"."""
    vendor, device = function.serial("pci_device_id", "VendorId"), function.serial("pci_device_id", "DeviceId")
    if not vendor or not device:
        return None
    return f"{vendor.lower().removeprefix('0x')}:{device.lower().removeprefix('0x')}"


def _lower(text: str | None) -> str | None:
    return text.lower().removeprefix("gpu-") if text else None
