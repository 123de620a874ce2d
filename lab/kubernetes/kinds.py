"""What kinds of object the lab's API server serves, and how it says no."""

from __future__ import annotations

from typing import Any, NamedTuple

Body = dict[str, Any]


class Kind(NamedTuple):
    """One kind of object and where it is served."""

    plural: str
    name: str
    group_version: str  # "v1" or "policy/v1"
    namespaced: bool = True


KINDS = {
    kind.plural: kind
    for kind in (
        Kind("nodes", "Node", "v1", namespaced=False),
        Kind("namespaces", "Namespace", "v1", namespaced=False),
        Kind("pods", "Pod", "v1"),
        Kind("secrets", "Secret", "v1"),
        Kind("configmaps", "ConfigMap", "v1"),
        Kind("events", "Event", "v1"),
        Kind("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1"),
        Kind("leases", "Lease", "coordination.k8s.io/v1"),
        Kind("certificatesigningrequests", "CertificateSigningRequest", "certificates.k8s.io/v1", namespaced=False),
    )
}

# Status.reason by code. Source: apimachinery's metav1.StatusReason.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Refused(Exception):
    """An answer other than 2xx, as the API server words it."""

    def __init__(self, code: int, message: str, *, reason: str = "", causes: tuple[Body, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.body: Body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or _REASONS.get(code, ""),
            "details": {"causes": list(causes)} if causes else {},
            "code": code,
        }


def not_found(kind: Kind, name: str) -> Refused:
    """404 in the server's words."""
    return Refused(404, f'{kind.plural} "{name}" not found')


def stale(kind: Kind, name: str) -> Refused:
    """409: somebody else was faster."""
    return Refused(
        409,
        f'Operation cannot be fulfilled on {kind.plural} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )
