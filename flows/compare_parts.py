"""Parts, firmware and software: the book and the certificate against what BMC and node tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flows.difference import Difference, Views, again, differ
from inventory.bound import bound_software
from inventory.model import Inventory
from inventory.netbox.book import BookBay, BookPart
from inventory.netbox.differ import place
from inventory.netbox.parts import PROFILES, SeenPart, half_read, seen_parts
from inventory.netbox.plan import PartType, same_type
from inventory.report import NodeReport, Stage, StageRecord

_TOLD_WITHOUT_BAY = ("gpus", "nics", "dimms", "drives")  # device types seldom have bays for CPUs and power supplies


def parts(views: Views, hall: Inventory) -> Iterator[Difference]:
    """Bay by bay: gone, another one, from another bay, not on the books; then parts that have no bay."""
    read = StageRecord(stage=Stage.DISCOVER, inventory=hall)
    seen = seen_parts(NodeReport(node=views.book.ref, run_id="audit", records=(read,)))
    placed, _ = place(views.book, seen)
    homes = {part.serial: bay for bay, part in views.book.parts if part.serial}
    for bay in views.book.bays:
        yield from _bay(views, hall, bay, placed.get(bay.id), homes)
    standing = list(placed.values())
    for part in seen:
        if part not in standing and part.kind in _TOLD_WITHOUT_BAY:
            yield _homeless(views, part)


def _bay(
    views: Views, hall: Inventory, bay: BookBay, there: SeenPart | None, homes: dict[str, str]
) -> Iterator[Difference]:
    expected = bay.part if bay.part and bay.part.status != "offline" else None
    if expected and there:
        yield from _same_bay(views, bay.name, expected, there, homes)
    elif expected:
        yield from _gone(views, hall, bay.name, expected)
    elif there:
        yield _unrecorded(views, bay, there)


def _unrecorded(views: Views, bay: BookBay, there: SeenPart) -> Difference:
    return differ(
        views,
        "unknown",
        bay.name,
        book=f"{bay.part.serial} off line" if bay.part else "",
        seen=_called(there),
        right="hall",
        fix=again(views),
        rule="a part that is there and of a known kind belongs on the books",
    )


def _homeless(views: Views, there: SeenPart) -> Difference:
    return differ(
        views,
        "unknown",
        there.label,
        book="no bay for it",
        seen=_called(there),
        right="hall",
        first="add the bay to the device type and to the device in NetBox",
        fix=again(views),
        rule="a part that is there and of a known kind belongs on the books",
    )


def _called(part: SeenPart) -> str:
    return f"{part.model or 'a part'} {part.serial or 'without a serial'}"


def _gone(views: Views, hall: Inventory, bay: str, part: BookPart) -> Iterator[Difference]:
    kind = next((kind for kind, profile in PROFILES.items() if profile == part.kind), "")
    if not kind or half_read(hall, kind):
        return  # not read is not missing
    yield differ(
        views,
        "missing",
        bay,
        book=f"{part.model} {part.serial}",
        seen="",
        right="book",
        first=f"reseat or replace the part in {bay}",
        fix=again(views),
        rule="what the book expects in a bay is intent",
    )


def _same_bay(views: Views, bay: str, part: BookPart, there: SeenPart, homes: dict[str, str]) -> Iterator[Difference]:
    held = PartType(manufacturer=part.manufacturer, model=part.model, part_number=part.part_number)
    if there.model and not same_type(there, held):
        yield _other_model(views, bay, part, there)
    elif part.serial and there.serial and part.serial != there.serial:
        yield _other_serial(views, bay, part.serial, there.serial, homes.get(there.serial, ""))
    elif part.firmware and there.firmware and part.firmware != there.firmware:
        yield _firmware(views, bay, part.firmware, there.firmware, _allowed(views, there))


def _other_model(views: Views, bay: str, part: BookPart, there: SeenPart) -> Difference:
    return differ(
        views,
        "swapped",
        bay,
        book=f"{part.model} {part.serial}",
        seen=_called(there),
        right="class",
        first=f"put a {part.model} into {bay}, or change the module's type in NetBox if the other is meant",
        fix=again(views),
        rule="which model belongs into a node is its class's business",
    )


def _other_serial(views: Views, bay: str, book: str, seen: str, home: str) -> Difference:
    return differ(
        views,
        "moved" if home else "swapped",
        bay,
        book=book,
        seen=f"{seen}, which the book has in {home}" if home else seen,
        right="hall",
        fix=again(views),
        rule="same model, other serial: what is there counts, and is proven again",
    )


# -- versions -------------------------------------------------------------------------------------------------------


def _allowed(views: Views, there: SeenPart) -> tuple[str, ...]:
    if there.kind == "gpus":
        return views.node_class.gpu.firmware
    return tuple(v for spec in views.node_class.nics for v in spec.firmware) if there.kind == "nics" else ()


def _firmware(views: Views, subject: str, book: str, seen: str, allowed: tuple[str, ...]) -> Difference:
    """The class's allow-list judges; a version it allows, or says nothing about, is recorded as it is."""
    refused = bool(allowed) and seen not in allowed
    return differ(
        views,
        "drifted",
        subject,
        book=f"firmware {book}",
        seen=f"firmware {seen}",
        right="class" if refused else "hall",
        first=f"flash {' or '.join(allowed)}" if refused else "",
        fix=again(views),
        rule="the class's allow-list judges firmware; what it does not forbid is proven again and recorded",
    )


def versions(views: Views, hall: Inventory) -> Iterator[Difference]:
    """BIOS and BMC firmware, as the book recorded them last."""
    for name, field, seen in (("BIOS", "bios_version", hall.bios.version), ("BMC", "bmc_version", hall.bmc_version)):
        book = views.book.text(field)
        if book and seen and book != seen:
            yield _firmware(views, name, book, seen, views.node_class.firmware.get(name, ()))


def software(views: Views) -> list[Difference]:
    """What the certificate binds of the image and its drivers, against what the node itself says it runs."""
    if views.inside is None or views.certificate is None:
        return []
    seen = bound_software(views.inside)
    return [
        differ(
            views,
            "drifted",
            name.replace("_", " "),
            book=bound[:12] if name == "image_digest" else bound,
            seen=seen[name][:12] if name == "image_digest" else seen[name],
            right="class",
            fix=f"{again(views)} --reimage {views.book.name}",
            rule="what runs on a node is its class's image, whole",
        )
        for name, bound in sorted(views.certificate.software.items())
        if name in seen and seen[name] != bound
    ]
