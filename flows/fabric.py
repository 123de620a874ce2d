"""Across the rack: nodes that passed alone are paired until every one is proven with two partners, or blamed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

from burnin.fabric import PairTest, run_pair
from burnin.pairing import Blame, PairResult, blame, next_round
from flows.running import Run
from inventory.errors import NodeTrouble
from inventory.findings import Finding, Outcome
from inventory.report import NodeReport, Stage
from inventory.ssh import split_address

_METRIC = "nccl_pair_busbw_gb_s"
_ROUNDS_MOST = 8  # our choice: two for coverage, the rest for suspects; what is open then is told as open
_PAIR_S = 600.0  # our choice: a pair test of large sizes on slow links, twice over
_SOURCE = "burnin/pairing.py: blamed only when two different, proven partners confirm"


async def prove_fabric(alone: Sequence[NodeReport], run: Run) -> tuple[tuple[NodeReport, ...], tuple[Finding, ...]]:
    """The reports with what the pair tests say of each node, and findings about links and rails of the rack."""
    fresh = {report.node.name: report for report in alone if _freshly_burnt_in(report)}
    names = sorted(fresh)
    tests: list[PairTest] = []
    for number in range(_ROUNDS_MOST if len(names) > 1 else 0):
        pairs = next_round(names, [test.result for test in tests])
        if not pairs:
            break
        tests += await asyncio.gather(*(run.in_thread(_pair, fresh[a], fresh[b], run, number) for a, b in pairs))
    said = blame(names, [test.result for test in tests])
    told = [await run.in_thread(_told, fresh.get(r.node.name), r, said, tests, run) for r in alone]
    return tuple(told), _rack_findings(said)


def _freshly_burnt_in(report: NodeReport) -> bool:
    record = report.record(Stage.BURN_IN)
    return record is not None and record.passed and not record.reused_from


def _pair(a: NodeReport, b: NodeReport, run: Run, number: int) -> PairTest:
    """One pair, both sides at once. The node with the lower expectation leads, and its limit counts."""
    first, second = sorted((a, b), key=lambda report: _expected(report, run))
    with ExitStack() as stack:
        sites = [run.site_for(report, Stage.BURN_IN, _PAIR_S) for report in (first, second)]
        run.board.waiting(first.node.name, Stage.BURN_IN, f"pair test with {second.node.name}", _PAIR_S)
        try:
            shells = [stack.enter_context(s.shell(r.address)) for s, r in zip(sites, (first, second), strict=True)]
        except NodeTrouble as error:
            return PairTest(result=PairResult(a=a.node.name, b=b.node.name, passed=None, round=number),
                            findings=(_unmeasured(first, second, error),))  # fmt: skip
        host, _ = split_address(first.address)
        gpus = sites[0].node_class.gpu.count
        return run_pair(
            shells[0], shells[1], run.site.evidence, sites[0].pack, sites[0].deadline,
            root_host=host, gpus=gpus, number=number,
        )  # fmt: skip


def _expected(report: NodeReport, run: Run) -> float:
    pack = run.site.packs[run.site.class_of(report.node).limits]
    threshold = pack.threshold(_METRIC)
    return threshold.at_least or 0.0 if threshold else 0.0


def _told(fresh: NodeReport | None, report: NodeReport, said: Blame, tests: Sequence[PairTest], run: Run) -> NodeReport:
    """A report whose burn-in record also says what the pairs proved; kept in the ledger like any stage."""
    record = report.record(Stage.BURN_IN)
    if fresh is None or record is None:
        return report
    own = [test for test in tests if report.node.name in test.result.pair]
    record = record.model_copy(update={"findings": (*record.findings, _finding(report, said, own))})
    lease = run.nodes[report.node.name].lease
    record_id = run.site.ledger.begin_stage(lease, run.run_id, Stage.BURN_IN, record.key, record.inputs)
    run.site.ledger.finish_stage(record_id, record)
    updated = report.plus(record)
    run.board.end(report.node.name, Stage.BURN_IN, record.outcome.value, "" if record.passed else updated.cause)
    return updated


def _finding(report: NodeReport, said: Blame, own: Sequence[PairTest]) -> Finding:
    name = report.node.name
    partners = ", ".join(next(n for n in test.result.pair if n != name) for test in own)
    best = next((f for test in own for f in test.findings if f.metric == _METRIC), None)
    observed = f"{best.observed} with {partners}" if best else partners or "no partner"
    outcome, cause, remedy = _judged(name, said, partners)
    return Finding(
        metric=_METRIC,
        subject="node",
        outcome=outcome,
        observed=observed,
        expected=best.expected if best else "proven with a partner",
        remedy=remedy,
        source=best.source if best else _SOURCE,
        cause=cause,
        evidence=best.evidence if best else None,
    )


def _judged(name: str, said: Blame, partners: str) -> tuple[Outcome, str, str]:
    if name in said.nodes:
        return (Outcome.FAIL, f"NCCL across the network falls short with {partners}, who each pass with others",
                "Look at this node's adapters, cables and GPUDirect before its partners'.")  # fmt: skip
    if name in said.proven:
        return Outcome.PASS, "", ""
    if name in said.inconclusive:
        return (Outcome.ERROR, f"NCCL across the network failed with {partners}; who is to blame is not settled",
                "Run it again with more nodes of the rack.")  # fmt: skip
    if partners:
        return (
            Outcome.ERROR,
            f"the pair tests with {partners} could not be measured",
            "Look at the evidence of the pair.",
        )
    return Outcome.NOT_APPLICABLE, "not proven: no partner was free", ""


def _rack_findings(said: Blame) -> tuple[Finding, ...]:
    links = [(f"{a}-{b}", f"the link between {a} and {b} is slow though both pass with others") for a, b in said.links]
    rails = [(rail, f"rail {rail} is slow between unrelated nodes") for rail in said.rails]
    return tuple(
        Finding(
            metric="fabric", subject=subject, outcome=Outcome.FAIL, observed="slow", expected="as the other links",
            remedy="Look at the cable and the switch port, not at the nodes.", source=_SOURCE, cause=cause,
        )
        for subject, cause in (*links, *rails)
    )  # fmt: skip


def _unmeasured(a: NodeReport, b: NodeReport, error: NodeTrouble) -> Finding:
    return Finding(
        metric=_METRIC, subject=f"{a.node.name}-{b.node.name}", outcome=Outcome.ERROR, observed="not measured",
        expected="a pair test", source=_SOURCE, cause=str(error),
    )  # fmt: skip
