"""What a run would do to each node and why: stages, reboots, minutes, and what cannot be undone. Touches nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pydantic import Field

from bios_profiles.profile import plan as plan_bios
from flows.certify import standing
from flows.site import NodeSite, Site, looking
from flows.stages import burn_in, discover, image, inspect, tune
from flows.step import StageModule, choose
from inventory.errors import BadSettings, BookUnreachable, NodeTrouble
from inventory.model import Frozen, NodeRef, now
from inventory.report import NodeReport, Stage

# Minutes a stage takes beside its POSTs, on real machines. Our choice, from the notebooks' ladder; the ledger's own
# history replaces it where there is one.
_MINUTES = {
    Stage.DISCOVER: 1.0, Stage.INSPECT: 0.1, Stage.IMAGE: 6.0, Stage.TUNE: 0.5,
    Stage.BURN_IN: 35.0, Stage.RECORD: 0.3, Stage.JOIN: 2.0,
}  # fmt: skip

_CHANGELESS = (discover, inspect, image, tune, burn_in)


class PlannedStage(Frozen):
    """One stage of one node: whether it will run, and why."""

    stage: Stage
    action: str  # run | reuse | look
    why: str
    posts: int = 0
    minutes: float = 0.0
    destructive: str = ""  # what is lost for ever, in words


class NodePlan(Frozen):
    """What will happen to one node."""

    node: NodeRef
    stages: tuple[PlannedStage, ...] = ()
    refused: str = ""  # why nothing will be done
    unread: str = ""  # why the plan could not look: nothing is assumed about this node

    @property
    def posts(self) -> int:
        """Power-on self tests it will cost."""
        return sum(stage.posts for stage in self.stages)

    @property
    def minutes(self) -> float:
        """How long it will take."""
        return sum(stage.minutes for stage in self.stages)

    @property
    def destructive(self) -> tuple[str, ...]:
        """What is lost for ever."""
        return tuple(stage.destructive for stage in self.stages if stage.destructive)


class RackPlan(Frozen):
    """What a run would do to a rack."""

    rack: str
    nodes: tuple[NodePlan, ...]
    made_at: str = Field(default_factory=lambda: now().isoformat(timespec="seconds"))

    @property
    def wipe(self) -> tuple[str, ...]:
        """Nodes whose disk will be laid anew."""
        return tuple(plan.node.name for plan in self.nodes if plan.destructive and not plan.refused)

    @property
    def able(self) -> tuple[str, ...]:
        """Nodes that will be worked on."""
        return tuple(plan.node.name for plan in self.nodes if not plan.refused)


def plan_rack(site: Site, rack: str, nodes: tuple[NodeRef, ...], reimage: frozenset[str] = frozenset()) -> RackPlan:
    """Look at every node (reading only) and say what a run would do."""
    with ThreadPoolExecutor(max(1, min(len(nodes), site.settings.limits.nodes_parallel))) as threads:
        plans = tuple(threads.map(lambda node: plan_node(site, node, reimage), nodes))
    return RackPlan(rack=rack, nodes=plans)


def plan_node(site: Site, node: NodeRef, reimage: frozenset[str] = frozenset()) -> NodePlan:
    """One node's plan. A node that does not answer is planned as "run everything, knowing nothing"."""
    eyes = looking(site, node)
    report = NodeReport(node=node, run_id="plan")
    try:
        report = report.plus(discover.run(report, eyes))
        stages, report = _stages(report, eyes)
    except (NodeTrouble, BadSettings) as error:
        return NodePlan(node=node, unread=str(error), stages=_everything(site, node))
    refused = _in_service(site, node, stages) if node.name not in reimage else ""
    return NodePlan(node=node, stages=(*stages, *_books(site, report)), refused=refused)


def _stages(report: NodeReport, site: NodeSite) -> tuple[tuple[PlannedStage, ...], NodeReport]:
    planned = [
        PlannedStage(
            stage=Stage.DISCOVER, action="look", why="always looked at afresh", minutes=_MINUTES[Stage.DISCOVER]
        )
    ]
    for module in _CHANGELESS[1:]:
        record, inputs, reason = choose(module, report, site)
        if record is not None:
            planned.append(PlannedStage(stage=module.STAGE, action="reuse", why=reason))
            report = report.plus(record.model_copy(update={"inventory": None}))
        else:
            laid = module is image and inputs["on the node"] == site.manifest.digest
            why = f"{reason}; the image is on the node and is proven where it is" if laid else reason
            planned.append(_will_run(module, why, report, site, planned, lays=module is image and not laid))
    return tuple(planned), report


def _will_run(
    module: StageModule, why: str, report: NodeReport, site: NodeSite, before: list[PlannedStage], *, lays: bool
) -> PlannedStage:
    stage = module.STAGE
    posts, destructive = 0, ""
    if lays:
        posts, destructive = 2, f"{site.node.name}: the boot disk is wiped and image {site.manifest.name} laid on it"
    elif stage is Stage.TUNE:
        changes = len(plan_bios(site.profile, report.inventory.bios).changes)
        riding = any(s.stage is Stage.IMAGE and s.posts for s in before)
        posts = 1 if changes and not riding else 0
        why = f"{why}; {changes} BIOS settings to change" + (
            ", riding on the imaging boot" if riding and changes else ""
        )
    minutes = _MINUTES[stage] + posts * site.node_class.post_minutes
    return PlannedStage(stage=stage, action="run", why=why, posts=posts, minutes=minutes, destructive=destructive)


def _books(site: Site, report: NodeReport) -> tuple[PlannedStage, ...]:
    _, reasons = standing(report, site)
    why = "; ".join(reasons) if reasons else "certificate still holds"
    return (
        PlannedStage(stage=Stage.RECORD, action="look", why=why, minutes=_MINUTES[Stage.RECORD]),
        PlannedStage(
            stage=Stage.JOIN, action="look", why="the fleet is looked at afresh", minutes=_MINUTES[Stage.JOIN]
        ),
    )


def _in_service(site: Site, node: NodeRef, stages: tuple[PlannedStage, ...]) -> str:
    """A node in service is never wiped or restarted without being named."""
    if not any(stage.destructive or stage.posts for stage in stages):
        return ""
    where = ["NetBox says active"] if node.status == "active" else []
    try:
        known = site.fleet().node(node.name)
    except (BadSettings, BookUnreachable):
        known = None
    if known and known.ready and known.schedulable:
        where.append("Kubernetes schedules on it")
    said = f"in service ({', '.join(where)}): neither wiped nor restarted without --reimage {node.name}"
    return said if where else ""


def _everything(site: Site, node: NodeRef) -> tuple[PlannedStage, ...]:
    post_minutes = site.class_of(node).post_minutes
    return tuple(
        PlannedStage(
            stage=stage,
            action="run",
            why="the BMC could not be read, nothing is known",
            posts=2 if stage is Stage.IMAGE else 0,
            minutes=_MINUTES[stage] + (2 * post_minutes if stage is Stage.IMAGE else 0),
        )
        for stage in Stage
    )
