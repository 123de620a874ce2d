"""BIOS settings: what holds, what waits for the next POST, and the registry of what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.bmc.answers import ROOT, Resource, collection, link, resource
from lab.bmc.bmc import Bmc
from lab.hardware import FACTORY_BIOS, Shape

_ENABLE = ("Enable", "Disable")
_ENABLED = ("Enabled", "Disabled")
_NO_CHOICE: tuple[str, ...] = ()
# The values each setting takes. Our choice; that makers differ between Enable and Enabled is taken from life.
_VALUES: Mapping[str, tuple[str, ...]] = {
    "SRIOVEnable": _ENABLE,
    "VTdSupport": _ENABLE,
    "PcieAcsControl": _ENABLE,
    "NumaPerSocket": ("SNC Disabled", "SNC2", "SNC4"),
    "PowerProfile": ("Balanced", "Maximum Performance", "Energy Efficient"),
    "AspmSupport": ("Auto", "L1 Only", "Disabled"),
    "HyperThreading": _ENABLE,
    "BootMode": ("Uefi", "Legacy"),
    "Ipv4Http": _ENABLE,
    "InfiniteBoot": _ENABLE,
    "SR_IOVSupport_0047": _ENABLED,
    "IntelVTforDirectedI_O_VT_d__1E32": _ENABLE,
    "PCIeACSCTL_1E3C": _ENABLE,
    "SNC_F300": ("Auto", "Disabled", "Enable SNC2"),
    "PowerTechnology_00D2": ("Energy Efficient", "Balanced", "Maximum Performance", "Custom"),
    "ASPMSupport_0051": ("Auto", "L1 Only", "Disabled"),
    "Above4GDecoding_0041": _ENABLED,
    "IPv4HTTPSupport_0091": _ENABLED,
    "ConsoleRedirection_0080": _ENABLED,
    "DevicesandIOPorts_SRIOV": _ENABLE,
    "DevicesandIOPorts_IOMMU": (*_ENABLE, "Auto"),
    "Processors_PCIeACSCTL": _ENABLED,
    "OperatingModes_ChooseOperatingMode": ("EfficiencyMode", "MaximumPerformance", "CustomMode"),
    "Power_ASPM": (*_ENABLE, "Auto"),
    "Processors_SNC": _ENABLED,
    "BootModes_SystemBootMode": ("UEFIMode", "LegacyMode"),
}
READ_ONLY = frozenset({"BootMode", "BootModes_SystemBootMode", "ConsoleRedirection_0080"})  # settable nowhere here


def allowed(shape: Shape, name: str) -> tuple[str, ...]:
    """The values a setting takes; empty = this model has no such setting."""
    return _VALUES.get(name, _NO_CHOICE) if name in FACTORY_BIOS[shape] else _NO_CHOICE


def bios(bmc: Bmc, system: str) -> Resource | None:
    """The settings that hold now."""
    if system != bmc.layout.host:
        return None
    path = f"{bmc.host}/Bios"
    settings = {
        "@odata.type": "#Settings.v1_3_5.Settings",
        "SettingsObject": link(f"{path}/{bmc.layout.bios_settings}"),
        "SupportedApplyTimes": ["OnReset"],
    }
    return resource(
        path,
        "Bios.v1_2_0.Bios",
        "BIOS settings, current",
        AttributeRegistry=bmc.layout.registry,
        Attributes=dict(bmc.machine.state.bios),
        Actions={"#Bios.ResetBios": {"target": f"{ROOT}{path}/Actions/Bios.ResetBios"}},
        **{"@Redfish.Settings": settings},
    )


def bios_settings(bmc: Bmc, system: str, settings: str) -> Resource | None:
    """The settings that wait; some makers show them over the current ones, some show nothing else."""
    if system != bmc.layout.host or settings != bmc.layout.bios_settings:
        return None
    state = bmc.machine.state
    waiting = dict(state.bios_pending) if bmc.layout.pending_only else {**state.bios, **state.bios_pending}
    facts = {"Attributes": waiting} if waiting else {}  # an empty pending object has no Attributes at all
    return resource(
        f"{bmc.host}/Bios/{settings}",
        "Bios.v1_2_0.Bios",
        "BIOS settings, pending",
        AttributeRegistry=bmc.layout.registry,
        **facts,
    )


def registries(bmc: Bmc) -> Resource:
    """The registries this BMC brings."""
    return collection("/Registries", "MessageRegistryFile", [bmc.layout.registry])


def registry_of(bmc: Bmc, registry: str) -> Resource | None:
    """Where the BIOS registry lies, or, under its file name, the registry itself."""
    if registry == f"{bmc.layout.registry}.json":
        return _registry(bmc)
    if registry != bmc.layout.registry:
        return None
    place = {"Language": "en", "Uri": f"{ROOT}/Registries/{registry}.json"}
    return resource(
        f"/Registries/{registry}",
        "MessageRegistryFile.v1_1_3.MessageRegistryFile",
        "BIOS Attribute Registry File",
        Languages=["en"],
        Registry=registry,
        Location=[place],
    )


def _registry(bmc: Bmc) -> Resource:
    """The BIOS attribute registry: every setting with the values it takes."""
    state = bmc.machine.state
    return {
        "@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry",
        "Id": bmc.layout.registry,
        "Name": "BIOS Attribute Registry",
        "Language": "en",
        "OwningEntity": state.manufacturer,
        "RegistryVersion": "1.0.0",
        "RegistryEntries": {
            "Attributes": [_entry(state.shape, name) for name in FACTORY_BIOS[state.shape]],
            "Dependencies": [],
        },
    }


def _entry(shape: Shape, name: str) -> Resource:
    values = [{"ValueName": value, "ValueDisplayName": value} for value in allowed(shape, name)]
    return {
        "AttributeName": name,
        "DisplayName": re.sub(r"_+[0-9A-F]{4}$", "", name).replace("_", " "),  # the suffix is no part of the name
        "Type": "Enumeration",
        "Value": values,
        "ReadOnly": name in READ_ONLY,
        "ResetRequired": True,
    }
