"""Which objects a label or field selector means."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.kubernetes.kinds import Body, Refused

# Source: kubernetes.io "Labels and selectors", set-based requirements: `key in (a,b)`, `key notin (a,b)`.
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")

# Source: the field label conversions of pkg/apis/core/v1; others are a 400 on the real server as well.
_FIELDS: dict[str, Callable[[Body], str]] = {
    "metadata.name": lambda body: str(body["metadata"]["name"]),
    "metadata.namespace": lambda body: str(body["metadata"].get("namespace", "")),
    "spec.nodeName": lambda body: str(body.get("spec", {}).get("nodeName", "")),
    "spec.unschedulable": lambda body: str(bool(body.get("spec", {}).get("unschedulable", False))).lower(),
    "status.phase": lambda body: str(body.get("status", {}).get("phase", "")),
    "type": lambda body: str(body.get("type", "")),
    "involvedObject.name": lambda body: str(body.get("involvedObject", {}).get("name", "")),
}


def selected(labels: str, fields: str) -> Callable[[Body], bool]:
    """A test for objects that match both selectors."""
    tests = [_label_test(part) for part in _parts(labels)] + [_field_test(part) for part in _parts(fields)]
    return lambda body: all(test(body) for test in tests)


def matches_labels(selector: Body, labels: dict[str, str]) -> bool:
    """Whether a selector object with matchLabels, as a disruption budget has, means these labels."""
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _parts(selector: str) -> list[str]:
    return [part.strip() for part in _COMMA_OUTSIDE_BRACKETS.split(selector) if part.strip()]


def _label_test(part: str) -> Callable[[Body], bool]:
    in_set = _SET.match(part)
    if in_set:
        key, word, values = in_set[1], in_set[2], {value.strip() for value in in_set[3].split(",")}
        return lambda body: (_label(body, key) in values) is (word == "in")
    if part.startswith("!"):
        return lambda body: _label(body, part[1:]) is None
    key, sign, value = _split(part)
    if not sign:
        return lambda body: _label(body, key) is not None
    return lambda body: (_label(body, key) == value) is (sign == "=")


def _field_test(part: str) -> Callable[[Body], bool]:
    key, sign, value = _split(part)
    read = _FIELDS.get(key)
    if read is None or not sign:
        raise Refused(400, f'field label not supported: "{key}"')
    return lambda body: (read(body) == value) is (sign == "=")


def _split(part: str) -> tuple[str, str, str]:
    if "!=" in part:
        key, value = part.split("!=", 1)
        return key.strip(), "!=", value.strip()
    key, sign, value = part.partition("=")
    return key.strip(), sign, value.removeprefix("=").strip()


def _label(body: Body, key: str) -> str | None:
    found: str | None = body["metadata"].get("labels", {}).get(key)
    return found
