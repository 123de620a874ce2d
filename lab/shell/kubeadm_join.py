"""The phases of `kubeadm join`: trust the cluster, look for a namesake, get a certificate, register the node.

Each phase speaks to the API server over HTTP with what it really holds: nothing, the token, the new certificate.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from lab.kubernetes.authority import detached_signature, spki_pin
from lab.kubernetes.cluster import certificate_token
from lab.machine import Machine
from lab.shell.tree import host_name, memory_kib

_LOOK_EVERY_S = 0.05
_LEAST_PATIENCE_S = 1.5  # real seconds: however fast the lab's clock is, a controller needs its tenths of a second
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class JoinFailed(Exception):
    """kubeadm's own words, and the phase they come from."""

    def __init__(self, phase: str, text: str) -> None:
        super().__init__(f"error execution phase {phase}: {text}")


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """What a JoinConfiguration asks for."""

    server: str  # "http://127.0.0.1:6443"
    token: str
    pins: tuple[str, ...]
    node: str
    discovery_s: float = 300.0  # kubeadm's defaults: five minutes each
    bootstrap_s: float = 300.0
    skips_pins: bool = False
    taints: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def read(cls, text: str, machine: Machine) -> JoinConfig:
        """From YAML or JSON. Raises ValueError saying what is missing."""
        documents = [doc for doc in yaml.safe_load_all(text) if isinstance(doc, dict)]
        document = next((doc for doc in documents if doc.get("kind") == "JoinConfiguration"), None)
        if document is None:
            raise ValueError(
                "no InitConfiguration, ClusterConfiguration or JoinConfiguration kind was found in the file"
            )
        discovery = (document.get("discovery") or {}).get("bootstrapToken") or {}
        if not discovery.get("token") or not discovery.get("apiServerEndpoint"):
            raise ValueError('discovery: Invalid value: "": bootstrapToken or file must be set')
        registration, timeouts = document.get("nodeRegistration") or {}, document.get("timeouts") or {}
        endpoint = str(discovery["apiServerEndpoint"])
        return cls(
            server=endpoint if "://" in endpoint else f"http://{endpoint}",
            token=str(discovery["token"]),
            pins=tuple(discovery.get("caCertHashes") or ()),
            node=str(registration.get("name") or host_name(machine)).lower(),
            discovery_s=_seconds(timeouts.get("discovery")),
            bootstrap_s=_seconds(timeouts.get("tlsBootstrap")),
            skips_pins=bool(discovery.get("unsafeSkipCAVerification")),
            taints=tuple(registration.get("taints") or ()),
        )


def _seconds(text: object) -> float:
    """`5m0s` in seconds; kubeadm's five minutes when nothing is said."""
    found = _DURATION.findall(str(text or "5m0s"))
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


@dataclass
class Joining:
    """One join under way."""

    machine: Machine
    config: JoinConfig
    session: aiohttp.ClientSession
    identity: str = field(default="")  # what the node shows once it has its certificate

    async def run(self) -> None:
        """All phases. Raises `JoinFailed`."""
        await self._discover()
        await self._refuse_namesake()
        await self._bootstrap()
        await self._register()

    async def _discover(self) -> None:
        """cluster-info must be there, signed with our token, and carry the CA we pinned."""
        info = await self._cluster_info()
        token_id, _, secret = self.config.token.partition(".")
        text = info.get("kubeconfig", "")
        signature = info.get(f"jws-kubeconfig-{token_id}", "")
        if signature != detached_signature(text, token_id, secret):
            self._distrust(
                "failed to verify JWS signature of received cluster info object, can't trust this API Server"
            )
        authority = base64.b64decode(yaml.safe_load(text)["clusters"][0]["cluster"]["certificate-authority-data"])
        pin = spki_pin(authority.decode())
        if pin not in self.config.pins and not self.config.skips_pins:
            self._distrust(
                f'cluster CA found in cluster-info ConfigMap is invalid: none of the public keys "{pin}" are pinned'
            )

    async def _cluster_info(self) -> dict[str, str]:
        """Wait for a signature by our token, as long as discovery may take."""
        path, token_id = "/api/v1/namespaces/kube-public/configmaps/cluster-info", self.config.token.partition(".")[0]
        said = f'could not find a JWS signature in the cluster-info ConfigMap for token ID "{token_id}"'
        for _ in range(self._looks(self.config.discovery_s)):
            try:
                status, body = await self._call("GET", path)
            except (aiohttp.ClientError, TimeoutError) as error:
                said = f'failed to request the cluster-info ConfigMap: Get "{self.config.server}{path}": {error}'
            else:
                data: dict[str, str] = body.get("data", {})
                if f"jws-kubeconfig-{token_id}" in data:
                    return data
                if status != 200:
                    said = f"failed to request the cluster-info ConfigMap: {body.get('message', status)}"
            await asyncio.sleep(_LOOK_EVERY_S)
        self._distrust(said)
        return {}

    def _distrust(self, text: str) -> None:
        raise JoinFailed("preflight", f"couldn't validate the identity of the API Server: {text}")

    def _looks(self, seconds: float) -> int:
        """How often to look in so many seconds of the machine's time."""
        return int(max(_LEAST_PATIENCE_S, self.machine.clock.real_s(seconds)) / _LOOK_EVERY_S)

    async def _refuse_namesake(self) -> None:
        """A Ready node of our name is somebody; one that is not Ready is taken over in silence, as kubeadm does.

        Source: kubernetes issue 81056.
        """
        status, node = await self._call("GET", f"/api/v1/nodes/{self.config.node}", self.config.token)
        if status == 401:
            raise JoinFailed("kubelet-start", "Unauthorized")
        conditions = node.get("status", {}).get("conditions", []) if status == 200 else []
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            raise JoinFailed(
                "kubelet-start",
                f'a Node with name "{self.config.node}" and status "Ready" already exists in the cluster. '
                "You must delete the existing Node or change the name of this new joining Node",
            )

    async def _bootstrap(self) -> None:
        """A client certificate for the kubelet, by the token's right to ask for one."""
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        status, request = await self._call("POST", path, self.config.token, _certificate_request(self.config.node))
        if status != 201:
            raise JoinFailed("kubelet-start", str(request.get("message", status)))
        for _ in range(self._looks(self.config.bootstrap_s)):
            _, request = await self._call("GET", f"{path}/{request['metadata']['name']}", self.config.token)
            if certificate := request.get("status", {}).get("certificate"):
                self.identity = certificate_token(base64.b64decode(certificate).decode())
                return
            await asyncio.sleep(_LOOK_EVERY_S)
        raise JoinFailed("kubelet-wait-bootstrap", "context deadline exceeded")

    async def _register(self) -> None:
        """The kubelet's first words: its Node if there is none yet, and its status."""
        name, spec = self.config.node, {"taints": list(self.config.taints)} if self.config.taints else {}
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec}
        await self._call("POST", "/api/v1/nodes", self.identity, node)
        path = f"/api/v1/nodes/{name}/status"
        status, body = await self._call("PATCH", path, self.identity, {"status": node_status(self.machine)})
        if status != 200:
            raise JoinFailed("kubelet-start", str(body.get("message", status)))

    async def _call(self, method: str, path: str, token: str = "", body: Any = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if method == "PATCH":
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        async with self.session.request(method, self.config.server + path, headers=headers, json=body) as answer:
            return answer.status, await answer.json()


def _certificate_request(node: str) -> dict[str, Any]:
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject)).sign(key, SHA256())
    raw = pem.public_bytes(Encoding.PEM)
    return {
        "metadata": {"name": f"node-csr-{hashlib.sha256(raw).hexdigest()[:20]}"},
        "spec": {
            "request": base64.b64encode(raw).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }


def node_status(machine: Machine) -> dict[str, Any]:
    """What a kubelet reports of its machine: GPUs only where the device plugin lives and the driver works."""
    dead = machine.fault("k8s_plugin_dead") or machine.fault("driver_missing")
    gpus = "0" if dead else str(len(machine.state.gpus_present))
    resources = {"nvidia.com/gpu": gpus, "memory": f"{memory_kib(machine)}Ki", "pods": "110"}
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}],
        "nodeInfo": {
            "systemUUID": machine.state.uuid,
            "bootID": machine.boot_id,
            "kubeletVersion": f"v{machine.software.get('kubelet', '')}",
            "kernelVersion": machine.software.get("kernel", ""),
        },
    }
