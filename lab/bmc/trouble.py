"""A BMC's own bad days: busy, or resetting connections; `bmc_dead` is obeyed by `serve.py`."""

from __future__ import annotations

from lab.bmc.answers import Answer, error
from lab.bmc.bmc import Bmc


def busy(bmc: Bmc) -> Answer | None:
    """503 to the next few requests while `bmc_503_burst` lasts; it wears off."""
    if not _one_more(bmc, "bmc_503_burst", "bmc_503_left"):
        return None
    return error("ServiceTemporarilyUnavailable", "1", headers={"Retry-After": "1"})


def resets(bmc: Bmc) -> bool:
    """Whether this connection is reset: every second GET while `flaky_bmc` lasts; it wears off."""
    return bmc.requests % 2 == 0 and _one_more(bmc, "flaky_bmc", "bmc_resets_left")


def _one_more(bmc: Bmc, fault: str, knob: str) -> bool:
    """Whether a fault that counts down still bites; the last bite ends it."""
    machine = bmc.machine
    if not machine.fault(fault):
        return False
    machine.state.knobs[knob] = machine.state.knobs.get(knob, 1) - 1
    if machine.state.knobs[knob] <= 0:
        machine.wear_off(fault)
    return True
