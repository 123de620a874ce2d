"""What of a node a certificate is bound to, and in one sentence each, what of it is no longer so."""

from __future__ import annotations

from inventory.model import Drive, Frozen, Gpu, Inventory, Nic, Software

_SOFTWARE = ("kernel", "driver", "cuda", "nccl", "fabric_manager", "image_digest")
_LISTS = {"GPU": "gpus", "NIC": "nics", "drive": "drives"}  # kind → field of Inventory


class Part(Frozen):
    """One replaceable part, by what is printed on it."""

    kind: str  # "GPU" | "NIC" | "drive"
    slot: str
    serial: str
    uuid: str = ""
    model: str = ""
    firmware: str = ""
    addresses: tuple[str, ...] = ()  # MACs and GUIDs

    @property
    def name(self) -> str:
        """As an operator would point at it."""
        return f"{self.kind} in slot {self.slot}"


def bound_parts(inventory: Inventory) -> tuple[Part, ...]:
    """GPUs, network adapters and drives of a reading, in the order of kind and slot."""
    parts = [
        *map(_gpu, inventory.gpus),
        *map(_nic, inventory.nics),
        *map(_drive, inventory.drives),
    ]
    return tuple(sorted(parts, key=lambda part: (part.kind, part.slot, part.serial)))


def bound_firmware(inventory: Inventory) -> dict[str, str]:
    """Firmware by name: BMC, BIOS and every line of the firmware inventory that has a version."""
    lines = {line.id: line.version for line in inventory.firmware}
    named = {"BMC": inventory.bmc_version, "BIOS": inventory.bios.version, **lines}
    return {name: version for name, version in named.items() if version}


def bound_software(software: Software) -> dict[str, str]:
    """The versions a performance figure depends on."""
    return {name: value for name in _SOFTWARE if (value := getattr(software, name))}


def changes(bound: tuple[Part, ...], inventory: Inventory) -> tuple[str, ...]:
    """What became of each bound part, and which parts are new. Parts are followed by serial, then by slot."""
    found: list[str] = []
    for kind in _LISTS:
        if not _unread(kind, inventory):
            was = [part for part in bound if part.kind == kind]
            found += _changes_of(was, [part for part in bound_parts(inventory) if part.kind == kind])
    return tuple(found)


def _unread(kind: str, inventory: Inventory) -> bool:
    """Nothing listed and the reading says it could not be: not the same as gone."""
    field = _LISTS[kind]
    return not getattr(inventory, field) and any(gap.fact.startswith(field) for gap in inventory.missing)


def _changes_of(was: list[Part], now: list[Part]) -> list[str]:
    new = list(now)
    pairs: list[tuple[Part, Part | None]] = []
    for part in sorted(was, key=lambda part: not _by_serial(part, new)):  # whoever still is there claims first
        heir = _by_serial(part, new) or next((other for other in new if other.slot == part.slot), None)
        pairs.append((part, heir))
        if heir:
            new.remove(heir)
    found = [sentence for part, heir in sorted(pairs, key=lambda pair: pair[0].slot) for sentence in _fate(part, heir)]
    return found + [f"{part.name}: serial {part.serial} was added" for part in new]


def _by_serial(part: Part, among: list[Part]) -> Part | None:
    return next((other for other in among if part.serial and other.serial == part.serial), None)


def _fate(part: Part, heir: Part | None) -> list[str]:
    """What became of one bound part."""
    if heir is None:
        return [f"{part.name}: serial {part.serial} is gone"]
    if part.serial and heir.serial and part.serial != heir.serial:
        return [f"{part.name}: serial {part.serial} became {heir.serial}"]
    return _inner_changes(part, heir)


def _inner_changes(was: Part, now: Part) -> list[str]:
    """The same part with another fact; facts that either reading lacks are passed over."""
    pairs = [
        ("slot", was.slot, now.slot),
        ("UUID", was.uuid, now.uuid),
        ("firmware", was.firmware, now.firmware),
        ("addresses", " ".join(was.addresses), " ".join(now.addresses)),
    ]
    return [f"{was.name}: {what} {old} became {new}" for what, old, new in pairs if old and new and old != new]


def _gpu(gpu: Gpu) -> Part:
    return Part(
        kind="GPU",
        slot=gpu.slot or gpu.id,
        serial=gpu.serial or "",
        uuid=gpu.uuid or "",
        model=gpu.model or "",
        firmware=gpu.firmware or "",
    )


def _nic(nic: Nic) -> Part:
    addresses = [address for port in nic.ports for address in (port.mac, port.guid) if address]
    return Part(
        kind="NIC",
        slot=nic.slot or nic.id,
        serial=nic.serial or "",
        model=nic.model or "",
        firmware=nic.firmware or "",
        addresses=tuple(sorted(addresses)),
    )


def _drive(drive: Drive) -> Part:
    return Part(
        kind="drive",
        slot=drive.slot or drive.id,
        serial=drive.serial or "",
        model=drive.model or "",
        firmware=drive.firmware or "",
    )
