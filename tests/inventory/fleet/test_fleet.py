"""The fleet against a served cluster: held from birth, let go only with a certificate, foreign cordons untouched."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from inventory.deadline import Deadline
from inventory.errors import BadSettings, BookUnreachable, Cancelled, ChangeNotApplied, ChangeRefused, LoginRefused
from inventory.findings import Finding, Outcome
from inventory.fleet import Fleet
from inventory.redact import REDACTOR
from inventory.secrets import Secret
from lab.kubernetes.kinds import KINDS
from lab.kubernetes.rules import admit

UUID = "aaaa-1"


def failed(findings: tuple[Finding, ...]) -> list[str]:
    """The metrics of what did not pass."""
    return [finding.metric for finding in findings if finding.outcome is not Outcome.PASS]


def joined(served, fleet: Fleet, name: str = "n1", run: str = "run-a") -> None:
    """A node that is held and whose kubelet reports."""
    fleet.precreate(name, "CH1", run, {"rack": "R1"})
    served.kubelet(name)


# --- being there


def test_the_version_is_told(fleet: Fleet) -> None:
    """And that nodes may be listed is tried at the same time."""
    assert "v1.36.2" == fleet.check()


def test_a_dead_server_is_named_in_one_sentence(tmp_path: Path) -> None:
    """Nobody listens on port 1."""
    fleet = Fleet(server="http://127.0.0.1:1", token=Secret("t0ken-of-nobody"), timeout_s=1)
    with pytest.raises(BookUnreachable, match=r"Kubernetes http://127.0.0.1:1: list nodes: .*refused"):
        fleet.check()
    fleet.close()


def test_an_outage_is_not_a_no(served, fleet: Fleet) -> None:
    """503 means that nothing is known, and is tried again before it is said."""
    served.cluster.faults.add("api_down")
    with pytest.raises(BookUnreachable, match="HTTP 503"):
        fleet.node("n1")
    assert 4 == served.cluster.requests


def test_a_wrong_token_is_refused_as_such(served) -> None:
    """Not as an outage."""
    fleet = Fleet(server=served.cluster.url, token=Secret("not-the-admins-token"))
    with pytest.raises(LoginRefused, match="Unauthorized"):
        fleet.node("n1")
    fleet.close()


@pytest.mark.parametrize("text", ["", "clusters: [", "apiVersion: v1\nkind: Config\n", "just words"])
def test_a_broken_kubeconfig_is_refused_before_anything_is_asked(tmp_path: Path, text: str) -> None:
    """In one sentence that names the file."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(BadSettings, match=f"kubeconfig {path}: "):
        Fleet(path)


def test_a_kubeconfig_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """In one sentence that names the file."""
    with pytest.raises(BadSettings, match=r"kubeconfig .*/nowhere: "):
        Fleet(tmp_path / "nowhere")


def test_nodes_are_listed_over_all_pages(served, fleet: Fleet) -> None:
    """More than one answer's worth."""

    def plant() -> None:
        for number in range(260):
            served.cluster.plant_node(f"n{number:03d}")

    served.on_loop(plant)
    assert [f"n{number:03d}" for number in range(260)] == [node.name for node in fleet.nodes()]


# --- the name


def test_a_free_name_is_free(fleet: Fleet) -> None:
    """Nothing to clear."""
    assert False is fleet.guard_name("n1", "CH1", UUID)


def test_a_stale_node_of_the_same_machine_is_deleted(served, fleet: Fleet) -> None:
    """A join would join over it and silently ignore the taints."""
    served.on_loop(lambda: served.cluster.plant_node("n1", serial="CH1", system_uuid="AAAA-1"))
    assert True is fleet.guard_name("n1", "CH1", UUID)
    assert None is fleet.node("n1")


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        (("CH1", "aaaa-1", True), "a Node n1 is Ready in the cluster, serial CH1"),
        (("CH9", "aaaa-1", False), "not known to be this machine: serial CH9"),
        (("", "bbbb-2", False), "not known to be this machine: serial unknown, UUID bbbb-2"),
        (("", "", False), "not known to be this machine"),
    ],
)
def test_a_name_in_use_stops_the_join(served, fleet: Fleet, there, sentence) -> None:
    """Whoever it is keeps their Node."""
    serial, system_uuid, ready = there
    served.on_loop(lambda: served.cluster.plant_node("n1", serial=serial, system_uuid=system_uuid, ready=ready))
    with pytest.raises(ChangeRefused, match=sentence):
        fleet.guard_name("n1", "CH1", UUID)
    assert None is not fleet.node("n1")


def test_a_node_is_held_from_birth(served, fleet: Fleet) -> None:
    """Tainted, cordoned, owned and labelled before its kubelet exists, and still so once it reports."""
    node = fleet.precreate("n1", "CH1", "run-a", {"rack": "R 1", "site": "", "unit": "7"})
    served.kubelet("n1")
    node = fleet.node("n1")
    assert (False, True, "CH1", "run-a") == (node.schedulable, node.held, node.serial, node.cordon_owner)
    assert "R-1" == node.labels["node-restriction.kubernetes.io/rack"]
    assert {
        "node-restriction.kubernetes.io/rack",
        "node-restriction.kubernetes.io/unit",
        "kubernetes.io/hostname",
    } == set(node.labels)


def test_a_taken_name_cannot_be_created_over(fleet: Fleet) -> None:
    """The second creation is refused by the server."""
    fleet.precreate("n1", "CH1", "run-a")
    with pytest.raises(ChangeRefused, match="already exists"):
        fleet.precreate("n1", "CH2", "run-b")


def test_a_node_without_a_living_kubelet_belongs_to_nobody_yet(served, fleet: Fleet) -> None:
    """Created and never joined, or stale: the join is done again."""
    assert False is fleet.precreate("n1", "CH1", "run-a").belongs_to("CH1")
    served.kubelet("n1")
    assert (True, False) == (fleet.node("n1").belongs_to("CH1"), fleet.node("n1").belongs_to("CH2"))
    served.kubelet("n1", ready=None)
    assert False is fleet.node("n1").belongs_to("CH1")


# --- tokens


def test_a_token_is_signed_for_before_it_is_handed_out_and_gone_afterwards(served, fleet: Fleet) -> None:
    """Its value is known to the redactor, and the cluster honours it as long as it is there."""
    token = fleet.mint_token("n1", "run-a", 900)
    holder = Fleet(server=served.cluster.url, token=token)
    assert None is holder.node("n1")
    assert "[redacted]" == REDACTOR.clean(token.reveal())
    fleet.delete_token(token)
    fleet.delete_token(token)
    with pytest.raises(LoginRefused):
        holder.node("n1")
    holder.close()


def test_a_token_may_not_do_more_than_join(served, fleet: Fleet) -> None:
    """It reads a namesake; it lists no secrets and changes no nodes."""
    holder = Fleet(server=served.cluster.url, token=fleet.mint_token("n1", "run-a", 900))
    with pytest.raises(ChangeRefused, match="is forbidden"):
        holder.mint_token("n2", "run-a", 900)
    with pytest.raises(ChangeRefused, match="is forbidden"):
        holder.precreate("n2", "CH2", "run-a")
    holder.close()


def test_a_cluster_that_does_not_sign_is_found_out_at_once(served, fleet: Fleet) -> None:
    """A join would wait five minutes for it. The token is taken back."""
    served.on_loop(lambda: setattr(served.cluster, "reacts_s", 60.0))
    with pytest.raises(ChangeNotApplied, match=r"does not sign for it\. Is the bootstrap signer"):
        fleet.mint_token("n1", "run-a", 900, deadline=Deadline("n1", 0.3))


def test_the_pin_comes_from_our_own_settings(served, fleet: Fleet) -> None:
    """And is what the cluster's root hashes to."""
    assert served.cluster.authority.pin == fleet.ca_hash()
    bare = Fleet(server=served.cluster.url)
    with pytest.raises(BadSettings, match="names no certificate authority"):
        bare.ca_hash()
    bare.close()


def test_the_join_file_says_all_that_kubeadm_needs(served, fleet: Fleet) -> None:
    """JSON, which is YAML; short time-outs, and tainted even where the Node was deleted meanwhile."""
    config = json.loads(fleet.join_config("n1", Secret("abcdef.0123456789abcdef"), "sha256:00"))
    assert {
        "apiServerEndpoint": served.cluster.url.removeprefix("http://"),
        "token": "abcdef.0123456789abcdef",
        "caCertHashes": ["sha256:00"],
    } == config["discovery"]["bootstrapToken"]
    assert ("n1", "30s") == (config["nodeRegistration"]["name"], config["timeouts"]["discovery"])
    assert ["rackmint.io/unvalidated"] == [taint["key"] for taint in config["nodeRegistration"]["taints"]]


# --- gates


def test_all_gates_of_a_healthy_node_pass(served, fleet: Fleet) -> None:
    """Ready, GPUs, identity, boot, no pressure; read until they held twice."""
    joined(served, fleet)
    findings = fleet.wait_gates("n1", 8, UUID, "boot-1", deadline=Deadline("n1", 5))
    assert [] == failed(findings)
    assert 5 == len(findings)


@pytest.mark.parametrize(
    ("report", "metric", "cause"),
    [
        ({"allocatable": 0}, "kubernetes_gpus", "has 0 of 8 GPUs to give: the device plugin is dead"),
        ({"capacity": 0, "allocatable": 0}, "kubernetes_gpus", "has 0 of 8 GPUs to give"),
        ({"allocatable": 7}, "kubernetes_gpus", "has 7 of 8 GPUs to give: the device plugin lacks some"),
        ({"ready": False}, "kubernetes_ready", "Kubernetes says the node is NotReady"),
        ({"ready": None}, "kubernetes_ready", "Kubernetes says the node is Unknown"),
    ],
)
def test_the_gate_that_does_not_open_is_named(served, fleet: Fleet, report, metric, cause) -> None:
    """Ready says nothing about GPUs; a time-out would say nothing at all."""
    fleet.precreate("n1", "CH1", "run-a")
    served.kubelet("n1", **report)
    findings = fleet.wait_gates("n1", 8, UUID, deadline=Deadline("n1", 0.2))
    assert [cause] == [cause for finding in findings if finding.metric == metric and cause in finding.cause]


def test_another_machine_under_our_name_is_seen(served, fleet: Fleet) -> None:
    """Its UUID, and the boot it reports, are not ours."""
    joined(served, fleet)
    findings = fleet.gates("n1", 8, "cccc-3", "boot-2")
    assert ["kubernetes_system_uuid", "kubernetes_boot_id"] == failed(findings)


def test_a_node_that_is_not_there_fails_its_gates(fleet: Fleet) -> None:
    """With one finding that says so."""
    assert ["kubernetes_node"] == failed(fleet.gates("n1", 8, UUID))


def test_gates_that_open_late_are_waited_for(served, fleet: Fleet) -> None:
    """The device plugin takes its time after every boot."""
    fleet.precreate("n1", "CH1", "run-a")
    served.kubelet("n1", allocatable=0)
    late = threading.Timer(0.3, served.kubelet, ["n1"])
    late.start()
    told: list[str] = []
    deadline = Deadline("n1", 5, tell=lambda what, _: told.append(what))
    assert [] == failed(fleet.wait_gates("n1", 8, UUID, deadline=deadline))
    late.join()
    assert "Kubernetes: Kubernetes has 0 of 8 GPUs to give: the device plugin is dead" == told[0]
    assert "Kubernetes: all gates to hold" == told[-1]


def test_waiting_for_gates_ends_at_once_on_cancel(served, fleet: Fleet) -> None:
    """Nobody waits out a budget after Ctrl-C."""
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    with pytest.raises(Cancelled):
        fleet.wait_gates("n1", 8, UUID, deadline=Deadline("n1", 60, cancel=cancel))


def test_a_kubelet_that_said_nothing_yet_is_no_answer(served, fleet: Fleet) -> None:
    """Not known is an error, never a pass and never another machine."""
    fleet.precreate("n1", "CH1", "run-a")
    outcomes = {finding.metric: finding.outcome for finding in fleet.gates("n1", 8, UUID, "boot-1")}
    assert (Outcome.ERROR, Outcome.ERROR) == (outcomes["kubernetes_system_uuid"], outcomes["kubernetes_boot_id"])


# --- letting go and shutting


def test_without_a_certificate_nothing_is_let_go(served, fleet: Fleet) -> None:
    """The taint stays, whatever the gates say."""
    joined(served, fleet)
    with pytest.raises(ChangeRefused, match="Only a valid certificate opens a node for work"):
        fleet.admit("n1", "run-a", "")
    assert True is fleet.node("n1").held


def test_a_certificate_opens_the_node_in_one_write(served, fleet: Fleet) -> None:
    """Taint, cordon and owner go together; the certificate stands on the node; twice changes nothing."""
    joined(served, fleet)
    before = served.cluster.writes
    assert True is fleet.admit("n1", "run-a", "c0ffee")
    assert 1 == served.cluster.writes - before
    node = fleet.node("n1")
    assert (True, False, True, "") == (node.schedulable, node.held, node.admitted_with("c0ffee"), node.cordon_owner)
    assert "c0ffee" == node.labels["node-restriction.kubernetes.io/rackmint-validated"]
    assert "rackmint.io/cordon-owner" not in node.annotations
    assert (False, 1) == (fleet.admit("n1", "run-a", "c0ffee"), served.cluster.writes - before)


def test_a_run_may_open_what_a_killed_run_of_ours_held(served, fleet: Fleet) -> None:
    """The lease says who works on a node; the cordon of the run before is ours as well."""
    joined(served, fleet, run="run-a")
    assert True is fleet.admit("n1", "run-b", "c0ffee")


def test_a_foreign_cordon_is_not_lifted_by_admission(served, fleet: Fleet) -> None:
    """Somebody had a reason."""
    served.on_loop(lambda: served.cluster.plant_node("n1", serial="CH1", ready=True))
    _set_unschedulable(fleet, "n1")
    with pytest.raises(ChangeRefused, match="somebody else has cordoned the node"):
        fleet.admit("n1", "run-a", "c0ffee")


def test_quarantine_shuts_with_taint_and_cordon_at_once(served, fleet: Fleet) -> None:
    """It withdraws the certificate, and a later certificate lifts it again."""
    joined(served, fleet)
    fleet.admit("n1", "run-a", "c0ffee")
    before = served.cluster.writes
    assert (True, False) == (
        fleet.quarantine("n1", "GPU 3: slow", "run-b"),
        fleet.quarantine("n1", "GPU 3: slow", "run-b"),
    )
    assert 1 == served.cluster.writes - before
    node = fleet.node("n1")
    ours = [taint for taint in node.taints if taint.key.startswith("rackmint.io/")]
    assert [("rackmint.io/quarantine", "GPU-3--slow", "NoSchedule")] == [(t.key, t.value, t.effect) for t in ours]
    assert (False, "run-b", False) == (node.schedulable, node.cordon_owner, node.admitted_with("c0ffee"))
    fleet.admit("n1", "run-c", "c0ffee2")
    assert (True, False) == (fleet.node("n1").schedulable, fleet.node("n1").held)


def test_only_the_owner_uncordons(served, fleet: Fleet) -> None:
    """A cordon of ours goes by its own run, one of others never."""
    joined(served, fleet)
    fleet.admit("n1", "run-a", "c0ffee")
    assert True is fleet.cordon("n1", "run-b")
    assert (False, False) == (fleet.uncordon("n1", "run-c"), fleet.uncordon("n1", ""))
    assert True is fleet.uncordon("n1", "run-b")
    assert (True, False) == (fleet.node("n1").schedulable, fleet.uncordon("n1", "run-b"))


def test_a_foreign_cordon_stays_foreign(served, fleet: Fleet) -> None:
    """It is neither taken over nor lifted, also by a quarantine on top of it."""
    joined(served, fleet)
    fleet.admit("n1", "run-a", "c0ffee")
    _set_unschedulable(fleet, "n1")
    assert (False, False) == (fleet.cordon("n1", "run-b"), fleet.uncordon("n1", "run-b"))
    fleet.quarantine("n1", "slow", "run-b")
    assert (False, "", True) == (
        fleet.node("n1").schedulable,
        fleet.node("n1").cordon_owner,
        fleet.node("n1").cordoned_by_others,
    )


def test_changes_go_through_while_others_write(served, fleet: Fleet) -> None:
    """Heartbeats and controllers move the revision on; what is decided anew is decided on what stands."""
    joined(served, fleet)
    over = threading.Event()

    def heartbeats() -> None:
        while not over.wait(0.01):
            served.kubelet("n1")

    beating = threading.Thread(target=heartbeats)
    beating.start()
    for number in range(5):
        fleet.admit("n1", f"run-{number}", f"cert-{number}")
        fleet.quarantine("n1", "slow", f"run-{number}")
    over.set()
    beating.join()
    assert (False, True) == (fleet.node("n1").schedulable, fleet.node("n1").held)


def test_leaving_removes_only_nodes_of_ours(served, fleet: Fleet) -> None:
    """And says so when there is none."""
    joined(served, fleet)
    assert (True, False) == (fleet.leave("n1"), fleet.leave("n1"))
    served.on_loop(lambda: served.cluster.plant_node("n2"))
    with pytest.raises(ChangeRefused, match="not made by rackmint"):
        fleet.leave("n2")


def test_no_secret_of_ours_is_written_anywhere_but_to_the_cluster(served, fleet: Fleet) -> None:
    """Neither in the object's representation nor in an error."""
    digest = hashlib.sha256(served.kubeconfig.read_bytes()).hexdigest()
    assert "the-admins-own-token" not in repr(vars(fleet))
    with pytest.raises(ChangeRefused) as refused:
        fleet.admit("absent", "run-a", "c")
    assert "the-admins-own-token" not in str(refused.value)
    assert digest == hashlib.sha256(served.kubeconfig.read_bytes()).hexdigest()


def _set_unschedulable(fleet: Fleet, name: str) -> None:
    """An administrator's `kubectl cordon`."""
    fleet._connection.call(name, "cordon", fleet._core.patch_node, name, {"spec": {"unschedulable": True}})


def test_only_pods_that_somebody_waits_for_keep_a_node_from_being_tested(served, fleet: Fleet) -> None:
    """DaemonSets', static and finished ones do not; those on other nodes are not asked about."""

    def pod(name: str, node: str = "n1", phase: str = "Running", **metadata: object) -> None:
        body = {
            "metadata": {"name": name, **metadata},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": phase},
        }
        served.cluster.store.create(KINDS["pods"], "jobs", admit(KINDS["pods"], body))

    def plant() -> None:
        pod("train-0")
        pod("done", phase="Succeeded")
        pod("elsewhere", node="n2")
        pod("plugin", ownerReferences=[{"kind": "DaemonSet", "name": "d", "uid": "u"}])
        pod("static", annotations={"kubernetes.io/config.mirror": "x"})

    served.on_loop(plant)
    assert ("jobs/train-0",) == fleet.working_pods("n1")
