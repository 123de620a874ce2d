"""Power: the reset type a BMC allows, sent once, proven by the state it leads to."""

from __future__ import annotations

from http import HTTPStatus

from inventory.errors import BudgetSpent, ChangeNotApplied, ChangeRefused, OutputNotUnderstood
from inventory.redfish.act import action, follow, prove, settle
from inventory.redfish.client import Wire
from inventory.redfish.crawl import Reader, Resource
from inventory.redfish.quirks import Trait

_RESET = "#ComputerSystem.Reset"
# Reset types that mean the same to us, best first: DMTF DSP8010 Resource.ResetType. Nmi and the button are not used.
_ON = ("On", "ForceOn")
_OFF = ("ForceOff",)
_GRACEFUL_OFF = ("GracefulShutdown",)
_RESTART = ("ForceRestart", "PowerCycle", "FullPowerCycle")
# ComputerSystem.BootProgress.LastState values after which the operating system has the machine.
_POSTED = frozenset({"OSBootStarted", "OSRunning"})
_HARDWARE_READY = "SystemHardwareInitializationComplete"


def power_of(system: Resource) -> str:
    """Say "On", "Off", "PoweringOn" or "PoweringOff", as the BMC does."""
    return system.text("power", "PowerState") or "Unknown"


def power_on(wire: Wire, uri: str, power_s: float) -> None:
    """Power on; already on is already so."""
    _reset(wire, uri, _ON, "On", power_s)


def power_off(wire: Wire, uri: str, power_s: float) -> None:
    """Cut the power; already off is already so."""
    _reset(wire, uri, _OFF, "Off", power_s)


def graceful_off(wire: Wire, uri: str, power_s: float) -> None:
    """Ask the operating system to shut down; `ChangeNotApplied` when it does not, what then is the caller's choice."""
    _reset(wire, uri, _GRACEFUL_OFF, "Off", power_s)


def restart(wire: Wire, uri: str, power_s: float) -> None:
    """Reset a running node, proven by a changed mark; without marks to compare, or without a reset type, off and on."""
    system = Reader.afresh(wire).need(uri)
    if power_of(system) == "Off":
        power_on(wire, uri, power_s)
        return
    before = _marks(system)
    kind = _allowed(wire, system, _RESTART)
    if not kind or not any(before):
        power_off(wire, uri, power_s)
        power_on(wire, uri, power_s)
        return

    def unmet() -> str:
        shown = Reader.afresh(wire).need(uri)
        return "" if power_of(shown) != "On" or _restarted(before, _marks(shown)) else f"no sign of it: {before}"

    settle(wire, f"reset ({kind})", lambda: _send(wire, system, kind), unmet, proof_s=power_s)
    prove(wire, "power on after the reset", lambda: _unlike(wire, uri, "On"), None, power_s)


def _reset(wire: Wire, uri: str, kinds: tuple[str, ...], wanted: str, power_s: float) -> None:
    system = Reader.afresh(wire).need(uri)
    if power_of(system) == wanted:
        return
    kind = _allowed(wire, system, kinds)
    if not kind:
        raise ChangeRefused(
            wire.node, f"reset {' or '.join(kinds)}", "not among the BMC's reset types", "Choose another way."
        )
    what = f"reset ({kind})"
    settle(wire, what, lambda: _send(wire, system, kind), lambda: _unlike(wire, uri, wanted), proof_s=power_s)


def _send(wire: Wire, system: Resource, kind: str) -> None:
    target = action(system, _RESET)
    if not target:
        raise ChangeRefused(wire.node, f"reset ({kind})", "the BMC offers no reset action")
    what = f"POST {target} ({kind})"
    reply = wire.send("POST", target, {"ResetType": kind})
    # 409 says it is there or on its way already (iDRAC, when off is asked of what is off): the state decides.
    if reply.status != HTTPStatus.CONFLICT:
        follow(wire, wire.accepted(reply, what), what)


def _unlike(wire: Wire, uri: str, wanted: str) -> str:
    """Empty when the power is as wanted; else what it is."""
    shown = power_of(Reader.afresh(wire).need(uri))
    return "" if shown == wanted else f"power is {shown}, wanted {wanted}"


def _allowed(wire: Wire, system: Resource, kinds: tuple[str, ...]) -> str:
    """The first of these reset types the BMC allows, inline or in its ActionInfo; the first when it does not say."""
    allowed = system.texts("Actions", _RESET, "ResetType@Redfish.AllowableValues") or _action_info(wire, system)
    if not allowed:
        return kinds[0]
    return next((kind for kind in kinds if kind in allowed), "")


def _action_info(wire: Wire, system: Resource) -> tuple[str, ...]:
    uri = system.link("Actions", _RESET, "@Redfish.ActionInfo")
    info = Reader.afresh(wire).get(uri) if uri else None
    parameters = info.parts("Parameters") if info else ()
    named = (p.texts("AllowableValues") for p in parameters if p.raw("Name") == "ResetType")
    return next((values for values in named if values), ())


def _marks(system: Resource) -> tuple[str | None, ...]:
    """What changes when a machine restarts, as far as the BMC keeps it."""
    return (system.text("", "LastResetTime"), *progress_of(system))


def _restarted(before: tuple[str | None, ...], after: tuple[str | None, ...]) -> bool:
    """Whether the marks show a new boot, and not merely the old one going on."""
    reset, state, at = after
    if reset != before[0]:
        return True
    return at != before[2] and (state == before[1] or state not in _POSTED)


def progress_of(system: Resource) -> tuple[str | None, str | None]:
    """How far the boot got: (LastState, LastStateTime)."""
    return system.text("", "BootProgress", "LastState"), system.text("", "BootProgress", "LastStateTime")


def wait_posted(wire: Wire, uri: str, since: str | None, traits: frozenset[Trait]) -> None:
    """Wait until the operating system has the machine; `since` is the LastStateTime of the boot before."""
    final = _POSTED | ({_HARDWARE_READY} if Trait.HARDWARE_READY_ENDS_POST in traits else frozenset())
    last: str | None = None
    try:
        while True:
            wire.be_patient()
            system = Reader.afresh(wire).need(uri)
            state, at = progress_of(system)
            _can_end(wire, system, state)
            if state in final and not (since and at == since):
                return
            last = state or last
            wire.deadline.wait(wire.poll_s, f"POST to end, last progress {last}")
    except BudgetSpent as spent:
        waited = f"POST did not end in {wire.deadline.budget_s:.0f} s"
        raise BudgetSpent(wire.node, waited, f"last progress {last}", "Look at the console.") from spent


def _can_end(wire: Wire, system: Resource, state: str | None) -> None:
    if power_of(system) == "Off":
        raise ChangeNotApplied(wire.node, "wait for POST", "the node is powered off", "Power it on first.")
    if state is None and not isinstance(system.raw("BootProgress"), dict):
        raise OutputNotUnderstood(
            wire.node, "wait for POST", "this BMC tells no boot progress", "Judge by what boots instead."
        )
