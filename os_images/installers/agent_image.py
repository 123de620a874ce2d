"""Lays an image by our own deploy agent: makes the attempt, tells how far it is, waits for its end."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inventory.classes import BootDisk
from inventory.deadline import Deadline
from inventory.errors import BudgetSpent
from inventory.findings import Finding, Outcome
from inventory.ledger import AttemptEvent, Ledger
from inventory.model import Frozen, Identity, NodeRef
from inventory.redact import REDACTOR
from os_images.attempts import ending, seed_token, sha256
from os_images.disks import DiskRefused, choose_disk
from os_images.manifest import ImageManifest
from os_images.verify import verify

__all__ = [
    "DiskRefused",
    "Login",
    "NewAttempt",
    "PhonedHome",
    "build_job",
    "choose_disk",
    "judge_attempt",
    "new_attempt",
    "phoned_home",
    "progress",
    "verify",
    "watch",
]


class Login(Frozen):
    """Who may log in to the installed node, and how: a public key, never a secret."""

    user: str
    authorized_key: str


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """An attempt just noted in the ledger. The token is known here and in the boot artifact, nowhere else."""

    attempt_id: str
    token: str

    def __repr__(self) -> str:
        return f"NewAttempt({self.attempt_id!r}, [secret])"


class PhonedHome(Frozen):
    """What the freshly installed node said about itself."""

    host_name: str
    addresses: tuple[str, ...]  # "ip:port"
    ssh_host_key: str
    machine_uuid: str
    boot_id: str
    image_digest: str


def build_job(
    manifest: ImageManifest,
    rule: BootDisk,
    login: Login,
    *,
    host_name: str,
    service_url: str,
    identity: Identity,
    wipe: bool = False,
) -> dict[str, Any]:
    """What the agent will be told, and whom it is for. `wipe` = somebody approved overwriting foreign data."""
    artifact = manifest.artifact
    return {
        "image": {
            "url": artifact.url or f"{service_url.rstrip('/')}/images/{artifact.sha256}",
            "sha256": artifact.sha256,
            "size": artifact.size,
            "size_raw": artifact.bytes_on_disk,
            "format": artifact.format,
            "name": manifest.name,
        },
        "disk": {**rule.model_dump(), "min_disk_bytes": manifest.disk_bytes, "wipe": wipe},
        "seed": {
            "authorized_key": login.authorized_key,
            "user": login.user,
            "host_name": host_name,
            "image_name": manifest.name,
            "image_digest": manifest.digest,
        },
        "expect": {"uuid": identity.uuid or "", "serial": identity.serial or ""},
    }


def new_attempt(ledger: Ledger, node: NodeRef, job: dict[str, Any]) -> NewAttempt:
    """Note a new attempt, before the node is booted for it. Its token is blotted out of everything that is written."""
    attempt = NewAttempt(secrets.token_hex(8), secrets.token_urlsafe(24))
    seed = seed_token(attempt.token)
    REDACTOR.learn_token(attempt.token)
    REDACTOR.learn_token(seed)
    kept = {**job, "seed_token_sha256": sha256(seed)}
    ledger.put_attempt(attempt.attempt_id, node.key, node.name, sha256(attempt.token), kept)
    return attempt


# ---- how far it is --------------------------------------------------------------------------------------------------

# What was last heard → what is waited for, why it may not come, and what to do. The rungs an operator goes down.
_NEXT = {
    "": (
        "the deploy agent was never fetched",
        "Look whether the BMC reaches the image service, shows the medium as inserted, and really booted from it",
    ),
    "fetched": (
        "the deploy agent was fetched and never came up",
        "Look at the serial console: a hanging POST, Secure Boot, or no link and DHCP on the provisioning port",
    ),
    "refused": (
        "a machine asked for this node's job and was refused",
        "Compare the UUID Redfish shows with the one in the refusal: a swapped cable or board, or a stale medium",
    ),
    "done": (
        "the image is laid and the installed OS has not phoned home",
        "Look at the boot order and the serial console, and whether the node reaches the image service",
    ),
}
_SILENT = "Look at the serial console: the agent has stopped in the middle. The disk is not bootable; image it again"


def progress(events: tuple[AttemptEvent, ...]) -> str:
    """How far an attempt is, in a few words."""
    if not events:
        return "the deploy agent to be fetched"
    last = events[-1]
    text = str(last.detail.get("text", ""))
    match last.kind:
        case "fetched":
            return "the deploy agent to come up"
        case "registered":
            return f"the agent, which will write {last.detail.get('by_path', 'a disk')}"
        case "done":
            return "the installed OS to phone home"
    return f"{last.kind} {text}".strip()


def _cannot_tell() -> bool:
    return False


def watch(
    ledger: Ledger,
    attempt_id: str,
    deadline: Deadline,
    *,
    until: str = "done",
    poll_s: float = 1.0,
    passed_by: Callable[[], bool] = _cannot_tell,
) -> tuple[AttemptEvent, ...]:
    """Wait for `done` or `phone-home`, or for the agent to give up; `judge_attempt` says which.

    `passed_by` says that firmware has gone on without an agent that was never fetched. Raises `BudgetSpent` naming the
    rung the attempt got stuck on, and `Cancelled`.
    """
    while True:
        events = ledger.attempt_events(attempt_id)
        kinds = {event.kind for event in events}
        if until in kinds or "failed" in kinds:
            return events
        if not events and passed_by() and not ledger.attempt_events(attempt_id):
            failed, do = _NEXT[""]
            raise BudgetSpent(deadline.node, f"{failed}, and firmware went on without it", "", do)
        try:
            deadline.wait(poll_s, progress(events))
        except BudgetSpent as error:
            raise _stuck(deadline, events, until) from error


def _stuck(deadline: Deadline, events: tuple[AttemptEvent, ...], until: str) -> BudgetSpent:
    last = events[-1] if events else None
    failed, do = _NEXT.get(last.kind if last else "", (f"the agent fell silent before {until}", _SILENT))
    said = f"last heard {_clock(last.at)}: {progress((last,))}" if last else ""
    if last and last.kind == "refused":
        said = str(last.detail.get("text", ""))
    return BudgetSpent(deadline.node, f"{failed} within {deadline.budget_s:.0f} s", said, do)


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M:%S")


def judge_attempt(events: tuple[AttemptEvent, ...]) -> Finding:
    """Whether the image was laid, as the agent itself tells."""
    end = ending(events)
    outcome = {"done": Outcome.PASS, "failed": Outcome.FAIL}.get(end, Outcome.ERROR)
    reason = next((str(e.detail.get("text", "")) for e in events if e.kind == "failed"), "")
    return Finding(
        metric="image_laid",
        subject="node",
        outcome=outcome,
        observed=reason or end or progress(events),
        expected="done",
        source="the deploy agent's own report",
        cause=f"the image was not laid: {reason or progress(events)}" if outcome is not Outcome.PASS else "",
        remedy=_remedy(reason) if outcome is not Outcome.PASS else "",
    )


def _remedy(reason: str) -> str:
    if "checksum mismatch" in reason:
        return "Compare the artifact's sha256 with its manifest; if it is right, suspect the network or a proxy between"
    if "disk" in reason:
        return "Look at the node's drives and the class's boot_disk rule"
    return "Look at the node's serial console and the image service, then image it again"


def phoned_home(events: tuple[AttemptEvent, ...]) -> PhonedHome | None:
    """What the installed node said last; None when it has not."""
    said = [event.detail for event in events if event.kind == "phone-home"]
    return PhonedHome.model_validate(said[-1]) if said else None
