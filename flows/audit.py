"""Audit: NetBox, Redfish, in-band, Kubernetes and the certificate side by side, for every node of a rack. Read-only."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from prefect import State, flow
from prefect.artifacts import acreate_table_artifact
from prefect.states import Completed, Failed
from pydantic import Field

from flows.certify import standing
from flows.compare import Difference, Views, differences
from flows.rack import new_run_id, nodes_of
from flows.render.text import plain
from flows.settings import load_settings
from flows.site import NodeSite, Site, looking
from flows.stages.image import address_of, look_inside
from inventory.errors import BookUnreachable, NodeTrouble
from inventory.fleet import FleetNode
from inventory.model import Frozen, Inventory, NodeRef, now
from inventory.netbox.book import BookNode
from inventory.report import NodeReport, Stage, StageRecord


class AuditReport(Frozen):
    """What one audit came to."""

    rack: str
    run_id: str
    made_at: str = Field(default_factory=lambda: now().isoformat(timespec="seconds"))
    nodes: int = 0
    differences: tuple[Difference, ...] = ()

    @property
    def blind(self) -> bool:
        """Whether somewhere nothing could be looked at."""
        return any(d.kind == "unreachable" for d in self.differences)


@flow(name="audit", flow_run_name="audit {rack} {run_id}", persist_result=False)
async def audit_site(rack: str, settings_file: str, run_id: str = "") -> State[None]:
    """Compare the books with the hall; an empty rack means all racks. Nothing is written but the report."""
    run_id = run_id or new_run_id()
    report = await asyncio.to_thread(audit_racks, settings_file, rack, run_id)
    rows = [{"node": d.node, "kind": d.kind, "subject": d.subject, "right": d.right} for d in report.differences]
    await acreate_table_artifact(table=[{k: plain(v) for k, v in row.items()} for row in rows], key="audit")
    message = f"{len(report.differences)} differences on {report.nodes} nodes"
    return Failed(name="Blind", message=message) if report.blind else Completed(message=message)


def audit_racks(settings_file: str, rack: str, run_id: str) -> AuditReport:
    """Look at every node of one rack or of all; raises `BookUnreachable` when there is no book to compare with."""
    site = Site.open(load_settings(settings_file))
    try:
        site.ledger.begin_run(run_id, "audit", rack or "all", {"rack": rack})
        racks = (rack,) if rack else site.netbox().racks()
        nodes = [node for name in racks for node in nodes_of(site, name)]
        with ThreadPoolExecutor(max(1, min(len(nodes), site.settings.limits.nodes_parallel))) as threads:
            found = [d for one in threads.map(lambda node: audit_node(site, node), nodes) for d in one]
        report = AuditReport(rack=rack or "all", run_id=run_id, nodes=len(nodes), differences=tuple(found))
        site.ledger.finish_run(run_id, "differences" if found else "clean", report.model_dump_json())
        return report
    finally:
        site.close()


def audit_node(site: Site, node: NodeRef) -> tuple[Difference, ...]:
    """One node's differences."""
    eyes = looking(site, node)
    hall, unreachable = _hall(eyes)
    report = NodeReport(node=node, run_id="audit", records=(StageRecord(stage=Stage.DISCOVER, inventory=hall),))
    told = look_inside(eyes, address_of(report, eyes))
    inside = told[0] if told else None
    if inside:
        report = report.plus(StageRecord(stage=Stage.IMAGE, software=inside))
    fleet, fleet_unreachable = _fleet(site, node)
    certificate, reasons = standing(report, site)
    recorded = site.ledger.last_passing(node.key, Stage.RECORD)
    return differences(Views(
        book=_book(site, node), node_class=site.class_of(node), hall=hall, unreachable=unreachable, inside=inside,
        fleet=fleet, fleet_unreachable=fleet_unreachable, certificate=certificate,
        why_stale=reasons if certificate else (), before=site.ledger.node(node.key),
        agreed_at=recorded.ended_at if recorded else None,
    ))  # fmt: skip


def _book(site: Site, node: NodeRef) -> BookNode:
    netbox = site.netbox()
    return netbox.read(
        node.netbox_id if node.netbox_id is not None else netbox.find(serial=node.serial, name=node.name)
    )


def _hall(eyes: NodeSite) -> tuple[Inventory | None, str]:
    try:
        with eyes.bmc() as bmc:
            return bmc.read(), ""
    except NodeTrouble as error:
        return None, str(error)


def _fleet(site: Site, node: NodeRef) -> tuple[FleetNode | None, str]:
    try:
        return site.fleet().node(node.name), ""
    except BookUnreachable as error:
        return None, str(error)
