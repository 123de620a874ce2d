"""Redfish and the running node look at the same machine: joined by serial they must agree, else both are named."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

from burnin.judging import from_where, gpu_part, gpu_subject, not_applicable, slot_number
from inventory.findings import Finding, Outcome, Value
from inventory.model import Gpu, Inventory, Nic, Software

_SOURCE = "both views read the same machine, so they must agree"

_GPU_FACTS: tuple[tuple[str, str, Callable[[Gpu], Value]], ...] = (
    ("vbios", "VBIOS", lambda g: g.firmware),
    ("slot", "slot", slot_number),
    ("uuid", "UUID", lambda g: g.uuid),
)


def check_agreement(oob: Inventory, inband: Inventory, software: Software) -> Iterator[Finding]:
    """Identity first, then which GPUs there are, then their facts, then the adapters."""
    yield from _same_machine(oob, inband, software)
    yield from _same_gpus(oob, inband)


def joined_gpus(oob: Inventory, inband: Inventory) -> list[tuple[Gpu, Gpu]]:
    """Pairs of the same GPU, by serial, then by UUID."""
    by_serial = {g.serial: g for g in oob.gpus if g.serial}
    by_uuid = {g.uuid: g for g in oob.gpus if g.uuid}
    pairs = ((by_serial.get(g.serial or "") or by_uuid.get(g.uuid or ""), g) for g in inband.gpus)
    return [(outside, inside) for outside, inside in pairs if outside]


def joined_nics(oob: Inventory, inband: Inventory) -> list[tuple[Nic, Nic]]:
    """Pairs of the same adapter, by serial, then by port GUID or MAC."""
    by_serial = {n.serial: n for n in oob.nics if n.serial}
    by_address = {address: n for n in oob.nics for address in _addresses(n)}
    pairs = ((by_serial.get(n.serial or "") or _first(by_address, n), n) for n in inband.nics)
    return [(outside, inside) for outside, inside in pairs if outside]


def joinable(outside: Nic, inband: Inventory) -> bool:
    """Whether both views tell a serial or both an address, so that not finding it means that it is not there."""
    serials = bool(outside.serial) and any(nic.serial for nic in inband.nics)
    return serials or (any(_addresses(outside)) and any(True for nic in inband.nics for _ in _addresses(nic)))


def _addresses(nic: Nic) -> Iterator[str]:
    for port in nic.ports:
        yield from (address for address in (port.guid, port.mac) if address)


def _first(by_address: dict[str, Nic], nic: Nic) -> Nic | None:
    return next((by_address[address] for address in _addresses(nic) if address in by_address), None)


def _same_machine(oob: Inventory, inband: Inventory, software: Software) -> Iterator[Finding]:
    inside = inband.identity.uuid or software.machine_uuid
    rows: tuple[tuple[str, Value, Value, bool], ...] = (
        ("machine_serial", oob.identity.serial, inband.identity.serial, oob.identity.serial == inband.identity.serial),
        ("machine_uuid", oob.identity.uuid, inside, same_uuid(oob.identity.uuid, inside)),
    )
    for fact, outside, within, same in rows:
        if outside is None or within is None:
            lacking = "the BMC" if outside is None else "the node"
            yield not_applicable(f"agrees_{fact}", "node", f"{lacking} does not tell", "both tell the same", _SOURCE)
        else:
            yield _compared(
                f"agrees_{fact}",
                "node",
                outside,
                within,
                same,
                cause=f"the BMC says {fact.replace('_', ' ')} {outside}, the node that answers over SSH says {within}",
                remedy="The SSH address belongs to another machine, or the board was swapped: find out before going on",
            )


def same_uuid(one: str | None, other: str | None) -> bool:
    """Equal, or equal in the byte order in which SMBIOS stores the first three fields (SMBIOS 3, 7.2.1)."""
    try:
        left, right = uuid.UUID(one or ""), uuid.UUID(other or "")
    except ValueError:
        return False
    return right in (left, uuid.UUID(bytes_le=left.bytes))


def _same_gpus(oob: Inventory, inband: Inventory) -> Iterator[Finding]:
    told = [g for g in oob.gpus if g.state != "Absent" and (g.serial or g.uuid)]
    if not told or inband.gpus_found_in is None:
        lacking = "the BMC tells no GPU serials" if not told else "nvidia-smi did not answer"
        yield not_applicable("agrees_gpus", "node", lacking, "the same GPUs in both views", _SOURCE)
        return
    pairs = joined_gpus(oob, inband)
    seen_outside = {outside.id for outside, _ in pairs}
    seen_inside = {inside.id for _, inside in pairs}
    lost = [g for g in told if g.id not in seen_outside]
    unknown = [g for g in inband.gpus if g.id not in seen_inside]
    yield from (_lost(gpu) for gpu in lost)
    yield from (_unknown(gpu) for gpu in unknown)
    if not lost and not unknown:
        yield _compared("agrees_gpus", "node", len(told), len(inband.gpus), True)
    for outside, inside in pairs:
        yield from _same_facts(outside, inside)


def _lost(gpu: Gpu) -> Finding:
    return Finding(
        metric="gpu_missing",
        subject=gpu_subject(gpu),
        outcome=Outcome.FAIL,
        observed=f"{gpu.serial} in {from_where(gpu.source) or 'Redfish'}, not in nvidia-smi",
        expected="in both",
        remedy="Read the kernel log; power-cycle the node cold; a GPU that stays away is reseated, then replaced",
        source=_SOURCE,
        cause=f"{gpu_part(gpu)} is missing: the BMC knows it, the driver does not",
        value=True,
    )


def _unknown(gpu: Gpu) -> Finding:
    return Finding(
        metric="gpu_unknown_to_bmc",
        subject=gpu_subject(gpu),
        outcome=Outcome.FAIL,
        observed=f"{gpu.serial} in nvidia-smi, not in Redfish",
        expected="in both",
        remedy="The GPU was swapped since the BMC was read, or the BMC's list is old: read out-of-band again",
        source=_SOURCE,
        cause=f"{gpu_part(gpu)} is known to the driver and not to the BMC: it was swapped, or the BMC's list is old",
    )


def _same_facts(outside: Gpu, inside: Gpu) -> Iterator[Finding]:
    for fact, called, read in _GPU_FACTS:
        one, other = read(outside), read(inside)
        if one is None or other is None:
            continue
        yield _compared(
            f"agrees_gpu_{fact}",
            gpu_subject(inside),
            one,
            other,
            str(one).lower() == str(other).lower(),
            cause=f"{gpu_part(inside)}: Redfish says {called} {one}, nvidia-smi says {other}",
            remedy="Read both again; if they still differ, believe nvidia-smi for the part and the BMC for the slot",
        )


def _compared(
    metric: str, subject: str, outside: Value, within: Value, same: bool, *, cause: str = "", remedy: str = ""
) -> Finding:
    return Finding(
        metric=metric,
        subject=subject,
        outcome=Outcome.PASS if same else Outcome.FAIL,
        observed=f"Redfish {outside}, in-band {within}",
        expected="the same",
        remedy="" if same else remedy,
        source=_SOURCE,
        cause="" if same else cause,
        value=within,
    )
