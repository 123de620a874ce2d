"""What a node is: its identity, parts, firmware, settings and software, as one reading found them.

Every optional field means "asked and not answered" when it is `None`; why it is missing stands in `Inventory.missing`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

BiosValue = str | int | bool | None


class Frozen(BaseModel):
    """A value: compared by content, replaced and never edited, no field that was not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def now() -> datetime:
    """The current time in UTC, the only zone that is stored."""
    return datetime.now(UTC)


class NodeRef(Frozen):
    """Who is meant: the book's name for a node and where its BMC answers. Never a credential."""

    name: str
    node_class: str
    bmc_url: str = ""  # "https://10.1.2.3" or with ":port"; empty when the book has no BMC address
    rack: str = ""
    unit: int | None = None  # rack unit of the lower edge
    site: str = ""
    address: str = ""  # where SSH answers, "host" or "host:port"; empty until the image phones home
    serial: str = ""  # chassis serial as the book has it; empty when unknown
    uuid: str = ""
    status: str = ""  # NetBox life cycle: planned staged active failed offline inventory decommissioning
    netbox_id: int | None = None

    @property
    def key(self) -> str:
        """The chassis identity that leases, stage records and certificates hang on."""
        return self.serial or f"bmc:{self.bmc_url}"


class Missing(Frozen):
    """A fact that was asked for and not had, and why."""

    fact: str  # "gpus[GPU_SXM_3].ecc_uncorrectable"
    uri: str = ""
    reason: str  # "not offered", "HTTP 503 while host is off", "null", "malformed: …"


class Evidence(Frozen):
    """What was asked, of whom, when, how long it took, and the digest of the raw answer, which is kept."""

    asked: str  # command line or "GET /redfish/v1/…", without secrets
    of: str  # node name
    at: datetime
    took_s: float
    status: str  # "exit 0", "HTTP 200", "timed out"
    sha256: str  # of the raw answer; EvidenceStore.read(sha256) returns it


class Source(Frozen):
    """Where a fact came from: the Redfish URI or command, when, and how long the answer took."""

    uri: str
    read_at: datetime = Field(default_factory=now)
    took_ms: float = 0.0
    evidence: Evidence | None = None  # the kept raw answer this stands in, among others


class Identity(Frozen):
    """Which machine this is."""

    manufacturer: str | None = None
    model: str | None = None
    serial: str | None = None  # chassis / System.SerialNumber
    sku: str | None = None  # Dell: the service tag
    board_serial: str | None = None
    uuid: str | None = None  # System.UUID, lower case
    asset_tag: str | None = None
    bmc_mac: str | None = None
    host_name: str | None = None
    source: Source | None = None


class Gpu(Frozen):
    """One GPU, from Redfish or from nvidia-smi; the two are joined by serial, then UUID."""

    id: str  # "GPU_SXM_1" (Redfish id) or "0" (nvidia-smi index)
    serial: str | None = None
    uuid: str | None = None  # lower case, without NVML's "GPU-" prefix
    model: str | None = None
    manufacturer: str | None = None
    part_number: str | None = None
    firmware: str | None = None  # VBIOS version
    slot: str | None = None  # module id / physical slot; the truth for NetBox bays, never the index
    pci_address: str | None = None  # "0000:1b:00.0"
    pci_device_id: str | None = None  # "10de:2330"
    memory_mib: int | None = None
    ecc_enabled: bool | None = None
    ecc_pending_enabled: bool | None = None
    ecc_correctable: int | None = None  # lifetime / aggregate
    ecc_uncorrectable: int | None = None  # lifetime / aggregate
    ecc_volatile_uncorrectable: int | None = None
    sram_threshold_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows_uncorrectable: int | None = None
    nvlinks_up: int | None = None
    nvlinks_total: int | None = None
    nvlink_speed_gbit_s: float | None = None  # per link, one way
    fabric_state: str | None = None  # "Completed", "In Progress", …
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_replays: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    persistence: bool | None = None
    mig_enabled: bool | None = None
    state: str | None = None  # Redfish Status.State
    health: str | None = None  # Redfish Status.Health
    source: Source | None = None


class NicPort(Frozen):
    """One port of a network adapter."""

    id: str
    name: str | None = None  # "mlx5_0", "ens1f0np0"
    mac: str | None = None  # upper case with colons
    guid: str | None = None  # InfiniBand port GUID, upper case with colons, 8 bytes
    link_layer: str | None = None  # "InfiniBand" | "Ethernet"
    link_state: str | None = None  # "up" | "down" | "init"
    speed_gbit_s: float | None = None
    speed_max_gbit_s: float | None = None
    mtu: int | None = None
    lldp_neighbour: str | None = None


class Nic(Frozen):
    """One network adapter or DPU."""

    id: str
    serial: str | None = None
    model: str | None = None
    manufacturer: str | None = None
    part_number: str | None = None
    firmware: str | None = None
    slot: str | None = None
    pci_address: str | None = None
    pcie_width: int | None = None
    pcie_generation: int | None = None
    ports: tuple[NicPort, ...] = ()
    source: Source | None = None


class Dimm(Frozen):
    """One memory module."""

    id: str
    slot: str | None = None
    serial: str | None = None
    part_number: str | None = None
    manufacturer: str | None = None
    size_mib: int | None = None
    speed_mt_s: int | None = None
    health: str | None = None
    source: Source | None = None


class Drive(Frozen):
    """One disk."""

    id: str
    slot: str | None = None
    serial: str | None = None
    model: str | None = None
    manufacturer: str | None = None
    firmware: str | None = None
    size_bytes: int | None = None
    protocol: str | None = None  # "NVMe", "SATA"
    health: str | None = None
    source: Source | None = None


class Cpu(Frozen):
    """One processor package."""

    id: str
    model: str | None = None
    manufacturer: str | None = None
    cores: int | None = None
    threads: int | None = None
    serial: str | None = None
    health: str | None = None
    source: Source | None = None


class Psu(Frozen):
    """One power supply."""

    id: str
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None
    power_max_w: float | None = None
    health: str | None = None
    source: Source | None = None


class Firmware(Frozen):
    """One line of the firmware inventory."""

    id: str
    name: str | None = None
    version: str | None = None
    updateable: bool | None = None
    source: Source | None = None


class Bios(Frozen):
    """BIOS settings: what holds now and what waits for the next POST."""

    version: str | None = None
    registry: str | None = None  # AttributeRegistry id
    attributes: dict[str, BiosValue] = Field(default_factory=dict)
    pending: dict[str, BiosValue] = Field(default_factory=dict)
    source: Source | None = None


class Boot(Frozen):
    """What the node will boot next, and how far it got last time."""

    target: str | None = None  # BootSourceOverrideTarget
    enabled: str | None = None  # Disabled | Once | Continuous
    mode: str | None = None  # UEFI | Legacy
    http_uri: str | None = None
    targets_allowed: tuple[str, ...] | None = None
    progress: str | None = None  # BootProgress.LastState
    progress_at: str | None = None


class Software(Frozen):
    """What runs on the node, as the node itself tells."""

    os: str | None = None  # "ubuntu 24.04"
    image_name: str | None = None
    image_digest: str | None = None  # sha256 hex of the laid image
    kernel: str | None = None
    driver: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    fabric_manager: str | None = None
    fabric_manager_active: bool | None = None
    dcgm: str | None = None
    containerd: str | None = None
    kubelet: str | None = None
    kubeadm: str | None = None
    boot_id: str | None = None
    machine_uuid: str | None = None  # product_uuid, lower case


class Inventory(Frozen):
    """A node's parts as one reading found them, each with its source, and what could not be read."""

    identity: Identity = Identity()
    power: str | None = None  # On | Off | PoweringOn | PoweringOff
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    dimms: tuple[Dimm, ...] = ()
    drives: tuple[Drive, ...] = ()
    cpus: tuple[Cpu, ...] = ()
    psus: tuple[Psu, ...] = ()
    firmware: tuple[Firmware, ...] = ()
    bios: Bios = Bios()
    boot: Boot = Boot()
    bmc_version: str | None = None
    gpus_found_in: str | None = None  # "HGX_Baseboard_0/Processors", "Chassis/1/PCIeDevices", …
    missing: tuple[Missing, ...] = ()
    read_at: datetime = Field(default_factory=now)
