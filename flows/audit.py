"""Audit: NetBox, Redfish, in-band, Kubernetes and the certificate side by side, for every node of a rack. Read-only."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from prefect import State, flow
from prefect.artifacts import acreate_table_artifact
from prefect.states import Completed, Failed
from pydantic import Field

from flows.certify import expired, standing
from flows.compare import differences
from flows.difference import Difference, Views
from flows.rack import new_run_id
from flows.render.text import plain
from flows.settings import load_settings
from flows.site import NodeSite, Site, looking
from flows.stages.image import address_of
from inventory.errors import BookUnreachable, NodeTrouble
from inventory.fleet import FleetNode
from inventory.inband import read_software
from inventory.model import Frozen, Inventory, NodeRef, Software, now
from inventory.netbox.book import BookNode
from inventory.report import NodeReport, Stage, StageRecord

_LOOK_S = 180.0  # our choice: a DGX H100's tree costs 25-45 s, and a BMC that needs longer is told as unreachable


class AuditReport(Frozen):
    """What one audit came to."""

    rack: str
    run_id: str
    made_at: str = Field(default_factory=lambda: now().isoformat(timespec="seconds"))
    nodes: int = 0
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()  # nodes that a run works on right now: what differs there may be under way

    @property
    def blind(self) -> bool:
        """Whether somewhere nothing could be looked at."""
        return any(d.kind == "unreachable" for d in self.differences)


@flow(name="audit", flow_run_name="audit {rack} {run_id}", persist_result=False)
async def audit_site(rack: str, settings_file: str, run_id: str = "") -> State[None]:
    """Compare the books with the hall; an empty rack means all racks. Nothing is written but the report."""
    run_id = run_id or new_run_id()
    stop = threading.Event()
    try:
        report = await asyncio.to_thread(audit_racks, settings_file, rack, run_id, stop)
    finally:
        stop.set()  # a cancelled flow must not wait for BMCs that do not answer
    rows = [{"node": d.node, "kind": d.kind, "subject": d.subject, "right": d.right} for d in report.differences]
    await acreate_table_artifact(table=[{k: plain(v) for k, v in row.items()} for row in rows], key="audit")
    message = f"{len(report.differences)} differences on {report.nodes} nodes"
    return Failed(name="Blind", message=message) if report.blind else Completed(message=message)


def audit_racks(settings_file: str, rack: str, run_id: str, stop: threading.Event | None = None) -> AuditReport:
    """Look at every node of one rack or of all; raises `BookUnreachable` when there is no book to compare with."""
    site = Site.open(load_settings(settings_file))
    report = None
    try:
        site.ledger.begin_run(run_id, "audit", rack or "all", {"rack": rack})
        books = [book for name in ((rack,) if rack else site.netbox().racks()) for book in books_in(site, name)]
        with ThreadPoolExecutor(max(1, min(len(books), site.settings.limits.nodes_parallel))) as threads:
            found = [d for one in threads.map(lambda book: audit_node(site, book, stop), books) for d in one]
        found += [] if rack else orphans(site, books)
        report = AuditReport(
            rack=rack or "all", run_id=run_id, nodes=len(books), differences=tuple(found), notes=_under_way(site, books)
        )
        return report
    finally:
        said = (("differences" if report.differences else "clean"), report.model_dump_json()) if report else ("", "")
        site.ledger.finish_run(run_id, said[0] or "interrupted", said[1])
        site.close()


def books_in(site: Site, rack: str) -> tuple[BookNode, ...]:
    """All the book says of each node of a rack."""
    netbox = site.netbox()
    return netbox.read_many([node.netbox_id for node in netbox.nodes_in(rack) if node.netbox_id is not None])


def _under_way(site: Site, books: list[BookNode]) -> tuple[str, ...]:
    held = {lease.node_key: lease for lease in site.ledger.leases()}
    return tuple(
        f"{book.name}: run {held[book.ref.key].holder} ({held[book.ref.key].purpose}) works on it now"
        for book in books
        if book.ref.key in held
    )


def audit_node(site: Site, book: BookNode, stop: threading.Event | None = None) -> tuple[Difference, ...]:
    """One node's differences."""
    node = book.ref
    if node.node_class not in site.classes:
        return (_no_class(site, book),)
    hall, unreachable = _hall(site, node, stop)
    report = NodeReport(node=node, run_id="audit", records=(StageRecord(stage=Stage.DISCOVER, inventory=hall),))
    inside, inside_unreachable = _inside(site, report, stop)
    if inside:
        report = report.plus(StageRecord(stage=Stage.IMAGE, software=inside))
    fleet, fleet_unreachable = _fleet(site, node)
    certificate, reasons = standing(report, site)
    recorded = site.ledger.last_passing(node.key, Stage.RECORD)
    return differences(Views(
        book=book, node_class=site.class_of(node), hall=hall, unreachable=unreachable,
        inside=inside, inside_unreachable=inside_unreachable, fleet=fleet, fleet_unreachable=fleet_unreachable,
        certificate=certificate, why_stale=reasons, aged=expired(certificate) if certificate else "",
        before=site.ledger.node(node.key), agreed_at=recorded.ended_at if recorded else None,
    ))  # fmt: skip


def orphans(site: Site, books: list[BookNode]) -> list[Difference]:
    """Nodes of ours in Kubernetes that no device in NetBox answers for."""
    try:
        known = site.fleet().nodes()
    except (BookUnreachable, NodeTrouble):
        return []  # told for each node already
    named = {book.name for book in books}
    return [
        Difference(
            node=node.name,
            kind="unknown",
            subject="Kubernetes Node",
            book="no such device",
            seen=f"serial {node.serial}",
            right="nobody",
            since="not known",
            first="find out whether the machine was taken off the books on purpose",
            fix=f"kubectl delete node {node.name}",
            rule="every node of the fleet stands on the books",
        )
        for node in known
        if node.serial and node.name not in named
    ]


def _no_class(site: Site, book: BookNode) -> Difference:
    known = ", ".join(sorted(site.classes))
    return Difference(
        node=book.name,
        kind="unknown",
        subject="node class",
        book=book.text("node_class"),
        seen=f"known are {known}",
        right="nobody",
        since="not known",
        first="correct the device's node_class in NetBox, or add the class to the site's settings",
        fix=f"rackmint plan {book.rack}",
        rule="what a node must be is its class's business",
    )


def _eyes(site: Site, node: NodeRef, stop: threading.Event | None) -> NodeSite:
    return looking(site, node, min(_LOOK_S, site.budget_s(node, Stage.DISCOVER)), cancel=stop)


def _hall(site: Site, node: NodeRef, stop: threading.Event | None) -> tuple[Inventory | None, str]:
    if not node.bmc_url:
        return None, "the book has no BMC address"
    try:
        with _eyes(site, node, stop).bmc() as bmc:
            return bmc.read(), ""
    except NodeTrouble as error:
        return None, str(error)


def _inside(site: Site, report: NodeReport, stop: threading.Event | None) -> tuple[Software | None, str]:
    """What the node's own system tells; one that tells its image is known, whatever else it keeps to itself."""
    eyes = _eyes(site, report.node, stop)
    address = address_of(report, eyes)
    if not address:
        return None, "it never told an address"
    try:
        with eyes.shell(address) as shell:
            return read_software(shell, site.evidence)[0], ""
    except NodeTrouble as error:
        return None, str(error)


def _fleet(site: Site, node: NodeRef) -> tuple[FleetNode | None, str]:
    try:
        return site.fleet().node(node.name), ""
    except (BookUnreachable, NodeTrouble) as error:
        return None, str(error)
