"""How each shape of machine lays out its Redfish tree, and where its maker goes its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.hardware import Shape

_TARGETS = ("None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "UefiHttp")


@dataclass(frozen=True)
class Layout:
    """Names and habits of one maker's BMC."""

    vendor: str
    product: str
    host: str  # id of the host System
    baseboard: str  # id of the GPU baseboard's own System, listed first; "" = none
    chassis: str
    manager: str
    gpu: str  # id of a GPU by module number
    bios_settings: str  # last part of the settings object's path
    pending_only: bool  # the settings object shows nothing but what waits
    media_under: str  # "Managers" | "Systems"
    media_task: bool  # inserting media answers 202 with a task
    media_minimal: bool  # inserting refuses Inserted and WriteProtected
    resets: tuple[str, ...]
    resets_in_action_info: bool  # allowed values stand in an ActionInfo resource only
    targets: tuple[str, ...]
    expand_levels: int  # ProtocolFeaturesSupported.ExpandQuery.MaxLevels; 0 = refused
    patch_needs_etag: bool  # every PATCH without If-Match answers 428
    firmware_bios: str  # ids in the firmware inventory
    firmware_bmc: str
    registry: str  # BIOS attribute registry id


LAYOUTS: Mapping[Shape, Layout] = {
    # As a DGX H100 (AMI): baseboard System first, reset values only in an ActionInfo, media by a task.
    Shape.HGX: Layout(
        vendor="AMI", product="AMI Redfish Server", host="System_0", baseboard="HGX_Baseboard_0", chassis="Chassis_0",
        manager="BMC", gpu="GPU_SXM_{}", bios_settings="SD", pending_only=False, media_under="Managers",
        media_task=True, media_minimal=False,
        resets=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle"),
        resets_in_action_info=True, targets=_TARGETS, expand_levels=5, patch_needs_etag=False,
        firmware_bios="HostBIOS_0", firmware_bmc="HostBMC_0", registry="BiosAttributeRegistryLS8.2.4.1",
    ),
    # As a Supermicro SYS-821GE: the pending object is empty until something waits, media takes a minimal body.
    Shape.PCIE: Layout(
        vendor="Lab Microsystems", product="LM BMC", host="1", baseboard="", chassis="1",
        manager="1", gpu="GPU{}", bios_settings="SD", pending_only=True, media_under="Managers",
        media_task=False, media_minimal=True,
        resets=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi"),
        resets_in_action_info=False, targets=(*_TARGETS, "UsbCd"), expand_levels=2, patch_needs_etag=False,
        firmware_bios="BIOS", firmware_bmc="BMC", registry="BiosAttributeRegistry.v1_0_0",
    ),
    # As a Lenovo SR670 V2: 428 without an ETag, no GracefulRestart, media under the System, no $expand.
    Shape.PROCESSORS: Layout(
        vendor="Lab Nova", product="LN XC", host="1", baseboard="", chassis="1",
        manager="1", gpu="GPU{}", bios_settings="Pending", pending_only=False, media_under="Systems",
        media_task=False, media_minimal=False,
        resets=("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi"),
        resets_in_action_info=False, targets=_TARGETS, expand_levels=0, patch_needs_etag=True,
        firmware_bios="UEFI", firmware_bmc="BMC-Primary", registry="BiosAttributeRegistry.1.0.0",
    ),
}  # fmt: skip
