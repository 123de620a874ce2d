"""What a simulated node is made of: plain mutable state, from which every surface is derived.

Redfish, nvidia-smi, lspci, NCCL output and Kubernetes all read these fields, so one broken part shows itself
everywhere. Nothing here acts; `lab/machine.py` gives it power and time, `lab/faults.py` breaks it.
"""

from __future__ import annotations

import hashlib
import random
import uuid
from dataclasses import dataclass, field
from enum import StrEnum

from inventory.model import BiosValue

NVLINKS = 18  # per GPU. Source: HGX H100 data sheet; a DGX H100's Redfish tree lists NVLink_0..17


class Shape(StrEnum):
    """Where a machine's Redfish tree shows its GPUs."""

    HGX = "hgx"  # a second System "HGX_Baseboard_0", as a DGX H100
    PCIE = "pcie"  # only Chassis/1/PCIeDevices/GPU1..8, as a Supermicro SYS-821GE
    PROCESSORS = "processors"  # Processors of the one System, as a Lenovo SR670 V2


@dataclass
class GpuState:
    """One GPU. `module` is the physical slot (1..8) and differs from the nvidia-smi index."""

    index: int  # nvidia-smi index: PCI order
    module: int
    serial: str
    uuid: str  # lower case, without "GPU-"
    pci_address: str
    model: str = "NVIDIA H100 80GB HBM3"
    part_number: str = "2330-885-A1"
    vbios: str = "96.00.89.00.01"
    memory_mib: int = 81559
    present: bool = True
    ecc_enabled: bool = True
    ecc_correctable: int = 0
    ecc_uncorrectable: int = 0  # aggregate
    ecc_volatile_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    remapped_rows_uncorrectable: int = 0
    nvlinks: int = NVLINKS  # 0 where the board has none
    nvlinks_down: set[int] = field(default_factory=set)
    pcie_width: int = 16
    pcie_generation: int = 5
    pcie_replays: int = 0
    speed: float = 1.0  # share of the healthy figure it reaches in every test
    throttles_under_load: bool = False
    ecc_errors_under_load: int = 0  # uncorrectable errors each load adds
    temperature_c: int = 34
    power_limit_w: int = 700
    xids: list[tuple[int, str]] = field(default_factory=list)  # (code, text) as the kernel log shows them


@dataclass
class NicState:
    """One single-port adapter."""

    index: int
    serial: str
    pci_address: str
    mac: str
    guid: str  # port GUID, "b8:ce:f6:03:00:aa:bb:01" upper case
    model: str = "NVIDIA ConnectX-7"
    part_number: str = "MCX75310AAS-NEAT"
    firmware: str = "28.39.1002"
    rate_gbit_s: int = 400
    link_up: bool = True
    link_layer: str = "InfiniBand"
    pcie_width: int = 16
    gdr: bool = True  # GPUDirect RDMA works
    speed: float = 1.0
    symbol_errors: int = 0
    link_downed: int = 0

    @property
    def name(self) -> str:
        """The RDMA device name."""
        return f"mlx5_{self.index}"


@dataclass
class DimmState:
    """One memory module."""

    slot: str
    serial: str
    size_mib: int = 65536
    present: bool = True
    healthy: bool = True


@dataclass
class DriveState:
    """One disk. `content` is the image laid on it, as bytes read back; None = empty."""

    slot: str
    serial: str
    by_path: str
    wwn: str
    size_bytes: int
    model: str
    boot: bool = False  # the one the class wants imaged
    foreign: str = ""  # signature of somebody else's data, "LVM2_member"
    content: bytes | None = None
    seed: dict[str, str] = field(default_factory=dict)
    host_key: str = ""  # SSH host key of the OS on it (private, OpenSSH text), made at its first boot
    phoned_home: bool = False  # the OS on it has told the image service that it is up
    writes_begun: int = 0  # how often an agent began to write it: the destructive step


@dataclass
class NodeState:
    """One simulated server with all its parts and settings."""

    name: str
    rack: str
    unit: int
    shape: Shape
    serial: str
    sku: str
    board_serial: str
    uuid: str
    manufacturer: str
    model: str
    bmc_mac: str
    mgmt_mac: str
    gpus: list[GpuState]
    nics: list[NicState]
    dimms: list[DimmState]
    drives: list[DriveState]
    psus: list[str]  # serials
    cpu_model: str = "Intel(R) Xeon(R) Platinum 8480C"
    cpu_cores: int = 56
    bios_version: str = "2.4.1"
    bmc_version: str = "1.8.0"
    bios: dict[str, BiosValue] = field(default_factory=dict)
    bios_pending: dict[str, BiosValue] = field(default_factory=dict)
    asset_tag: str = ""
    faults: set[str] = field(default_factory=set)
    recovered: set[str] = field(default_factory=set)  # faults that have worn off by themselves
    knobs: dict[str, float] = field(default_factory=dict)  # parameters of injected faults

    @property
    def nvswitch(self) -> bool:
        """Whether the board has NVSwitches, so that Fabric Manager is needed."""
        return self.shape is not Shape.PROCESSORS

    @property
    def gpus_present(self) -> list[GpuState]:
        """The GPUs that answer."""
        return [gpu for gpu in self.gpus if gpu.present]


_MAKERS = {
    Shape.HGX: ("Lab Systems", "LS-8HGX"),
    Shape.PCIE: ("Lab Microsystems", "LM-821GP"),
    Shape.PROCESSORS: ("Lab Nova", "LN-670P"),
}

# A GPU's module number by nvidia-smi index: PCI order and board order differ, so that nobody takes one for the other.
_MODULE_BY_INDEX = (7, 5, 8, 6, 2, 4, 1, 3)
_GPU_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
_NIC_BUSES = ("1a", "40", "4f", "5e", "9c", "c0", "ce", "dc")

# What the factory set. Names differ by maker, as in life; bios_profiles/lab-*.toml ask for other values.
FACTORY_BIOS: dict[Shape, dict[str, BiosValue]] = {
    Shape.HGX: {
        "SRIOVEnable": "Disable", "VTdSupport": "Enable", "PcieAcsControl": "Enable", "NumaPerSocket": "SNC Disabled",
        "PowerProfile": "Balanced", "AspmSupport": "Auto", "HyperThreading": "Enable", "BootMode": "Uefi",
        "Ipv4Http": "Disable", "InfiniteBoot": "Disable",
    },
    Shape.PCIE: {
        "SR_IOVSupport_0047": "Disabled", "IntelVTforDirectedI_O_VT_d__1E32": "Enable", "PCIeACSCTL_1E3C": "Enable",
        "SNC_F300": "Auto", "PowerTechnology_00D2": "Energy Efficient", "ASPMSupport_0051": "Auto",
        "Above4GDecoding_0041": "Disabled", "IPv4HTTPSupport_0091": "Enabled", "ConsoleRedirection_0080": "Enabled",
    },
    Shape.PROCESSORS: {
        "DevicesandIOPorts_SRIOV": "Disable", "DevicesandIOPorts_IOMMU": "Enable", "Processors_PCIeACSCTL": "Enabled",
        "OperatingModes_ChooseOperatingMode": "EfficiencyMode", "Power_ASPM": "Enable", "Processors_SNC": "Disable",
        "BootModes_SystemBootMode": "UEFIMode",
    },
}  # fmt: skip


def build_node(rack: str, number: int, shape: Shape, *, seed: int = 7) -> NodeState:
    """A healthy, empty, powered-off node; the same rack, number and seed give the same serials for ever."""
    chance = random.Random(f"{seed}/{rack}/{number}")
    maker, model = _MAKERS[shape]
    tag = f"{rack}{number:02d}".upper().replace("-", "")
    return NodeState(
        name=f"{rack.lower()}-n{number:02d}",
        rack=rack,
        unit=1 + (number - 1) * 6,
        shape=shape,
        serial=f"CH{_digits(chance, 8)}",
        sku=f"ST{_digits(chance, 5)}",
        board_serial=f"BD{_digits(chance, 9)}",
        uuid=_uuid(f"{seed}/{tag}/node"),
        manufacturer=maker,
        model=model,
        bmc_mac=_mac(chance),
        mgmt_mac=_mac(chance),
        gpus=[_gpu(chance, f"{seed}/{tag}", index, shape) for index in range(8)],
        nics=[_nic(chance, index) for index in range(8)],
        dimms=[
            DimmState(f"DIMM_{'ABCDEFGHIJKLMNOP'[i // 2]}{i % 2 + 1}", f"DM{_digits(chance, 8)}") for i in range(32)
        ],
        drives=[_drive(chance, i) for i in range(3)],
        psus=[f"PS{_digits(chance, 8)}" for _ in range(6)],
        bios=dict(FACTORY_BIOS[shape]),
    )


def _gpu(chance: random.Random, tag: str, index: int, shape: Shape) -> GpuState:
    return GpuState(
        index=index,
        module=_MODULE_BY_INDEX[index],
        serial=f"165{_digits(chance, 10)}",
        uuid=_uuid(f"{tag}/gpu/{index}"),
        pci_address=f"0000:{_GPU_BUSES[index]}:00.0",
        nvlinks=0 if shape is Shape.PROCESSORS else NVLINKS,
    )


def _nic(chance: random.Random, index: int) -> NicState:
    mac = _mac(chance)
    guid = f"{mac[:8]}:03:00:{mac[9:]}"
    return NicState(
        index=index,
        serial=f"MT{_digits(chance, 4)}X{_digits(chance, 5)}",
        pci_address=f"0000:{_NIC_BUSES[index]}:00.0",
        mac=mac,
        guid=guid,
    )


def _drive(chance: random.Random, number: int) -> DriveState:
    boot = number == 0
    return DriveState(
        slot=f"NVMe{number}",
        serial=f"S6{_digits(chance, 10)}",
        by_path=f"pci-0000:0{number + 1}:00.0-nvme-1",
        wwn=f"eui.{_digits(chance, 16)}",
        size_bytes=960_197_124_096 if boot else 3_840_755_982_336,
        model="LAB M.2 960G" if boot else "LAB U.2 3840G",
        boot=boot,
    )


def _digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choice("0123456789") for _ in range(count))


def _mac(chance: random.Random) -> str:
    # 0x02: locally administered, so that no lab MAC can be a real maker's.
    return ":".join(f"{byte:02X}" for byte in (0x02, *(chance.randrange(256) for _ in range(5))))


def _uuid(text: str) -> str:
    return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
