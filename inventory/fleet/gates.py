"""Says which gate a joined node does not pass yet: Ready alone says nothing about its GPUs."""

from __future__ import annotations

from inventory.findings import Finding, Outcome, Value
from inventory.fleet.node import FleetNode
from inventory.model import Frozen

# Taints that the cluster itself puts on a node in trouble. Source: kubernetes.io "Taints and Tolerations".
_TROUBLE = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
)
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_PLUGIN = "Look at the device plugin's pod on this node: its log, its tolerations, and nvidia-smi beside it."


class Expected(Frozen):
    """What a joined node must show. `boot_id` None = the node may have been rebooted since."""

    gpus: int
    system_uuid: str = ""
    boot_id: str | None = None


def judge_gates(name: str, node: FleetNode | None, expected: Expected) -> tuple[Finding, ...]:
    """One finding a gate; without a Node object a single one that says so."""
    if node is None:
        return (
            _gate("kubernetes_node", "absent", "a Node object", f"{name} is not in the cluster", outcome=Outcome.FAIL),
        )
    found = [
        _ready(node),
        _gpus(node, expected.gpus),
        _same("kubernetes_system_uuid", "system UUID", node.system_uuid, expected.system_uuid.lower()),
        _pressure(node),
    ]
    if expected.boot_id:
        found.append(_same("kubernetes_boot_id", "boot id", node.boot_id, expected.boot_id))
    return tuple(found)


def _ready(node: FleetNode) -> Finding:
    said = {True: "Ready", False: "NotReady", None: "Unknown"}[node.ready]
    reason = f": {node.ready_reason}" if node.ready_reason and not node.ready else ""
    return _gate(
        "kubernetes_ready",
        said,
        "Ready",
        f"Kubernetes says the node is {said}{reason}",
        outcome=_outcome(node.ready is True),
        remedy="Read `journalctl -u kubelet` on the node; a missing CNI configuration is the most common cause.",
    )


def _gpus(node: FleetNode, wanted: int) -> Finding:
    has, free = node.gpus_capacity or 0, node.gpus_allocatable or 0
    return _gate(
        "kubernetes_gpus",
        f"capacity {has}, allocatable {free}",
        f"capacity and allocatable {wanted}",
        f"Kubernetes has {free} of {wanted} GPUs to give: the device plugin {'is dead' if free == 0 else 'lacks some'}",
        outcome=_outcome(has == free == wanted),
        remedy=_PLUGIN,
        value=free,
    )


def _same(metric: str, what: str, seen: str, wanted: str) -> Finding:
    if not wanted or not seen:
        unknown = f"the kubelet has not told its {what}" if wanted else f"the {what} to compare with is not known"
        return _gate(metric, seen or "no answer", wanted or "not known", unknown, outcome=Outcome.ERROR)
    return _gate(
        metric,
        seen,
        wanted,
        f"the kubelet's {what} is {seen}, not {wanted}: another machine, or another boot",
        outcome=_outcome(seen == wanted),
        remedy="Another machine may have joined under this name: compare serials before anything else.",
    )


def _pressure(node: FleetNode) -> Finding:
    trouble = [name for name in _PRESSURES if node.conditions.get(name, "False") != "False"]
    trouble += [taint.key for taint in node.taints if taint.key in _TROUBLE]
    return _gate(
        "kubernetes_pressure",
        ", ".join(trouble) or "none",
        "none",
        f"Kubernetes reports {', '.join(trouble)}",
        outcome=_outcome(not trouble),
        remedy="Read the node's conditions with `kubectl describe node`.",
    )


def _outcome(passed: bool) -> Outcome:
    return Outcome.PASS if passed else Outcome.FAIL


def _gate(
    metric: str, observed: str, expected: str, cause: str, *, outcome: Outcome, remedy: str = "", value: Value = None
) -> Finding:
    return Finding(
        metric=metric,
        subject="node",
        outcome=outcome,
        observed=observed,
        expected=expected,
        remedy="" if outcome is Outcome.PASS else remedy,
        source="Kubernetes Node object, read twice",
        cause="" if outcome is Outcome.PASS else cause,
        value=value,
    )
