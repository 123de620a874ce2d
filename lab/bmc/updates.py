"""The firmware inventory."""

from __future__ import annotations

from collections.abc import Mapping

from lab.bmc.answers import Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc


def _versions(bmc: Bmc) -> Mapping[str, tuple[str, str]]:
    """Firmware id → (name, version)."""
    state, layout = bmc.machine.state, bmc.layout
    found = {
        layout.firmware_bios: ("System BIOS", state.bios_version),
        layout.firmware_bmc: ("BMC", state.bmc_version),
    }
    prefix = "HGX_FW_" if layout.baseboard else ""
    if not layout.baseboard or bmc.machine.posted:
        for gpu in sorted(state.gpus_present, key=lambda gpu: gpu.module):
            name = layout.gpu.format(gpu.module)
            found[f"{prefix}{name}"] = (f"GPU {gpu.module}", gpu.vbios)
    found |= {f"NIC{nic.index + 1}": (f"ConnectX-7 {nic.index + 1}", nic.firmware) for nic in state.nics}
    return found


def update_service(bmc: Bmc) -> Resource:
    """Where firmware is listed."""
    inventory = link("/UpdateService/FirmwareInventory")
    kind = "UpdateService.v1_11_0.UpdateService"
    return resource("/UpdateService", kind, "Update Service", ServiceEnabled=True, FirmwareInventory=inventory)


def firmware_list(bmc: Bmc) -> Resource:
    """All firmware."""
    return collection("/UpdateService/FirmwareInventory", "SoftwareInventory", list(_versions(bmc)))


def firmware(bmc: Bmc, firmware: str) -> Resource | None:
    """One piece of firmware."""
    found = _versions(bmc).get(firmware)
    if found is None:
        return None
    return resource(
        f"/UpdateService/FirmwareInventory/{firmware}",
        "SoftwareInventory.v1_7_0.SoftwareInventory",
        found[0],
        Version=found[1],
        Updateable=True,
        Status=status(),
    )
