"""Who is calling the lab's API server, and what they may do."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import NamedTuple

from lab.kubernetes.kinds import KINDS, Body, Kind, Refused
from lab.kubernetes.store import Store

BOOTSTRAP_TYPE = "bootstrap.kubernetes.io/token"
AUTO_APPROVED_GROUP = "system:bootstrappers:kubeadm:default-node-token"
_READS = ("get", "list", "watch")
_TRUSTED = ("node-restriction.kubernetes.io/", "node-role.kubernetes.io/")  # labels a kubelet may not set


class User(NamedTuple):
    """A caller after authentication."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The node a kubelet speaks for; empty for others."""
        return self.name.removeprefix("system:node:") if self.name.startswith("system:node:") else ""


ADMIN = User("kubernetes-super-admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Wish(NamedTuple):
    """One request as authorisation sees it."""

    verb: str  # get list watch create update patch delete
    kind: Kind
    namespace: str
    name: str
    part: str  # subresource, "status"


def bootstrap_tokens(store: Store) -> dict[str, Body]:
    """The tokens that hold now, by id, their fields in plain text."""
    found = {}
    for secret in store.all(KINDS["secrets"], "kube-system"):
        if secret["type"] != BOOTSTRAP_TYPE:
            continue
        data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        if not _expired(data.get("expiration", "")):
            found[data.get("token-id", "")] = data
    return found


def _expired(expiration: str) -> bool:
    return bool(expiration) and datetime.fromisoformat(expiration) <= datetime.now(UTC)


def bootstrap_user(store: Store, token: str) -> User | None:
    """The caller behind a bootstrap token; None when it does not hold."""
    token_id, _, secret = token.partition(".")
    data = bootstrap_tokens(store).get(token_id)
    if not data or data["token-secret"] != secret or data.get("usage-bootstrap-authentication") != "true":
        return None
    extra = tuple(filter(None, data.get("auth-extra-groups", "").split(",")))
    return User(f"system:bootstrap:{token_id}", ("system:bootstrappers", *extra, "system:authenticated"))


def check(user: User, wish: Wish) -> None:
    """403 in the server's words unless this user may do this."""
    if "system:masters" in user.groups or _public(wish):
        return
    if "system:bootstrappers" in user.groups and _of_bootstrap(wish):
        return
    if user.node and _of_node(user.node, wish):
        return
    plural = f"{wish.kind.plural}/{wish.part}" if wish.part else wish.kind.plural
    raise Refused(403, f'{plural} "{wish.name}" is forbidden: User "{user.name}" cannot {wish.verb} resource')


def _public(wish: Wish) -> bool:
    """What kubeadm opens to everybody: the signed cluster-info."""
    what = (wish.verb, wish.kind.plural, wish.namespace, wish.name)
    return what == ("get", "configmaps", "kube-public", "cluster-info")


def _of_bootstrap(wish: Wish) -> bool:
    """What kubeadm lets a token do: ask for a certificate and look for a namesake."""
    if wish.kind.plural == "certificatesigningrequests":
        return wish.verb in ("create", "get", "list", "watch") and not wish.part
    return wish.kind.plural == "nodes" and wish.verb == "get"


def _of_node(node: str, wish: Wish) -> bool:
    """What the Node authoriser and NodeRestriction let a kubelet do: read nodes, and write its own."""
    if wish.kind.plural == "nodes":
        return wish.verb in _READS or (wish.name == node and wish.verb in ("create", "update", "patch"))
    if wish.kind.plural == "leases":
        return wish.namespace == "kube-node-lease" and wish.name == node
    return wish.kind.plural == "pods" and wish.verb in _READS


def check_node_change(user: User, before: Body | None, after: Body) -> None:
    """403 when a kubelet changes its own taints or labels that carry trust. Its own cordon it may lift."""
    if not user.node:
        return
    was, is_ = (before or {}).get("spec", {}).get("taints"), after.get("spec", {}).get("taints")
    if before is not None and was != is_:
        raise Refused(403, f'nodes "{user.node}" is forbidden: is not allowed to modify taints')
    labels, old = after["metadata"].get("labels", {}), (before or {"metadata": {}})["metadata"].get("labels", {})
    changed = [key for key in {*labels, *old} if labels.get(key) != old.get(key)]
    for key in changed:
        if any(key.startswith(prefix) or f".{prefix}" in key for prefix in _TRUSTED):
            raise Refused(403, f'nodes "{user.node}" is forbidden: is not allowed to modify labels: {key}')
