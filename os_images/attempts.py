"""The rules of an imaging attempt: who may register, what counts as said, when it is over. The ledger holds it all."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inventory.ledger import Attempt, AttemptEvent, Ledger
from inventory.model import now
from os_images.disks import DiskRefused, choose_disk
from os_images.messages import Event, PhoneHome, Register

ENDINGS = ("done", "failed")
_TOKEN_LASTS = timedelta(hours=24)  # our choice: an attempt is watched for minutes; a day covers a night's stop
_MOST_EVENTS = 500  # our choice: far more than an agent says, so that a stolen token cannot fill the ledger


class Denied(Exception):
    """No, and why. `status` is the HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


def sha256(token: str) -> str:
    """What the ledger keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def seed_token(token: str) -> str:
    """The token the installed node phones home with; derived, so that neither is ever stored in clear."""
    return hmac.new(token.encode(), b"rackmint seed", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class AttemptDesk:
    """Answers agents and nodes out of the ledger; any number of processes may do so at once."""

    ledger: Ledger
    public_url: str

    def admit_boot(self, attempt_id: str, token: str, kind: str) -> Attempt:
        """Whether this boot artifact may still be fetched; notes the first fetch."""
        attempt = self._known(attempt_id, token)
        end = ending(self.ledger.attempt_events(attempt_id))
        if end:
            raise Denied(410, f"this attempt is over: {end}")
        self.ledger.attempt_event(attempt_id, "fetched", {"text": kind}, only_once=True)
        return attempt

    def register(self, said: Register) -> dict[str, Any]:
        """The job for this machine; the same machine may ask again until the attempt is over."""
        attempt = self._known(said.attempt, said.token)
        events = self.ledger.attempt_events(said.attempt)
        end = ending(events)
        if end:
            raise Denied(409, f"this attempt is over: {end}; nothing may be written")
        self._right_machine(attempt, said)
        return self._job(attempt, said, self._first_registration(attempt, said, events))

    def event(self, said: Event) -> None:
        """Note what the agent says; said twice (a lost answer) is noted once where it ends the attempt."""
        self._known(said.attempt, said.token)
        events = self.ledger.attempt_events(said.attempt)
        end = ending(events)
        if end == said.kind:
            return
        if end or not any(e.kind == "registered" for e in events) or len(events) >= _MOST_EVENTS:
            raise Denied(409, f"this attempt is over: {end}" if end else "register first, and say less")
        self.ledger.attempt_event(said.attempt, said.kind, {"text": said.detail}, only_once=said.kind in ENDINGS)

    def phone_home(self, said: PhoneHome) -> None:
        """Note where the installed node answers; the first host key it names is the one that counts."""
        attempt = self.ledger.attempt(said.attempt)
        if attempt is None or not _same(sha256(said.token), str(attempt.job.get("seed_token_sha256", ""))):
            raise Denied(403, "unknown attempt or token")
        events = self.ledger.attempt_events(said.attempt)
        registered = next((e for e in events if e.kind == "registered"), None)
        if registered is None or not same_uuid(str(registered.detail.get("uuid", "")), said.machine_uuid):
            self._refuse(said.attempt, 409, f"machine {said.machine_uuid} phones home for another machine's attempt")
        heard = [e.detail for e in events if e.kind == "phone-home"]
        if heard and heard[0]["ssh_host_key"] != said.ssh_host_key:
            self._refuse(said.attempt, 409, "the SSH host key differs from the one first told")
        if self.ledger.last_attempt(attempt.node_key) == attempt:  # before it counts as heard: a kill loses neither
            self.ledger.set_pin("ssh", attempt.node_key, said.ssh_host_key)
        news = said.model_dump(mode="json", exclude={"attempt", "token"})
        if not heard or (heard[-1] != news and len(events) < _MOST_EVENTS):
            self.ledger.attempt_event(said.attempt, "phone-home", news)

    def _known(self, attempt_id: str, token: str) -> Attempt:
        attempt = self.ledger.attempt(attempt_id)
        # Compared even when the attempt is unknown, so that time tells nothing.
        if not _same(sha256(token), attempt.token_sha256 if attempt else "") or attempt is None:
            raise Denied(403, "unknown attempt or token")
        if now() - attempt.begun_at > _TOKEN_LASTS:
            raise Denied(403, "this attempt is too old")
        return attempt

    def _right_machine(self, attempt: Attempt, said: Register) -> None:
        """Compare with what Redfish told: the UUID where it is known, else the serial."""
        wanted_uuid, wanted_serial = (str(attempt.job.get("expect", {}).get(k, "")) for k in ("uuid", "serial"))
        by_uuid = bool(wanted_uuid) and not same_uuid(wanted_uuid, said.uuid)
        by_serial = not wanted_uuid and bool(wanted_serial) and wanted_serial != said.serial
        if by_uuid or by_serial:
            self._refuse(
                said.attempt,
                409,
                f"machine {said.uuid} (serial {said.serial}) asked for the job of {attempt.node_name}, "
                f"which is {wanted_uuid or wanted_serial}",
            )

    def _first_registration(self, attempt: Attempt, said: Register, events: tuple[AttemptEvent, ...]) -> AttemptEvent:
        """What was noted at the first registration; a second machine is refused, also when both ask at once."""
        first = next((e for e in events if e.kind == "registered"), None)
        if first is None:
            chosen = self._disk(attempt, said)
            detail = {"uuid": said.uuid, "serial": said.serial, "macs": list(said.macs), "by_path": chosen}
            self.ledger.attempt_event(said.attempt, "registered", detail, only_once=True, unless=ENDINGS)
            events = self.ledger.attempt_events(said.attempt)
            first = next((e for e in events if e.kind == "registered"), None)
        if first is None:  # given up in the very moment it asked
            raise Denied(409, f"this attempt is over: {ending(events)}; nothing may be written")
        if not same_uuid(str(first.detail["uuid"]), said.uuid):
            self._refuse(said.attempt, 409, f"machine {said.uuid} came second: {first.detail['uuid']} has this job")
        return first

    def _disk(self, attempt: Attempt, said: Register) -> str:
        try:
            return choose_disk(tuple(d.facts() for d in said.disks), attempt.job["disk"]).by_path
        except DiskRefused as error:
            self.ledger.attempt_event(said.attempt, "failed", {"text": str(error)}, only_once=True)
            raise Denied(409, str(error)) from error

    def _job(self, attempt: Attempt, said: Register, first: AttemptEvent) -> dict[str, Any]:
        seed = {
            **attempt.job["seed"],
            "phone_home_url": f"{self.public_url}/agent/v1/phone-home",
            "attempt": said.attempt,
            "token": seed_token(said.token),
        }
        return {"image": attempt.job["image"], "disk": {"by_path": first.detail["by_path"]}, "seed": seed}

    def _refuse(self, attempt_id: str, status: int, reason: str) -> None:
        """Say no and leave one note of it, for whoever wonders why nothing happens."""
        self.ledger.attempt_event(attempt_id, "refused", {"text": reason}, only_once=True)
        raise Denied(status, reason)


def ending(events: tuple[AttemptEvent, ...]) -> str:
    """How the attempt ended; empty while it goes on."""
    return next((e.kind for e in events if e.kind in ENDINGS), "")


def same_uuid(one: str, other: str) -> bool:
    """Whether two UUIDs are one. SMBIOS before 2.6 and some BMCs swap the first three fields' bytes."""
    try:
        first, second = uuid.UUID(one), uuid.UUID(other)
    except ValueError:
        return bool(one) and one.lower() == other.lower()
    return second in (first, uuid.UUID(bytes=first.bytes_le))


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
