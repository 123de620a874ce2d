"""`kubeadm join` on a node against the lab's API server: certificates, namesakes, and kubeadm's own words."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from flows.stages.join import KUBEADM_JOIN
from inventory.fleet import Fleet
from inventory.secrets import Secret
from lab.apiserver import LabCluster, make_app
from lab.background import BackgroundLoop
from lab.kubernetes.kinds import KINDS
from lab.kubernetes.rules import admit
from lab.machine import Machine
from lab.shell.local import run_here
from lab.shell.node import memory
from lab.shell.reply import Reply

TOKEN = "abcdef.0123456789abcdef"
ADMIN = "admin-token-of-the-lab"
JOIN = ("kubeadm", "join", "--config", "/run/rackmint/join.yaml")


@asynccontextmanager
async def cluster_up() -> AsyncIterator[LabCluster]:
    """An API server on loopback."""
    cluster = LabCluster(ADMIN, reacts_s=0.02)
    runner = web.AppRunner(make_app(cluster), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster.open_at(f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield cluster
    await runner.cleanup()


def mint(cluster: LabCluster, minutes: float = 5.0) -> None:
    """A bootstrap token as the fleet mints one."""
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "expiration": (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat(),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }
    body = {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    cluster.store.create(KINDS["secrets"], "kube-system", admit(KINDS["secrets"], body))


def lay_config(machine: Machine, cluster: LabCluster, *, pin: str = "") -> None:
    """The JoinConfiguration, uploaded."""
    config = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": TOKEN,
                "apiServerEndpoint": cluster.url.removeprefix("http://"),
                "caCertHashes": [pin or cluster.authority.pin],
            }
        },
        "nodeRegistration": {"name": machine.name},
        "timeouts": {"discovery": "8s"},
    }
    memory(machine).files["/run/rackmint/join.yaml"] = json.dumps(config).encode()


def run(work: Callable[[LabCluster], Awaitable[Any]]) -> Any:
    """Run the work beside an API server."""

    async def all_of_it() -> Any:
        async with cluster_up() as cluster:
            return await work(cluster)

    loop = BackgroundLoop()
    try:
        return loop.run(all_of_it())
    finally:
        loop.stop()


async def node_object(cluster: LabCluster, name: str) -> dict[str, Any]:
    """The Node as an administrator sees it."""
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN}"}) as session,
        session.get(f"{cluster.url}/api/v1/nodes/{name}") as answer,
    ):
        found: dict[str, Any] = await answer.json()
        return found


def test_a_node_joins(node: Machine) -> None:
    """Exit 0, a Ready Node with eight GPUs and the machine's own identity, and the machine knows it."""

    async def work(cluster: LabCluster) -> tuple[Reply, dict[str, Any]]:
        mint(cluster)
        lay_config(node, cluster)
        return await run_here(node, JOIN), await node_object(cluster, node.name)

    reply, found = run(work)
    assert (0, "") == (reply.exit, reply.stderr)
    assert "8" == found["status"]["allocatable"]["nvidia.com/gpu"]
    assert {"Ready": "True"} == {c["type"]: c["status"] for c in found["status"]["conditions"] if c["type"] == "Ready"}
    assert [node.state.uuid, node.boot_id] == [found["status"]["nodeInfo"][key] for key in ("systemUUID", "bootID")]
    assert {"node": node.name} == {key: value for key, value in (node.joined or {}).items() if key == "node"}


def test_the_products_own_join_is_understood(node: Machine) -> None:
    """The fleet's token and file, written by the product, bring the node in under its pre-created, held Node."""

    async def work(cluster: LabCluster) -> tuple[Reply, dict[str, Any]]:
        def prepare() -> bytes:
            fleet = Fleet(server=cluster.url, token=Secret(ADMIN), ca_pem=cluster.authority.pem, poll_s=0.05)
            fleet.precreate(node.name, node.state.serial, "run-1")
            config = fleet.join_config(node.name, fleet.mint_token(node.name, "run-1", 60.0), fleet.ca_hash())
            fleet.close()
            return config

        memory(node).files["/run/rackmint/join.yaml"] = await asyncio.to_thread(prepare)
        return await run_here(node, KUBEADM_JOIN.argv), await node_object(cluster, node.name)

    reply, found = run(work)
    assert (0, "") == (reply.exit, reply.stderr)
    assert found["spec"]["unschedulable"] is True
    assert "rackmint.io/unvalidated" in {taint["key"] for taint in found["spec"]["taints"]}
    assert node.state.uuid == found["status"]["nodeInfo"]["systemUUID"]


def test_a_dead_plugin_offers_no_gpu(node: Machine) -> None:
    """The node joins and has nothing to give."""
    node.state.faults.add("k8s_plugin_dead")

    async def work(cluster: LabCluster) -> dict[str, Any]:
        mint(cluster)
        lay_config(node, cluster)
        await run_here(node, JOIN)
        return await node_object(cluster, node.name)

    assert "0" == run(work)["status"]["capacity"]["nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (
            lambda cluster, name: None,
            'could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"',
        ),
        (
            lambda cluster, name: (mint(cluster), cluster.plant_node(name, ready=True)),
            'a Node with name "r1-n01" and status "Ready" already exists',
        ),
    ],
    ids=["no token", "namesake"],
)
def test_a_refused_join_says_why(node: Machine, prepare: Callable[[LabCluster, str], Any], words: str) -> None:
    """Kubeadm's sentence on stderr, exit 1, and no membership."""

    async def work(cluster: LabCluster) -> Reply:
        prepare(cluster, node.name)
        lay_config(node, cluster)
        return await run_here(node, JOIN)

    reply = run(work)
    assert (1, True, None) == (reply.exit, words in reply.stderr, node.joined)


def test_a_wrong_ca_is_not_trusted(node: Machine) -> None:
    """Another pin than the cluster's CA stops the join."""

    async def work(cluster: LabCluster) -> Reply:
        mint(cluster)
        lay_config(node, cluster, pin="sha256:" + "0" * 64)
        return await run_here(node, JOIN)

    reply = run(work)
    assert (1, True) == (reply.exit, "none of the public keys" in reply.stderr)


def test_a_second_join_needs_a_reset(node: Machine) -> None:
    """A joined node refuses, and after `kubeadm reset -f` it may join again under a Node that is not Ready."""

    async def work(cluster: LabCluster) -> list[int]:
        mint(cluster)
        lay_config(node, cluster)
        codes = [(await run_here(node, argv)).exit for argv in (JOIN, JOIN, ("kubeadm", "reset", "-f"))]
        cluster.kubelet_status(
            node.name, ready=None, gpus_capacity=8, gpus_allocatable=8, system_uuid=node.state.uuid, boot_id="1"
        )
        return [*codes, (await run_here(node, JOIN)).exit]

    assert [0, 1, 0, 0] == run(work)


def test_a_config_that_is_none_is_refused(node: Machine) -> None:
    """A missing file and a file of another kind."""

    async def work(cluster: LabCluster) -> list[str]:
        missing = await run_here(node, JOIN)
        memory(node).files["/run/rackmint/join.yaml"] = b"kind: Other\n"
        return [missing.stderr, (await run_here(node, JOIN)).stderr]

    missing, other = run(work)
    assert "no such file or directory" in missing
    assert "JoinConfiguration kind was" in other
