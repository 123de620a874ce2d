"""BIOS settings: what holds, what waits for the next POST, and putting more in the queue."""

from __future__ import annotations

from collections.abc import Mapping

from inventory.errors import ChangeRefused
from inventory.model import Bios, BiosValue
from inventory.redfish.act import settle
from inventory.redfish.client import Json, Wire
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.foreign import said


def read_bios(reader: Reader, host: Resource) -> Bios:
    """Current and pending attributes; pending are those the settings object holds and the current ones do not."""
    version = host.renamed("bios").text("version", "BiosVersion")
    current = reader.get(host.link("Bios"), "bios") if host.link("Bios") else None
    if current is None:
        reader.notes.lack("bios", host.uri, "not offered")
        return Bios(version=version)
    attributes = _values(current.raw("Attributes"))
    if not isinstance(current.raw("Attributes"), dict):
        reader.notes.lack("bios.attributes", current.uri, "not offered: no Attributes object")  # iLO 4: ansible#48296
    settings = reader.get(_settings_uri(current), "bios.pending") if _settings_uri(current) else None
    waiting = _values(settings.raw("Attributes")) if settings else {}
    return Bios(
        version=version,
        registry=current.renamed("bios").text("registry", "AttributeRegistry"),
        attributes=attributes,
        pending={name: value for name, value in waiting.items() if attributes.get(name) != value},
        source=current.source,
    )


def _values(attributes: Json) -> dict[str, BiosValue]:
    if not isinstance(attributes, dict):
        return {}
    return {str(name): _value(value) for name, value in attributes.items()}


def _value(value: Json) -> BiosValue:
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


def _settings_uri(bios: Resource) -> str:
    return bios.link("@Redfish.Settings", "SettingsObject")


def stage_bios(wire: Wire, bios_uri: str, changes: Mapping[str, BiosValue]) -> None:
    """Put changes in the queue for the next POST and prove that they wait there; what is already so is not written."""
    known, bios = _read(wire, bios_uri)
    unknown = sorted(name for name in changes if name not in known.attributes)
    if unknown:
        raise ChangeRefused(
            wire.node, f"BIOS attributes {', '.join(unknown)}", "not on this machine", "Check the BIOS profile."
        )
    lacking = _lacking(known, changes)
    if lacking:
        # Gigabyte and ASUS have no settings object but take the PATCH at SD: Tacklebox#55.
        uri = _settings_uri(bios) or f"{bios_uri.rstrip('/')}/SD"
        settle(wire, f"PATCH {uri}", lambda: _patch(wire, uri, bios, lacking), lambda: _staged(wire, bios_uri, lacking))


def _read(wire: Wire, uri: str) -> tuple[Bios, Resource]:
    reader = Reader.afresh(wire)
    bios = reader.need(uri)
    host = Resource({"Bios": {"@odata.id": uri}}, bios.source, reader.notes)
    return read_bios(reader, host), bios


def _lacking(bios: Bios, changes: Mapping[str, BiosValue]) -> dict[str, BiosValue]:
    """What neither holds nor waits; a value that holds but is about to be changed back counts as lacking."""
    expected = {**bios.attributes, **bios.pending}
    return {name: value for name, value in changes.items() if expected.get(name) != value}


def _patch(wire: Wire, uri: str, bios: Resource, changes: Mapping[str, BiosValue]) -> None:
    etag = wire.get(uri).etag
    body: dict[str, Json] = {"Attributes": dict(changes)}
    times = bios.raw("@Redfish.Settings", "SupportedApplyTimes")
    if isinstance(times, list) and "OnReset" in times:  # Dell only stages without it: iDRAC-Redfish-Scripting#84
        body["@Redfish.SettingsApplyTime"] = {
            "@odata.type": "#Settings.v1_1_0.PreferredApplyTime",
            "ApplyTime": "OnReset",
        }
    wire.accepted(wire.patch(uri, body, etag), f"PATCH {uri} ({', '.join(sorted(changes))})")


def _staged(wire: Wire, bios_uri: str, changes: Mapping[str, BiosValue]) -> str:
    """Empty when every change waits or already holds; else what does not."""
    bios, resource = _read(wire, bios_uri)
    lacking = _lacking(bios, changes)
    if not lacking:
        return ""
    got = {**bios.attributes, **bios.pending}
    shown = "; ".join(f"{name} is {got.get(name)!r}, wanted {value!r}" for name, value in lacking.items())
    words = said(resource.raw("@Redfish.Settings"))  # HPE refuses here, after a 200: ilorest#91
    return f"{shown} ({words})" if words else shown
