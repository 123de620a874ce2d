"""Other people's exceptions and error bodies, in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests.exceptions as http
import sushy.exceptions as redfish

from inventory.errors import (
    ChangeRefused,
    LoginRefused,
    NodeBusy,
    NodeTrouble,
    NodeUnreachable,
    OutputNotUnderstood,
)

# Every exception sushy and requests export, by name; the nearest ancestor decides. A test holds it complete.
TRANSLATIONS: Mapping[type[Exception], type[NodeTrouble]] = {
    redfish.SushyError: OutputNotUnderstood,
    redfish.ConnectionError: NodeUnreachable,
    redfish.MissingAttributeError: OutputNotUnderstood,
    redfish.MalformedAttributeError: OutputNotUnderstood,
    redfish.MissingActionError: ChangeRefused,
    redfish.InvalidParameterValueError: ChangeRefused,
    redfish.ArchiveParsingError: OutputNotUnderstood,
    redfish.UnknownDefaultError: OutputNotUnderstood,
    redfish.ExtensionError: OutputNotUnderstood,
    redfish.OEMExtensionNotFoundError: OutputNotUnderstood,
    redfish.MissingHeaderError: OutputNotUnderstood,
    redfish.HTTPError: ChangeRefused,
    redfish.BadRequestError: ChangeRefused,
    redfish.ResourceNotFoundError: OutputNotUnderstood,
    redfish.ServerSideError: NodeBusy,
    redfish.AccessError: LoginRefused,
    redfish.NotAcceptableError: OutputNotUnderstood,
    redfish.MissingXAuthToken: LoginRefused,
    http.RequestException: OutputNotUnderstood,
    http.InvalidJSONError: OutputNotUnderstood,
    http.JSONDecodeError: OutputNotUnderstood,
    http.HTTPError: ChangeRefused,
    http.ConnectionError: NodeUnreachable,
    http.ProxyError: NodeUnreachable,
    http.SSLError: NodeUnreachable,
    http.Timeout: NodeUnreachable,
    http.ConnectTimeout: NodeUnreachable,
    http.ReadTimeout: NodeUnreachable,
    http.URLRequired: OutputNotUnderstood,
    http.TooManyRedirects: OutputNotUnderstood,
    http.MissingSchema: OutputNotUnderstood,
    http.InvalidSchema: OutputNotUnderstood,
    http.InvalidURL: OutputNotUnderstood,
    http.InvalidHeader: OutputNotUnderstood,
    http.InvalidProxyURL: OutputNotUnderstood,
    http.ChunkedEncodingError: NodeUnreachable,
    http.ContentDecodingError: OutputNotUnderstood,
    http.StreamConsumedError: OutputNotUnderstood,
    http.RetryError: NodeUnreachable,
    http.UnrewindableBodyError: NodeUnreachable,
}

_CHANGED = (
    "The BMC shows another certificate than the pinned one. If it was replaced on purpose, forget the pin; "
    "if not, somebody is in between."
)


def translate(node: str, did: str, error: Exception) -> NodeTrouble:
    """A foreign exception as ours, with the innermost sentence that says anything."""
    cause = _innermost(error)
    if "fingerprint" in str(cause).lower():
        return NodeUnreachable(node, f"{did}: certificate changed", str(cause), _CHANGED)
    if "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return NodeUnreachable(node, f"{did}: certificate not trusted", str(cause), "Pin it, or install the CA.")
    kind = _kind(cause) or _kind(error) or OutputNotUnderstood
    return kind(node, did, _short(cause), "Check cabling, address and BMC power." if kind is NodeUnreachable else "")


def _innermost(error: Exception) -> Exception:
    """What requests raised: sushy wraps it without naming it as the cause, so the context is looked at as well."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(inner, http.RequestException) else error


def _kind(error: Exception) -> type[NodeTrouble] | None:
    return next((TRANSLATIONS[kind] for kind in type(error).__mro__ if kind in TRANSLATIONS), None)


def _short(error: Exception) -> str:
    # urllib3 writes "HTTPSConnectionPool(host=…): Max retries exceeded with url: … (Caused by X(…))": X is what counts.
    text = str(error)
    return text.rpartition("(Caused by ")[2].rstrip(")") if "(Caused by " in text else text


def said(body: Mapping[str, Any] | None) -> str:
    """The extended messages of an answer in one line; empty when it has none."""
    found = []
    for place in _message_places(body or {}):
        for message in place if isinstance(place, list) else [place]:
            if isinstance(message, dict) and message.get("Message"):
                found.append(str(message["Message"]))
    if found:
        return "; ".join(dict.fromkeys(found))
    error = (body or {}).get("error")
    return str(error.get("message") or error.get("code") or "") if isinstance(error, dict) else ""


def _message_places(body: Mapping[str, Any]) -> list[Any]:
    """Where messages are put: in the error, at the top, and beside the property they are about."""
    error = body.get("error")
    inner = error.get("@Message.ExtendedInfo") if isinstance(error, dict) else None
    beside = [value for key, value in body.items() if key.endswith("@Message.ExtendedInfo")]
    tasks = [value for key, value in body.items() if key == "Messages"]
    return [place for place in (inner, *beside, *tasks) if place]
