"""Acting on a BMC: send once, follow what it hands out, read back until it shows. Accepted is never applied."""

from __future__ import annotations

from collections.abc import Callable

from inventory.errors import ChangeNotApplied, ChangeRefused, NodeBusy, NodeUnreachable
from inventory.redfish.client import Json, Reply, Wire
from inventory.redfish.crawl import Resource
from inventory.redfish.foreign import said

PROOF_S = 30.0  # our choice: settings, boot and media show within seconds on every BMC we have read about
TASK_S = 120.0  # our choice: media and power tasks end well inside; what counts is the proof afterwards

# Task.TaskState and Job.JobState values that are final, DMTF DSP8010.
_DONE = frozenset({"Completed", "CompletedOK"})
_FAILED = frozenset({"Exception", "Killed", "Cancelled", "CompletedWithErrors", "Invalid"})
_JOB_MAY_APPEAR_LATE = 3  # reads; Dell answers 404 right after creation (sushy release notes)


def settle(
    wire: Wire, what: str, act: Callable[[], None], unmet: Callable[[], str], *, proof_s: float = PROOF_S
) -> None:
    """Act once, then read back until nothing is unmet.

    "Not now" (503, 429) was not looked at by the BMC, so it may go out again after reading that it is still needed.
    Silence may have been obeyed: nothing is sent again, reading back decides.
    """
    wire.be_patient()
    silence: NodeUnreachable | None = None
    while True:
        try:
            act()
            break
        except NodeBusy as busy:
            wire.bear(busy)
            if not unmet():
                return
        except NodeUnreachable as error:
            silence = error
            break
    prove(wire, what, unmet, silence, proof_s)


def prove(wire: Wire, what: str, unmet: Callable[[], str], silence: NodeUnreachable | None, proof_s: float) -> None:
    """Read back until nothing is unmet, in at most half of the budget left; `ChangeNotApplied` tells what is seen."""
    deadline = wire.deadline
    give_up_at_s = deadline.left_s - min(proof_s, deadline.left_s / 2)
    while shown := unmet():
        if deadline.left_s <= give_up_at_s:
            if silence:
                raise silence
            raise ChangeNotApplied(
                wire.node, f"{what} was accepted, and reading back shows no effect", shown, "Look at the BMC's own log."
            )
        deadline.wait(wire.poll_s, f"{what} to show: {shown}")


def post(wire: Wire, uri: str, body: Json, what: str) -> None:
    """One action, sent once, its task followed to the end where it hands one out."""
    follow(wire, wire.accepted(wire.send("POST", uri, body), what), what)


def follow(wire: Wire, reply: Reply, what: str) -> None:
    """Poll the task or monitor of a 202 (or of a 204 with a job) until its state is final.

    All shapes: Location alone, Task in the body, both (the Task tells more), a job. A monitor that vanishes has ended
    or been purged; what it did is read back by the caller.
    """
    place = _task_place(reply)
    if not place:
        return
    uri = wire.local(place)
    ends_at_s = wire.deadline.left_s - min(TASK_S, wire.deadline.left_s / 2)
    seen = False
    misses = 0
    while wire.deadline.left_s > ends_at_s:
        wire.deadline.wait(wire.wished_s(reply, wire.poll_s), f"{what}: task {uri}")
        reply = wire.get(uri)
        if reply.status == 404:
            misses += 1
            if seen or misses >= _JOB_MAY_APPEAR_LATE:
                return
            continue
        seen = True
        if _ended(wire, reply, what):
            return


def _task_place(reply: Reply) -> str:
    body = reply.body or {}
    is_task = "Task" in str(body.get("@odata.type", "")) or "TaskState" in body
    if reply.status == 202:
        return str(body.get("@odata.id") or "") if is_task else reply.headers.get("Location", "")
    location = reply.headers.get("Location", "")
    return location if reply.status == 204 and "/Jobs/" in location else ""


def _ended(wire: Wire, reply: Reply, what: str) -> bool:
    body = reply.body or {}
    state = str(body.get("TaskState") or body.get("JobState") or "")
    if state in _FAILED:
        raise ChangeRefused(wire.node, f"{what}: its task ended as {state}", said(body) or state)
    if reply.status >= 400:
        raise ChangeRefused(wire.node, f"{what}: its task answered HTTP {reply.status}", reply.said)
    return state in _DONE or (not state and reply.status != 202)


def action(resource: Resource, name: str) -> str:
    """The target of an action; empty when the BMC does not offer it."""
    return resource.link("Actions", name, "target")
