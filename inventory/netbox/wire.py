"""The seven verbs we speak with NetBox, on pynetbox's client and session: time-outs, safe retries, errors in our words.

pynetbox sets no time-out, knows no If-Match, and sends a filter that NetBox does not know, which then answers with the
whole table; all three are mended here and nowhere else.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import pynetbox
import requests
from requests.adapters import HTTPAdapter

from inventory.deadline import Deadline
from inventory.errors import BadSettings
from inventory.model import now
from inventory.netbox.refusals import raise_refused, translated
from inventory.secrets import Secret

Row = dict[str, Any]

# What each list may be filtered by. NetBox answers an unknown filter with the whole table, so these were each tried.
_FILTERS: Mapping[str, frozenset[str]] = {
    "dcim/sites": frozenset({"name", "slug"}),
    "dcim/racks": frozenset({"name", "site", "site_id"}),
    "dcim/devices": frozenset({"id", "name", "serial", "rack_id", "site", "status", "mac_address", "cf_node_uuid"}),
    "dcim/manufacturers": frozenset({"name", "slug"}),
    "dcim/device-roles": frozenset({"slug"}),
    "dcim/device-types": frozenset({"model", "slug", "manufacturer_id"}),
    "dcim/module-type-profiles": frozenset({"name"}),
    "dcim/module-types": frozenset({"model"}),
    "dcim/module-bay-templates": frozenset({"device_type_id"}),
    "dcim/interface-templates": frozenset({"device_type_id"}),
    "dcim/module-bays": frozenset({"device_id"}),
    "dcim/modules": frozenset({"device_id", "serial"}),
    "dcim/interfaces": frozenset({"device_id"}),
    "extras/journal-entries": frozenset({"assigned_object_type", "assigned_object_id", "q"}),
    "extras/tags": frozenset({"slug"}),
    "extras/custom-fields": frozenset({"name"}),
}
_SERVER_TROUBLE = 500
_AGAIN = (502, 503, 504)  # a proxy's or NetBox's "not now"; a 500 is a bug and stays one
_TRIES = 3  # our choice: a reload of NetBox's web workers is over within two seconds
_FIRST_WAIT_S = 0.3
_WRITE_FACTOR = 4  # 30 s × 4: one bulk POST of 60 modules took up to 100 s on a busy NetBox
_URL_BYTES = 3000  # of values in one URL: gunicorn refuses a request line over 4,094 bytes


class Wire:
    """One NetBox as seen by one process; a session per thread, as one session for several breaks answers."""

    def __init__(
        self, url: str, token: Secret, *, verify: bool | str, timeout_s: float, deadline: Deadline | None
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.deadline = deadline
        self.requests = 0  # sent so far
        self.writes = 0  # of which meant to change something
        self.server_time = now()
        self.version = ""  # "4.7", from the answers
        self._token = token
        self._verify = verify
        self._lock = threading.Lock()
        self._local = threading.local()
        self._open: list[requests.Session] = []

    def close(self) -> None:
        """Close every thread's connections."""
        with self._lock:
            for session in self._open:
                session.close()

    def status(self) -> Row:
        """What NetBox says of itself."""
        with translated(f"GET {self.url}/api/status/"):
            return dict(self._api().status())

    def listed(self, path: str, *, fields: Sequence[str] = (), **filters: object) -> list[Row]:
        """All rows of a list, page by page; raises `ValueError` for a filter that was never tried."""
        unknown = set(filters) - _FILTERS[path]
        if unknown:
            raise ValueError(f"{path}: filter {', '.join(sorted(unknown))} is not in the list of tried ones")
        if any(value in (None, "", []) for value in filters.values()):
            raise ValueError(f"{path}: an empty filter would fetch the whole table: {filters}")
        app, _, name = path.partition("/")
        endpoint = getattr(getattr(self._api(), app), name.replace("-", "_"))
        shape = {"fields": ",".join(fields)} if fields else {}
        with translated(f"GET {self.url}/api/{path}/"):
            found = endpoint.filter(**filters, **shape) if filters or shape else endpoint.all()
            return [dict(record) for record in found]

    def listed_by(self, path: str, name: str, values: Iterable[str], *, fields: Sequence[str] = ()) -> list[Row]:
        """As `listed`, for any number of values of one filter."""
        return [row for some in _chunks(name, values) for row in self.listed(path, fields=fields, **{name: some})]

    def one(self, path: str, row_id: int) -> tuple[Row, str]:
        """One row and its ETag; raises `BadSettings` when there is none."""
        answer = self._send("GET", f"/api/{path}/{row_id}/")
        if answer.status_code == requests.codes.not_found:
            raise BadSettings(
                f"NetBox has no {path} {row_id} that this token may see. Check the id and the permissions"
            )
        raise_refused(answer, "NetBox")
        return _json(answer), answer.headers.get("ETag", "")

    def may_add(self, path: str) -> bool:
        """Whether the token may add to this list: NetBox lists POST among the actions only for those who may."""
        answer = self._send("OPTIONS", f"/api/{path}/")
        return answer.ok and "POST" in _json(answer).get("actions", {})

    def graphql(self, query: str, variables: Mapping[str, Any]) -> Row | None:
        """The data of a query; None where this NetBox answers no GraphQL, so that REST is read instead."""
        answer = self._send("POST", "/graphql/", {"query": query, "variables": dict(variables)})
        if answer.status_code == requests.codes.not_found or "json" not in answer.headers.get("Content-Type", ""):
            if answer.status_code >= _SERVER_TROUBLE:
                raise_refused(answer, "NetBox")
            return None
        raise_refused(answer, "NetBox")
        body = _json(answer)
        return None if body.get("errors") else body["data"]

    def post(self, path: str, rows: Sequence[Row], who: str) -> list[Row]:
        """Add rows in one request, all or none. Never sent twice: whether it arrived is for the caller to look up."""
        answer = self._send("POST", f"/api/{path}/", list(rows))
        raise_refused(answer, who)
        made: list[Row] = _json(answer)
        return made

    def patch(self, path: str, rows: Sequence[Row], who: str) -> list[Row]:
        """Change rows, each with its id, in one request, all or none."""
        answer = self._send("PATCH", f"/api/{path}/", list(rows))
        raise_refused(answer, who)
        changed: list[Row] = _json(answer)
        return changed

    def patch_if(self, path: str, row_id: int, body: Row, etag: str, who: str) -> tuple[Row, str] | None:
        """Change one row if nobody has since `etag`; None when somebody has."""
        answer = self._send("PATCH", f"/api/{path}/{row_id}/", body, {"If-Match": etag})
        if answer.status_code == requests.codes.precondition_failed:
            return None
        raise_refused(answer, who)
        return _json(answer), answer.headers.get("ETag", "")

    def _send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        token = self._token.reveal()
        keyword = "Bearer" if token.startswith("nbt_") else "Token"  # nbt_: how NetBox 4.5+ marks its v2 tokens
        sent = {"Authorization": f"{keyword} {token}", "Accept": "application/json", **(headers or {})}
        url = f"{self.url}{path}"
        with translated(f"{method} {url}"):
            # A redirected POST would arrive as a GET and look like success.
            return self._api().http_session.request(  # type: ignore[no-any-return]
                method, url, json=body, headers=sent, allow_redirects=False
            )

    def _api(self) -> Any:
        """The thread's own pynetbox client, on a session with our time-outs and retries."""
        if not hasattr(self._local, "api"):
            api = pynetbox.api(self.url, token=self._token.reveal())
            _settle_surroundings(api.http_session, self.url, self._verify)
            for scheme in ("http://", "https://"):
                api.http_session.mount(scheme, _Patient(self))
            with self._lock:
                self._open.append(api.http_session)
            self._local.api = api
        return self._local.api

    def note_sent(self, request: requests.PreparedRequest) -> None:
        """Count a request on its way."""
        with self._lock:
            self.requests += 1
            self.writes += _changes(request)
        self._local.writes = self.writes_of_thread + _changes(request)

    def note_answer(self, answer: requests.Response) -> None:
        """Keep what every answer tells: NetBox's clock and version."""
        self.server_time = _date(answer.headers.get("Date", "")) or now()
        self.version = answer.headers.get("API-Version", self.version)

    @property
    def writes_of_thread(self) -> int:
        """Of `writes`, those the calling thread sent: others record their nodes at the same time."""
        return getattr(self._local, "writes", 0)

    def time_out_s(self, request: requests.PreparedRequest) -> float:
        """How long to wait for one answer, inside the deadline when there is one."""
        most = self.timeout_s * (_WRITE_FACTOR if _changes(request) else 1)
        return self.deadline.timeout_s(most, "NetBox") if self.deadline else most

    def wait(self, seconds: float) -> None:
        """Pause before another try."""
        seconds *= 1 + random.random()  # noqa: S311 (jitter, no secret)
        if self.deadline:
            self.deadline.wait(seconds, "NetBox to answer again")
        else:
            time.sleep(seconds)


class _Patient(HTTPAdapter):
    """Sends with a time-out, and again when that cannot do harm: reads, and writes that carry If-Match."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        super().__init__()

    def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> requests.Response:
        """Send once, or up to three times where that is safe."""
        tries = _TRIES if not _changes(request) or "If-Match" in request.headers else 1
        for attempt in range(1, tries):
            answer = self._once(request, more)
            if answer is not None:
                return answer
            self._wire.wait(_FIRST_WAIT_S * attempt)
        return self._really(request, more)

    def _once(self, request: requests.PreparedRequest, more: dict[str, Any]) -> requests.Response | None:
        try:
            answer = self._really(request, more)
        except (requests.ConnectionError, requests.Timeout):
            return None
        if answer.status_code in _AGAIN:
            answer.close()
            return None
        return answer

    def _really(self, request: requests.PreparedRequest, more: dict[str, Any]) -> requests.Response:
        self._wire.note_sent(request)
        answer = super().send(request, **{**more, "timeout": self._wire.time_out_s(request)})
        self._wire.note_answer(answer)
        return answer


def _settle_surroundings(session: requests.Session, url: str, verify: bool | str) -> None:
    """Ask the environment for proxies and CA files once, not at every request, and never for a .netrc."""
    found = session.merge_environment_settings(url, {}, None, verify, None)
    session.proxies, session.verify = found["proxies"], found["verify"]
    session.trust_env = False


def _changes(request: requests.PreparedRequest) -> bool:
    return request.method not in ("GET", "OPTIONS", "HEAD") and not str(request.path_url).startswith("/graphql/")


def _json(answer: requests.Response) -> Any:
    with translated(f"{answer.request.method} {answer.url}"):
        return answer.json()


def _chunks(name: str, values: Iterable[str]) -> Iterator[list[str]]:
    """The values in lists that each fit into a URL."""
    some: list[str] = []
    size = 0
    for value in sorted(set(values)):
        cost = len(quote(value)) + len(name) + 2  # "&" and "="
        if some and size + cost > _URL_BYTES:
            yield some
            some, size = [], 0
        some.append(value)
        size += cost
    if some:
        yield some


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
