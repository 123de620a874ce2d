"""The same line as plain Prefect code has it: a task per stage. No stage record, no step, no event, nothing reused."""

from __future__ import annotations

from functools import partial

from prefect import flow

from flows.provision import provision
from flows.rack import running
from flows.running import Mandate, Run
from flows.site import NodeSite
from flows.step import StageModule
from flows.tasks import shown
from inventory.report import NodeReport, StageRecord


class PlainSite(NodeSite):
    """A node's doors without lease and ledger behind them."""

    def fence(self) -> None:
        """Nobody else is thought of."""

    def step(self, step: str, **detail: object) -> None:
        """Nothing is remembered."""


class PlainRun(Run):
    """The stages' work, and a Prefect task around each."""

    async def stage(self, module: StageModule, report: NodeReport) -> StageRecord:
        """One stage as one task."""
        name = f"{report.node.name}:{module.STAGE.value}"
        return await shown(name, partial(self.in_thread, self._bare, module, report), show=True)

    def _bare(self, module: StageModule, report: NodeReport) -> StageRecord:
        site = self.site_for(report, module.STAGE, self.site.budget_s(report.node, module.STAGE))
        return module.run(report, PlainSite(**vars(site)))


@flow(name="plain", persist_result=False)
async def plain_rack(rack: str, settings_file: str, run_id: str, nodes: tuple[str, ...], wipe: tuple[str, ...]) -> str:
    """The rack's report as JSON."""
    may = Mandate(wipe=frozenset(wipe))
    async with running(settings_file, run_id, "plain", rack, may) as ours:
        run = PlainRun(ours.site, run_id, "plain", ours.board, may)
        try:
            return (await provision(run, rack, nodes)).model_dump_json()
        finally:
            await run.close()
