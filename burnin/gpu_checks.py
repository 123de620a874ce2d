"""Each GPU against its class: one row of data a fact, judged out-of-band where the BMC tells, in-band for certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from burnin.gpu_count import count_gpus
from burnin.judging import View, gpu_part, gpu_subject, held, listed, not_applicable
from inventory.classes import NodeClass
from inventory.findings import Finding, Threshold, Value
from inventory.inband.counters import HARD_THROTTLES
from inventory.model import Gpu, Inventory

Limit = Callable[[NodeClass], Threshold | None]  # None: the class does not ask for it

_REMAP = "NVIDIA GPU memory error management: a pending remap holds after a reset, a failed one is an RMA"
_RESET = "Reset the GPU (nvidia-smi --gpu-reset) or power-cycle the node, then test again"
_RMA = "Replace the GPU: its memory repair is used up"
_FABRIC = "Check Fabric Manager first, then reset the GPUs; a link that stays down is the board's"


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One fact of a GPU and what the class asks of it."""

    metric: str
    says: str
    limit: Limit
    value: Callable[[Gpu], Value]
    out_of_band: bool = True  # the BMC may tell; when it does not, the node will
    in_band: bool = True
    may_be_silent: bool = False  # some drivers and boards do not have the fact: no answer is then no error


def _must(metric: str, value: Value, remedy: str, source: str) -> Limit:
    threshold = Threshold(metric=metric, equals=value, remedy=remedy, source=source)
    return lambda _: threshold


def _of_class(metric: str, remedy: str, **limits: Callable[[NodeClass], object]) -> Limit:
    """A limit whose figures stand in the class; a figure of nothing asks for nothing."""

    def limit(node_class: NodeClass) -> Threshold | None:
        figures = {
            name: figure for name, read in limits.items() if (figure := read(node_class)) not in (0, 0.0, (), None)
        }
        source = f"class {node_class.name}: {node_class.source}"
        return (
            Threshold.model_validate({"metric": metric, "remedy": remedy, "source": source, **figures})
            if figures
            else None
        )

    return limit


def _at_most_of_class(metric: str, remedy: str, read: Callable[[NodeClass], float]) -> Limit:
    return lambda c: Threshold(metric=metric, at_most=read(c), remedy=remedy, source=f"class {c.name}: {c.source}")


def _equals_of_class(metric: str, remedy: str, read: Callable[[NodeClass], bool]) -> Limit:
    return lambda c: Threshold(metric=metric, equals=read(c), remedy=remedy, source=f"class {c.name}: {c.source}")


def _hard_throttles(gpu: Gpu) -> Value:
    if gpu.throttle_reasons is None:
        return None
    return listed(r for r in gpu.throttle_reasons if r in HARD_THROTTLES) or "none"


def _below_default(gpu: Gpu) -> Value:
    if gpu.power_limit_w is None or gpu.power_limit_default_w is None:
        return None
    return gpu.power_limit_w - gpu.power_limit_default_w


def _only_with_ecc(read: Callable[[Gpu], Value]) -> Callable[[Gpu], Value]:
    """With ECC off nothing counts errors: what is said then is no reading."""
    return lambda gpu: None if gpu.ecc_enabled is False else read(gpu)


GPU_ROWS: tuple[GpuRow, ...] = (
    GpuRow(
        "gpu_health",
        "the BMC reports its health as not OK",
        _must("gpu_health", "OK", "Read the BMC's log for this GPU", "Redfish Status.Health, DMTF DSP2046"),
        lambda g: g.health,
        in_band=False,
        may_be_silent=True,
    ),
    GpuRow(
        "gpu_model",
        "it is another model than the class has",
        _of_class("gpu_model", "Swap the GPU, or give the node its right class", one_of=lambda c: c.gpu.models),
        lambda g: g.model,
    ),
    GpuRow(
        "gpu_pci_device_id",
        "its PCI id is another model's",
        _of_class(
            "gpu_pci_device_id", "Swap the GPU, or give the node its right class", one_of=lambda c: c.gpu.pci_device_ids
        ),
        lambda g: g.pci_device_id,
    ),
    GpuRow(
        "gpu_memory_mib",
        "it has less memory than its model",
        _of_class("gpu_memory_mib", "Replace the GPU", at_least=lambda c: c.gpu.memory_mib_at_least),
        lambda g: g.memory_mib,
    ),
    GpuRow(
        "gpu_vbios",
        "its VBIOS is not one the class allows",
        _of_class(
            "gpu_vbios", "Flash an allowed VBIOS, or allow this one in the class", one_of=lambda c: c.gpu.firmware
        ),
        lambda g: g.firmware,
    ),
    GpuRow(
        "gpu_ecc_enabled",
        "ECC is switched otherwise than the class asks",
        _equals_of_class("gpu_ecc_enabled", "Run nvidia-smi -e 1 and reset the GPU", lambda c: c.gpu.ecc),
        lambda g: g.ecc_enabled,
    ),
    GpuRow(
        "gpu_ecc_pending_enabled",
        "ECC will be switched otherwise at the next reset",
        _equals_of_class("gpu_ecc_pending_enabled", "Run nvidia-smi -e 1 and reset the GPU", lambda c: c.gpu.ecc),
        lambda g: g.ecc_pending_enabled,
        out_of_band=False,
    ),
    GpuRow(
        "gpu_ecc_uncorrectable",
        "uncorrectable ECC errors over its life",
        _at_most_of_class(
            "gpu_ecc_uncorrectable",
            "Run the memory diagnostic; replace the GPU if one comes back",
            lambda c: c.gpu.ecc_uncorrectable_at_most,
        ),
        _only_with_ecc(lambda g: g.ecc_uncorrectable),
    ),
    GpuRow(
        "gpu_ecc_volatile_uncorrectable",
        "uncorrectable ECC errors since the driver was loaded",
        lambda _: Threshold(
            metric="gpu_ecc_volatile_uncorrectable",
            at_most=0,
            remedy=_RESET,
            source="imbue-ai/cluster-health: volatile uncorrectable errors must be 0",
        ),
        _only_with_ecc(lambda g: g.ecc_volatile_uncorrectable),
        out_of_band=False,
    ),
    GpuRow(
        "gpu_remap_failed",
        "row remapping failed",
        _must("gpu_remap_failed", False, _RMA, _REMAP),
        lambda g: g.remap_failed,
    ),
    GpuRow(
        "gpu_remap_pending",
        "row remapping pending",
        _must("gpu_remap_pending", False, _RESET, _REMAP),
        lambda g: g.remap_pending,
    ),
    GpuRow(
        "gpu_remapped_rows",
        "too many rows are remapped",
        lambda _: Threshold(
            metric="gpu_remapped_rows",
            at_most=511,
            remedy=_RMA,
            source="DCGM hardware limit: 512 uncorrectable row remaps",
        ),
        lambda g: g.remapped_rows_uncorrectable,
    ),
    GpuRow(
        "gpu_sram_threshold_exceeded",
        "its SRAM error threshold is exceeded",
        _must(
            "gpu_sram_threshold_exceeded",
            False,
            _RMA,
            "NVML bThresholdExceeded: the field diagnostic's limit for SRAM errors",
        ),
        lambda g: g.sram_threshold_exceeded,
        may_be_silent=True,  # told by drivers from 570 on
    ),
    GpuRow(
        "gpu_nvlinks_up",
        "fewer NVLinks are up than it has",
        _of_class("gpu_nvlinks_up", _FABRIC, at_least=lambda c: c.gpu.nvlinks),
        lambda g: g.nvlinks_up,
    ),
    GpuRow(
        "gpu_nvlink_gbit_s",
        "its slowest NVLink is too slow",
        _of_class("gpu_nvlink_gbit_s", _FABRIC, at_least=lambda c: c.gpu.nvlinks and c.gpu.nvlink_gbit_s_at_least),
        lambda g: g.nvlink_speed_gbit_s,
    ),
    GpuRow(
        "gpu_fabric_state",
        "it has not joined the NVSwitch fabric",
        lambda c: (
            Threshold(
                metric="gpu_fabric_state",
                equals="Completed",
                remedy=_FABRIC,
                source="nvidia-smi fabric state: Completed once Fabric Manager has registered the GPU",
            )
            if c.nvswitch
            else None
        ),
        lambda g: g.fabric_state,
        out_of_band=False,
    ),
    GpuRow(
        "gpu_pcie_width",
        "its PCIe link is too narrow",
        _of_class(
            "gpu_pcie_width",
            "Reseat the GPU or its riser, then its retimer or cable",
            at_least=lambda c: c.gpu.pcie_width,
        ),
        lambda g: g.pcie_width,
    ),
    GpuRow(
        "gpu_pcie_generation",
        "both ends of its PCIe link together reach too low a generation",
        _of_class(
            "gpu_pcie_generation",
            "Check the slot's generation in the BIOS, then riser and retimer",
            at_least=lambda c: c.gpu.pcie_generation,
        ),
        lambda g: g.pcie_generation_max,  # the generation now may legally be 1 on an idle GPU
    ),
    GpuRow(
        "gpu_mig",
        "MIG is switched otherwise than the class asks",
        _equals_of_class("gpu_mig", "Run nvidia-smi -mig 0 and reset the GPU", lambda c: c.gpu.mig),
        lambda g: g.mig_enabled,
    ),
    GpuRow(
        "gpu_hard_throttle",
        "the hardware holds its clocks down while it is idle",
        _must(
            "gpu_hard_throttle",
            "none",
            "Check power supplies, power brake and cooling",
            "NVML clock event reasons: hardware, thermal and power-brake slowdown are never normal",
        ),
        _hard_throttles,
        out_of_band=False,
    ),
    GpuRow(
        "gpu_power_limit_below_default_w",
        "its power limit is set below the default",
        lambda _: Threshold(
            metric="gpu_power_limit_below_default_w",
            at_least=0,
            unit="W",
            remedy="Set the default limit again (nvidia-smi -pl), and look for a BMC power policy",
            source="DCGM error 72: power limit below default",
        ),
        _below_default,
        out_of_band=False,
        may_be_silent=True,  # boards without power management
    ),
    GpuRow(
        "gpu_persistence",
        "persistence mode is off, so that volatile counters are lost and queries are slow",
        _must(
            "gpu_persistence",
            True,
            "Enable nvidia-persistenced in the image",
            "NVIDIA driver persistence: without it the driver unloads and volatile ECC counters start anew",
        ),
        lambda g: g.persistence,
        out_of_band=False,
    ),
)


def check_gpus(inventory: Inventory, node_class: NodeClass, view: View) -> tuple[Finding, ...]:
    """Count first, then every fact of every GPU."""
    gpus = tuple(gpu for gpu in inventory.gpus if (gpu.state or "") != "Absent")
    facts = (finding for gpu in gpus for row in GPU_ROWS for finding in _judge(row, gpu, node_class, view, inventory))
    return (*count_gpus(gpus, inventory, node_class, view), *facts)


def _judge(row: GpuRow, gpu: Gpu, node_class: NodeClass, view: View, inventory: Inventory) -> Iterable[Finding]:
    threshold = row.limit(node_class)
    if threshold is None or not (row.out_of_band if view == "out-of-band" else row.in_band):
        return
    value = row.value(gpu)
    if value is None and (row.may_be_silent or (view == "out-of-band" and row.in_band)):
        told = f"not told {view} ({why_missing(inventory, gpu, row.metric)})"
        later = "; read in-band" if row.in_band and view == "out-of-band" else ""
        yield not_applicable(row.metric, gpu_subject(gpu), told + later, threshold.expected, threshold.source)
        return
    yield held(threshold, gpu_subject(gpu), value, part=gpu_part(gpu), says=row.says, where=gpu.source)


def why_missing(inventory: Inventory, gpu: Gpu, metric: str) -> str:
    """What the reader noted about the fact, else that it is not offered."""
    fact = f"gpus[{gpu.id}].{metric.removeprefix('gpu_')}"
    return next((m.reason for m in inventory.missing if m.fact == fact), "not offered")
