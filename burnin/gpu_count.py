"""How many GPUs there are, and which one is missing."""

from __future__ import annotations

from collections.abc import Iterable

from burnin.judging import View, gpu_part, gpu_subject, held, listed, slot_number, unread
from inventory.classes import NodeClass
from inventory.findings import Finding, Outcome, Threshold
from inventory.model import Gpu, Inventory, Source


def count_gpus(gpus: tuple[Gpu, ...], inventory: Inventory, node_class: NodeClass, view: View) -> Iterable[Finding]:
    """The count against the class, and a finding for each GPU that can be named as missing."""
    wanted = node_class.gpu.count
    source = f"class {node_class.name}: {node_class.source}"
    if wanted and not gpus and inventory.gpus_found_in is None:
        reasons = listed(m.reason for m in inventory.missing if m.fact == "gpus") or "no place knew of any"
        yield unread(
            "gpu_count",
            "node",
            f"not counted {view}: {reasons}",
            f"{wanted}",
            source=source,
            remedy="Power the node on and wait for its POST, or read the kernel log for the driver's words",
            cause=f"GPUs could not be counted {view}: {reasons}",
        )
        return
    absent = _absent(gpus, inventory, wanted)
    seen = gpus[0].source if gpus else inventory.identity.source
    yield from (_missing(name, subject, view, source, seen) for subject, name in absent)
    remedy = "Power-cycle the node cold; a GPU that stays away is reseated, then replaced"
    threshold = Threshold(metric="gpu_count", equals=wanted, remedy=remedy, source=source)
    where, says = inventory.gpus_found_in or "", f"GPUs seen {view}"
    yield held(threshold, "node", len(gpus), part="node", says=says, where=where, seen=seen)


def _absent(gpus: tuple[Gpu, ...], inventory: Inventory, wanted: int) -> list[tuple[str, str]]:
    """Subject and name of each GPU that should be there: told as Absent, else the slot number that is not taken."""
    told = [(gpu_subject(gpu), gpu_part(gpu)) for gpu in inventory.gpus if gpu.state == "Absent"]
    numbers = [slot_number(gpu) for gpu in gpus]
    if told or len(gpus) >= wanted or None in numbers or not numbers:
        return told
    first = 0 if 0 in numbers else 1
    free = sorted(set(range(first, first + wanted)) - {n for n in numbers if n is not None})
    # Numbers beyond the expected range mean another way of counting: then no slot can be named.
    return [(f"GPU slot {n}", f"GPU in slot {n}") for n in free] if len(free) == wanted - len(gpus) else []


def _missing(part: str, subject: str, view: View, source: str, seen: Source | None) -> Finding:
    return Finding(
        metric="gpu_missing",
        subject=subject,
        outcome=Outcome.FAIL,
        observed=f"not there {view}",
        expected="there",
        remedy="Power-cycle the node cold; if it stays away, reseat or replace the GPU",
        source=source,
        cause=f"{part} is missing",
        value=True,
        evidence=seen.evidence if seen else None,
    )
