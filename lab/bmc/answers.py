"""Redfish answers: bodies, ETags and errors with extended messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Resource = dict[str, Any]
ROOT = "/redfish/v1"


@dataclass
class Answer:
    """One HTTP answer before it is written."""

    status: int = 200
    body: Resource | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        """The body as it goes out."""
        return b"" if self.body is None else json.dumps(self.body).encode()


def resource(path: str, kind: str, name: str, **facts: Any) -> Resource:
    """A resource with the properties every one has; `kind` is "Chassis.v1_22_0.Chassis"."""
    uri = f"{ROOT}{path}" if path else f"{ROOT}/"
    return {
        "@odata.id": uri,
        "@odata.type": f"#{kind}",
        "Id": path.rsplit("/", 1)[-1] or "RootService",
        "Name": name,
        **facts,
    }


def collection(path: str, kind: str, ids: Sequence[str]) -> Resource:
    """A collection of links; `kind` is "Chassis"."""
    members = [link(f"{path}/{one}") for one in ids]
    return {
        "@odata.id": f"{ROOT}{path}",
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": members,
        "Members@odata.count": len(members),
    }


def link(path: str) -> dict[str, str]:
    """A link to a resource."""
    return {"@odata.id": f"{ROOT}{path}"}


def status(ok: bool = True, state: str = "Enabled") -> Resource:
    """A Status object."""
    return {"State": state, "Health": "OK" if ok else "Critical", "HealthRollup": "OK" if ok else "Critical"}


def etag(body: Mapping[str, Any]) -> str:
    """A strong ETag of a body."""
    text = json.dumps(body, sort_keys=True).encode()
    return f'"{hashlib.sha256(text).hexdigest()[:16]}"'


# MessageId → (HTTP status, text with %1 %2). Source: the DMTF Base message registry, texts shortened.
_MESSAGES: Mapping[str, tuple[int, str]] = {
    "ActionNotSupported": (400, "The action %1 is not supported by the resource."),
    "ActionParameterMissing": (400, "The action %1 requires the parameter %2 to be present in the request body."),
    "ActionParameterUnknown": (400, "The action %1 was submitted with the unknown parameter %2."),
    "ActionParameterNotSupported": (400, "The parameter %1 for the action %2 is not supported on the resource."),
    "GeneralError": (400, "A general error has occurred: %1"),
    "InsufficientPrivilege": (403, "There are insufficient privileges for the account or credentials."),
    "InternalError": (500, "The request failed due to an internal service error."),
    "MalformedJSON": (400, "The request body could not be parsed as JSON."),
    "NoValidSession": (401, "There is no valid session established with the implementation."),
    "OperationNotAllowed": (405, "The HTTP method is not allowed on this resource."),
    "PreconditionFailed": (412, "The ETag supplied did not match the ETag of the resource."),
    "PreconditionRequired": (428, "A precondition header or annotation is required to change this resource."),
    "PropertyNotWritable": (400, "The property %1 is a read-only property and cannot be assigned a value."),
    "PropertyUnknown": (400, "The property %1 is not in the list of valid properties for the resource."),
    "PropertyValueNotInList": (400, "The value %1 for the property %2 is not in the list of acceptable values."),
    "QueryNotSupportedOnResource": (400, "Querying is not supported on the requested resource."),
    "ResourceCannotBeDeleted": (405, "The delete request failed because the resource cannot be deleted."),
    "ResourceInUse": (409, "The change to the requested resource failed because the resource is in use."),
    "ResourceInStandby": (503, "The request could not be performed because the resource is in standby."),
    "ResourceMissingAtURI": (404, "The resource at the URI %1 was not found."),
    "ResourceNotReadyRetry": (503, "The resource is not ready. Retry after the given time."),
    "ServiceTemporarilyUnavailable": (503, "The service is temporarily unavailable. Retry in %1 seconds."),
    "SessionLimitExceeded": (503, "The session establishment failed due to the number of simultaneous sessions."),
}


def error(message: str, *args: str, at: int = 0, headers: Mapping[str, str] | None = None) -> Answer:
    """An error answer by its Base registry message; `at` overrides the usual HTTP status."""
    usual, text = _MESSAGES[message]
    for number, value in enumerate(args, 1):
        text = text.replace(f"%{number}", value)
    info = {
        "@odata.type": "#Message.v1_1_1.Message",
        "MessageId": f"Base.1.13.{message}",
        "Message": text,
        "MessageArgs": list(args),
        "Severity": "Critical",
        "Resolution": "None.",
    }
    body = {"error": {"code": f"Base.1.13.{message}", "message": text, "@Message.ExtendedInfo": [info]}}
    return Answer(at or usual, body, dict(headers or {}))
