"""join: a certified node becomes part of the Kubernetes fleet, held from birth and let go only by its certificate."""

from __future__ import annotations

from flows.site import NodeSite
from flows.stages.left_running import wait_left_running
from inventory.command import Command, ask
from inventory.deadline import Deadline
from inventory.errors import NodeTrouble
from inventory.findings import Finding, Outcome, good
from inventory.fleet import Fleet, FleetNode
from inventory.report import NodeReport, Stage, StageRecord
from inventory.ssh import SshShell

STAGE = Stage.JOIN

_CONFIG = "/run/rackmint/join.yaml"  # on tmpfs: the token must not reach a disk
_MAY_WORK = ("staged", "active")  # every other state of a device in NetBox is left by a person
_TOKEN_S = 1800.0  # our choice: one slow join, no longer
_FAREWELL_S = 30.0  # our choice: one short command on a node that has just answered

# kubeadm's own limits (discovery 5 min, TLS bootstrap 5 min, kubelet 4 min) are shortened by the configuration.
KUBEADM_JOIN: Command[str] = Command(
    "kubeadm join", ("kubeadm", "join", "--config", _CONFIG), str, timeout_s=180.0, changes_node=True
)
HAS_KUBELET: Command[str] = Command(
    "kubelet configured",
    ("test", "-e", "/etc/kubernetes/kubelet.conf"),
    str,
    timeout_s=20.0,
    ok_exits=frozenset({0, 1}),
)
FORGET_CONFIG: Command[str] = Command(
    "forget join config", ("rm", "-f", _CONFIG), str, timeout_s=20.0, changes_node=True
)


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Nothing: whether the fleet still has the node is looked at in every run."""
    return {}


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Join if absent, wait for the gates, then lift taint and cordon and make the node `active` in the book."""
    fleet = site.site.fleet()
    did: list[str] = []
    waits = kept_out(site)
    if waits:
        return StageRecord(stage=STAGE, findings=(waits,))
    just_joined = _clear_away(report, site, fleet)
    if not _is_joined(report, site, fleet.node(site.node.name)):
        _join(report, site, fleet)
        did.append("joined by kubeadm, tainted and cordoned")
        just_joined = True
    gates = fleet.wait_gates(
        site.node.name,
        expected_gpus=site.node_class.gpu.count,
        system_uuid=report.inventory.identity.uuid or "",
        boot_id=(report.software.boot_id or "") if just_joined else "",  # a node in service may have rebooted since
        deadline=site.deadline,
    )
    if not good(gates):
        site.fence()
        fleet.quarantine(site.node.name, "gates", site.run_id)
        return StageRecord(stage=STAGE, findings=gates, did=(*did, "quarantined"))
    did += let_go(report, site, fleet, fleet.node(site.node.name))
    return StageRecord(stage=STAGE, findings=(*gates, _admitted(report)), did=tuple(did))


def _is_joined(report: NodeReport, site: NodeSite, known: FleetNode | None) -> bool:
    """Whether this machine's kubelet serves in the fleet. A stale Node of an earlier life is not a joined node."""
    if known is None or not known.belongs_to(report.inventory.identity.serial or ""):
        return False
    if known.ready:
        return True
    with site.shell(report.address) as shell:
        return ask(shell, HAS_KUBELET, site.site.evidence).output.exit == 0


def _join(report: NodeReport, site: NodeSite, fleet: Fleet) -> None:
    serial, uuid = report.inventory.identity.serial or "", report.inventory.identity.uuid or ""
    site.fence()
    fleet.guard_name(site.node.name, serial, uuid)
    site.step("precreate")
    fleet.precreate(site.node.name, serial, site.run_id, {"rack": site.node.rack, "site": site.node.site})
    token_id = fleet.new_token_id()
    site.step("join_token", token_id=token_id)
    try:
        token = fleet.mint_token(site.node.name, site.run_id, _TOKEN_S, token_id=token_id)
        config = fleet.join_config(site.node.name, token, fleet.ca_hash())
        with site.shell(report.address) as shell:
            _kubeadm(shell, site, config)
    finally:
        fleet.delete_token_of(token_id)


def _kubeadm(shell: SshShell, site: NodeSite, config: bytes) -> None:
    site.step("kubeadm_join")
    try:
        shell.put(_CONFIG, config, mode=0o600)
        ask(shell, KUBEADM_JOIN, site.site.evidence)
    finally:
        farewell = Deadline(site.node.name, _FAREWELL_S, tell=site.deadline.tell)  # its own token: also after a cancel
        ask(shell.within(farewell), FORGET_CONFIG, site.site.evidence)


def _clear_away(report: NodeReport, site: NodeSite, fleet: Fleet) -> bool:
    """What a run that was killed while it joined this node left: its token, and the file that holds it.

    True when there was such a run.
    """
    left = site.site.ledger.cut_off(site.node.key, STAGE)
    joining = any(step.step == "kubeadm_join" for step in left)
    if joining:
        with site.shell(report.address) as shell:
            wait_left_running(shell, site)  # kubeadm may still be at it: cut off, it would have to be undone
            ask(shell, FORGET_CONFIG, site.site.evidence)
    for step in left:
        if step.step == "join_token":
            fleet.delete_token_of(str(step.detail["token_id"]))
    return joining


def kept_out(site: NodeSite) -> Finding | None:
    """Why a proven node may not go to work yet: the book has it in a state that only a person ends."""
    status = site.node.status
    if not status or status in _MAY_WORK:
        return None
    return Finding(
        metric="netbox_status",
        subject="node",
        outcome=Outcome.NOT_RUN,
        observed=status,
        expected=" or ".join(_MAY_WORK),
        remedy="Set the device to staged in NetBox when the cause is mended, then run the same command again.",
        source="NetBox device status",
        cause=f"proven, and NetBox says {status}: only a person moves a node from there to staged",
    )


def let_go(report: NodeReport, site: NodeSite, fleet: Fleet, known: FleetNode | None) -> list[str]:
    """Lift our taint and cordon, then move NetBox to active; both say nothing when it is so already."""
    if known is None:
        raise NodeTrouble(site.node.name, "the node left the fleet while its gates were watched")
    did = []
    if not known.admitted_with(report.certificate_id):
        site.fence()
        site.step("admit", certificate=report.certificate_id)
        fleet.admit(site.node.name, site.run_id, report.certificate_id)
        did.append("taint and cordon lifted")
    if site.node.netbox_id is not None and site.site.netbox().set_status(site.node.netbox_id, "active", site.run_id):
        did.append("NetBox status active")
    return did


def _admitted(report: NodeReport) -> Finding:
    return Finding(
        metric="kubernetes_admitted",
        subject="node",
        outcome=Outcome.PASS,
        observed=f"schedulable, certificate {report.certificate_id}",
        expected="schedulable with a valid certificate",
        source="Kubernetes Node read back",
    )
