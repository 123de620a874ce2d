"""What an object must look like before it is stored, and what the server fills in by itself."""

from __future__ import annotations

import base64
import re
from typing import Any

from lab.kubernetes.kinds import Body, Kind, Refused

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Source: apimachinery validation: IsValidLabelValue, IsQualifiedName and IsDNS1123Subdomain.
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LABEL_NAME = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_DNS_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LONGEST_LABEL, _LONGEST_NAME = 63, 253


def admit(kind: Kind, body: Body) -> Body:
    """The object as it will be stored; 422 naming the field when it may not be."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not _DNS_NAME.match(str(metadata.get("name", ""))):
        raise _invalid(kind, "metadata.name", (metadata or {}).get("name"), "a lowercase RFC 1123 subdomain")
    if len(metadata["name"]) > _LONGEST_NAME:
        raise _invalid(kind, "metadata.name", metadata["name"], f"at most {_LONGEST_NAME} characters")
    for key, value in (metadata.get("labels") or {}).items():
        _check_label(kind, key, value)
    body = {"apiVersion": kind.group_version, "kind": kind.name, **body, "metadata": _tidied(metadata)}
    return _FILL[kind.plural](kind, body) if kind.plural in _FILL else body


def _tidied(metadata: Body) -> Body:
    """Without maps that became empty or null, as the real server stores it."""
    return {key: value for key, value in metadata.items() if value not in (None, {}, [])}


def _check_label(kind: Kind, key: str, value: Any) -> None:
    prefix, _, name = key.rpartition("/")
    if not _LABEL_NAME.match(name) or len(name) > _LONGEST_LABEL or (prefix and not _DNS_NAME.match(prefix)):
        raise _invalid(kind, "metadata.labels", key, "a qualified name")
    if not isinstance(value, str) or not _LABEL_VALUE.match(value) or len(value) > _LONGEST_LABEL:
        raise _invalid(kind, f"metadata.labels[{key}]", value, "a label value of at most 63 characters")


def _node(kind: Kind, body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(spec.get("taints") or []):
        where = f"spec.taints[{number}]"
        if taint.get("effect") not in _EFFECTS:
            raise _invalid(kind, f"{where}.effect", taint.get("effect"), "one of " + ", ".join(_EFFECTS))
        value = taint.get("value", "")
        if not _LABEL_VALUE.match(value) or len(value) > _LONGEST_LABEL:
            raise _invalid(kind, f"{where}.value", value, "a label value of at most 63 characters")
        if (taint["key"], taint["effect"]) in seen:
            raise _invalid(kind, where, taint["key"], "unique by key and effect")
        seen.add((taint["key"], taint["effect"]))
    for empty in ("taints", "unschedulable"):
        if not spec.get(empty):
            spec.pop(empty, None)
    return {**body, "spec": spec, "status": body.get("status") or {}}


def _secret(kind: Kind, body: Body) -> Body:
    plain = {key: base64.b64encode(value.encode()).decode() for key, value in (body.get("stringData") or {}).items()}
    rest = {key: value for key, value in body.items() if key != "stringData"}
    return {**rest, "type": body.get("type") or "Opaque", "data": {**(body.get("data") or {}), **plain}}


def _pod(kind: Kind, body: Body) -> Body:
    if not (body.get("spec") or {}).get("containers"):
        raise _invalid(kind, "spec.containers", None, "at least one container")
    return {**body, "status": {"phase": "Pending", **(body.get("status") or {})}}


def _signing_request(kind: Kind, body: Body) -> Body:
    if not (body.get("spec") or {}).get("signerName"):
        raise _invalid(kind, "spec.signerName", None, "a signer")
    return {**body, "status": body.get("status") or {}}


_FILL = {
    "nodes": _node,
    "secrets": _secret,
    "pods": _pod,
    "certificatesigningrequests": _signing_request,
}


def _invalid(kind: Kind, field: str, value: Any, wanted: str) -> Refused:
    return Refused(
        422,
        f'{kind.name} is invalid: {field}: Invalid value: "{value}": must be {wanted}',
        causes=({"reason": "FieldValueInvalid", "field": field},),
    )
