"""Virtual media: an image put into the CD slot by whichever way this BMC takes it, and out again, both proven."""

from __future__ import annotations

from collections.abc import Iterator

from inventory.errors import ChangeRefused, OutputNotUnderstood
from inventory.redfish.act import action, follow, post, settle
from inventory.redfish.client import Json, Wire
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.quirks import Trait

_INSERT, _EJECT = "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia"
_CD = frozenset({"CD", "DVD"})
_REFUSED_FOR_ITS_SHAPE = frozenset({400, 405, 422, 501})


def insert_media(wire: Wire, system_uri: str, image_url: str, traits: frozenset[Trait]) -> None:
    """Put an image in; the same one there already is already so, any other is ejected first."""
    slot = _slot(wire, system_uri)
    if not _without(slot, image_url):
        return
    if slot.raw("Inserted") or slot.raw("Image"):  # a stale Image blocks the insert on Supermicro: Ironic release notes
        _eject(wire, slot)
        slot = _again(wire, slot)
    what = f"insert {image_url} at {slot.uri}"
    settle(
        wire,
        what,
        lambda: _insert(wire, slot, image_url, traits, what),
        lambda: _without(_again(wire, slot), image_url),
    )


def eject_media(wire: Wire, system_uri: str) -> None:
    """Take the image out; an empty slot, and a BMC that has none, is already so. One that cannot be read is not."""
    reader = Reader.afresh(wire)
    slots = _slots(reader, system_uri)
    if not slots and reader.notes.missing:
        why = "; ".join(missing.reason for missing in reader.notes.missing)
        raise OutputNotUnderstood(wire.node, "virtual media could not be looked at", why)
    if slots and (slots[0].raw("Inserted") or slots[0].raw("Image")):
        _eject(wire, slots[0])


def _slot(wire: Wire, system_uri: str) -> Resource:
    """The slot to put an image into; raises `ChangeRefused` when the BMC offers none."""
    slots = _slots(Reader.afresh(wire), system_uri)
    if not slots:
        raise ChangeRefused(
            wire.node, "virtual media", "the BMC offers no slot for a CD image", "Enable remote media in the BMC."
        )
    return slots[0]


def _slots(reader: Reader, system_uri: str) -> list[Resource]:
    """Slots that take a CD image, beside the System or at its manager: one in use first, then those with an action.

    Not all members of one BMC can be written (Lenovo's EXT and RDOC).
    """
    system = reader.need(system_uri)
    slots = [slot for uri in _collections(reader, system) for slot in reader.members(uri, "media", "media") or ()]
    fit = [slot for slot in slots if _CD & set(slot.texts("MediaTypes") or _CD)]
    return sorted(fit, key=lambda slot: (not slot.raw("Inserted"), not action(slot, _INSERT)))


def _collections(reader: Reader, system: Resource) -> Iterator[str]:
    if system.link("VirtualMedia"):
        yield system.link("VirtualMedia")
        return
    for uri in system.links("Links", "ManagedBy"):
        manager = reader.get(uri, "media")
        if manager and manager.link("VirtualMedia"):
            yield manager.link("VirtualMedia")


def _again(wire: Wire, slot: Resource) -> Resource:
    return Reader.afresh(wire).need(slot.uri)


def _without(slot: Resource, image_url: str) -> str:
    """Empty when the image is in; some BMCs show its name only, or leave the host out."""
    image, name = slot.raw("Image"), slot.raw("ImageName")
    tail = image_url.rpartition("/")[2]
    same = image == image_url or (not image and name == tail) or (isinstance(image, str) and image_url.endswith(image))
    return "" if slot.raw("Inserted") is True and same else f"Inserted {slot.raw('Inserted')}, Image {image}"


def _insert(wire: Wire, slot: Resource, image_url: str, traits: frozenset[Trait], what: str) -> None:
    """The known ways, each tried only after the one before was refused for its shape."""
    target = action(slot, _INSERT)
    if not target:
        body = {"Image": image_url, "Inserted": True}
        follow(wire, wire.accepted(wire.patch(slot.uri, body, wire.get(slot.uri).etag), what), what)
        return
    variants = list(_variants(image_url, traits))
    for body in variants[:-1]:
        reply = wire.send("POST", target, body)
        if reply.status not in _REFUSED_FOR_ITS_SHAPE:
            follow(wire, wire.accepted(reply, what), what)
            return
    post(wire, target, variants[-1], what)


def _variants(image_url: str, traits: frozenset[Trait]) -> Iterator[dict[str, Json]]:
    plain: dict[str, Json] = {"Image": image_url}
    full = {**plain, "Inserted": True, "WriteProtected": True}
    protocol = image_url.partition(":")[0].upper()
    streamed = {**plain, "TransferProtocolType": protocol, "TransferMethod": "Stream"}
    login = {**streamed, "UserName": "none", "Password": "none"}  # placeholders: the image server asks for no login
    if Trait.MEDIA_NEEDS_LOGIN in traits:
        yield login
    if Trait.MINIMAL_INSERT in traits:
        yield plain
    yield from (full, plain, streamed, login)


def _eject(wire: Wire, slot: Resource) -> None:
    what = f"eject at {slot.uri}"
    settle(wire, what, lambda: _send_eject(wire, slot, what), lambda: _still_in(_again(wire, slot)))


def _send_eject(wire: Wire, slot: Resource, what: str) -> None:
    target = action(slot, _EJECT)
    if target:
        post(wire, target, {}, what)  # iLO wants the empty object: sushy VirtualMedia.eject_media
        return
    body = {"Image": None, "Inserted": False}
    follow(wire, wire.accepted(wire.patch(slot.uri, body, wire.get(slot.uri).etag), what), what)


def _still_in(slot: Resource) -> str:
    # Dell answers before the slot is free: Ironic drivers/modules/redfish/boot.py. SMC keeps a stale Image string.
    return f"Inserted {slot.raw('Inserted')}, Image {slot.raw('Image')}" if slot.raw("Inserted") else ""
