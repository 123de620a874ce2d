"""What rackmint does to a node in Kubernetes: hold, join, look, let go, shut again. Never to a foreign cordon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from inventory.deadline import Deadline
from inventory.errors import BudgetSpent, ChangeNotApplied, ChangeRefused
from inventory.findings import Finding, Outcome
from inventory.fleet import changes, tokens
from inventory.fleet.changes import Operation
from inventory.fleet.connection import Connection, refused_as
from inventory.fleet.gates import Expected, judge_gates
from inventory.fleet.node import (
    OWNER,
    QUARANTINE,
    RUN,
    SERIAL,
    TRUSTED,
    UNVALIDATED,
    FleetNode,
    Taint,
    label_value,
    read_node,
    working,
)
from inventory.secrets import Secret

_TRIES = 6  # our choice: a kubelet's heartbeat may come between reading and writing, six in a row do not
_PAGE = 250  # our choice: a thousand nodes in four answers


class Fleet:
    """One cluster. Used by one thread at a time; `close()` when done."""

    def __init__(
        self,
        kubeconfig: Path | None = None,
        *,
        server: str = "",
        token: Secret | None = None,
        ca_pem: str = "",
        timeout_s: float = 10.0,
        poll_s: float = 1.0,
        hold_s: float = 0.0,
    ) -> None:
        """`hold_s`: how long all gates must hold; two status periods (20 s) on a real cluster."""
        self._connection = Connection(kubeconfig, server=server, token=token, ca_pem=ca_pem, timeout_s=timeout_s)
        self._core = self._connection.core
        self._poll_s, self._hold_s = poll_s, hold_s

    def close(self) -> None:
        """Give back the connections."""
        self._connection.close()

    # --- looking ---------------------------------------------------------------------------------------------------

    def check(self) -> str:
        """The cluster's version; raises when it does not answer or does not let us list its nodes."""
        self._connection.call("fleet", "list nodes", self._core.list_node, limit=1)
        version = self._connection.call("fleet", "read the version", self._connection.version.get_code)
        return str(version.get("gitVersion", ""))

    def node(self, name: str) -> FleetNode | None:
        """One node as it stands; None when the cluster has none of that name."""
        raw = self._connection.find(name, "read the Node", self._core.read_node, name)
        return None if raw is None else read_node(raw)

    def nodes(self, label_selector: str = "") -> tuple[FleetNode, ...]:
        """All nodes, page by page."""
        found: list[FleetNode] = []
        options = {"limit": _PAGE, "label_selector": label_selector}
        while True:
            page = self._connection.call("fleet", "list nodes", self._core.list_node, **options)
            found += map(read_node, page["items"])
            options["_continue"] = page["metadata"].get("continue", "")
            if not options["_continue"]:
                return tuple(found)

    def working_pods(self, name: str) -> tuple[str, ...]:
        """Pods that would be hurt by work on the node, as namespace/name: not DaemonSets', not static, not finished."""
        here = {"field_selector": f"spec.nodeName={name}"}
        found = self._connection.call(name, "list its pods", self._core.list_pod_for_all_namespaces, **here)
        return working(found)

    def gates(self, name: str, expected_gpus: int, system_uuid: str, boot_id: str | None = None) -> tuple[Finding, ...]:
        """Each gate as one reading finds it now."""
        return judge_gates(
            name, self.node(name), Expected(gpus=expected_gpus, system_uuid=system_uuid, boot_id=boot_id)
        )

    def wait_gates(
        self, name: str, expected_gpus: int, system_uuid: str, boot_id: str | None = None, *, deadline: Deadline
    ) -> tuple[Finding, ...]:
        """The gates once all of them held in two readings; as they stand when the deadline ends."""
        held_since: float | None = None
        while True:
            findings = self.gates(name, expected_gpus, system_uuid, boot_id)
            open_ = [finding.sentence for finding in findings if finding.outcome is not Outcome.PASS]
            if not open_ and held_since is not None and held_since - deadline.left_s >= self._hold_s:
                return findings
            held_since = None if open_ else held_since if held_since is not None else deadline.left_s
            try:
                deadline.wait(self._poll_s, f"Kubernetes: {open_[0] if open_ else 'all gates to hold'}")
            except BudgetSpent:
                return findings

    # --- joining ---------------------------------------------------------------------------------------------------

    def guard_name(self, name: str, serial: str, system_uuid: str) -> bool:
        """Clear the way for a join: True when a stale Node of this same machine was deleted.

        kubeadm joins over a stale Node and then silently ignores the taints, so none may be left. Raises
        `ChangeRefused` when the name is in use, or the stale Node may be another machine's.
        """
        node = self.node(name)
        if node is None:
            return False
        if node.ready:
            raise ChangeRefused(
                name,
                f"a Node {name} is Ready in the cluster, serial {node.serial or 'unknown'}, UUID {node.system_uuid}",
                do="Two machines must not share a name: look which one it is. Nothing was changed.",
            )
        same = (node.serial or serial) == serial and (node.system_uuid or system_uuid.lower()) == system_uuid.lower()
        if not same or not (node.serial or node.system_uuid):
            raise ChangeRefused(
                name,
                f"a stale Node {name} is not known to be this machine: serial {node.serial or 'unknown'}, "
                f"UUID {node.system_uuid or 'unknown'}",
                do=f"If that machine is gone for good, run kubectl delete node {name}. Nothing was changed.",
            )
        self._delete(node)
        return True

    def precreate(self, name: str, serial: str, run_id: str, labels: Mapping[str, str] | None = None) -> FleetNode:
        """Create the Node tainted and cordoned before its kubelet exists, so that it is held from birth.

        Labels are written under node-restriction.kubernetes.io/, where no kubelet can change them.
        """
        trusted = {f"{TRUSTED}{key}": label_value(value) for key, value in (labels or {}).items() if value}
        body = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **trusted},
                "annotations": {SERIAL: serial, OWNER: run_id, RUN: run_id},
            },
            "spec": {
                "unschedulable": True,
                "providerID": f"rackmint://{serial}",
                "taints": [{"key": UNVALIDATED, "value": label_value(run_id), "effect": "NoSchedule"}],
            },
        }
        self._connection.call(name, "create the Node", self._core.create_node, body)
        node = self.node(name)
        if node is None or node.schedulable or not node.held or node.serial != serial:
            raise ChangeNotApplied(name, "the Node was created and does not stand there tainted and cordoned")
        return node

    def mint_token(
        self, node: str, run_id: str, ttl_s: float, *, token_id: str = "", deadline: Deadline | None = None
    ) -> Secret:
        """A join token for one node, signed for by the cluster. `token_id` is its public part, noted beforehand."""
        token_id = token_id or tokens.new_id()
        return tokens.mint(self._connection, node, run_id, ttl_s, token_id=token_id, deadline=deadline)

    def new_token_id(self) -> str:
        """The public part of a token to be minted."""
        return tokens.new_id()

    def delete_token(self, token: Secret) -> None:
        """Take a join token back; no harm if it is gone."""
        self.delete_token_of(token.reveal().partition(".")[0])

    def delete_token_of(self, token_id: str) -> None:
        """Take back the join token of this public part; no harm if it is gone."""
        tokens.forget(self._connection, "fleet", token_id)

    def ca_hash(self) -> str:
        """The pin of the cluster's root, from our own settings and never from the unauthenticated cluster-info."""
        return tokens.pin_of(self._connection.ca_pem)

    def join_config(self, node: str, token: Secret, ca_hash: str) -> bytes:
        """The file for `kubeadm join --config`."""
        return tokens.join_config(self._connection.server, node, token, ca_hash)

    # --- letting go and shutting -----------------------------------------------------------------------------------

    def admit(self, name: str, run_id: str, certificate_id: str) -> bool:
        """Open a node for work: our taints and our cordon go in one guarded write. False when it was so already.

        Raises `ChangeRefused` without a certificate, and on a cordon that is not ours.
        """
        if not certificate_id:
            raise ChangeRefused(name, "not admitted", do="Only a valid certificate opens a node for work.")
        changed = self._change(name, "admit the node", lambda node: changes.admitting(node, run_id, certificate_id))
        self._prove(name, "admitted", lambda node: node.admitted_with(certificate_id))
        return changed

    def quarantine(self, name: str, reason: str, run_id: str) -> bool:
        """Shut a node and keep it shut: taint and cordon in one write. False when it was so already."""
        taint = Taint(key=QUARANTINE, value=label_value(reason), effect="NoSchedule")
        changed = self._change(name, "quarantine the node", lambda node: changes.quarantining(node, taint, run_id))
        self._prove(name, "quarantined", lambda node: not node.schedulable and taint in node.taints)
        return changed

    def cordon(self, name: str, owner: str) -> bool:
        """Close a node and write who did, in the same write. False when others have cordoned it: it stays theirs."""
        self._change(name, "cordon the node", lambda node: changes.cordoning(node, owner))
        node = self._known(name)
        if node.schedulable:
            raise ChangeNotApplied(name, "the cordon was accepted and does not stand")
        return node.cordon_owner == owner

    def uncordon(self, name: str, owner: str) -> bool:
        """Open what this owner closed. False, and nothing done, when it is not cordoned or not by this owner."""
        changed = self._change(name, "uncordon the node", lambda node: changes.uncordoning(node, owner))
        if changed:
            self._prove(name, "uncordoned", lambda node: node.cordon_owner != owner)
        return changed

    def leave(self, name: str) -> bool:
        """Remove a node of ours from the cluster. False when there is none; refused when it is not ours."""
        node = self.node(name)
        if node is None:
            return False
        if not node.serial:
            raise ChangeRefused(name, "not removed: the Node was not made by rackmint", do="Remove it by hand.")
        self._delete(node)
        return True

    def _delete(self, node: FleetNode) -> None:
        """Delete this very Node and its heartbeat, and see that it is gone."""
        only_this = {"preconditions": {"uid": node.uid}}
        self._connection.call(node.name, "delete the Node", self._core.delete_node, node.name, body=only_this)
        lease = self._connection.coordination.delete_namespaced_lease
        self._connection.find(node.name, "delete the node's Lease", lease, node.name, "kube-node-lease")
        left = self.node(node.name)
        if left is not None and left.uid == node.uid:
            raise ChangeNotApplied(node.name, "the Node was deleted and is still there", do="Look for a finalizer.")

    def _known(self, name: str) -> FleetNode:
        node = self.node(name)
        if node is None:
            raise ChangeRefused(name, "the cluster has no such Node", do="Join it first.")
        return node

    def _change(self, name: str, what: str, decide: Callable[[FleetNode], list[Operation]]) -> bool:
        """Read, decide, and patch exactly what was read; decided anew when somebody was faster."""
        for tries_left in reversed(range(_TRIES)):
            node = self._known(name)
            operations = decide(node)
            if not operations:
                return False
            guard = {"op": "test", "path": "/metadata/resourceVersion", "value": node.revision}
            try:
                self._connection.call(name, what, self._core.patch_node, name, [guard, *operations])
            except ChangeRefused as error:
                if not tries_left or not refused_as(error, 409, 422):
                    raise
            else:
                return True
        return False

    def _prove(self, name: str, word: str, holds: Callable[[FleetNode], bool]) -> None:
        node = self._known(name)
        if not holds(node):
            raise ChangeNotApplied(
                name,
                f"{word} by an accepted write, and reading back shows taints "
                f"{[taint.key for taint in node.taints]}, schedulable {node.schedulable}",
                do="Another controller may have changed it: look at who did.",
            )
