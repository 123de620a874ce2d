"""Pods going away: deletion with grace, and eviction under disruption budgets."""

from __future__ import annotations

import asyncio
import math

from lab.kubernetes.cluster import LabCluster, is_ready
from lab.kubernetes.kinds import KINDS, Body, Refused
from lab.kubernetes.selectors import matches_labels
from lab.kubernetes.store import timestamp

_GRACE_S = 30  # the API's default terminationGracePeriodSeconds
_PODS = KINDS["pods"]


def evict(cluster: LabCluster, namespace: str, name: str, eviction: Body, *, dry_run: bool) -> Body:
    """Ask a pod to go; 409 for another pod of that name, 429 with its cause when a budget says no."""
    pod = cluster.store.get(_PODS, namespace, name)
    options = eviction.get("deleteOptions") or {}
    check_preconditions(pod, options)
    blocking = _blocked_by(cluster, namespace, pod)
    if blocking:
        raise Refused(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            causes=({"reason": "DisruptionBudget", "message": f"The disruption budget {blocking} needs it"},),
        )
    if not dry_run:
        remove(cluster, pod, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def check_preconditions(body: Body, options: Body) -> None:
    """409 when the object is not the one the caller means."""
    wanted = options.get("preconditions") or {}
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != body["metadata"][field]:
            raise Refused(
                409,
                f"Precondition failed: {field} in precondition: {wanted[field]}, "
                f"{field} in object meta: {body['metadata'][field]}",
            )


def remove(cluster: LabCluster, pod: Body, options: Body) -> Body:
    """Delete at once without grace; otherwise mark it, and its kubelet, if it lives, lets it end."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)
    if grace == 0 or not pod["spec"].get("nodeName"):
        return cluster.store.delete(_PODS, namespace, name)
    going = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": timestamp()}}
    kept = cluster.store.replace(_PODS, namespace, name, going)
    asyncio.get_running_loop().call_later(cluster.reacts_s, _end, cluster, namespace, name)
    return kept


def _end(cluster: LabCluster, namespace: str, name: str) -> None:
    """The kubelet's part: on a node that does not answer, the pod stays Terminating."""
    try:
        pod = cluster.store.get(_PODS, namespace, name)
        if is_ready(cluster.store.get(KINDS["nodes"], "", pod["spec"]["nodeName"])):
            cluster.store.delete(_PODS, namespace, name)
    except Refused:
        return


def _blocked_by(cluster: LabCluster, namespace: str, pod: Body) -> str:
    """The disruption budget that has nothing left for this pod; a pod that is not healthy is protected by none."""
    if not _healthy(pod):
        return ""
    for budget in cluster.store.all(KINDS["poddisruptionbudgets"], namespace):
        selector = budget["spec"].get("selector", {})
        if not matches_labels(selector, pod["metadata"].get("labels", {})):
            continue
        covered = [p for p in cluster.store.all(_PODS, namespace) if matches_labels(selector, _labels(p))]
        if _left(budget["spec"], len(covered), sum(map(_healthy, covered))) < 1:
            return str(budget["metadata"]["name"])
    return ""


def _left(spec: Body, pods: int, healthy: int) -> int:
    """How many healthy pods may go now."""
    if "maxUnavailable" in spec:
        return healthy - (pods - _count(spec["maxUnavailable"], pods))
    return healthy - _count(spec.get("minAvailable", 0), pods)


def _count(value: int | str, pods: int) -> int:
    """A number, or a percentage rounded up as the disruption controller does."""
    return math.ceil(int(value.rstrip("%")) * pods / 100) if isinstance(value, str) else value


def _labels(pod: Body) -> dict[str, str]:
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return labels


def _healthy(pod: Body) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    return ready and not pod["metadata"].get("deletionTimestamp")
