"""Prove joined nodes again: cordon with our mark, look and load without changing anything, renew or quarantine."""

from __future__ import annotations

from functools import partial

from prefect import State, flow

from flows.certify import certify
from flows.fabric import prove_fabric
from flows.provision import LINE, final_state
from flows.rack import DUE, due_nodes, finish, new_run_id, nodes_of, running
from flows.running import Mandate, Run
from flows.stages import give_back, hold, record
from flows.tasks import show_in_prefect, show_rack
from inventory.findings import Verdict
from inventory.model import NodeRef, now
from inventory.report import NodeReport, RackReport

LOOK_ONLY = Mandate(change=False, fresh=True)


@flow(name="revalidate-rack", flow_run_name="revalidate {rack} {run_id}", persist_result=False)
async def revalidate_rack(
    rack: str, settings_file: str, run_id: str = "", due: bool = False, nodes: tuple[str, ...] = ()
) -> State[None]:
    """Prove a rack's nodes again, or with `due` those whose certificate's term is over or that was revoked."""
    run_id = run_id or new_run_id()
    async with running(settings_file, run_id, "revalidate", rack or DUE, LOOK_ONLY) as run:
        show_in_prefect(run)
        report = await revalidate(run, rack, due=due, nodes=nodes)
    await show_rack(report)
    return final_state(report)


async def revalidate(run: Run, rack: str, *, due: bool = False, nodes: tuple[str, ...] = ()) -> RackReport:
    """Every node alone, then against each other, then renewed or quarantined."""
    started_at = now()
    run.farewells.append(partial(hold.lift, run))
    refs = await run.in_thread(nodes_of, run.site, rack, nodes) if rack else None
    if due:
        refs = await run.in_thread(due_nodes, run.site, refs)
    alone = await run.for_each(partial(prove_again, scheduled=due), refs or ())
    proven, rack_findings = await prove_fabric(alone, run)
    done = await run.for_each(renew_or_quarantine, proven)
    return finish(run, rack or DUE, started_at, done, rack_findings)


async def prove_again(node: NodeRef, run: Run, *, scheduled: bool = False) -> NodeReport:
    """One node, held back from new work, through the stages that change nothing."""
    report = NodeReport(node=node, run_id=run.run_id)
    held = await run.take(node) or await run.in_thread(hold.cordon, node, run, scheduled)
    if held:
        return report.model_copy(update={"note": held})
    for stage in LINE:
        report = report.plus(await run.stage(stage, report))
        if not report.passed_last:
            hold.keep(node, run)
            break
        if report.inventory.power == "Off":
            return report.model_copy(update={"note": f"{node.name}: is switched off: nothing can be proven"})
    return report


async def renew_or_quarantine(report: NodeReport, run: Run) -> NodeReport:
    """A new certificate for what was proven again; whatever came of it goes on the books and to the fleet."""
    if report.note:
        return report
    report = await run.in_thread(certify, report, run.site)
    if report.verdict is Verdict.REJECTED:
        await run.in_thread(hold.revoke, report, run)
    report = report.plus(await run.stage(record, report))
    report = report.plus(await run.stage(give_back, report))
    hold.keep(report.node, run)  # given back, or shut on purpose: nothing is left to lift
    return report
