"""Across the rack: nodes that passed alone are paired until proven with two partners or blamed, and compared."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from burnin.cohort import outliers
from burnin.fabric import PairTest, run_pair, run_rails
from burnin.pair_judge import judge_pairs
from burnin.pairing import PairResult, next_round
from flows.running import Run
from flows.site import NodeSite
from flows.stages.left_running import end_left_running
from inventory.errors import NodeTrouble
from inventory.findings import Finding, Outcome
from inventory.report import NodeReport, Stage
from inventory.ssh import SshShell, split_address

_ROUNDS_MOST = 8  # our choice: two for coverage, the rest for suspects; what is open then is told as open
_PAIR_S = 900.0  # our choice: a pair test of large sizes on slow links, and its rails one by one after a failure


async def prove_fabric(alone: Sequence[NodeReport], run: Run) -> tuple[tuple[NodeReport, ...], tuple[Finding, ...]]:
    """The reports with what the rack says of each node, and findings about links and rails that are no node's."""
    fresh = {report.node.name: report for report in alone if _untold(report)}
    names = sorted(fresh)
    tests = await _pair_up(fresh, run) if len(names) > 1 else []
    findings = (*judge_pairs(names, [test.result for test in tests]), *_cohort(fresh))
    told = tuple(_told(report, findings) for report in alone)
    news = [after for before, after in zip(alone, told, strict=True) if after is not before]
    records = [(run.nodes[report.node.name].lease, report.records[-1]) for report in news]
    await run.in_thread(run.site.ledger.put_stages, run.run_id, records)
    for report in told:
        if report.node.name in fresh:
            _show_end(report, run)
    return told, tuple(f for f in findings if f.subject not in fresh and f.outcome is not Outcome.NOT_APPLICABLE)


def _untold(report: NodeReport) -> bool:
    """Burnt in by this run, or by one that was killed before the rack had its say about the node."""
    record = report.record(Stage.BURN_IN)
    if record is None or not record.passed:
        return False
    return not record.reused_from or all(finding.subject != report.node.name for finding in record.findings)


# -- pairs ----------------------------------------------------------------------------------------------------------


async def _pair_up(fresh: dict[str, NodeReport], run: Run) -> list[PairTest]:
    """Round after round, each node at most once a round, until nothing more would be learnt."""
    tests: list[PairTest] = []
    for name in fresh:
        run.board.begin(name, Stage.BURN_IN, _PAIR_S)
    await asyncio.gather(*(run.in_thread(_clear, report, run) for report in fresh.values()))
    for number in range(_ROUNDS_MOST):
        pairs = next_round(sorted(fresh), [test.result for test in tests])
        if not pairs:
            break
        tests += await asyncio.gather(*(run.in_thread(_pair, fresh[a], fresh[b], run, number) for a, b in pairs))
    return tests


def _clear(report: NodeReport, run: Run) -> None:
    """A pair test of a run that was killed must not go on under ours; a silent node shows itself there."""
    record = report.record(Stage.BURN_IN)
    if record is None or not record.reused_from:
        return  # its own burn-in has done so
    site = run.site_for(report, Stage.BURN_IN, _PAIR_S)
    with suppress(NodeTrouble), site.shell(report.address) as shell:
        end_left_running(shell, site)


def _pair(a: NodeReport, b: NodeReport, run: Run, number: int) -> PairTest:
    """One pair, both sides at once. The node with the lower expectation leads, and its limit counts."""
    first, second = sorted((a, b), key=lambda report: _expected(report, run))
    sites = [run.site_for(report, Stage.BURN_IN, _PAIR_S) for report in (first, second)]
    sites[0].deadline.tell(f"pair test with {second.node.name}", _PAIR_S)
    with ExitStack() as stack:
        try:
            shells = [stack.enter_context(s.shell(r.address)) for s, r in zip(sites, (first, second), strict=True)]
        except NodeTrouble as error:
            return _not_reached(first, second, number, error)
        host, _ = split_address(first.address)
        gpus = sites[0].node_class.gpu.count
        test = run_pair(
            shells[0], shells[1], run.site.evidence, sites[0].pack, sites[0].deadline,
            root_host=host, gpus=gpus, number=number,
        )  # fmt: skip
        return _with_rails(test, sites[0], shells, host, first) if test.result.passed is False else test


def _with_rails(test: PairTest, site: NodeSite, shells: list[SshShell], host: str, first: NodeReport) -> PairTest:
    """A pair that fell short names the rails that did, so that a rail is blamed rather than a node."""
    record = first.record(Stage.BURN_IN)
    adapters = record.details.get("adapters", []) if record else []
    reached = run_rails(
        shells[0], shells[1], site.site.evidence, site.pack, site.deadline, root_host=host, adapters=adapters
    )
    short = tuple(adapter for adapter, good in reached.items() if good is False)
    return test.model_copy(update={"result": test.result.model_copy(update={"rails": short})})


def _expected(report: NodeReport, run: Run) -> float:
    threshold = run.site.packs[run.site.class_of(report.node).limits].threshold("nccl_pair_busbw_gb_s")
    return threshold.at_least or 0.0 if threshold else 0.0


def _not_reached(a: NodeReport, b: NodeReport, number: int, error: NodeTrouble) -> PairTest:
    finding = Finding(
        metric="nccl_pair",
        subject=f"{a.node.name} with {b.node.name}",
        outcome=Outcome.ERROR,
        observed="not measured",
        expected="a pair test",
        source="SSH",
        cause=str(error),
    )
    return PairTest(result=PairResult(a=a.node.name, b=b.node.name, passed=None, round=number), findings=(finding,))


# -- the cohort -----------------------------------------------------------------------------------------------------


def _cohort(fresh: dict[str, NodeReport]) -> tuple[Finding, ...]:
    """Each node's own figures against those of the other nodes of its class in this rack."""
    figures: dict[tuple[str, str, str], dict[str, float | None]] = defaultdict(dict)
    for name, report in fresh.items():
        record = report.record(Stage.BURN_IN)
        for metric, (value, unit) in (record.details.get("figures", {}) if record else {}).items():
            figures[report.node.node_class, metric, unit][name] = value
    return tuple(
        finding
        for (node_class, metric, unit), values in figures.items()
        for finding in outliers(metric, values, unit=unit, of=f"{node_class} nodes of this rack")
    )


# -- telling --------------------------------------------------------------------------------------------------------


def _told(report: NodeReport, findings: tuple[Finding, ...]) -> NodeReport:
    """A report whose burn-in record also says what the rack says of it."""
    own = tuple(finding for finding in findings if finding.subject == report.node.name)
    record = report.record(Stage.BURN_IN)
    if record is None or not own:
        return report
    return report.plus(record.model_copy(update={"findings": (*record.findings, *own)}))


def _show_end(report: NodeReport, run: Run) -> None:
    record = report.record(Stage.BURN_IN)
    if record is not None:
        run.board.end(report.node.name, Stage.BURN_IN, record.outcome.value, "" if record.passed else report.cause)
