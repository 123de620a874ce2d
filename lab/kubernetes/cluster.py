"""A cluster's state and what its controllers do by themselves: cordon taints, token signatures, certificates."""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lab.kubernetes.access import (
    ADMIN,
    ANONYMOUS,
    AUTO_APPROVED_GROUP,
    BOOTSTRAP_TYPE,
    User,
    bootstrap_tokens,
    bootstrap_user,
)
from lab.kubernetes.authority import Authority, detached_signature, subject_of
from lab.kubernetes.kinds import KINDS, Body, Refused
from lab.kubernetes.rules import admit
from lab.kubernetes.store import Change, Store, timestamp

CORDON_TAINT = "node.kubernetes.io/unschedulable"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
GPU = "nvidia.com/gpu"
_REACTS_S = 0.1  # a real controller took 10-260 ms in our measurements; an instant one would hide every race
_LEASE_EVERY = timedelta(seconds=10)  # a kubelet's default, a quarter of the lease's 40 s
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"


class LabCluster:
    """One cluster. Without an admin token everybody is the administrator."""

    def __init__(self, admin_token: str = "", *, url: str = "", reacts_s: float = _REACTS_S) -> None:
        self.admin_token = admin_token
        self.url = url  # where kubeadm is told to come, "http://127.0.0.1:6443"
        self.reacts_s = reacts_s
        self.authority = Authority()
        self.store = Store()
        self.faults: set[str] = set()  # "api_down": 503 on everything
        self.requests = 0
        self.writes = 0
        self._issued: dict[str, User] = {}
        self.store.on_change.append(self._react)
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.store.create(KINDS["namespaces"], "", admit(KINDS["namespaces"], {"metadata": {"name": namespace}}))

    def open_at(self, url: str) -> None:
        """Tell joining nodes where the API server is: writes kube-public/cluster-info."""
        self.url = url
        body = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": self.kubeconfig()}}
        self.store.create(KINDS["configmaps"], "kube-public", admit(KINDS["configmaps"], body))

    def kubeconfig(self, token: str = "") -> str:
        """A kubeconfig for this cluster, for the holder of `token`."""
        ca = base64.b64encode(self.authority.pem.encode()).decode()
        user = f"users:\n- name: lab\n  user:\n    token: {token}\n" if token else "users: []\n"
        context = (
            "- name: lab\n  context:\n    cluster: lab\n    user: lab\ncurrent-context: lab\n" if token else "[]\n"
        )
        return (
            "apiVersion: v1\nkind: Config\nclusters:\n- name: lab\n  cluster:\n"
            f"    server: {self.url}\n    certificate-authority-data: {ca}\n"
            f"{user}contexts:{chr(10) if token else ' '}{context}"
        )

    def user_of(self, authorization: str) -> User:
        """Who presents this header; 401 when the token is nobody's."""
        if not self.admin_token:
            return ADMIN
        if not authorization:
            return ANONYMOUS
        token = authorization.removeprefix("Bearer ")
        if token == self.admin_token:
            return ADMIN
        user = bootstrap_user(self.store, token) or self._issued.get(token)
        if user is None:
            raise Refused(401, "Unauthorized")
        return user

    # --- controllers -----------------------------------------------------------------------------------------------

    def _react(self, change: Change) -> None:
        if change.plural == "nodes" and change.after is not None:
            self._soon(self._sync_cordon_taint, change.after["metadata"]["name"])
        elif change.plural == "secrets":
            self._soon(self._sign_cluster_info)
        elif change.plural == "certificatesigningrequests" and change.after is not None:
            self._soon(self._sign_request, change.after["metadata"]["name"])

    def _soon(self, act: Callable[..., None], *arguments: str) -> None:
        asyncio.get_running_loop().call_later(self.reacts_s, act, *arguments)

    def _sync_cordon_taint(self, name: str) -> None:
        """The node controller: a cordoned node carries a taint, a ready one loses not-ready."""
        node = self._node(name)
        if node is None:
            return
        wanted = {CORDON_TAINT: bool(node["spec"].get("unschedulable"))}
        if "conditions" in node["status"]:
            wanted[NOT_READY_TAINT] = not is_ready(node)
        taints = [taint for taint in node["spec"].get("taints", []) if wanted.get(taint["key"], True)]
        has = {taint["key"] for taint in taints}
        taints += [{"key": key, "effect": "NoSchedule"} for key, on in wanted.items() if on and key not in has]
        if taints != node["spec"].get("taints", []):
            self._save("nodes", "", {**node, "spec": {**node["spec"], "taints": taints}})

    def _sign_cluster_info(self) -> None:
        """The bootstrap signer and token cleaner: one signature a valid token, none for the others."""
        try:
            info = self.store.get(KINDS["configmaps"], "kube-public", "cluster-info")
        except Refused:
            return
        text = info["data"]["kubeconfig"]
        signed = {
            f"jws-kubeconfig-{token_id}": detached_signature(text, token_id, data["token-secret"])
            for token_id, data in bootstrap_tokens(self.store).items()
            if data.get("usage-bootstrap-signing") == "true"
        }
        self._save("configmaps", "kube-public", {**info, "data": {"kubeconfig": text, **signed}})
        self._clean_when_expired()

    def _clean_when_expired(self) -> None:
        for secret in self.store.all(KINDS["secrets"], "kube-system"):
            if secret["type"] == BOOTSTRAP_TYPE and "expiration" in secret["data"]:
                ends = datetime.fromisoformat(base64.b64decode(secret["data"]["expiration"]).decode())
                left_s = (ends - datetime.now(UTC)).total_seconds()
                if left_s <= 0:
                    self.store.delete(KINDS["secrets"], "kube-system", secret["metadata"]["name"])
                else:
                    asyncio.get_running_loop().call_later(left_s + 0.01, self._sign_cluster_info)

    def _sign_request(self, name: str) -> None:
        """The approver and signer: kubelet client certificates for kubeadm's group go through, others wait."""
        kind = KINDS["certificatesigningrequests"]
        try:
            request = self.store.get(kind, "", name)
        except Refused:
            return
        status, spec = request["status"], request["spec"]
        approved = any(condition["type"] == "Approved" for condition in status.get("conditions", []))
        if not approved and spec["signerName"] == _CLIENT_SIGNER and AUTO_APPROVED_GROUP in spec.get("groups", []):
            by = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "kubeadm's default group"}
            status = {**status, "conditions": [by]}
            approved = True
        if approved and "certificate" not in status:
            pem = self._issue(base64.b64decode(spec["request"]))
            status = {**status, "certificate": base64.b64encode(pem.encode()).decode()}
            self._save(kind.plural, "", {**request, "status": status})

    def _issue(self, request_pem: bytes) -> str:
        """A certificate, remembered by its fingerprint: over plain HTTP that is what its holder presents."""
        pem = self.authority.issue(request_pem)
        name, groups = subject_of(request_pem)
        self._issued[certificate_token(pem)] = User(name, (*groups, "system:authenticated"))
        return pem

    # --- the nodes' side -------------------------------------------------------------------------------------------

    def kubelet_status(
        self,
        node_name: str,
        *,
        ready: bool | None,
        gpus_capacity: int,
        gpus_allocatable: int,
        system_uuid: str,
        boot_id: str,
        kubelet: str = "1.34.2",
        kernel: str = "",
        message: str = "",
    ) -> bool:
        """What a node's kubelet reports; `ready=None` = it has stopped reporting. False when it has no Node object."""
        node = self.store.peek(KINDS["nodes"], "", node_name)
        if node is None:
            return False
        if ready is not None:
            self._heartbeat(node_name)
        resources = {"cpu": "224", "memory": "2113451392Ki", "pods": "110"}
        status = {
            **node["status"],
            "capacity": {**resources, GPU: str(gpus_capacity)},
            "allocatable": {**resources, GPU: str(gpus_allocatable)},
            "conditions": _conditions(node["status"].get("conditions", []), ready, message),
            "nodeInfo": _node_info(node_name, system_uuid, boot_id, kubelet, kernel),
        }
        if _without_beats(status) != _without_beats(node["status"]):  # as a kubelet: the Lease tells that it lives
            self._save("nodes", "", {**copy.deepcopy(node), "status": status})
        return True

    def plant_node(self, name: str, *, serial: str = "", system_uuid: str = "", ready: bool = False) -> None:
        """A Node object from an earlier life of a machine, or of another machine of the same name."""
        annotations = {"rackmint.io/serial": serial} if serial else {}
        self.store.create(
            KINDS["nodes"], "", admit(KINDS["nodes"], {"metadata": {"name": name, "annotations": annotations}})
        )
        self.kubelet_status(
            name,
            ready=ready or None,
            gpus_capacity=8,
            gpus_allocatable=8,
            system_uuid=system_uuid,
            boot_id="0",
            message="Kubelet stopped posting node status." if not ready else "",
        )

    def drop_node(self, name: str) -> bool:
        """Somebody removes a Node object by hand; False when there is none."""
        try:
            self.store.delete(KINDS["nodes"], "", name)
        except Refused:
            return False
        return True

    def _heartbeat(self, name: str) -> None:
        kind = KINDS["leases"]
        standing = self.store.peek(kind, "kube-node-lease", name)
        if standing and datetime.now(UTC) - datetime.fromisoformat(standing["spec"]["renewTime"]) < _LEASE_EVERY:
            return
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": timestamp()}
        body = admit(kind, {"metadata": {"name": name}, "spec": spec})
        if standing:
            self.store.replace(kind, "kube-node-lease", name, body)
        else:
            self.store.create(kind, "kube-node-lease", body)

    def _node(self, name: str) -> Body | None:
        try:
            return self.store.get(KINDS["nodes"], "", name)
        except Refused:
            return None

    def _save(self, plural: str, namespace: str, body: Body) -> None:
        self.store.replace(KINDS[plural], namespace, body["metadata"]["name"], admit(KINDS[plural], body))


def is_ready(node: Body) -> bool:
    """Whether a Node says Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def certificate_token(pem: str) -> str:
    """How the holder of a client certificate shows itself on a server without TLS: `cert:<sha256>`."""
    return f"cert:{hashlib.sha256(pem.strip().encode()).hexdigest()}"


def _conditions(old: list[Body], ready: bool | None, message: str) -> list[Body]:
    """Kept by type; the time of transition moves only when the status does."""
    word = {True: "True", False: "False", None: "Unknown"}[ready]
    reason = {True: "KubeletReady", False: "KubeletNotReady", None: "NodeStatusUnknown"}[ready]
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    wanted = {"Ready": (word, reason), **dict.fromkeys(pressures, ("False", "KubeletHasSufficient"))}
    before = {condition["type"]: condition for condition in old}
    for name, (status, why) in wanted.items():
        was = before.get(name, {})
        since = was.get("lastTransitionTime") if was.get("status") == status else None
        before[name] = {
            "type": name,
            "status": status,
            "reason": why,
            "message": message,
            "lastHeartbeatTime": timestamp(),
            "lastTransitionTime": since or timestamp(),
        }
    return list(before.values())


def _without_beats(status: Body) -> Body:
    """A status without the times that move on by themselves."""
    beats = ("lastHeartbeatTime", "lastTransitionTime")
    conditions = [{k: v for k, v in c.items() if k not in beats} for c in status.get("conditions", [])]
    return {**status, "conditions": conditions}


def _node_info(name: str, system_uuid: str, boot_id: str, kubelet: str, kernel: str) -> Body:
    return {
        "systemUUID": system_uuid,
        "bootID": boot_id,
        "machineID": hashlib.sha256(name.encode()).hexdigest()[:32],
        "kubeletVersion": f"v{kubelet}",
        "kubeProxyVersion": f"v{kubelet}",
        "kernelVersion": kernel,
        "osImage": "Lab Linux",
        "containerRuntimeVersion": "containerd://2.0.0",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
