"""What a node boots next: the whole triple in each PATCH, proven by reading it back."""

from __future__ import annotations

from dataclasses import dataclass

from inventory.errors import ChangeRefused
from inventory.model import Boot
from inventory.redfish.act import follow, settle
from inventory.redfish.client import Json, Wire
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.power import progress_of
from inventory.redfish.quirks import Trait

_TARGET, _ENABLED, _MODE = "BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode"
_ALLOWED = f"{_TARGET}@Redfish.AllowableValues"


@dataclass(frozen=True)
class _Place:
    """Where this BMC wants its boot override written: at the System, or at its settings object (DGX, iDRAC10)."""

    uri: str
    boot: Resource
    allowed: tuple[str, ...]


def read_boot(reader: Reader, host: Resource) -> Boot:
    """The override that stands, and the boot progress."""
    state, at = progress_of(host)
    named = host.renamed("boot")
    place = _place(reader, host)
    return Boot(
        target=named.text("target", "Boot", _TARGET) or _none(host.raw("Boot", _TARGET)),
        enabled=named.text("enabled", "Boot", _ENABLED),
        mode=named.text("mode", "Boot", _MODE),
        http_uri=host.text("", "Boot", "HttpBootUri"),
        targets_allowed=place.allowed or None,
        progress=named.text("progress", "BootProgress", "LastState") or state,
        progress_at=at,
    )


def _none(target: Json) -> str | None:
    return "None" if target == "None" else None  # the word, which is a target and no placeholder


def _place(reader: Reader, host: Resource) -> _Place:
    allowed = host.texts("Boot", _ALLOWED)
    settings_uri = host.link("@Redfish.Settings", "SettingsObject")
    if allowed is None and settings_uri:
        settings = reader.get(settings_uri, "boot.targets_allowed")
        staged = settings.texts("Boot", _ALLOWED) if settings else None
        if settings is not None and staged:
            return _Place(settings.uri, settings, staged)
    return _Place(host.uri, host, allowed or ())


def boot_once(wire: Wire, uri: str, target: str, http_uri: str, traits: frozenset[Trait]) -> None:
    """Boot from `target` at the next POST only."""
    place = _place(Reader.afresh(wire), Reader.afresh(wire).need(uri))
    word = _word(wire, place, target, traits)
    triple: dict[str, Json] = {_TARGET: word, _ENABLED: "Once", **_uefi(place)}
    if http_uri:
        triple["HttpBootUri"] = http_uri
    _write(wire, place, triple, lambda: _unmet(wire, uri, place, word, http_uri))


def boot_to_disk(wire: Wire, uri: str) -> None:
    """Clear the override, so that the boot order counts again; a BMC that cannot clear it is told Hdd."""
    if not _overridden(wire, uri):
        return
    place = _place(Reader.afresh(wire), Reader.afresh(wire).need(uri))
    enabled = place.boot.texts("Boot", f"{_ENABLED}@Redfish.AllowableValues")
    clears = enabled is None or "Disabled" in enabled
    try:
        wanted = {_TARGET: "None", _ENABLED: "Disabled"} if clears else {_TARGET: "Hdd", _ENABLED: "Continuous"}
        _write(wire, place, {**wanted, **_uefi(place)}, lambda: _overridden(wire, uri))
    except ChangeRefused:
        _write(wire, place, {_TARGET: "Hdd", _ENABLED: "Continuous", **_uefi(place)}, lambda: _overridden(wire, uri))


def _word(wire: Wire, place: _Place, target: str, traits: frozenset[Trait]) -> str:
    """The BMC's own word for a target: a virtual CD is `Cd` here and `UsbCd` there."""
    words: tuple[str, ...] = (target,)
    if target == "Cd":
        words = ("UsbCd", "Cd") if Trait.CD_IS_USB_CD in traits else ("Cd", "UsbCd")
    if not place.allowed:
        return target
    word = next((w for w in words if w in place.allowed), "")
    if not word:
        raise ChangeRefused(
            wire.node,
            f"boot from {target}",
            f"the BMC allows {', '.join(place.allowed)}",
            "Choose another boot source.",
        )
    return word


def _uefi(place: _Place) -> dict[str, Json]:
    """The mode goes along wherever it is known: Supermicro falls back without it (OpenStack storyboard 2008252)."""
    boot = place.boot.raw("Boot")
    known = isinstance(boot, dict) and (_MODE in boot or f"{_MODE}@Redfish.AllowableValues" in boot)
    return {_MODE: "UEFI"} if known else {}


def _write(wire: Wire, place: _Place, triple: dict[str, Json], unmet: Json) -> None:
    what = f"PATCH {place.uri} (boot {triple[_TARGET]}, {triple[_ENABLED]})"

    def act() -> None:
        etag = wire.get(place.uri).etag
        follow(wire, wire.accepted(wire.patch(place.uri, {"Boot": triple}, etag), what), what)

    settle(wire, what, act, unmet)


def _unmet(wire: Wire, uri: str, place: _Place, word: str, http_uri: str) -> str:
    """Empty when the override stands at the System or waits in its settings object.

    A BMC that reports Once as Continuous (sushy-tools does) is believed: the line clears the override after each boot.
    """
    shown = [_shown(wire, at) for at in dict.fromkeys((uri, place.uri))]
    met = any(t == word and e in ("Once", "Continuous") and (not http_uri or h == http_uri) for t, e, h in shown)
    return "" if met else f"override is {shown[0][0]}, {shown[0][1]}"


def _shown(wire: Wire, uri: str) -> tuple[Json, Json, Json]:
    system = Reader.afresh(wire).need(uri)
    return system.raw("Boot", _TARGET), system.raw("Boot", _ENABLED), system.raw("Boot", "HttpBootUri")


def _overridden(wire: Wire, uri: str) -> str:
    """Empty when the next boot goes by the boot order or to the disk; looked at where the override is written, too."""
    system = Reader.afresh(wire).need(uri)
    place = _place(Reader.afresh(wire), system)
    for at in dict.fromkeys((uri, place.uri)):
        target, enabled, _ = _shown(wire, at)
        if enabled not in (None, "Disabled") and target not in (None, "None", "Hdd"):
            return f"override is {target}, {enabled}"
    return ""
