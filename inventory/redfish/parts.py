"""The parts of a node other than GPUs and NICs: identity, processors, memory, drives, power supplies, firmware."""

from __future__ import annotations

from inventory.model import Cpu, Dimm, Drive, Firmware, Identity, Psu
from inventory.redfish.client import SLOW_READ_S
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.quirks import Trait


def read_identity(
    reader: Reader, host: Resource, chassis: tuple[Resource, ...], manager: Resource | None, traits: frozenset[Trait]
) -> Identity:
    """Which machine this is, by its host System; the chassis helps out where the System is silent."""
    host = host.renamed("identity")
    first = chassis[0].renamed("identity") if chassis else host
    sku, serial = host.serial("sku", "SKU"), host.serial("serial", "SerialNumber")
    board = _board_serial(first)
    if Trait.SERIAL_IN_SKU in traits and sku:
        serial, board = sku, board or serial
    return Identity(
        manufacturer=host.text("manufacturer", "Manufacturer") or first.text("manufacturer", "Manufacturer"),
        model=host.text("model", "Model") or first.text("model", "Model"),
        serial=serial or first.serial("serial", "SerialNumber"),
        sku=sku,
        board_serial=board,
        uuid=(host.serial("uuid", "UUID") or "").lower() or None,
        asset_tag=host.text("asset_tag", "AssetTag"),
        bmc_mac=_bmc_mac(reader, manager),
        host_name=host.text("host_name", "HostName"),
        source=host.source,
    )


def _board_serial(chassis: Resource) -> str | None:
    """Only vendors' own fields have it. Sources: Supermicro SYS-821GE and Lenovo SR670 V2 chassis resources."""
    return chassis.serial("board_serial", "Oem", "Supermicro", "BoardSerialNumber") or chassis.serial(
        "board_serial", "Oem", "Lenovo", "SystemBoardSerialNumber"
    )


def _bmc_mac(reader: Reader, manager: Resource | None) -> str | None:
    """The first interface of the BMC; its others face the host."""
    uri = manager.link("EthernetInterfaces") if manager else ""
    uris = (reader.collection(uri, "identity.bmc_mac") or ()) if uri else ()
    interface = reader.get(uris[0], "identity.bmc_mac") if uris else None
    if interface is None:
        return None
    mac = interface.renamed("identity").serial("bmc_mac", "MACAddress")
    return mac.upper() if mac else None


def read_cpus(reader: Reader, host: Resource) -> tuple[Cpu, ...]:
    """Processor packages of the host, by type."""
    uri = host.link("Processors")
    members = reader.members(uri, "cpus", "cpus", ("ProcessorType", "Id")) if uri else None
    if members is None:
        reader.notes.lack("cpus", host.uri, "not offered")
    return tuple(_cpu(m.renamed(f"cpus[{m.id}]")) for m in members or () if m.raw("ProcessorType") == "CPU")


def _cpu(cpu: Resource) -> Cpu:
    return Cpu(
        id=cpu.id,
        model=cpu.text("model", "Model"),
        manufacturer=cpu.text("manufacturer", "Manufacturer"),
        cores=cpu.whole("cores", "TotalCores"),
        threads=cpu.whole("threads", "TotalThreads"),
        serial=cpu.serial("serial", "SerialNumber"),
        health=cpu.text("health", "Status", "Health"),
        source=cpu.source,
    )


def read_dimms(reader: Reader, host: Resource) -> tuple[Dimm, ...]:
    """Memory modules; an empty slot is no module."""
    uri = host.link("Memory")
    members = reader.members(uri, "dimms", "dimms", ("CapacityMiB", "SerialNumber")) if uri else None
    if members is None:
        reader.notes.lack("dimms", host.uri, "not offered")
    return tuple(_dimm(member) for member in members or () if member.raw("Status", "State") != "Absent")


def _dimm(dimm: Resource) -> Dimm:
    return Dimm(
        id=dimm.id,
        slot=dimm.text("slot", "Location", "PartLocation", "ServiceLabel")
        or dimm.text("slot", "DeviceLocator")
        or dimm.text("slot", "Name"),
        serial=dimm.serial("serial", "SerialNumber"),
        part_number=dimm.text("part_number", "PartNumber"),
        manufacturer=dimm.text("manufacturer", "Manufacturer"),
        size_mib=dimm.whole("size_mib", "CapacityMiB"),
        speed_mt_s=dimm.whole("speed_mt_s", "OperatingSpeedMhz"),
        health=dimm.text("health", "Status", "Health"),
        source=dimm.source,
    )


def read_drives(reader: Reader, host: Resource, chassis: tuple[Resource, ...]) -> tuple[Drive, ...]:
    """Drives behind the storage controllers; where those say nothing, the ones the chassis links to."""
    uri = host.link("Storage")
    storages = reader.members(uri, "drives", "storage") if uri else ()
    uris = [drive for storage in storages or () for drive in storage.links("Drives")]
    uris = uris or [drive for part in chassis for drive in part.links("Links", "Drives")]
    if not uris:
        reader.notes.lack("drives", uri or host.uri, "no drive is listed")
    read = (reader.get(drive, f"drives[{drive.rstrip('/').rpartition('/')[2]}]") for drive in dict.fromkeys(uris))
    return tuple(_drive(drive) for drive in read if drive and drive.raw("Status", "State") != "Absent")


def _drive(drive: Resource) -> Drive:
    return Drive(
        id=drive.id,
        slot=drive.text("slot", "PhysicalLocation", "PartLocation", "ServiceLabel") or drive.text("slot", "Name"),
        serial=drive.serial("serial", "SerialNumber"),
        model=drive.text("model", "Model"),
        manufacturer=drive.text("manufacturer", "Manufacturer"),
        firmware=drive.text("firmware", "Revision") or drive.text("firmware", "FirmwareVersion"),
        size_bytes=drive.whole("size_bytes", "CapacityBytes"),
        protocol=drive.text("protocol", "Protocol"),
        health=drive.text("health", "Status", "Health"),
        source=drive.source,
    )


def read_psus(reader: Reader, chassis: tuple[Resource, ...]) -> tuple[Psu, ...]:
    """Power supplies: the PowerSubsystem's members, or the older Power resource that holds them all."""
    for part in chassis:
        subsystem = part.link("PowerSubsystem")
        power = reader.get(subsystem, "psus") if subsystem else None
        uri = power.link("PowerSupplies") if power else ""
        if uri:
            found = reader.members(uri, "psus", "psus", ("SerialNumber", "Model"))
            return tuple(_psu(supply) for supply in found or ())
        if part.link("Power"):
            power = reader.get(part.link("Power"), "psus")
            supplies = power.parts("PowerSupplies") if power else ()
            return tuple(_psu(s.renamed(f"psus[{i}]"), str(i)) for i, s in enumerate(supplies))
    reader.notes.lack("psus", chassis[0].uri if chassis else "", "not offered")
    return ()


def _psu(psu: Resource, number: str = "") -> Psu:
    return Psu(
        id=number or psu.id,
        serial=psu.serial("serial", "SerialNumber"),
        model=psu.text("model", "Model"),
        firmware=psu.text("firmware", "FirmwareVersion"),
        power_max_w=psu.number("power_max_w", "PowerCapacityWatts"),
        health=psu.text("health", "Status", "Health"),
        source=psu.source,
    )


def read_firmware(reader: Reader, root: Resource) -> tuple[Firmware, ...]:
    """The whole firmware inventory: the slow lane, with a time-out of its own."""
    service = reader.get(root.link("UpdateService"), "firmware") if root.link("UpdateService") else None
    uri = service.link("FirmwareInventory") if service else ""
    needs = ("Version", "Id")
    members = reader.members(uri, "firmware", "firmware", needs, read_s=SLOW_READ_S) if uri else None
    if members is None:
        reader.notes.lack("firmware", root.uri, "not offered")
    return tuple(_firmware(member) for member in members or ())


def _firmware(item: Resource) -> Firmware:
    return Firmware(
        id=item.id,
        name=item.text("name", "Name"),
        version=item.text("version", "Version"),
        updateable=item.flag("updateable", "Updateable"),
        source=item.source,
    )
