"""How each change of a Node is written as a JSON patch. Pure: from what was read to what is to be changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inventory.errors import ChangeRefused
from inventory.fleet.node import (
    CERTIFICATE,
    OUR_TAINTS,
    OWNER,
    QUARANTINE,
    RUN,
    VALIDATED,
    FleetNode,
    Taint,
    label_value,
)

Operation = dict[str, Any]


def admitting(node: FleetNode, run_id: str, certificate_id: str) -> list[Operation]:
    """Our taints and our cordon go, the certificate is written; refused on a foreign cordon."""
    if node.admitted_with(certificate_id):
        return []
    if node.cordoned_by_others:
        raise ChangeRefused(
            node.name, "not admitted: somebody else has cordoned the node", do="Ask who, then uncordon."
        )
    marks = {RUN: run_id, CERTIFICATE: certificate_id, OWNER: None}
    return [
        *_taints(node, tuple(taint for taint in node.taints if taint.key not in OUR_TAINTS)),
        *([] if node.schedulable else _unset_cordon(node)),
        *_annotated(node, marks),
        *_labelled(node, {VALIDATED: label_value(certificate_id)}),
    ]


def quarantining(node: FleetNode, taint: Taint, run_id: str) -> list[Operation]:
    """Taint and cordon at once; a cordon of others stays theirs."""
    if not node.schedulable and taint in node.taints:
        return []
    kept = tuple(other for other in node.taints if other.key != QUARANTINE)
    owned = {} if node.cordoned_by_others else {OWNER: run_id}
    return [
        *_taints(node, (*kept, taint)),
        *_set_cordon(node),
        *_annotated(node, {**owned, RUN: run_id, CERTIFICATE: None}),
        *_labelled(node, {VALIDATED: None}),
    ]


def cordoning(node: FleetNode, owner: str) -> list[Operation]:
    """Nothing on a foreign cordon; one of an earlier run of ours is taken over."""
    if node.cordoned_by_others or node.cordon_owner == owner:
        return []
    return [*_set_cordon(node), *_annotated(node, {OWNER: owner})]


def uncordoning(node: FleetNode, owner: str) -> list[Operation]:
    """Only what this owner closed, tested once more by the server."""
    if not owner or node.cordon_owner != owner:
        return []
    return [
        {"op": "test", "path": _at("annotations", OWNER), "value": owner},
        *_unset_cordon(node),
        *_annotated(node, {OWNER: None}),
    ]


def _set_cordon(node: FleetNode) -> list[Operation]:
    return [{"op": "add", "path": "/spec/unschedulable", "value": True}] if node.schedulable else []


def _unset_cordon(node: FleetNode) -> list[Operation]:
    return [
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "remove", "path": "/spec/unschedulable"},
    ]


def _taints(node: FleetNode, wanted: tuple[Taint, ...]) -> list[Operation]:
    """Take away and add single taints: those of others keep what we do not read of them."""
    gone = [number for number, taint in enumerate(node.taints) if taint not in wanted]
    operations: list[Operation] = []
    for number in reversed(gone):
        operations.append({"op": "test", "path": f"/spec/taints/{number}/key", "value": node.taints[number].key})
        operations.append({"op": "remove", "path": f"/spec/taints/{number}"})
    new = [taint.model_dump() for taint in wanted if taint not in node.taints]
    if not node.taints and new:
        return [{"op": "add", "path": "/spec/taints", "value": new}]
    return operations + [{"op": "add", "path": "/spec/taints/-", "value": taint} for taint in new]


def _annotated(node: FleetNode, values: Mapping[str, str | None]) -> list[Operation]:
    return _marked("annotations", node.annotations, values)


def _labelled(node: FleetNode, values: Mapping[str, str | None]) -> list[Operation]:
    return _marked("labels", node.labels, values)


def _marked(field: str, has: Mapping[str, str], values: Mapping[str, str | None]) -> list[Operation]:
    """Set, and with None remove, entries of a map that may not be there yet."""
    operations: list[Operation] = [] if has else [{"op": "add", "path": f"/metadata/{field}", "value": {}}]
    for key, value in values.items():
        if value is not None:
            operations.append({"op": "add", "path": _at(field, key), "value": value})
        elif key in has:
            operations.append({"op": "remove", "path": _at(field, key)})
    return operations


def _at(field: str, key: str) -> str:
    """A JSON pointer to one label or annotation. Source: RFC 6901, section 3."""
    return f"/metadata/{field}/{key.replace('~', '~0').replace('/', '~1')}"
