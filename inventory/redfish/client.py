"""The wire to one BMC: one connection, one thread, every request counted, every wait inside the deadline.

Rides on sushy's connector, which knows headers, logging without secrets and the 406 dance; retries, redirects, sessions
and certificates are handled here, since sushy re-sends writes, ignores Retry-After and lets tokens follow redirects.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from requests import Response
from sushy.connector import Connector
from sushy.exceptions import SushyError

from inventory.deadline import Deadline
from inventory.errors import (
    ChangeRefused,
    LoginRefused,
    NodeBusy,
    NodeTrouble,
    NodeUnreachable,
    OutputNotUnderstood,
)
from inventory.evidence import EvidenceStore
from inventory.findings import Evidence
from inventory.model import now
from inventory.redfish.adapter import CountingAdapter
from inventory.redfish.foreign import said, translate
from inventory.secrets import Secret

Json = Any  # what a BMC answered: any JSON at all

CONNECT_S = 5.0  # our choice: see pins.py
READ_S = 30.0  # slowest single resource reported is 11.4 s (bb-Ricardo/check_redfish#80)
SLOW_READ_S = 180.0  # a DGX H100's firmware inventory takes 2-3 minutes; libredfish allows 180 s
WRITE_S = 60.0  # sushy's default; slower writes are judged by reading back
PATIENCE_S = 30.0  # our choice: how long in all one operation bears "503, not now" before it says so
_TRIES = 3  # our choice: transport errors in a row before a BMC counts as unreachable
_LONGEST_WISH_POLLS = 30.0  # our choice: a BMC that wishes to be left alone for longer is asked again all the same
_LEAST_GOODBYE_S = 2.0  # our choice: the session is given back even when the budget is spent
_REDIRECTS = frozenset({301, 302, 307, 308})
_BUSY = frozenset({429, 503})


@dataclass(frozen=True)
class BmcLogin:
    """An account on a BMC."""

    username: str
    password: Secret


@dataclass(frozen=True)
class Reply:
    """One answer, whatever its status."""

    uri: str
    status: int
    body: dict[str, Json] | None  # None when there was none or it was no JSON object
    headers: Mapping[str, str] = field(default_factory=dict)
    at: datetime = field(default_factory=now)
    took_ms: float = 0.0
    raw: bytes = b""

    @property
    def etag(self) -> str:
        """The resource's ETag from the header, else from the body; empty when it has none."""
        return self.headers.get("ETag", "") or str((self.body or {}).get("@odata.etag") or "")

    @property
    def said(self) -> str:
        """The BMC's own words about what went wrong."""
        return said(self.body) or f"HTTP {self.status}"

    @property
    def retry_after_s(self) -> float | None:
        """A numeric Retry-After; dates are ignored, as BMC clocks are wrong."""
        text = self.headers.get("Retry-After", "").strip()
        return float(text) if text.isdigit() else None


class Wire:
    """Requests to one BMC from one thread."""

    def __init__(
        self,
        node: str,
        url: str,
        *,
        verify: bool | str,
        fingerprint: str,
        deadline: Deadline,
        evidence: EvidenceStore,
        fence: Callable[[], None],
        poll_s: float,
    ) -> None:
        parts = urlsplit(url)
        self.node, self.origin = node, f"{parts.scheme}://{parts.netloc}"
        self.deadline, self.poll_s, self.fence = deadline, poll_s, fence
        self.kept: list[Evidence] = []  # one per write, one per lane read
        self._evidence = evidence
        self._adapter = CountingAdapter(verify=verify, fingerprint=fingerprint, deadline=deadline)
        self._connector = Connector(self.origin, server_side_retries=1, response_callback=self._note)
        session = self._connector._session
        session.trust_env = False  # a proxy or .netrc of the environment never sees BMC traffic
        session.headers["Connection"] = "keep-alive"
        session.mount("https://", self._adapter)
        session.mount("http://", self._adapter)
        self._answer: Response | None = None
        self._login: BmcLogin | None = None
        self._sessions_uri = ""
        self._session_uri = ""
        self._patience_s = PATIENCE_S
        self._busy_tries = 0
        self._busy: Reply | None = None
        if parts.scheme == "http":  # nothing to save; kept, each answer may wait 40 ms for Nagle against delayed ACK
            self.one_connection_each()

    @property
    def requests(self) -> int:
        """HTTP requests so far."""
        return self._adapter.requests

    def be_patient(self, patience_s: float = PATIENCE_S) -> None:
        """Begin an operation: "not now" is borne for so many seconds in all."""
        self._patience_s, self._busy_tries = patience_s, 0

    def one_connection_each(self) -> None:
        """For BMCs that break reused connections."""
        self._adapter.keeps_connections = False
        self._connector._session.headers["Connection"] = "close"

    # --- the session -------------------------------------------------------------------------------------------------

    def log_in(self, login: BmcLogin, sessions_uri: str) -> None:
        """Open a session; Basic only where the BMC has no sessions. A refused credential is tried once, no more."""
        self._login, self._sessions_uri = login, sessions_uri
        body = {"UserName": login.username, "Password": login.password.reveal()}
        reply = self._redirected("POST", sessions_uri, body, {}, WRITE_S) if sessions_uri else None
        while reply and reply.status in _BUSY and self._patience_s > 0:  # also said when all session slots are taken
            self.pause(reply, f"a session on {self.origin}")
            reply = self._redirected("POST", sessions_uri, body, {}, WRITE_S)
        if reply and reply.status in (401, 403):
            raise self._login_refused(reply)
        token = reply.headers.get("X-Auth-Token", "") if reply and reply.status < 300 else ""
        if not reply or not token:
            self._connector.set_http_basic_auth(login.username, login.password.reveal())
            return
        self._connector.set_http_session_auth(token)
        place = reply.headers.get("Location", "") or str((reply.body or {}).get("@odata.id") or "")
        self._session_uri = self.local(place) if place else ""

    def _login_refused(self, reply: Reply) -> LoginRefused:
        who = self._login.username if self._login else "nobody"
        return LoginRefused(self.node, f"log in at {self.origin} as {who}", reply.said, "Check the BMC credential.")

    def close(self) -> None:
        """Give the session back and hang up. Never raises: a BMC that is gone has no session left to keep."""
        if self._session_uri:
            self._adapter.last_words(_LEAST_GOODBYE_S)
            try:
                self._once("DELETE", self._session_uri, None, {}, (_LEAST_GOODBYE_S, _LEAST_GOODBYE_S))
            except NodeTrouble:
                self._session_uri = ""
        self._connector.close()

    def _log_in_again(self) -> bool:
        """After a session has expired: once, and only if there was one."""
        if not (self._login and self._session_uri):
            return False
        self._session_uri = ""
        self._connector._session.headers.pop("X-Auth-Token", None)
        self.log_in(self._login, self._sessions_uri)
        return True

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, uri: str, *, read_s: float = READ_S) -> Reply:
        """Read one resource, whatever the status; transport errors and "not now" are retried in here."""
        lost = 0
        renewed = False
        while True:
            try:
                reply = self._redirected("GET", uri, None, {}, read_s)
            except NodeUnreachable as error:
                lost += 1
                if lost >= _TRIES or "certificate" in error.failed:
                    raise
                self._sleep(self.poll_s * 2**lost, f"{self.origin}{uri} to answer")
                continue
            if reply.status == 401 and not renewed and self._log_in_again():
                renewed = True
            elif reply.status == 401:
                raise self._login_refused(reply)
            elif reply.status in _BUSY and self._patience_s > 0:
                self.pause(reply, f"GET {uri}", give_up=False)
            else:
                return reply

    def pause(self, reply: Reply, what: str, *, give_up: bool = True) -> None:
        """Bear one "not now": wait as long as the BMC asks, else a growing while, out of the patience left."""
        if self._patience_s <= 0 and give_up:
            raise NodeBusy(
                self.node, f"{what} was answered HTTP {reply.status} for too long", reply.said, "Try again later."
            )
        self._busy_tries += 1
        seconds = self.wished_s(reply, min(5.0, self.poll_s * 2.0**self._busy_tries))
        self._patience_s -= max(seconds, 0.1)
        self._sleep(seconds, f"{what}: the BMC says {reply.said}")

    def wished_s(self, reply: Reply, otherwise_s: float) -> float:
        """How long the BMC wishes to be left alone, within reason."""
        wish_s = reply.retry_after_s
        return otherwise_s if wish_s is None else min(wish_s, _LONGEST_WISH_POLLS * self.poll_s)

    def bear(self, busy: NodeBusy) -> None:
        """Wait after a write was answered "not now", or raise that when there is no patience left."""
        if self._busy is None or self._patience_s <= 0:
            raise busy
        self.pause(self._busy, busy.failed)

    def _sleep(self, seconds: float, what: str) -> None:
        self.deadline.wait(seconds * random.uniform(0.8, 1.2), what)  # noqa: S311 (jitter, not a secret)

    # --- writing -----------------------------------------------------------------------------------------------------

    def send(self, method: str, uri: str, body: Json, *, headers: Mapping[str, str] | None = None) -> Reply:
        """One write, sent once, on a fresh connection. Any status comes back; silence is `NodeUnreachable`.

        Only an answer that says the write was not looked at (an expired session) makes it go out again.
        """
        self.fence()
        self.deadline.check(f"{method} {uri}")
        self._adapter.hang_up()  # a connection the BMC has silently dropped would leave us guessing
        reply = self._redirected(method, uri, body, headers or {}, WRITE_S)
        if reply.status == 401 and self._log_in_again():
            reply = self._redirected(method, uri, body, headers or {}, WRITE_S)
        self._keep_write(method, body, reply)
        return reply

    def patch(self, uri: str, body: Json, etag: str) -> Reply:
        """PATCH with the ETag ladder: as given, made strong, none, `*`; a rung is only climbed after a 412 or 428.

        Source of the rungs: sushy Connector._etag_handler; `*` is what AMI and DGX want (NVIDIA DGX H100 Redfish page).
        """
        rungs = list(dict.fromkeys((etag, etag.removeprefix("W/"), "", "*")))
        reply = self.send("PATCH", uri, body, headers=_if_match(rungs[0]))
        for rung in rungs[1:]:
            if reply.status not in (412, 428):
                break
            reply = self.send("PATCH", uri, body, headers=_if_match(rung))
        return reply

    def accepted(self, reply: Reply, what: str) -> Reply:
        """The reply, if it took the write; else `NodeBusy` for "not now", `ChangeRefused` with the BMC's own words."""
        if reply.status in _BUSY:
            self._busy = reply
            raise NodeBusy(self.node, what, reply.said, "The BMC is busy; try again later.")
        if reply.status >= 400:
            raise ChangeRefused(self.node, f"{what} was refused with HTTP {reply.status}", reply.said)
        return reply

    def _keep_write(self, method: str, body: Json, reply: Reply) -> None:
        told = json.dumps(body, default=str).encode() + b"\n\n" + reply.raw
        self.keep(told, f"{method} {reply.uri}", reply.at, reply.took_ms / 1000, f"HTTP {reply.status}")

    def keep(self, raw: bytes, asked: str, at: datetime, took_s: float, status: str) -> Evidence:
        """Store what was asked and answered."""
        kept = self._evidence.keep(raw, asked=asked, of=self.node, at=at, took_s=took_s, status=status)
        self.kept.append(kept)
        return kept

    # --- one request -------------------------------------------------------------------------------------------------

    def local(self, uri: str) -> str:
        """The path of a URI on this BMC; one that points at another host is refused before anything is sent."""
        parts = urlsplit(uri)
        if parts.netloc and f"{parts.scheme}://{parts.netloc}" != self.origin:
            raise OutputNotUnderstood(
                self.node, f"{self.origin} points at another host", uri, "Not followed: it would get our token."
            )
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        return urljoin("/redfish/v1/", path)

    def _redirected(self, method: str, uri: str, body: Json, headers: Mapping[str, str], read_s: float) -> Reply:
        """One request, following one redirect on the same host with the same method and body."""
        reply = self._once(method, self.local(uri), body, headers, self._timeouts(read_s, f"{method} {uri}"))
        if reply.status not in _REDIRECTS or "Location" not in reply.headers:
            return reply
        place = self.local(reply.headers["Location"])
        return self._once(method, place, body, headers, self._timeouts(read_s, f"{method} {place}"))

    def _timeouts(self, read_s: float, what: str) -> tuple[float, float]:
        return self.deadline.timeout_s(CONNECT_S, what), self.deadline.timeout_s(read_s, what)

    def _once(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], timeout: tuple[float, float]
    ) -> Reply:
        self._answer = None
        started = now()
        try:
            self._connector._op(
                method,
                path,
                data=body,
                headers=dict(headers),
                timeout=timeout,
                server_side_retries_left=0,
                allow_redirects=False,
            )
        except (SushyError, AttributeError, TypeError, RecursionError) as error:
            # An HTTP error has been noted by `_note` before it was raised. AttributeError and TypeError are sushy
            # tripping over an error body that is no object; RecursionError is a body nested too deep.
            if self._answer is None:
                raise translate(self.node, f"{method} {self.origin}{path}", error) from error
        took_ms = (now() - started).total_seconds() * 1000
        answer, self._answer = self._answer, None  # a response held is a connection held
        if answer is None:
            raise OutputNotUnderstood(self.node, f"{method} {self.origin}{path}", "no answer was noted")
        return Reply(path, answer.status_code, _object(answer), answer.headers, started, took_ms, answer.content)

    def _note(self, response: Response) -> None:
        self._answer = response


def _if_match(etag: str) -> dict[str, str]:
    return {"If-Match": etag} if etag else {}


def _object(response: Response) -> dict[str, Json] | None:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
