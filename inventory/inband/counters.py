"""The counters that are read before and after every load: a test can pass its number and fail its counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from inventory.command import Answer, Shell
from inventory.errors import CommandFailed
from inventory.evidence import EvidenceStore
from inventory.findings import Evidence, Reading, Value
from inventory.inband.asking import Asking
from inventory.model import Gpu
from inventory.parsers import infiniband, kernel_log, nvidia_smi, nvlink
from inventory.parsers.infiniband import RdmaDevice
from inventory.parsers.kernel_log import KernelEvent
from inventory.parsers.nvlink import LinkCounter

# Reasons that mean trouble; a software power cap under load does not. Source: NVML clock event reasons.
HARD_THROTTLES = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")

_GPU_COUNTERS = (
    "ecc_correctable",
    "ecc_uncorrectable",
    "ecc_volatile_uncorrectable",
    "remapped_rows_uncorrectable",
    "remap_pending",
    "remap_failed",
    "sram_threshold_exceeded",
    "pcie_replays",
)
# The port counters that speak of errors. Source: the kernel's ABI/stable/sysfs-class-infiniband.
_PORT_COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)


def read_counters(shell: Shell, store: EvidenceStore) -> tuple[Reading, ...]:
    """All counters now. What is not answered is missing from it; `check_counters` calls that an error.

    Raises `CommandFailed` when nvidia-smi itself does not answer: without it nothing can be compared.
    """
    asking = Asking(shell, store)
    log = asking.answer(nvidia_smi.QUERY)
    if log is None:
        said = asking.trouble[0]
        raise CommandFailed(shell.node, "counters could not be read", said.observed, said.remedy)
    return counters_of(
        log.value.gpus,
        asking.answer(nvlink.ERRORS),
        asking.answer(infiniband.SYSFS),
        asking.answer(kernel_log.DMESG),
        log.evidence,
    )


def counters_of(
    gpus: Iterable[Gpu],
    links: Answer[tuple[LinkCounter, ...]] | None,
    rdma: Answer[tuple[RdmaDevice, ...]] | None,
    log: Answer[tuple[KernelEvent, ...]] | None,
    evidence: Evidence | None,
) -> tuple[Reading, ...]:
    """One reading per counter and part, from answers that are already there."""
    known = tuple(gpus)
    readings = list(_gpu_readings(known, evidence))
    if links:
        readings += _link_readings(known, links.value, links.evidence)
    if rdma:
        readings += _port_readings(rdma.value, rdma.evidence)
    if log:
        readings += _log_readings(known, log.value, log.evidence)
    return tuple(readings)


def gpu_subject(gpu: Gpu) -> str:
    """How a GPU is called in readings and findings: by its slot, which stays; the index is nobody's name."""
    return f"GPU slot {gpu.slot}" if gpu.slot else f"GPU {gpu.serial or gpu.uuid or gpu.id}"


def _gpu_readings(gpus: tuple[Gpu, ...], evidence: Evidence | None) -> Iterator[Reading]:
    for gpu in gpus:
        for metric in _GPU_COUNTERS:
            yield _reading(metric, gpu_subject(gpu), getattr(gpu, metric), evidence)
        reasons = gpu.throttle_reasons
        hard = None if reasons is None else any(reason in HARD_THROTTLES for reason in reasons)
        yield _reading("throttled_by_hardware", gpu_subject(gpu), hard, evidence)


def _link_readings(gpus: tuple[Gpu, ...], counters: tuple[LinkCounter, ...], evidence: Evidence) -> Iterator[Reading]:
    """Error counts summed over a GPU's links; bit error rates are no counts and are left out."""
    subjects = {gpu.uuid: gpu_subject(gpu) for gpu in gpus}
    sums: dict[tuple[str, str], list[float | None]] = {}
    for counter in counters:
        if not counter.name.endswith("_ber"):
            key = (f"nvlink_{counter.name}", subjects.get(counter.uuid, f"GPU {counter.uuid}"))
            sums.setdefault(key, []).append(counter.value)
    for (metric, subject), values in sums.items():
        whole = None if None in values else sum(value or 0 for value in values)
        yield _reading(metric, subject, whole, evidence)


def _port_readings(devices: tuple[RdmaDevice, ...], evidence: Evidence) -> Iterator[Reading]:
    for device in devices:
        for port in device.ports:
            for name in _PORT_COUNTERS:
                yield _reading(
                    f"port_{name.removeprefix('port_')}",
                    f"{device.name}/{port.number}",
                    port.counters.get(name),
                    evidence,
                )


def _log_readings(gpus: tuple[Gpu, ...], events: tuple[KernelEvent, ...], evidence: Evidence) -> Iterator[Reading]:
    """How often each kind of event stands in the kernel log; a kind that never came up has no reading."""
    subjects = {gpu.pci_address: gpu_subject(gpu) for gpu in gpus}
    yield _reading("log_kernel_events", "node", sum(event.count for event in events), evidence)
    for event in events:
        yield _reading(log_metric(event), _log_subject(event, subjects), event.count, evidence)


def log_metric(event: KernelEvent) -> str:
    """`xid_79`, `aer_uncorrected`, `gpu_off_bus`, `carrier`."""
    code = event.code.lower() if event.kind in ("xid", "sxid", "aer", "edac") else ""
    return f"log_{event.kind}_{code}".rstrip("_")


def _log_subject(event: KernelEvent, subjects: Mapping[str | None, str]) -> str:
    if event.kind in ("xid", "off_bus"):
        return subjects.get(event.subject, f"GPU at {event.subject}")
    return event.subject


def _reading(metric: str, subject: str, value: Value, evidence: Evidence | None) -> Reading:
    return Reading(metric=metric, subject=subject, value=value, evidence=evidence)
