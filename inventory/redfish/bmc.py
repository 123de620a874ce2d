"""One BMC as the rest of rackmint sees it: read the node, change its power, boot source, media and BIOS settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from urllib.parse import urlsplit

from inventory.deadline import Deadline
from inventory.errors import ChangeRefused, NodeUnreachable, OutputNotUnderstood
from inventory.evidence import EvidenceStore
from inventory.findings import Evidence
from inventory.model import Bios, BiosValue, Inventory
from inventory.redfish import bios, boot, media, power
from inventory.redfish.act import settle
from inventory.redfish.client import BmcLogin, Json, Wire
from inventory.redfish.crawl import Notes, Reader, Resource
from inventory.redfish.hosts import Systems, find_systems
from inventory.redfish.pins import PinStore, pinned
from inventory.redfish.quirks import Quirk, Trait, quirks_of
from inventory.redfish.read import FAST, Lanes, Start, read_node, rests_on

_ROOT = "/redfish/v1/"
_SESSIONS = "/redfish/v1/SessionService/Sessions"  # where DSP0266 puts it when the root has no link
POWER_S = 180.0  # power on and verify averages above 60 s on some machines: chaos/powerman#154


def no_fence() -> None:
    """Used where no lease is held: reading, and the lab's own tests."""


class Bmc:
    """One BMC, for one thread; a context manager: certificate checked, logged in, the session given back on leaving."""

    def __init__(
        self,
        node: str,
        url: str,
        login: BmcLogin | None,
        *,
        tls: str = "pin",
        pins: PinStore,
        deadline: Deadline,
        evidence: EvidenceStore,
        fence: Callable[[], None] = no_fence,
        poll_s: float = 1.0,
        power_s: float = POWER_S,
        system: str = "",
    ) -> None:
        parts = urlsplit(url)
        self.node, self.url = node, f"{parts.scheme}://{parts.netloc}"
        self.lanes = Lanes()
        self._login, self._tls, self._pins = login, tls, pins
        self._deadline, self._evidence, self._fence = deadline, evidence, fence
        self._poll_s, self._power_s, self._system = poll_s, power_s, system
        self._wire: Wire | None = None
        self._start: Start | None = None
        self.quirks: tuple[Quirk, ...] = ()

    def __enter__(self) -> Bmc:
        secure = self.url.startswith("https:")
        pin = pinned(self.node, self.url, self._pins, self._deadline) if secure and self._tls == "pin" else ""
        verify: bool | str = False if pin else (True if self._tls in ("pin", "verify") else self._tls)
        self._wire = Wire(
            self.node,
            self.url,
            verify=verify,
            fingerprint=pin,
            deadline=self._deadline,
            evidence=self._evidence,
            fence=self._fence,
            poll_s=self._poll_s,
        )
        try:
            self._begin(self._wire)
        except BaseException:
            self._wire.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.close()

    def _begin(self, wire: Wire) -> None:
        reader = Reader.afresh(wire)
        root = reader.get(_ROOT, "root")
        if root is None or not root.link("Systems"):
            why = "; ".join(missing.reason for missing in reader.notes.missing) or "no link to Systems"
            raise OutputNotUnderstood(self.node, f"{self.url}{_ROOT} is no Redfish service", why, "Check the address.")
        if self._login:
            wire.log_in(self._login, root.link("Links", "Sessions") or _SESSIONS)
        systems = find_systems(reader, root.link("Systems"))
        if not systems.hosts:
            raise OutputNotUnderstood(self.node, f"{self.url}{root.link('Systems')}", *_no_host(reader, systems))
        self.quirks = _quirks(root, systems.hosts[0])
        traits = frozenset(quirk.trait for quirk in self.quirks)
        if Trait.NO_KEEP_ALIVE in traits:
            wire.one_connection_each()
        offers = root.raw("ProtocolFeaturesSupported", "ExpandQuery", "Levels") is True
        self._start = Start(root, systems, traits, offers and Trait.NO_EXPAND not in traits, offers)
        self.lanes.count(FAST, wire.requests)

    @property
    def wire(self) -> Wire:
        """The connection; only while entered."""
        if self._wire is None:
            raise NodeUnreachable(self.node, self.url, "not connected", "Use `with Bmc(…) as bmc`.")
        return self._wire

    @property
    def requests(self) -> int:
        """HTTP requests so far."""
        return self._wire.requests if self._wire else 0

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What was kept: one piece per write and per lane read."""
        return tuple(self.wire.kept)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, *, firmware: bool = True, parts: bool = True, deep: bool = False) -> Inventory:
        """The node behind this BMC with all its facts, and why those that are missing are missing."""
        host = self._fresh_host()
        return read_node(self.wire, self._started, host, self.lanes, parts=parts, firmware=firmware, deep=deep)

    def read_all(self, *, firmware: bool = True, parts: bool = True, deep: bool = False) -> tuple[Inventory, ...]:
        """Every node behind this BMC; two where a blade's BMC serves two."""
        return tuple(
            read_node(self.wire, self._started, host, self.lanes, parts=parts, firmware=firmware, deep=deep)
            for host in self._started.systems.hosts
        )

    def power(self) -> str:
        """Say "On", "Off", "PoweringOn" or "PoweringOff"."""
        return power.power_of(self._fresh_host())

    def boot_progress(self) -> tuple[str | None, str | None]:
        """How far the boot got: (LastState, LastStateTime)."""
        return power.progress_of(self._fresh_host())

    def bios(self) -> Bios:
        """BIOS settings, current and pending."""
        reader = Reader.afresh(self.wire)
        read = bios.read_bios(reader, self._fresh_host())
        reader.keep("BIOS")
        return rests_on(read, reader.kept)

    # --- changing; each proven by reading back -----------------------------------------------------------------------

    def power_on(self) -> None:
        """Power on, proven; already on is already so."""
        power.power_on(self.wire, self._subject(), self._power_s)

    def power_off(self) -> None:
        """Cut the power, proven; already off is already so."""
        power.power_off(self.wire, self._subject(), self._power_s)

    def graceful_off(self) -> None:
        """Ask the operating system to shut down; `ChangeNotApplied` when it does not. Force is the caller's choice."""
        power.graceful_off(self.wire, self._subject(), self._power_s)

    def restart(self) -> None:
        """Reset a running node; power on one that is off."""
        power.restart(self.wire, self._subject(), self._power_s)

    def wait_posted(self, since: str | None = None) -> None:
        """Wait until the operating system has the machine; `since` is the `LastStateTime` of the boot before."""
        power.wait_posted(self.wire, self._subject(), since, self._started.traits)

    def boot_once(self, target: str, *, http_uri: str = "") -> None:
        """Boot from "Cd", "UefiHttp" or "Hdd" at the next POST only."""
        boot.boot_once(self.wire, self._subject(), target, http_uri, self._started.traits)

    def boot_to_disk(self) -> None:
        """Clear any override, so that the boot order counts again."""
        boot.boot_to_disk(self.wire, self._subject())

    def insert_media(self, image_url: str) -> None:
        """Put an image into the virtual CD slot; a stale one is ejected first."""
        media.insert_media(self.wire, self._subject(), image_url, self._started.traits)

    def eject_media(self) -> None:
        """Take the image out."""
        media.eject_media(self.wire, self._subject())

    def stage_bios(self, changes: Mapping[str, BiosValue]) -> None:
        """Put BIOS changes in the queue for the next POST; `ChangeRefused` carries the BMC's own words."""
        uri = self._fresh_host().link("Bios")
        if not uri:
            raise ChangeRefused(self.node, "stage BIOS settings", "the BMC offers no Bios resource")
        bios.stage_bios(self.wire, uri, changes)

    def locate(self, on: bool) -> None:
        """Light or darken the identification light."""
        uri = self._subject()
        body = _light(self._fresh_host(), on)
        what = f"PATCH {uri} (identification light)"

        def unmet() -> str:
            shown = Reader.afresh(self.wire).need(uri)
            return "" if all(shown.raw(key) == value for key, value in body.items()) else f"light is {_lit(shown)}"

        def act() -> None:
            self.wire.accepted(self.wire.patch(uri, body, self.wire.get(uri).etag), what)

        settle(self.wire, what, act, unmet)

    # --- who is meant ------------------------------------------------------------------------------------------------

    @property
    def _started(self) -> Start:
        if self._start is None:
            raise NodeUnreachable(self.node, self.url, "not connected", "Use `with Bmc(…) as bmc`.")
        return self._start

    def _subject(self) -> str:
        """The URI of the one node meant; a new operation on it begins."""
        self.wire.be_patient()
        hosts = self._started.systems.hosts
        wanted = [h for h in hosts if self._system in ("", h.id, h.raw("SerialNumber"), h.raw("UUID"))]
        if len(wanted) != 1:
            names = ", ".join(host.id for host in hosts)
            raise OutputNotUnderstood(
                self.node, f"{self.url} serves {names}", f"{len(wanted)} of them match", "Say which one is meant."
            )
        return wanted[0].uri

    def _fresh_host(self) -> Resource:
        return Reader.afresh(self.wire).need(self._subject())


def _no_host(reader: Reader, systems: Systems) -> tuple[str, str]:
    if systems.dpus:
        return "this is a DPU's own BMC", "Use the BMC of the host it sits in."
    reasons = "; ".join(missing.reason for missing in reader.notes.missing)
    return reasons or "no System has BIOS or boot settings", "Check the account's rights and the address."


def _quirks(root: Resource, host: Resource) -> tuple[Quirk, ...]:
    oem = root.raw("Oem")
    named = (root.raw("Vendor"), host.raw("Manufacturer"), *(oem if isinstance(oem, dict) else ()))
    products = (root.raw("Product"), host.raw("Model"))
    return quirks_of(tuple(str(n) for n in named if n), tuple(str(p) for p in products if p))


def _light(host: Resource, on: bool) -> dict[str, Json]:
    if isinstance(host.raw("LocationIndicatorActive"), bool):
        return {"LocationIndicatorActive": on}
    if host.raw("IndicatorLED") is None:
        raise ChangeRefused(host.id, "identification light", "the BMC offers none")
    return {"IndicatorLED": "Lit" if on else "Off"}


def _lit(host: Resource) -> Json:
    active = host.raw("LocationIndicatorActive")
    return host.raw("IndicatorLED") if active is None else active


__all__ = ["Bmc", "BmcLogin", "Notes", "PinStore", "no_fence"]
