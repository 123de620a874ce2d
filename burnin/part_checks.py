"""Everything of a node but its GPUs against its class: identity, NICs, DIMMs, drives, CPUs, supplies, firmware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from burnin.judging import View, from_where, held, listed, nic_part, not_applicable, unread
from inventory.classes import NicSpec, NodeClass
from inventory.findings import Finding, Threshold, Value
from inventory.model import Inventory, Nic, NicPort, NodeRef, Source

_HEALTH = "Redfish Status.Health, DMTF DSP2046"
_SPOKEN = {"dimm": "DIMM", "drive": "drive", "cpu": "CPU"}  # how an operator says it
_LINK_REMEDY = "Check cable, transceiver and switch port, then the adapter"


def of_class(node_class: NodeClass) -> str:
    """Where the class's figures come from."""
    return f"class {node_class.name}: {node_class.source}"


def check_identity(inventory: Inventory, node_class: NodeClass, ref: NodeRef) -> Iterator[Finding]:
    """Whether this is the machine the book means, and of the make the class is for."""
    identity = inventory.identity
    where = identity.source
    rows: tuple[tuple[str, Value, tuple[str, ...], str], ...] = (
        ("node_manufacturer", identity.manufacturer, node_class.manufacturers, of_class(node_class)),
        ("node_model", identity.model, node_class.models, of_class(node_class)),
        ("node_uuid", identity.uuid, (ref.uuid.lower(),) if ref.uuid else (), f"the book's entry for {ref.name}"),
    )
    for metric, value, allowed, source in rows:
        if allowed:
            remedy = "Check that the book's BMC address belongs to this node, and its class"
            threshold = Threshold(metric=metric, one_of=allowed, remedy=remedy, source=source)
            yield held(threshold, "node", value, part="node", says=metric.replace("_", " "), where=where)
    yield from _serial(inventory, ref, where)


def _serial(inventory: Inventory, ref: NodeRef, where: Source | None) -> Iterator[Finding]:
    """The book may know the chassis serial or, at Dell, the service tag."""
    identity = inventory.identity
    if not ref.serial:
        yield not_applicable(
            "node_serial", "node", f"{identity.serial} ({from_where(where)})", "the book has none", "the book"
        )
        return
    value = identity.sku if identity.sku == ref.serial else identity.serial
    threshold = Threshold(
        metric="node_serial",
        equals=ref.serial,
        remedy="Another machine answers at this BMC address: mend cabling or book before anything is wiped",
        source=f"the book's serial of {ref.name}",
    )
    yield held(threshold, "node", value, part="node", says="this is another machine than the book means", where=where)


def check_parts(inventory: Inventory, node_class: NodeClass) -> Iterator[Finding]:
    """DIMMs, drives, CPUs, power supplies: how many, how large, how healthy."""
    source = of_class(node_class)
    yield from _counted("dimm", len(inventory.dimms), node_class.dimms, inventory, source, exact=True)
    yield from _counted("drive", len(inventory.drives), node_class.drives, inventory, source, exact=False)
    yield from _counted("cpu", len(inventory.cpus), node_class.cpus, inventory, source, exact=True)
    if node_class.dimm_size_mib:
        limit = Threshold(
            metric="dimm_size_mib",
            equals=node_class.dimm_size_mib,
            remedy="Replace the DIMM by the right size",
            source=source,
        )
        for dimm in inventory.dimms:
            name = dimm.slot or dimm.id
            yield held(
                limit, f"DIMM {name}", dimm.size_mib, part=f"DIMM {name}", says="its size is another", seen=dimm.source
            )
    yield from _unhealthy(inventory)


def _counted(
    kind: str, found: int, wanted: int, inventory: Inventory, source: str, *, exact: bool
) -> Iterator[Finding]:
    if not wanted:
        return
    reasons = listed(m.reason for m in inventory.missing if m.fact in (f"{kind}s", "storage"))
    if not found and reasons:
        yield unread(
            f"{kind}_count",
            "node",
            f"not counted: {reasons}",
            str(wanted),
            source=source,
            remedy="Power the node on and read again",
            cause=f"{_SPOKEN[kind]}s could not be counted: {reasons}",
        )
        return
    remedy = f"Find the {_SPOKEN[kind]} that is missing or not seen: reseat, then replace it"
    limits = {"equals": wanted} if exact else {"at_least": wanted}
    threshold = Threshold.model_validate({"metric": f"{kind}_count", "remedy": remedy, "source": source, **limits})
    parts = getattr(inventory, f"{kind}s")
    seen = parts[0].source if parts else inventory.identity.source
    says = f"number of {_SPOKEN[kind]}s"
    yield held(threshold, "node", found, part="node", says=says, where="out-of-band", seen=seen)


def _unhealthy(inventory: Inventory) -> Iterator[Finding]:
    """Only what the BMC itself calls unhealthy; a BMC that has no word on health says nothing."""
    parts: Iterable[tuple[str, str, str | None, Source | None]] = (
        *(("dimm_health", f"DIMM {d.slot or d.id}", d.health, d.source) for d in inventory.dimms),
        *(("drive_health", f"drive {d.slot or d.id}", d.health, d.source) for d in inventory.drives),
        *(("cpu_health", f"CPU {c.id}", c.health, c.source) for c in inventory.cpus),
        *(("psu_health", f"power supply {p.id}", p.health, p.source) for p in inventory.psus),
    )
    for metric, subject, health, seen in parts:
        if health is not None:
            limit = Threshold(metric=metric, equals="OK", remedy="Read the BMC's log, replace the part", source=_HEALTH)
            says = "the BMC reports its health as not OK"
            yield held(limit, subject, health, part=subject, says=says, seen=seen)


def check_firmware(inventory: Inventory, node_class: NodeClass) -> Iterator[Finding]:
    """The class's allow-lists: BMC and BIOS by name, others by id or name of the firmware inventory."""
    for name, allowed in node_class.firmware.items():
        version = _version(inventory, name)
        threshold = Threshold(
            metric="firmware_version",
            one_of=allowed,
            remedy=f"Update {name}, or allow this version in the class",
            source=of_class(node_class),
        )
        says = "its version is not one the class allows"
        yield held(threshold, name, version, part=name, says=says, seen=_version_seen(inventory, name))


def _version(inventory: Inventory, name: str) -> str | None:
    by_name = {"BMC": inventory.bmc_version, "BIOS": inventory.bios.version}
    if name in by_name:
        return by_name[name]
    return next((f.version for f in inventory.firmware if name in (f.id, f.name)), None)


def _version_seen(inventory: Inventory, name: str) -> Source | None:
    by_name = {"BMC": inventory.identity.source, "BIOS": inventory.bios.source or inventory.identity.source}
    listed_at = next((f.source for f in inventory.firmware if name in (f.id, f.name)), None)
    return by_name.get(name, listed_at)


def check_nics(inventory: Inventory, node_class: NodeClass) -> Iterator[Finding]:
    """Each kind of adapter the class has: how many, firmware, width, and each port's rate and layer."""
    for spec in node_class.nics:
        nics = tuple(nic for nic in inventory.nics if matches(nic, spec))
        yield from _nic_count(nics, spec, inventory, node_class)
        for nic in nics:
            yield from check_nic(SeenNic(nic, nic, node_class, "out-of-band"), spec)


def matches(nic: Nic, spec: NicSpec) -> bool:
    """Whether an adapter is of this kind: by model, and where nobody tells one by its ports and what they speak."""
    if nic.model and spec.models:
        return any(model in nic.model for model in spec.models)
    alike = [port for port in nic.ports if spec.link_layer in ("", port.link_layer)]
    return len(nic.ports) == spec.ports == len(alike)


def _nic_count(nics: tuple[Nic, ...], spec: NicSpec, inventory: Inventory, node_class: NodeClass) -> Iterator[Finding]:
    reasons = listed(m.reason for m in inventory.missing if m.fact == "nics")
    subject, kind = f"{spec.role} NICs", spec.models[0] if spec.models else spec.role
    if not inventory.nics and reasons:
        yield not_applicable(
            "nic_count",
            subject,
            f"not told out-of-band ({reasons}); read in-band",
            str(spec.count),
            of_class(node_class),
        )
        return
    threshold = Threshold(
        metric="nic_count", equals=spec.count, remedy="Reseat the adapter that is not seen", source=of_class(node_class)
    )
    seen = nics[0].source if nics else inventory.identity.source
    says = f"number of {kind} adapters"
    yield held(threshold, subject, len(nics), part="node", says=says, where="out-of-band", seen=seen)


@dataclass(frozen=True, slots=True)
class SeenNic:
    """One adapter as one view sees it; `named` is the same adapter as findings call it."""

    nic: Nic
    named: Nic
    node_class: NodeClass
    view: View

    def held(
        self, metric: str, value: Value, limits: Mapping[str, object], *, says: str, remedy: str
    ) -> Iterator[Finding]:
        """One fact of it; a limit of nothing asks for nothing, and what the BMC does not tell the node will."""
        figures = {name: figure for name, figure in limits.items() if figure not in (0, 0.0, (), "", None)}
        if not figures:
            return
        subject, source = f"NIC {self.named.id}", of_class(self.node_class)
        threshold = Threshold.model_validate({"metric": metric, "remedy": remedy, "source": source, **figures})
        if value is None and self.view == "out-of-band":
            told = "not told out-of-band, or the link is asleep; read in-band"
            yield not_applicable(metric, subject, told, threshold.expected, source)
            return
        yield held(threshold, subject, value, part=nic_part(self.named), says=says, where=self.nic.source)


def check_nic(seen: SeenNic, spec: NicSpec) -> Iterator[Finding]:
    """Firmware, PCIe width, ports, and each port's state, rate and layer."""
    nic = seen.nic
    yield from seen.held(
        "nic_firmware",
        nic.firmware,
        {"one_of": spec.firmware},
        says="its firmware is not one the class allows",
        remedy="Update the adapter's firmware, or allow this one in the class",
    )
    yield from seen.held(
        "nic_pcie_width",
        nic.pcie_width,
        {"at_least": spec.pcie_width},
        says="its PCIe link is too narrow",
        remedy="Reseat the adapter or its riser",
    )
    yield from seen.held(
        "nic_ports",
        len(nic.ports),
        {"equals": spec.ports},
        says="number of ports",
        remedy="Check the adapter's model and port mode",
    )
    for port in nic.ports:
        yield from _check_port(port, seen, spec)


def _check_port(port: NicPort, seen: SeenNic, spec: NicSpec) -> Iterator[Finding]:
    """Without an operating system a link may legally be down: then only the node itself can tell."""
    asleep = seen.view == "out-of-band" and port.link_state != "up"
    state, rate, layer = (None, None, None) if asleep else (port.link_state, port.speed_gbit_s, port.link_layer)
    must_be_up = "up" if spec.rate_gbit_s else None
    yield from seen.held(
        "nic_link_state", state, {"equals": must_be_up}, says="its link is not up", remedy=_LINK_REMEDY
    )
    yield from seen.held(
        "nic_rate_gbit_s", rate, {"at_least": spec.rate_gbit_s}, says="its link is too slow", remedy=_LINK_REMEDY
    )
    yield from seen.held(
        "nic_link_layer",
        layer,
        {"equals": spec.link_layer},
        says="it runs in another mode",
        remedy=_LINK_REMEDY,
    )
