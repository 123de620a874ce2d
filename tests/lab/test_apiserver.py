"""The lab's Kubernetes answers as the real one does: revisions, patches, watches, evictions, tokens, certificates."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from lab.apiserver import LabCluster, make_app
from lab.background import BackgroundLoop
from lab.kubernetes.authority import detached_signature, spki_pin
from lab.kubernetes.cluster import certificate_token

_PROBE = Path(__file__).parents[2].parent / "shared" / "kubernetes"
_ADMIN = "admin-of-the-lab"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"


class Caller:
    """One user of the server; each call returns (status, body)."""

    def __init__(self, cluster: LabCluster, loop: BackgroundLoop, token: str) -> None:
        self.cluster, self._loop, self._token = cluster, loop, token

    def as_(self, token: str) -> Caller:
        """The same server seen by somebody else."""
        return Caller(self.cluster, self._loop, token)

    def on_loop(self, act: Callable[[], Any]) -> Any:
        """Change the cluster where its state lives."""

        async def run() -> Any:
            return act()

        return self._loop.run(run())

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        """One request."""
        headers = {"Content-Type": kind, "Connection": "close"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body)
        with requests.request(method, self.cluster.url + path, data=data, headers=headers, timeout=10) as answer:
            return answer.status_code, answer.json()

    def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """The object once a controller has done its work."""
        for _ in range(100):
            _, body = self("GET", path)
            if holds(body):
                return body
            time.sleep(0.02)
        raise AssertionError(f"{path} never came to hold: {body}")


@pytest.fixture
def api() -> Iterator[Caller]:
    """The administrator of a fresh cluster."""
    with BackgroundLoop() as loop:
        cluster = LabCluster(_ADMIN, reacts_s=0.02)
        runner = web.AppRunner(make_app(cluster), shutdown_timeout=0.1)

        async def start() -> None:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            cluster.open_at(f"http://{host}:{port}")

        loop.run(start())
        yield Caller(cluster, loop, _ADMIN)
        loop.run(runner.cleanup())


def node(name: str = "n1", **labels: str) -> dict[str, Any]:
    """A Node to be created."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def token_secret(seconds: float = 900) -> dict[str, Any]:
    """A bootstrap token abcdef.0123456789abcdef."""
    expires = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "expiration": expires,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    }


_SECRETS = "/api/v1/namespaces/kube-system/secrets"
_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_TOKEN = "abcdef.0123456789abcdef"


@pytest.mark.shared
@pytest.mark.skipif(not _PROBE.exists(), reason="no ../shared/kubernetes beside the repository: the probe is not run")
def test_the_stand_in_answers_like_the_real_server(api: Caller) -> None:
    """Line by line what a real v1.36.2 answered; the 410 it could not show on a fresh store may pass here."""
    api.on_loop(lambda: setattr(api.cluster, "admin_token", ""))
    command = [sys.executable, str(_PROBE / "probe.py"), api.cluster.url]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    expected = _verdicts((_PROBE / "expected-v1.36.2.txt").read_text())
    got = _verdicts(said)
    ancient = "watch from ancient resourceVersion -> 410"
    assert {**expected, ancient: "PASS"} == got


def _verdicts(text: str) -> dict[str, str]:
    return {m[2].strip(): m[1] for m in re.finditer(r"^(PASS|FAIL)  (.+?)\s+[\d.]+ms", text, re.MULTILINE)}


# --- objects


def test_a_cordon_becomes_a_taint_after_a_moment_and_goes_again(api: Caller) -> None:
    """By a controller, with a delay: whoever patches by index must look again."""
    api("POST", "/api/v1/nodes", node())
    _, body = api("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}, _MERGE)
    assert "taints" not in body["spec"]
    api.until(
        "/api/v1/nodes/n1",
        lambda n: [t["key"] for t in n["spec"].get("taints", [])] == ["node.kubernetes.io/unschedulable"],
    )
    api("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": None}}, _MERGE)
    api.until("/api/v1/nodes/n1", lambda n: n["spec"] == {})


def test_taints_are_replaced_whole_and_conditions_merged(api: Caller) -> None:
    """In a strategic merge; in a plain one both are replaced."""
    api("POST", "/api/v1/nodes", {**node(), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    api("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, _STRATEGIC)
    for name in ("X", "Y"):
        api(
            "PATCH",
            "/api/v1/nodes/n1/status",
            {"status": {"conditions": [{"type": name, "status": "True"}]}},
            _STRATEGIC,
        )
    _, body = api("GET", "/api/v1/nodes/n1")
    assert (["b"], ["X", "Y"]) == (
        [taint["key"] for taint in body["spec"]["taints"]],
        [condition["type"] for condition in body["status"]["conditions"]],
    )
    _, body = api(
        "PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [{"type": "Z", "status": "True"}]}}, _MERGE
    )
    assert ["Z"] == [condition["type"] for condition in body["status"]["conditions"]]


def test_the_status_is_written_through_its_own_door(api: Caller) -> None:
    """A change of the object leaves it alone, and the other way round."""
    api("POST", "/api/v1/nodes", node())
    api("PATCH", "/api/v1/nodes/n1", {"status": {"capacity": {"nvidia.com/gpu": "8"}}}, _MERGE)
    api("PATCH", "/api/v1/nodes/n1/status", {"spec": {"unschedulable": True}}, _MERGE)
    _, body = api("GET", "/api/v1/nodes/n1")
    assert ({}, {}) == (body["status"], body["spec"])


def test_a_json_patch_is_done_whole_or_not_at_all(api: Caller) -> None:
    """A test that fails at the end undoes what came before."""
    api("POST", "/api/v1/nodes", node(x="1"))
    patch = [
        {"op": "replace", "path": "/metadata/labels/x", "value": "2"},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "3"},
        {"op": "test", "path": "/metadata/labels/x", "value": "1"},
    ]
    assert 422 == api("PATCH", "/api/v1/nodes/n1", patch, _JSON_PATCH)[0]
    assert {"x": "1"} == api("GET", "/api/v1/nodes/n1")[1]["metadata"]["labels"]
    assert {"x": "2", "a/b": "3"} == api("PATCH", "/api/v1/nodes/n1", patch[:2], _JSON_PATCH)[1]["metadata"]["labels"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/labels/absent"},
        {"op": "replace", "path": "/spec/taints/0", "value": {}},
        {"op": "test", "path": "/nowhere/at/all", "value": 1},
        {"op": "dance", "path": "/spec"},
    ],
)
def test_a_json_patch_on_what_is_not_there_is_unprocessable(api: Caller, operation: dict[str, Any]) -> None:
    """422 with a sentence, as on the real server."""
    api("POST", "/api/v1/nodes", node(x="1"))
    code, body = api("PATCH", "/api/v1/nodes/n1", [operation], _JSON_PATCH)
    assert (422, "Invalid") == (code, body["reason"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {"name": "N 1"}}, "metadata.name"),
        ({"metadata": {"name": "n1", "labels": {"a": "spaces here"}}}, "metadata.labels[a]"),
        ({"metadata": {"name": "n1", "labels": {"a": "x" * 64}}}, "metadata.labels[a]"),
        ({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "Never"}]}}, "spec.taints[0].effect"),
        ({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}] * 2}}, "spec.taints[1]"),
    ],
)
def test_what_may_not_be_stored_is_named(api: Caller, body: dict[str, Any], field: str) -> None:
    """422 with the field."""
    code, answer = api("POST", "/api/v1/nodes", body)
    assert (422, [field]) == (code, [cause["field"] for cause in answer["details"]["causes"]])


def test_fields_have_owners_when_applied(api: Caller) -> None:
    """Another manager's value is a conflict; a field that is no longer applied goes; by force it changes hands."""

    def apply(manager: str, labels: dict[str, str], force: str = "") -> tuple[int, Any]:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}
        return api("PATCH", f"/api/v1/nodes/n1?fieldManager={manager}{force}", body, _APPLY)

    assert 200 == apply("a", {"x": "1", "y": "1"})[0]
    assert {"x": "1"} == apply("a", {"x": "1"})[1]["metadata"]["labels"]
    assert (200, 409) == (apply("b", {"x": "1"})[0], apply("b", {"x": "2"})[0])
    assert {"x": "2"} == apply("b", {"x": "2"}, "&force=true")[1]["metadata"]["labels"]
    assert (409, 400) == (apply("a", {"x": "1"})[0], apply("", {"x": "1"})[0])


def test_objects_are_chosen_by_labels_and_fields(api: Caller) -> None:
    """All forms of a label selector; a field that is not indexed is a bad request."""
    for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r3")):
        api("POST", "/api/v1/nodes", node(name, rack=rack))
    api("POST", "/api/v1/nodes", node("n4"))

    def names(selector: str) -> str:
        return " ".join(item["metadata"]["name"] for item in api("GET", f"/api/v1/nodes?{selector}")[1]["items"])

    assert ["n1", "n2 n3 n4", "n1 n2", "n3 n4", "n1 n2 n3", "n4", "n2"] == [
        names(f"labelSelector={selector}")
        for selector in (
            "rack=r1",
            "rack!=r1",
            "rack in (r1,r2)",
            "rack notin (r1,r2)",
            "rack",
            "!rack",
            "rack,rack==r2",
        )
    ]
    assert "n2" == names("fieldSelector=metadata.name=n2,spec.unschedulable!=true")
    assert 400 == api("GET", "/api/v1/nodes?fieldSelector=spec.podCIDR=1")[0]


def test_pages_lead_through_all(api: Caller) -> None:
    """Each once."""
    for number in range(5):
        api("POST", "/api/v1/nodes", node(f"n{number}"))
    seen, after = [], ""
    while True:
        _, page = api("GET", f"/api/v1/nodes?limit=2&continue={after}")
        seen += [item["metadata"]["name"] for item in page["items"]]
        after = page["metadata"].get("continue", "")
        if not after:
            break
    assert ["n0", "n1", "n2", "n3", "n4"] == seen


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/flowers", 404),
        ("GET", "/apis/policy/v1/nodes", 404),
        ("GET", "/api/v1/nodes/n1/scale", 404),
        ("GET", "/api/v1/nodes/absent", 404),
        ("PATCH", "/api/v1/nodes/n1", 415),
        ("PUT", "/api/v1/nodes/n1", 422),
    ],
)
def test_what_is_not_served_is_refused_in_the_servers_words(api: Caller, method: str, path: str, code: int) -> None:
    """A Status object, never a page."""
    api("POST", "/api/v1/nodes", node())
    got, body = api(method, path, {"metadata": {}} if method != "GET" else None)
    assert (code, "Status", code) == (got, body["kind"], body["code"])


# --- watches


def _watched(api: Caller, path: str, seconds: float = 0.4) -> list[tuple[str, str]]:
    headers = {"Authorization": f"Bearer {_ADMIN}", "Connection": "close"}
    url = f"{api.cluster.url}{path}&watch=true&timeoutSeconds={seconds}"
    with requests.get(url, headers=headers, stream=True, timeout=10) as answer:
        events = [json.loads(line) for line in answer.iter_lines()]
    return [(e["type"], e["object"].get("metadata", {}).get("name") or str(e["object"]["code"])) for e in events]


def test_a_watch_tells_what_happened_since_a_revision(api: Caller) -> None:
    """Of its kind alone; an object that stops matching is gone for it."""
    api("POST", "/api/v1/nodes", node("n0"))
    since = api("GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"]
    api("POST", "/api/v1/nodes", node("n1", rack="r1"))
    api("POST", _SECRETS, {"metadata": {"name": "s"}})
    api("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"rack": "r2"}}}, _MERGE)
    api("DELETE", "/api/v1/nodes/n1")
    path = f"/api/v1/nodes?resourceVersion={since}"
    assert [("ADDED", "n1"), ("MODIFIED", "n1"), ("DELETED", "n1")] == _watched(api, path)
    assert [("ADDED", "n1"), ("DELETED", "n1")] == _watched(api, f"{path}&labelSelector=rack=r1")


def test_an_old_revision_is_gone_after_a_restart(api: Caller) -> None:
    """410, and the watcher lists again."""
    since = api("GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"]
    api("POST", "/api/v1/nodes", node())
    api.on_loop(api.cluster.store.compact)
    assert [("ERROR", "410")] == _watched(api, f"/api/v1/nodes?resourceVersion={since}")


# --- pods


def _pod(api: Caller, name: str, *, ready: bool = True, on: str = "n1", grace: int = 0) -> str:
    body = {
        "metadata": {"name": name, "labels": {"app": "train"}},
        "spec": {"nodeName": on, "containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": grace},
    }
    api("POST", "/api/v1/namespaces/jobs/pods", body)
    path = f"/api/v1/namespaces/jobs/pods/{name}"
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    api("PATCH", f"{path}/status", {"status": status}, _MERGE)
    return path


def _evict(api: Caller, name: str, **options: Any) -> tuple[int, Any]:
    body = {"metadata": {"name": name, "namespace": "jobs"}, "deleteOptions": options}
    return api("POST", f"/api/v1/namespaces/jobs/pods/{name}/eviction", body)


@pytest.mark.parametrize(
    ("budget", "codes"),
    [
        ({"minAvailable": 2}, [429, 429]),
        ({"minAvailable": 1}, [201, 429]),
        ({"minAvailable": "51%"}, [429, 429]),
        ({"maxUnavailable": 0}, [429, 429]),
        ({"maxUnavailable": 2}, [201, 201]),
    ],
)
def test_a_budget_says_how_many_pods_may_go(api: Caller, budget: dict[str, Any], codes: list[int]) -> None:
    """429 with its cause, and no word of when to come again."""
    for name in ("p1", "p2"):
        _pod(api, name)
    spec = {**budget, "selector": {"matchLabels": {"app": "train"}}}
    api("POST", "/apis/policy/v1/namespaces/jobs/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec})
    answers = [_evict(api, name) for name in ("p1", "p2")]
    assert codes == [code for code, _ in answers]
    causes = {cause["reason"] for code, body in answers if code == 429 for cause in body["details"]["causes"]}
    assert {"DisruptionBudget"} >= causes


def test_a_budget_protects_healthy_pods_only(api: Caller) -> None:
    """One that is not ready may always go."""
    _pod(api, "p1", ready=False)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}}
    api("POST", "/apis/policy/v1/namespaces/jobs/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec})
    assert 201 == _evict(api, "p1")[0]


def test_an_eviction_means_this_very_pod(api: Caller) -> None:
    """Another one of the same name is a conflict; asking first changes nothing."""
    path = _pod(api, "p1")
    assert 409 == _evict(api, "p1", preconditions={"uid": "another"})[0]
    body = {"metadata": {"name": "p1", "namespace": "jobs"}}
    assert 201 == api("POST", f"{path}/eviction?dryRun=All", body)[0]
    assert 200 == api("GET", path)[0]
    assert (201, 404, 404) == (_evict(api, "p1")[0], api("GET", path)[0], _evict(api, "p1")[0])


def test_a_pod_on_a_dead_node_stays_terminating(api: Caller) -> None:
    """Its eviction is accepted and nobody ends it; on a living node its kubelet does."""
    for name, ready in (("alive", True), ("dead", False)):
        api.on_loop(lambda name=name, ready=ready: api.cluster.plant_node(name, ready=ready))
        _pod(api, f"on-{name}", on=name, grace=30)
        assert 201 == _evict(api, f"on-{name}")[0]
    api.until("/api/v1/namespaces/jobs/pods/on-alive", lambda body: body.get("code") == 404)
    assert "deletionTimestamp" in api("GET", "/api/v1/namespaces/jobs/pods/on-dead")[1]["metadata"]


# --- who may do what


def test_nobody_is_let_in_without_a_name(api: Caller) -> None:
    """Only the signed cluster-info and the version are open; a wrong token is refused everywhere."""
    nobody = api.as_("")
    assert (403, 200, 200) == (nobody("GET", "/api/v1/nodes")[0], nobody("GET", _INFO)[0], nobody("GET", "/version")[0])
    assert 401 == api.as_("wrong")("GET", _INFO)[0]


def test_cluster_info_is_signed_as_long_as_a_token_lives(api: Caller) -> None:
    """By a controller after a moment; the signature goes with the token."""
    api("POST", _SECRETS, token_secret())
    info = api.until(_INFO, lambda body: "jws-kubeconfig-abcdef" in body["data"])
    expected = detached_signature(info["data"]["kubeconfig"], "abcdef", "0123456789abcdef")
    assert expected == info["data"]["jws-kubeconfig-abcdef"]
    api("DELETE", f"{_SECRETS}/bootstrap-token-abcdef")
    api.until(_INFO, lambda body: "jws-kubeconfig-abcdef" not in body["data"])
    assert 401 == api.as_(_TOKEN)("GET", "/api/v1/nodes/n1")[0]


def test_a_token_dies_at_its_hour(api: Caller) -> None:
    """Its Secret is cleaned away and it opens nothing."""
    api("POST", _SECRETS, token_secret(seconds=1.2))
    api.until(f"{_SECRETS}/bootstrap-token-abcdef", lambda body: body.get("code") == 404)
    assert 401 == api.as_(_TOKEN)("GET", "/api/v1/nodes/n1")[0]


def _request(name: str, signer: str = "kubernetes.io/kube-apiserver-client-kubelet") -> dict[str, Any]:
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), SHA256()).public_bytes(Encoding.PEM)
    return {
        "metadata": {"name": f"csr-{name}"},
        "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"]},
    }


def _kubelet(api: Caller, name: str) -> Caller:
    """The kubelet of a node, by the way every kubelet gets its certificate."""
    api("POST", _SECRETS, token_secret())
    holder = api.as_(_TOKEN)
    assert 201 == holder("POST", _REQUESTS, _request(name))[0]
    done = holder.until(f"{_REQUESTS}/csr-{name}", lambda body: "certificate" in body["status"])
    return api.as_(certificate_token(base64.b64decode(done["status"]["certificate"]).decode()))


def test_a_kubelet_may_lift_its_cordon_but_not_its_taints(api: Caller) -> None:
    """So the taint and the restricted labels carry trust, and the cordon does not."""
    api(
        "POST",
        "/api/v1/nodes",
        {**node(), "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}},
    )
    kubelet = _kubelet(api, "n1")
    assert 200 == kubelet("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": None}}, _MERGE)[0]
    assert 200 == kubelet("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"vendor/x": "1"}}}, _MERGE)[0]
    for forbidden in (
        {"spec": {"taints": None}},
        {"metadata": {"labels": {"node-restriction.kubernetes.io/validated": "yes"}}},
        {"metadata": {"labels": {"node-role.kubernetes.io/gpu": "yes"}}},
    ):
        assert 403 == kubelet("PATCH", "/api/v1/nodes/n1", forbidden, _MERGE)[0]


def test_a_kubelet_writes_its_own_node_only(api: Caller) -> None:
    """And lists no secrets."""
    api("POST", "/api/v1/nodes", node("n2"))
    kubelet = _kubelet(api, "n1")
    assert 201 == kubelet("POST", "/api/v1/nodes", node("n1"))[0]
    assert 403 == kubelet("PATCH", "/api/v1/nodes/n2", {"metadata": {"labels": {"x": "1"}}}, _MERGE)[0]
    assert (403, 403) == (kubelet("GET", _SECRETS)[0], kubelet("DELETE", "/api/v1/nodes/n1")[0])


def test_a_serving_certificate_waits_for_somebody_who_approves(api: Caller) -> None:
    """It is never approved by itself; after an approval it is issued by our authority."""
    api("POST", _SECRETS, token_secret())
    body = _request("n1", "kubernetes.io/kubelet-serving")
    api.as_(_TOKEN)("POST", _REQUESTS, body)
    time.sleep(0.1)
    _, waiting = api("GET", f"{_REQUESTS}/csr-n1")
    assert ({}, "system:bootstrap:abcdef") == (waiting["status"], waiting["spec"]["username"])
    waiting["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    assert 200 == api("PUT", f"{_REQUESTS}/csr-n1/approval", waiting)[0]
    done = api.until(f"{_REQUESTS}/csr-n1", lambda body: "certificate" in body["status"])
    issued = x509.load_pem_x509_certificate(base64.b64decode(done["status"]["certificate"]))
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(api.cluster.authority.pem.encode()))
    assert spki_pin(api.cluster.authority.pem) == api.cluster.authority.pin


# --- kubelets


def test_a_kubelet_that_stops_is_unknown_and_keeps_its_gpus_on_paper(api: Caller) -> None:
    """Ready Unknown, the not-ready taint, and capacity as it last was."""
    report = {"gpus_capacity": 8, "gpus_allocatable": 8, "system_uuid": "u", "boot_id": "b"}
    api("POST", "/api/v1/nodes", node())
    assert True is api.on_loop(lambda: api.cluster.kubelet_status("n1", ready=True, **report))
    assert False is api.on_loop(lambda: api.cluster.kubelet_status("n2", ready=True, **report))
    before = api("GET", "/api/v1/nodes/n1")[1]["metadata"]["resourceVersion"]
    api.on_loop(lambda: api.cluster.kubelet_status("n1", ready=True, **report))
    assert before == api("GET", "/api/v1/nodes/n1")[1]["metadata"]["resourceVersion"]
    api.on_loop(lambda: api.cluster.kubelet_status("n1", ready=None, **report))
    body = api.until("/api/v1/nodes/n1", lambda n: any("not-ready" in t["key"] for t in n["spec"].get("taints", [])))
    ready = next(condition for condition in body["status"]["conditions"] if condition["type"] == "Ready")
    assert ("Unknown", "8") == (ready["status"], body["status"]["allocatable"]["nvidia.com/gpu"])
