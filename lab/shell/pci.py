"""`lspci`: GPUs, adapters, NVMe drives and the switch ports above them, with link capability and state."""

from __future__ import annotations

from dataclasses import dataclass

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.reply import Reply, said

_GT_S = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function on the bus."""

    address: str
    kind: str
    name: str
    ids: str  # "15b3:1021"
    class_id: str
    driver: str
    subsystem: str = ""
    generation: int = 5
    width: int = 16
    generation_cap: int = 5
    width_cap: int = 16
    numa: int = 0
    below: str = ""  # of a switch port: the bus behind it


def pci_devices(machine: Machine) -> list[PciDevice]:
    """Everything that answers on the bus, in bus order."""
    state = machine.state
    found = [
        PciDevice(
            gpu.pci_address, "3D controller", "NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)", "10de:2330", "0302",
            "" if machine.fault("driver_missing") else "nvidia", "NVIDIA Corporation Device [10de:16c1]",
            generation=gpu.pcie_generation, width=gpu.pcie_width, numa=gpu.index // 4,
        )
        for gpu in state.gpus_present
    ]  # fmt: skip
    for nic in state.nics:
        infiniband = nic.link_layer == "InfiniBand"
        found.append(
            PciDevice(
                nic.pci_address, "Infiniband controller" if infiniband else "Ethernet controller",
                "Mellanox Technologies MT2910 Family [ConnectX-7]", "15b3:1021", "0207" if infiniband else "0200",
                "mlx5_core", "Mellanox Technologies Device [15b3:0041]", width=nic.pcie_width, numa=nic.index // 4,
            )
        )  # fmt: skip
    found += [
        PciDevice(
            drive.by_path.removeprefix("pci-").removesuffix("-nvme-1"), "Non-Volatile memory controller",
            f"Lab NVMe SSD Controller {drive.model}", "1d0f:cd01", "0108", "nvme",
            generation=4, generation_cap=4, width=4, width_cap=4,
        )
        for drive in state.drives
    ]  # fmt: skip
    return sorted([*found, *_bridges(machine)], key=lambda device: device.address)


def _bridges(machine: Machine) -> list[PciDevice]:
    """The switch port above every GPU."""
    return [
        PciDevice(
            f"0000:{_above(gpu.pci_address)}:01.0", "PCI bridge", "Broadcom / LSI PEX890xx PCIe Switch",
            "1000:c030", "0604", "pcieport", generation=gpu.pcie_generation, width=gpu.pcie_width,
            numa=gpu.index // 4, below=gpu.pci_address[5:7],
        )
        for gpu in machine.state.gpus_present
    ]  # fmt: skip


def _above(address: str) -> str:
    """The bus a switch port sits on: two below its GPU's, where no adapter of the lab is."""
    return f"{int(address[5:7], 16) - 2:02x}"


def lspci(call: Call) -> Reply:
    """`-D` domains, `-n`/`-nn` numbers, `-v…` details, `-d vendor:` and `-s address` choose."""
    flags = "".join(word[1:] for word in call.arguments if word.startswith("-") and not word.startswith("--"))
    chosen = [device for device in pci_devices(call.machine) if _wanted(call, device)]
    rows: list[str] = []
    for device in chosen:
        rows.append(_headline(device, flags))
        if "v" in flags:
            rows += _details(call.machine, device, flags)
    return said(*rows)


def _wanted(call: Call, device: PciDevice) -> bool:
    ids, _, kind = call.option("-d").rpartition("::") if "::" in call.option("-d") else (call.option("-d"), "", "")
    address = call.option("-s")
    vendor = not ids or device.ids.startswith(ids.lower())
    return vendor and device.class_id.startswith(kind) and device.address.endswith(address.removeprefix("0000:"))


def _headline(device: PciDevice, flags: str) -> str:
    address = device.address if "D" in flags else device.address[5:]
    if "nn" in flags:
        name, revision, _ = device.name.partition(" (rev")
        tail = f" (rev{device.name.partition(' (rev')[2]}" if revision else ""
        return f"{address} {device.kind} [{device.class_id}]: {name} [{device.ids}]{tail}"
    if "n" in flags:
        return f"{address} {device.class_id}: {device.ids}"
    return f"{address} {device.kind}: {device.name}"


def _details(machine: Machine, device: PciDevice, flags: str) -> list[str]:
    rows = [f"\tSubsystem: {device.subsystem}"] if device.subsystem else []
    rows += [
        "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+",
        f"\tNUMA node: {device.numa}",
    ]
    if device.below:
        rows.append(f"\tBus: primary={device.address[5:7]}, secondary={device.below}, subordinate={device.below}")
    if flags.count("v") > 1:
        rows += _link(device)
        rows += _acs(machine) if device.below else []
    rows += [f"\tKernel driver in use: {device.driver}"] if device.driver else []
    return [*rows, ""]


def _link(device: PciDevice) -> list[str]:
    speed_word = "ok" if device.generation == device.generation_cap else "downgraded"
    width_word = "ok" if device.width == device.width_cap else "downgraded"
    cap, now = _GT_S[device.generation_cap], _GT_S[device.generation]
    port = "Downstream Port (Slot+)" if device.below else "Endpoint"
    return [
        f"\tCapabilities: [60] Express (v2) {port}, MSI 00",
        "\t\tDevSta:\tCorrErr- NonFatalErr- FatalErr- UnsupReq- AuxPwr- TransPend-",
        f"\t\tLnkCap:\tPort #0, Speed {cap:g}GT/s, Width x{device.width_cap}, ASPM not supported",
        "\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+",
        f"\t\tLnkSta:\tSpeed {now:g}GT/s ({speed_word}), Width x{device.width} ({width_word})",
    ]


def _acs(machine: Machine) -> list[str]:
    """Access control on the switch ports: redirecting while the BIOS setting is still as it left the factory."""
    redirects = any(
        "ACS" in name.upper() and str(value).lower().startswith("enable") for name, value in machine.state.bios.items()
    )
    sign = "+" if redirects else "-"
    return [
        "\tCapabilities: [170 v1] Access Control Services",
        "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+",
        f"\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign} EgressCtrl- DirectTrans-",
    ]
