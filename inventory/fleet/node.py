"""A Kubernetes Node as rackmint sees it, and the marks rackmint leaves on it."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, ValidationError

from inventory.errors import OutputNotUnderstood
from inventory.model import Frozen

UNVALIDATED = "rackmint.io/unvalidated"  # taint, value = run; lifted with a certificate, and last
QUARANTINE = "rackmint.io/quarantine"  # taint, value = reason; lifted by a passing run or a person
OUR_TAINTS = (UNVALIDATED, QUARANTINE)
OWNER = "rackmint.io/cordon-owner"  # annotation, value = run: set in the same write as the cordon
SERIAL = "rackmint.io/serial"  # annotation: which machine this is
RUN = "rackmint.io/run"  # annotation: the run that changed it last
CERTIFICATE = "rackmint.io/certificate"  # annotation
VALIDATED = "node-restriction.kubernetes.io/rackmint-validated"  # label no kubelet may set; source: NodeRestriction
TRUSTED = "node-restriction.kubernetes.io/"
GPU_RESOURCE = "nvidia.com/gpu"

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")  # source: kubernetes.io "Labels and selectors", syntax
_LONGEST_LABEL = 63


class Taint(Frozen):
    """Who is kept off a node."""

    key: str
    value: str = ""
    effect: str


class FleetNode(Frozen):
    """One Node object. `ready` is None when nobody has said so, or its kubelet has stopped reporting."""

    name: str
    uid: str
    revision: str
    ready: bool | None = None
    ready_reason: str = ""
    schedulable: bool = True
    taints: tuple[Taint, ...] = ()
    gpus_capacity: int | None = None
    gpus_allocatable: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    conditions: dict[str, str] = Field(default_factory=dict)  # type → "True" | "False" | "Unknown"
    system_uuid: str = ""  # lower case
    boot_id: str = ""
    kubelet: str = ""

    @property
    def serial(self) -> str:
        """The chassis serial we wrote on it; empty when it is not ours."""
        return self.annotations.get(SERIAL, "")

    @property
    def cordon_owner(self) -> str:
        """The run that cordoned it; empty when it is not cordoned, or by somebody else."""
        return "" if self.schedulable else self.annotations.get(OWNER, "")

    @property
    def cordoned_by_others(self) -> bool:
        """Cordoned, and not by us: hands off."""
        return not self.schedulable and not self.annotations.get(OWNER)

    @property
    def held(self) -> bool:
        """Whether one of our taints keeps work off it."""
        return any(taint.key in OUR_TAINTS for taint in self.taints)

    def belongs_to(self, serial: str) -> bool:
        """Whether this machine's kubelet lives in it: our serial on it, and somebody who reports."""
        return bool(serial) and self.serial == serial and self.ready is not None

    def admitted_with(self, certificate_id: str) -> bool:
        """Whether this very certificate opened it for work and nothing closed it since."""
        open_ = self.schedulable and not self.held
        return bool(certificate_id) and open_ and self.annotations.get(CERTIFICATE) == certificate_id


def read_node(raw: dict[str, Any]) -> FleetNode:
    """A Node's JSON; raises `OutputNotUnderstood` when it is none."""
    try:
        return _read(raw)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise OutputNotUnderstood(
            "fleet", "the API server answered with something that is no Node", repr(error)
        ) from error


def _read(raw: dict[str, Any]) -> FleetNode:
    """Fields that are absent stay empty, whatever the server's version."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    info = status.get("nodeInfo") or {}
    return FleetNode(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=metadata["resourceVersion"],
        ready={"True": True, "False": False}.get(ready.get("status", "")),
        ready_reason=ready.get("message") or ready.get("reason") or "",
        schedulable=not spec.get("unschedulable"),
        taints=tuple(
            Taint(key=t["key"], value=t.get("value") or "", effect=t["effect"]) for t in spec.get("taints") or []
        ),
        gpus_capacity=_count((status.get("capacity") or {}).get(GPU_RESOURCE)),
        gpus_allocatable=_count((status.get("allocatable") or {}).get(GPU_RESOURCE)),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        conditions={name: condition["status"] for name, condition in conditions.items()},
        system_uuid=(info.get("systemUUID") or "").lower(),
        boot_id=info.get("bootID") or "",
        kubelet=info.get("kubeletVersion") or "",
    )


def working(pods: dict[str, Any]) -> tuple[str, ...]:
    """Of a list of pods those that somebody waits for. The rules are `kubectl drain`'s."""
    return tuple(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods["items"] if not _is_harmless(pod)
    )


def _is_harmless(pod: dict[str, Any]) -> bool:
    """A DaemonSet's pod comes back by itself, a mirror of a static one is not evicted, a finished one is over."""
    metadata = pod["metadata"]
    kinds = {owner["kind"] for owner in metadata.get("ownerReferences") or []}
    static = "kubernetes.io/config.mirror" in (metadata.get("annotations") or {})
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return static or finished or "DaemonSet" in kinds


def _count(quantity: str | None) -> int | None:
    """A whole number of devices; None when the resource is not there or not a plain number."""
    return int(quantity) if quantity is not None and str(quantity).isdigit() else None


def label_value(text: str) -> str:
    """Text made fit for a label or taint value."""
    return _NOT_IN_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("-_.")
