"""One fault shows itself in many places: the root is told first, and what follows from it says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from inventory.findings import Finding, Outcome

_BAD = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN)


@dataclass(frozen=True, slots=True)
class FollowsRow:
    """A failed root and what it explains; `same_subject` means only of the same part."""

    root: str
    explains: str
    same_subject: bool = False
    errors_only: bool = False  # only what could not be measured, never a failure of its own
    at_least: int = 1  # so many findings must match, or they are faults of their own


_GPU_FACT = r"gpu_(?!missing).*|agrees_gpu.*"
_NVSMI = r"inband_command"

# Deeper causes first: the first row that fits a finding gives it its root.
FOLLOWS: tuple[FollowsRow, ...] = (
    FollowsRow(r"node_serial|node_uuid|agrees_machine_.*", r"node_(manufacturer|model|uuid)|agrees_machine_.*"),
    FollowsRow(
        r"inband_command",
        r"inband_command|software_.*|gpu_count|agrees_gpus|kernel_log.*|nic_.*|fabric_manager_.*",
        errors_only=True,
    ),
    FollowsRow(
        r"software_driver",
        rf"{_GPU_FACT}|fabric_manager_.*|{_NVSMI}|software_(cuda|nccl|fabric_manager|dcgm)|agrees_gpus|kernel_log.*",
    ),
    FollowsRow(
        r"fabric_manager_version", r"fabric_manager_active|software_fabric_manager|gpu_fabric_state|gpu_nvlink.*"
    ),
    FollowsRow(r"fabric_manager_active", r"gpu_fabric_state|gpu_nvlink.*"),
    FollowsRow(r"software_fabric_manager", r"gpu_fabric_state|gpu_nvlink.*"),
    FollowsRow(r"gpu_missing", r"gpu_missing|log_xid_.*|log_off_bus", same_subject=True),
    FollowsRow(r"gpu_missing", r"gpu_count|gpu_answers|log_off_bus|log_xid_(79|45|74|154)|agrees_gpus"),
    FollowsRow(r"gpu_missing", r"gpu_nvlinks_up", at_least=2),
    FollowsRow(
        r"gpu_remap_failed", r"gpu_health|gpu_ecc_.*|gpu_remap.*|log_xid_(48|63|64|94|95|154)", same_subject=True
    ),
    FollowsRow(
        r"gpu_remap_pending", r"gpu_health|gpu_ecc_.*|gpu_remapped_rows|log_xid_(48|63|94|95|154)", same_subject=True
    ),
    FollowsRow(r"gpu_ecc_uncorrectable", r"gpu_health|gpu_ecc_volatile.*|log_xid_(48|63|94|95|154)", same_subject=True),
    FollowsRow(
        r"gpu_nvlinks_up", r"gpu_health|gpu_nvlink_gbit_s|log_xid_(74|14[4-9]|150)|nvlink_.*", same_subject=True
    ),
    FollowsRow(r"gpu_ecc_enabled", r"gpu_ecc_.*", same_subject=True),
    FollowsRow(
        r"gpu_model|gpu_pci_device_id", r"gpu_(pci_device_id|memory_mib|vbios|nvlink.*|model)", same_subject=True
    ),
    FollowsRow(r"gpu_unknown_to_bmc", r"gpu_count|agrees_gpu.*"),
    FollowsRow(
        r"(gpu|nic)_pcie_width",
        r"pcie_link_degraded|log_pcie_limited|gpu_pcie_generation|gpu_health",
        same_subject=True,
    ),
    FollowsRow(r"nic_missing", r"nic_count"),
    FollowsRow(r"nic_link_state", r"nic_rate_gbit_s", same_subject=True),
    FollowsRow(r"log_xid_.*", r"log_xid_(45|154)", same_subject=True),
    FollowsRow(r"dimm_health", r"log_edac_.*|dimm_count"),
)


def fold(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Roots first, then open questions, then what follows from them, then the passes; nothing is left out."""
    given = tuple(findings)
    marked = list(given)
    for row in FOLLOWS:
        _mark(row, marked)
    return tuple(sorted(marked, key=_place))


def _mark(row: FollowsRow, marked: list[Finding]) -> None:
    root_of, explains = re.compile(row.root), re.compile(row.explains)
    roots = [f for f in marked if _is_root(f) and root_of.fullmatch(f.metric)]
    for root in roots:
        if not _is_root(root):
            continue
        followers = [n for n, f in enumerate(marked) if _follows(f, root, row, explains)]
        if len(followers) >= row.at_least:
            for n in followers:
                marked[n] = marked[n].model_copy(update={"explained_by": root.key})


def _is_root(finding: Finding) -> bool:
    return finding.outcome in (Outcome.FAIL, Outcome.ERROR) and not finding.explained_by


def _follows(finding: Finding, root: Finding, row: FollowsRow, explains: re.Pattern[str]) -> bool:
    if finding.outcome not in _BAD or finding.explained_by or finding is root or finding.key == root.key:
        return False
    if row.errors_only and finding.outcome is Outcome.FAIL:
        return False
    if row.same_subject and finding.subject != root.subject:
        return False
    return bool(explains.fullmatch(finding.metric))


def _place(finding: Finding) -> tuple[int, int]:
    order = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.PASS, Outcome.NOT_APPLICABLE)
    follower = bool(finding.explained_by)
    return (order.index(finding.outcome) if not follower else len(_BAD) - 1, _rank(finding.metric))


@lru_cache(maxsize=1024)  # a node has hundreds of findings of a few dozen metrics
def _rank(metric: str) -> int:
    """Where several roots stand side by side, the deeper one is told first."""
    return next((n for n, row in enumerate(FOLLOWS) if re.fullmatch(row.root, metric)), len(FOLLOWS))
