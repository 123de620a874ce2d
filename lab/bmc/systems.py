"""Systems: the host with its power, boot and settings, and the GPU baseboard's own System where there is one."""

from __future__ import annotations

from lab.bmc.answers import ROOT, Answer, Resource, collection, error, link, resource, status
from lab.bmc.bmc import Bmc

BOOT_MODES = ("UEFI",)
OVERRIDES = ("Disabled", "Once", "Continuous")


def systems(bmc: Bmc) -> Resource:
    """All Systems; the baseboard comes first, as on a DGX H100, so that Members[0] is the wrong one."""
    layout = bmc.layout
    return collection("/Systems", "ComputerSystem", [one for one in (layout.baseboard, layout.host) if one])


def system(bmc: Bmc, system: str) -> Resource | Answer | None:
    """One System."""
    if system == bmc.layout.host:
        return _host(bmc)
    if system == bmc.layout.baseboard:
        return baseboard_asleep(bmc) or _baseboard(bmc)
    return None


def baseboard_asleep(bmc: Bmc) -> Answer | None:
    """The baseboard's BMC has no power of its own: 503 until the host is through POST (libredfish#134)."""
    return None if bmc.machine.posted else error("ResourceInStandby", headers={"Retry-After": "10"})


def _host(bmc: Bmc) -> Resource:
    state, path = bmc.machine.state, bmc.host
    parts = ("Bios", "Processors", "Memory", "Storage", "EthernetInterfaces", "LogServices")
    facts = resource(
        path,
        "ComputerSystem.v1_17_0.ComputerSystem",
        "System",
        SystemType="Physical",
        Manufacturer=state.manufacturer,
        Model=state.model,
        SerialNumber=state.serial,
        SKU=state.sku,
        UUID=state.uuid.upper(),
        AssetTag=state.asset_tag,
        HostName=bmc.machine.seed.get("host_name") if bmc.machine.running else None,
        BiosVersion=state.bios_version,
        PowerState=bmc.machine.power,
        LastResetTime=bmc.machine.reset_at or None,
        Status=status(),
        IndicatorLED="Blinking" if bmc.machine.locating else "Off",
        LocationIndicatorActive=bmc.machine.locating,
        Boot=_boot(bmc),
        BootProgress={"LastState": bmc.machine.progress, "LastStateTime": bmc.machine.progress_at or None},
        Links={"Chassis": [link(bmc.chassis)], "ManagedBy": [link(bmc.manager)]},
        Actions={"#ComputerSystem.Reset": _reset_action(bmc)},
        **{part: link(f"{path}/{part}") for part in parts},
        **_summaries(bmc),
    )
    if bmc.layout.media_under == "Systems":
        facts["VirtualMedia"] = link(f"{path}/VirtualMedia")
    return facts


def _summaries(bmc: Bmc) -> Resource:
    state = bmc.machine.state
    present = [dimm for dimm in state.dimms if dimm.present]
    return {
        "ProcessorSummary": {"Count": 2, "Model": state.cpu_model, "Status": status()},
        "MemorySummary": {
            "TotalSystemMemoryGiB": sum(dimm.size_mib for dimm in present) / 1024,
            "Status": status(all(dimm.healthy for dimm in present)),
        },
    }


def _boot(bmc: Bmc) -> Resource:
    override = bmc.machine.override
    return {
        "BootSourceOverrideEnabled": override.enabled,
        "BootSourceOverrideEnabled@Redfish.AllowableValues": list(OVERRIDES),
        "BootSourceOverrideTarget": override.target,
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(bmc.layout.targets),
        "BootSourceOverrideMode": override.mode,
        "BootSourceOverrideMode@Redfish.AllowableValues": list(BOOT_MODES),
        "HttpBootUri": override.http_uri or None,
        "BootOrder": ["Boot0001", "Boot0002"],
        "BootOptions": link(f"{bmc.host}/BootOptions"),
    }


_BOOT_OPTIONS = {"Boot0001": "UEFI: NVMe boot disk", "Boot0002": "UEFI: HTTP IPv4 management port"}


def boot_options(bmc: Bmc, system: str) -> Resource | None:
    """The firmware's boot entries."""
    if system != bmc.layout.host:
        return None
    return collection(f"{bmc.host}/BootOptions", "BootOption", list(_BOOT_OPTIONS))


def boot_option(bmc: Bmc, system: str, option: str) -> Resource | None:
    """One boot entry."""
    if system != bmc.layout.host or option not in _BOOT_OPTIONS:
        return None
    path = f"{bmc.host}/BootOptions/{option}"
    return resource(
        path,
        "BootOption.v1_0_4.BootOption",
        option,
        BootOptionReference=option,
        BootOptionEnabled=True,
        DisplayName=_BOOT_OPTIONS[option],
    )


def _reset_action(bmc: Bmc) -> Resource:
    action: Resource = {"target": f"{ROOT}{bmc.host}/Actions/ComputerSystem.Reset"}
    if bmc.layout.resets_in_action_info:
        action["@Redfish.ActionInfo"] = f"{ROOT}{bmc.host}/ResetActionInfo"
    else:
        action["ResetType@Redfish.AllowableValues"] = list(bmc.layout.resets)
    return action


def reset_action_info(bmc: Bmc, system: str) -> Resource | None:
    """The allowed reset types where they are not written inline."""
    if system != bmc.layout.host or not bmc.layout.resets_in_action_info:
        return None
    parameter = {
        "Name": "ResetType",
        "Required": True,
        "DataType": "String",
        "AllowableValues": list(bmc.layout.resets),
    }
    path = f"{bmc.host}/ResetActionInfo"
    return resource(path, "ActionInfo.v1_3_0.ActionInfo", "Reset Action Info", Parameters=[parameter])


def _baseboard(bmc: Bmc) -> Resource:
    path = f"/Systems/{bmc.layout.baseboard}"
    return resource(
        path,
        "ComputerSystem.v1_17_0.ComputerSystem",
        bmc.layout.baseboard,
        SystemType="Physical",
        Manufacturer="NVIDIA",
        UUID=None,
        PowerState="On",
        Status=status(),
        Processors=link(f"{path}/Processors"),
        Memory=link(f"{path}/Memory"),
        Links={"Chassis": [link("/Chassis/HGX_Chassis_0")], "ManagedBy": [link("/Managers/HGX_BMC_0")]},
    )


def ethernet_interfaces(bmc: Bmc, system: str) -> Resource | None:
    """The host's on-board port."""
    if system != bmc.layout.host:
        return None
    return collection(f"{bmc.host}/EthernetInterfaces", "EthernetInterface", ["LOM1"])


def ethernet_interface(bmc: Bmc, system: str, port: str) -> Resource | None:
    """One on-board port."""
    if system != bmc.layout.host or port != "LOM1":
        return None
    return resource(
        f"{bmc.host}/EthernetInterfaces/{port}",
        "EthernetInterface.v1_9_0.EthernetInterface",
        "Management port of the host",
        MACAddress=bmc.machine.state.mgmt_mac,
        PermanentMACAddress=bmc.machine.state.mgmt_mac,
        SpeedMbps=10000,
        LinkStatus="LinkUp",
        Status=status(),
    )
