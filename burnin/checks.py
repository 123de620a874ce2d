"""What a node is against what its class says it must be: parsed facts in, findings out, nothing is asked of the node.

Everything wrong is told at once. What the BMC does not offer is not applicable out-of-band only because the node itself
will be asked; asked in-band and not answered, it is an error. `fold` puts the root first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from burnin.agreement import check_agreement, joinable, joined_gpus, joined_nics
from burnin.counter_checks import check_growth
from burnin.folding import fold
from burnin.gpu_checks import check_gpus
from burnin.judging import gpu_subject, held, nic_part
from burnin.log_checks import check_log
from burnin.part_checks import (
    SeenNic,
    check_firmware,
    check_identity,
    check_nic,
    check_nics,
    check_parts,
    matches,
    of_class,
)
from burnin.software_checks import check_software
from inventory.classes import NicSpec, NodeClass
from inventory.findings import Finding, Outcome, Reading, Threshold
from inventory.model import Inventory, Nic, NodeRef, Software

__all__ = ["check_counters", "check_in_band", "check_out_of_band", "fold"]


def check_out_of_band(inventory: Inventory, node_class: NodeClass, ref: NodeRef) -> tuple[Finding, ...]:
    """All that the BMC tells, before any image is laid."""
    return fold(
        (
            *check_identity(inventory, node_class, ref),
            *check_gpus(inventory, node_class, "out-of-band"),
            *check_nics(inventory, node_class),
            *check_parts(inventory, node_class),
            *check_firmware(inventory, node_class),
        )
    )


def check_in_band(
    oob: Inventory,
    inband: Inventory,
    software: Software,
    node_class: NodeClass,
    manifest_versions: Mapping[str, str],
    *,
    counters: tuple[Reading, ...] = (),
) -> tuple[Finding, ...]:
    """All that the node tells, and whether it agrees with the BMC; `counters` brings kernel log and PCIe facts."""
    return fold(
        (
            *check_software(inband, software, node_class, manifest_versions),
            *_once(check_agreement(oob, inband, software), check_gpus(inband, node_class, "in-band")),
            *_nics(oob, inband, node_class),
            *(_named(finding, oob, inband) for finding in (check_log(counters) if counters else ())),
        )
    )


def _once(first: Iterable[Finding], then: Iterable[Finding]) -> tuple[Finding, ...]:
    """Both, but what the first has found missing, and can name, is not missed again by the second."""
    named = tuple(first)
    missed = {finding.key for finding in named if finding.metric == "gpu_missing"}
    return (*named, *(finding for finding in then if finding.key not in missed))


def check_counters(before: tuple[Reading, ...], after: tuple[Reading, ...]) -> tuple[Finding, ...]:
    """What grew over a load and must not have."""
    return tuple(check_growth(before, after))


def _nics(oob: Inventory, inband: Inventory, node_class: NodeClass) -> Iterator[Finding]:
    pairs = joined_nics(oob, inband)
    inside = {outside.id: within for outside, within in pairs}
    joined = {within.id for _, within in pairs}
    for spec in node_class.nics:
        wanted = [nic for nic in oob.nics if matches(nic, spec)]
        for outside in wanted:
            if outside.id in inside:
                yield from check_nic(SeenNic(inside[outside.id], outside, node_class, "in-band"), spec)
            elif joinable(outside, inband):
                yield _nic_missing(outside, node_class)
        found = sum(outside.id in inside or joinable(outside, inband) for outside in wanted)
        if found < spec.count:  # the BMC knows fewer, or tells nothing to join them by: the node's own view decides
            spare = [nic for nic in inband.nics if nic.id not in joined and matches(nic, spec)]
            for nic in spare:
                yield from check_nic(SeenNic(nic, nic, node_class, "in-band"), spec)
            yield _counted(found + len(spare), spec, node_class)


def _counted(found: int, spec: NicSpec, node_class: NodeClass) -> Finding:
    threshold = Threshold(
        metric="nic_count",
        at_least=spec.count,
        remedy="Reseat the adapter that is not seen",
        source=of_class(node_class),
    )
    subject, says = f"{spec.role} NICs", "number of RDMA adapters of this kind"
    return held(threshold, subject, found, part="node", says=says, where="in-band")


def _nic_missing(nic: Nic, node_class: NodeClass) -> Finding:
    return Finding(
        metric="nic_missing",
        subject=f"NIC {nic.id}",
        outcome=Outcome.FAIL,
        observed="known to the BMC, not to the operating system",
        expected="there in-band",
        remedy="Reseat the adapter; check that its driver is loaded",
        source=of_class(node_class),
        cause=f"{nic_part(nic)} is missing in-band: the BMC knows it, the operating system does not",
    )


def _named(finding: Finding, oob: Inventory, inband: Inventory) -> Finding:
    """A finding about a PCI address or an RDMA port gets the name of the part that sits there."""
    names = {gpu.pci_address: gpu_subject(gpu) for gpu in inband.gpus if gpu.pci_address}
    for outside, inside in joined_nics(oob, inband):
        names |= {inside.pci_address or inside.id: f"NIC {outside.id}"}
    address = finding.subject.removeprefix("PCI ").removeprefix("GPU at ")
    lost = _lost_gpu(oob, inband) if finding.subject.startswith("GPU at ") else None
    name = names.get(address) or lost
    if not name:
        return finding
    return finding.model_copy(
        update={"subject": name, "cause": finding.cause.replace(finding.subject, f"{name} ({address})")}
    )


def _lost_gpu(oob: Inventory, inband: Inventory) -> str | None:
    """The one GPU the BMC knows and the driver does not: an address nobody else has is then its own."""
    seen = {outside.id for outside, _ in joined_gpus(oob, inband)}
    lost = [gpu for gpu in oob.gpus if gpu.id not in seen]
    return gpu_subject(lost[0]) if len(lost) == 1 and inband.gpus else None
