"""What runs on the node against what the image manifest says, and Fabric Manager against the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from burnin.judging import held, unread
from inventory.classes import NodeClass
from inventory.findings import Finding, Outcome, Threshold
from inventory.model import Inventory, Software

_FM_SOURCE = "NVIDIA Fabric Manager user guide: its version must equal the driver's exactly"
_REIMAGE = "Lay the image again, and find out who changed the node if it was right before"
# nvidia-smi's sentences that prove there is no working driver, rather than no answer.
_NO_DRIVER = ("couldn't communicate with the NVIDIA driver", "Driver/library version mismatch", "ended with exit 127")


def check_software(
    inband: Inventory, software: Software, node_class: NodeClass, versions: Mapping[str, str]
) -> Iterator[Finding]:
    """Every version the manifest states and the node can tell."""
    for name, wanted in versions.items():
        if name in Software.model_fields and wanted:
            yield _version(name, wanted, getattr(software, name), inband)
    if node_class.nvswitch:
        yield from _fabric_manager(software)


def same_version(wanted: str, got: str) -> bool:
    """Equal, or one is the beginning of the other: 12.8 and 12.8.1."""
    one, other = wanted.split("."), got.split(".")
    shorter = min(len(one), len(other))
    return wanted == got or (one[:shorter] == other[:shorter] and shorter >= 2)


def _version(name: str, wanted: str, got: str | bool | None, inband: Inventory) -> Finding:
    metric = f"software_{name}"
    source = "the image manifest's versions"
    if got is None:
        return _untold(metric, name, wanted, inband, source)
    same = same_version(wanted, str(got))
    return Finding(
        metric=metric,
        subject="node",
        outcome=Outcome.PASS if same else Outcome.FAIL,
        observed=str(got),
        expected=wanted,
        remedy="" if same else _REIMAGE,
        source=source,
        cause="" if same else f"{name} is {got}, the image should bring {wanted}",
        value=got,
    )


def _untold(metric: str, name: str, wanted: str, inband: Inventory, source: str) -> Finding:
    reason = next((m.reason for m in inband.missing if m.fact == f"software.{name}"), "")
    if any(words in reason for words in _NO_DRIVER):
        return Finding(
            metric=metric,
            subject="node",
            outcome=Outcome.FAIL,
            observed=reason,
            expected=wanted,
            remedy="Install the driver the manifest names, or look for a kernel it was not built for",
            source=source,
            cause=f"the NVIDIA driver {wanted} does not run: {reason}",
        )
    return unread(
        metric,
        "node",
        reason or "no answer",
        wanted,
        source=source,
        remedy=_REIMAGE,
        cause=f"{name} could not be read: {reason or 'it is not installed or does not answer'}",
    )


def _fabric_manager(software: Software) -> Iterator[Finding]:
    if software.driver:
        remedy = "Install the Fabric Manager of exactly the driver's version, restart it, reset the GPUs"
        equal = Threshold(metric="fabric_manager_version", equals=software.driver, remedy=remedy, source=_FM_SOURCE)
        says = "its version is another than the driver's"
        yield held(equal, "node", software.fabric_manager, part="Fabric Manager", says=says)
    active = Threshold(
        metric="fabric_manager_active",
        equals=True,
        remedy="Read journalctl -u nvidia-fabricmanager and start it",
        source="NVIDIA Fabric Manager user guide: NVSwitch systems answer CUDA error 802 without it",
    )
    yield held(active, "node", software.fabric_manager_active, part="Fabric Manager", says="it does not run")
