"""Join tokens and what a node is told to join with: short lived, one a node, never on a command line."""

from __future__ import annotations

import hashlib
import json
import secrets
import string
from datetime import timedelta
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from inventory.deadline import Deadline
from inventory.errors import BadSettings, BudgetSpent, ChangeNotApplied, ChangeRefused
from inventory.fleet.connection import Connection, refused_as
from inventory.fleet.node import UNVALIDATED, label_value
from inventory.model import now
from inventory.redact import REDACTOR
from inventory.secrets import Secret

_LETTERS = string.ascii_lowercase + string.digits  # source: kubernetes.io "Bootstrap tokens": [a-z0-9]{6}.[a-z0-9]{16}
_ID, _SECRET = 6, 16
_NAMESPACE = "kube-system"
_SIGNED_WITHIN_S = 10.0  # a real controller manager took 15-44 ms; ten seconds is an outage of the signer
_GROUP = "system:bootstrappers:kubeadm:default-node-token"  # kubeadm's own group, whose requests are approved
# kubeadm waits five minutes for a token that is dead. Source: kubeadm constants; v1beta4 lets one say less.
_TIMEOUTS = {"discovery": "30s", "tlsBootstrap": "60s", "kubeletHealthCheck": "120s"}


def new_id() -> str:
    """The public part of a token to be minted, so that it can be noted before there is a token."""
    return _letters(_ID)


def mint(
    connection: Connection, node: str, run_id: str, ttl_s: float, *, token_id: str, deadline: Deadline | None = None
) -> Secret:
    """A token for one node; returns when the cluster has signed its cluster-info with it.

    Raises `ChangeNotApplied` when the signature does not come.
    """
    secret = _letters(_SECRET)
    REDACTOR.learn_token(secret)
    body = _token_secret(token_id, secret, node, run_id, ttl_s)
    connection.call(node, "mint a join token", connection.core.create_namespaced_secret, _NAMESPACE, body)
    token = Secret(f"{token_id}.{secret}")
    try:
        _wait_signed(connection, node, token_id, (deadline or Deadline(node, _SIGNED_WITHIN_S)).part(_SIGNED_WITHIN_S))
    except BudgetSpent as error:
        forget(connection, node, token_id)
        raise ChangeNotApplied(
            node,
            "the join token was stored and the cluster does not sign for it",
            do="Is the bootstrap signer of the controller manager running?",
        ) from error
    return token


def forget(connection: Connection, node: str, token_id: str) -> None:
    """Delete a token; no harm if it is gone. The API server may honour it for ten seconds more: it caches."""
    name = f"bootstrap-token-{token_id}"
    try:
        connection.call(node, "delete the join token", connection.core.delete_namespaced_secret, name, _NAMESPACE)
    except ChangeRefused as error:
        if not refused_as(error, 404):
            raise


def pin_of(ca_pem: str) -> str:
    """`sha256:…` of the public key info of the root we trust, as kubeadm pins it."""
    if not ca_pem:
        raise BadSettings("kubeconfig: names no certificate authority. Add certificate-authority-data to it")
    key = load_pem_x509_certificate(ca_pem.encode()).public_key()
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def join_config(server: str, node: str, token: Secret, ca_hash: str) -> bytes:
    """What `kubeadm join --config` reads. JSON, which is YAML. The node is tainted even if its Node was deleted."""
    config = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": _endpoint(server),
                "token": token.reveal(),
                "caCertHashes": [ca_hash],
            }
        },
        "nodeRegistration": {
            "name": node,
            "criSocket": "unix:///run/containerd/containerd.sock",
            "taints": [{"key": UNVALIDATED, "value": "join", "effect": "NoSchedule"}],
        },
        "timeouts": _TIMEOUTS,
    }
    return json.dumps(config, indent=2).encode() + b"\n"


def _endpoint(server: str) -> str:
    """`host:port` of the API server; kubeadm knows only HTTPS."""
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _letters(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def _token_secret(token_id: str, secret: str, node: str, run_id: str, ttl_s: float) -> dict[str, object]:
    expires = (now() + timedelta(seconds=ttl_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {
            "name": f"bootstrap-token-{token_id}",
            "labels": {"rackmint.io/node": label_value(node), "rackmint.io/run": label_value(run_id)},
        },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "description": f"rackmint run {run_id} joins {node}",
            "token-id": token_id,
            "token-secret": secret,
            "expiration": expires,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": _GROUP,
        },
    }


def _wait_signed(connection: Connection, node: str, token_id: str, deadline: Deadline) -> None:
    what, read = "read cluster-info", connection.core.read_namespaced_config_map
    while True:
        info = connection.find(node, what, read, "cluster-info", "kube-public")
        if info and f"jws-kubeconfig-{token_id}" in (info.get("data") or {}):
            return
        deadline.wait(0.1, "the cluster's signature for the join token")
