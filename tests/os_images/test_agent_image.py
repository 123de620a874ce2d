"""Waiting for an attempt: how far it is, and which rung it got stuck on."""

from __future__ import annotations

import threading

import pytest

from inventory.deadline import Deadline
from inventory.errors import BudgetSpent, Cancelled
from inventory.findings import Outcome
from inventory.redact import REDACTOR
from os_images.installers.agent_image import judge_attempt, phoned_home, progress, watch
from tests.os_images.boxes import Site

HEARD: dict[str, list[tuple[str, str]]] = {
    "never fetched": [],
    "fetched": [("fetched", "iso")],
    "refused": [("fetched", "iso"), ("refused", "machine A asked for the job of r1-n01, which is B")],
    "silent": [("fetched", "iso"), ("registered", ""), ("writing", "40 %")],
    "done": [("fetched", "iso"), ("registered", ""), ("done", "")],
}
STUCK = {
    "never fetched": "r1-n01: the deploy agent was never fetched within 0 s. Look whether the BMC reaches",
    "fetched": "the deploy agent was fetched and never came up within 0 s: last heard",
    "refused": "a machine asked for this node's job and was refused within 0 s: machine A asked for the job of r1-n01",
    "silent": "the agent fell silent before phone-home within 0 s: last heard",
    "done": "the image is laid and the installed OS has not phoned home within 0 s: last heard",
}


def say(site: Site, events: list[tuple[str, str]]) -> str:
    """An attempt in which so much was said."""
    attempt = site.begin()["attempt"]
    for kind, text in events:
        site.ledger.attempt_event(attempt, kind, {"text": text})
    return attempt


@pytest.mark.parametrize("case", list(HEARD))
def test_the_sentence_names_the_rung(site: Site, case: str) -> None:
    """When the budget ends, the operator learns how far it came and where to look."""
    attempt = say(site, HEARD[case])
    with pytest.raises(BudgetSpent) as raised:
        watch(site.ledger, attempt, Deadline("r1-n01", 0.05), until="phone-home", poll_s=0.01)
    assert STUCK[case] in str(raised.value)
    assert raised.value.do.startswith(("Look", "Compare"))


def test_the_last_progress_stands_in_the_sentence(site: Site) -> None:
    """How far the writing was is what one wants to know."""
    with pytest.raises(BudgetSpent, match="writing 40 %"):
        watch(site.ledger, say(site, HEARD["silent"]), Deadline("r1-n01", 0.05), poll_s=0.01)


def test_waiting_tells_what_it_waits_for(site: Site) -> None:
    """The live grid shows the agent's own progress, and the wait ends when the agent is done."""
    attempt, told = say(site, HEARD["silent"]), []

    def tell(what: str, _: float) -> None:
        told.append(what)
        if len(told) == 2:
            site.ledger.attempt_event(attempt, "done", {"text": ""})

    events = watch(site.ledger, attempt, Deadline("r1-n01", 10.0, tell=tell), poll_s=0.01)
    assert (["writing 40 %", "writing 40 %"], "done") == (told, events[-1].kind)


def test_a_failure_ends_the_wait_at_once(site: Site) -> None:
    """Nobody waits for a phone-home that cannot come; the agent's reason is the cause."""
    attempt = say(
        site, [("registered", ""), ("failed", "image checksum mismatch: expected sha256 a, received sha256 b")]
    )
    events = watch(site.ledger, attempt, Deadline("r1-n01", 10.0), until="phone-home")
    found = judge_attempt(events)
    assert (
        Outcome.FAIL,
        "the image was not laid: image checksum mismatch: expected sha256 a, received sha256 b",
    ) == (found.outcome, found.cause)
    assert found.remedy.startswith("Compare the artifact's sha256 with its manifest")
    assert None is phoned_home(events)


def test_an_operator_can_stop_the_wait(site: Site) -> None:
    """Ctrl-C in the middle of imaging."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        watch(site.ledger, say(site, []), Deadline("r1-n01", 10.0, cancel=stop))


def test_an_attempt_that_goes_on_is_no_pass(site: Site) -> None:
    """Not done is an error, never a pass."""
    events = site.ledger.attempt_events(say(site, HEARD["silent"]))
    assert (Outcome.ERROR, "writing 40 %") == (judge_attempt(events).outcome, progress(events))


def test_a_new_attempt_s_tokens_are_blotted_out(site: Site) -> None:
    """The boot URL carries the token; what is logged or kept of it does not."""
    credential = site.begin()
    shown = REDACTOR.clean(f"{site.url}/boot/{credential['attempt']}/{credential['token']}/agent.iso")
    assert f"{site.url}/boot/{credential['attempt']}/[redacted]/agent.iso" == shown
