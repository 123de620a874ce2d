"""The line: discover → inspect → image → tune → burn in → record → join, for every node of a rack side by side.

A node's trouble ends the line for that node only. `record` always runs; `join` only with a valid certificate.
"""

from __future__ import annotations

from prefect import State, flow
from prefect.states import Completed, Failed

from flows.certify import certify
from flows.fabric import prove_fabric
from flows.rack import finish, new_run_id, nodes_of, outcome_of, running
from flows.running import Mandate, Run
from flows.stages import burn_in, discover, give_back, hold, image, inspect, join, record, tune
from flows.tasks import show_in_prefect, show_rack
from inventory.findings import Verdict
from inventory.model import NodeRef, now
from inventory.report import NodeReport, RackReport

LINE = (discover, inspect, image, tune, burn_in)


@flow(name="provision-rack", flow_run_name="provision {rack} {run_id}", persist_result=False, validate_parameters=True)
async def provision_rack(
    rack: str,
    settings_file: str,
    run_id: str = "",
    nodes: tuple[str, ...] = (),
    wipe: tuple[str, ...] = (),
    reimage: tuple[str, ...] = (),
    leave: tuple[str, ...] = (),
) -> State[None]:
    """Take a rack from cold to certified. Parameters are names only.

    `wipe` names the nodes whose disk may be laid; `reimage` those for which even foreign data or service is no bar;
    `leave` those which are only reported, because they are in service and were not named.
    """
    run_id = run_id or new_run_id()
    may = Mandate(wipe=frozenset(wipe), reimage=frozenset(reimage), leave=frozenset(leave))
    async with running(settings_file, run_id, "provision", rack, may) as run:
        show_in_prefect(run)
        report = await provision(run, rack, nodes)
    await show_rack(report)
    return final_state(report)


async def provision(run: Run, rack: str, nodes: tuple[str, ...] = ()) -> RackReport:
    """The line itself: every node alone, then against each other, then onto the books and into the fleet."""
    started_at = now()
    refs = await run.in_thread(nodes_of, run.site, rack, nodes)
    alone = await run.for_each(prove_alone, refs)
    proven, rack_findings = await prove_fabric(alone, run)
    done = await run.for_each(put_on_the_books, proven)
    return finish(run, rack, started_at, done, rack_findings)


async def prove_alone(node: NodeRef, run: Run) -> NodeReport:
    """One node through the stages that need no other node."""
    report = NodeReport(node=node, run_id=run.run_id)
    held = await run.take(node)
    if held:
        return report.model_copy(update={"note": held})
    for stage in LINE:
        report = report.plus(await run.stage(stage, report))
        if not report.passed_last:
            break
    return report


async def put_on_the_books(report: NodeReport, run: Run) -> NodeReport:
    """Certificate if earned, then NetBox whatever the verdict, then into the fleet, or out of it if found bad there."""
    if report.note:
        return report
    report = await run.in_thread(certify, report, run.site)
    if report.verdict is Verdict.REJECTED:
        await run.in_thread(hold.revoke, report, run)
    report = report.plus(await run.stage(record, report))
    if report.certificate_id and report.passed_last:
        report = report.plus(await run.stage(join, report))
    elif report.verdict is Verdict.REJECTED:
        report = report.plus(await run.stage(give_back, report))
    return report


def final_state(report: RackReport) -> State[None]:
    """All accepted → Completed; some rejected → Completed, named so; any undecided → Failed."""
    verdict = outcome_of(report)
    message = ", ".join(f"{report.count(v)} {v.value}" for v in Verdict)
    if verdict is Verdict.ACCEPTED:
        return Completed(message=message)
    if verdict is Verdict.REJECTED:
        return Completed(name="NodesRejected", message=message)
    return Failed(name="Undecided", message=message)
