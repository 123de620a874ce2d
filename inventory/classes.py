"""Node classes: what a model of node must be. One TOML file each, in `inventory/classes/` or the site's own folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from inventory.data_files import read_file, read_folders
from inventory.model import Frozen

_SHIPPED = Path(__file__).parent / "classes"


class GpuSpec(Frozen):
    """The GPUs a node of this class has."""

    count: int = Field(ge=0)
    models: tuple[str, ...] = ()  # accepted model names, as Redfish or nvidia-smi print them
    pci_device_ids: tuple[str, ...] = ()  # "10de:2330": names lie (an H20 is no H100), ids do not
    memory_mib_at_least: int = 0
    firmware: tuple[str, ...] = ()  # accepted VBIOS versions; empty = recorded, not judged
    nvlinks: int = 0  # links per GPU that must be up; 0 = none expected
    nvlink_gbit_s_at_least: float = 0.0
    pcie_generation: int = 0
    pcie_width: int = 16
    ecc: bool = True
    ecc_uncorrectable_at_most: int = 0  # over its life; a site that takes used parts says how many it bears
    mig: bool = False


class NicSpec(Frozen):
    """One kind of network adapter a node of this class has."""

    role: str  # "compute", "storage", "management"
    count: int = Field(ge=1)
    models: tuple[str, ...] = ()
    firmware: tuple[str, ...] = ()
    ports: int = 1
    rate_gbit_s: float = 0.0
    link_layer: str = ""  # "InfiniBand" | "Ethernet"
    pcie_width: int = 0


class BootDisk(Frozen):
    """Which disk the image is laid on. What is left empty is not looked at; with nothing given, the smallest that fits.

    Two disks that fit alike are refused: name one of them here.
    """

    by_path: str = ""  # name under /dev/disk/by-path
    wwn: str = ""
    model: str = ""
    size_bytes_at_most: int = Field(default=0, ge=0)  # 0 = no limit; keeps the image off the data disks


class NodeClass(Frozen):
    """What a model of node must be, how it is set, what is laid on it, how it is tested and for how long that holds."""

    name: str
    description: str
    source: str = Field(min_length=10)  # where these expectations come from
    manufacturers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    gpu: GpuSpec
    nics: tuple[NicSpec, ...] = ()
    dimms: int = 0
    dimm_size_mib: int = 0
    drives: int = 0  # at least
    cpus: int = 2
    nvswitch: bool = False  # Fabric Manager needed, version equal to the driver's
    firmware: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # "BMC", "BIOS" → accepted versions
    boot: str = "virtual_media"  # how the deploy agent is booted: virtual_media | uefi_http
    bios_profile: str
    image: str  # image manifest name
    boot_disk: BootDisk = BootDisk()
    limits: str  # limits pack name
    tests: tuple[str, ...] = ()  # node tests to run, in this order
    certificate_days: int = Field(default=30, ge=1)
    post_minutes: float = 8.0  # for the plan only
    budget_s: dict[str, float] = Field(default_factory=dict)  # per stage; what is absent has the stage's default


def load_classes(*folders: Path) -> dict[str, NodeClass]:
    """All node classes, shipped ones first; a site's file of the same name wins.

    Raises `BadSettings` naming the file and the field.
    """
    return read_folders(load_class, (_SHIPPED, *folders))


def load_class(file: Path) -> NodeClass:
    """One node class; raises `BadSettings` naming the file and the field."""
    return read_file(NodeClass, file, "node class")
