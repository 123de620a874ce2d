"""Two nodes proven against each other: a NCCL all-reduce across their network, started over SSH without MPI.

The launcher. nccl-tests built without MPI cannot span nodes, so the image ships a small rendezvous launcher:

    rackmint-nccl-pair --rank 0|1 --world 2 --root HOST:PORT --wait 60 -- all_reduce_perf -b … -e … -f 2 -g 8 …

Rank 0 listens on HOST:PORT, hands NCCL's unique id to rank 1, and prints one nccl-tests table for both nodes; rank 1
prints only its own NCCL log. Both exit non-zero when either side fails or when the partner does not come within
`--wait` seconds. What it does not do: more than two nodes, more than one process a node, MPI options.
What it cannot prove: which rail is slow. A pair that fails can be followed by `run_rails`, which names the rails.

Two-node trees flatter the network (they may show more than the line rate), so the ring is asked for.
Source of that rule: NVIDIA's answers in nccl-tests issues 290, 309 and 319.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pydantic import Field

from burnin.limits import LimitsPack
from burnin.nccl import NCCL_LOG, NcclAsked, NcclRun, judge_nccl, parse_nccl
from burnin.pairing import PairResult
from burnin.perftest import WriteBandwidth, rail_client, rail_server
from inventory.command import Answer, Command, Shell, ask
from inventory.deadline import Deadline
from inventory.errors import BudgetSpent, CommandFailed, NodeTrouble, NodeUnreachable, OutputNotUnderstood
from inventory.evidence import EvidenceStore
from inventory.findings import Finding, Outcome, Reading, worst
from inventory.model import Frozen

_GIB = 1 << 30
_PORT = 29430  # our choice: below Linux's ephemeral range and not in /etc/services
_WAIT_S = 60  # how long the launcher waits for its partner; our choice
_TIMEOUT_S = 300.0  # our choice; two healthy nodes need about half a minute
_RAIL_STARTS_S = 1.0  # until an ib_write_bw server listens; our choice

# Trouble that makes a pair "not measured". A lost lease or a cancel is no property of the pair and goes through.
_NOT_MEASURED = (CommandFailed, OutputNotUnderstood, NodeUnreachable, BudgetSpent)


class PairTest(Frozen):
    """What a pair of nodes came to: the result for the planner, the findings for the report."""

    result: PairResult
    findings: tuple[Finding, ...]
    reading: Reading | None = None
    details: dict[str, Any] = Field(default_factory=dict)


def pair_asked(gpus: int) -> NcclAsked:
    """The ring all-reduce over two nodes, large sizes only."""
    return NcclAsked(
        test="nccl_pair",
        collective="all_reduce",
        gpus=gpus,
        nodes=2,
        min_bytes=_GIB,
        env=("NCCL_ALGO=Ring",),
        timeout_s=_TIMEOUT_S,
    )


def pair_argv(asked: NcclAsked, rank: int, root: str) -> tuple[str, ...]:
    """What is started on the node with this rank. `root` is HOST:PORT of rank 0."""
    launcher = ("rackmint-nccl-pair", "--rank", str(rank), "--world", "2", "--root", root, "--wait", str(_WAIT_S))
    return ("env", *NCCL_LOG, *asked.env, *launcher, "--", *asked.argv)


def run_pair(
    shell_a: Shell,
    shell_b: Shell,
    store: EvidenceStore,
    pack: LimitsPack,
    deadline: Deadline,
    *,
    root_host: str,
    gpus: int,
    number: int = 0,
) -> PairTest:
    """Start both ranks at once and judge what rank 0 prints. `root_host` is where node b reaches node a.

    A side that cannot be run makes the pair "not measured", which is nobody's failure. `number` is the round.
    """
    asked, root = pair_asked(gpus), f"{root_host}:{_PORT}"
    limit_s = deadline.timeout_s(asked.timeout_s, f"nccl_pair of {shell_a.node} and {shell_b.node}")
    first = Command("nccl_pair rank 0", pair_argv(asked, 0, root), _parse_rank_0, limit_s)
    second = Command("nccl_pair rank 1", pair_argv(asked, 1, root), str, limit_s)
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="pair") as both:
        a = both.submit(ask, shell_a, first, store)
        b = both.submit(ask, shell_b, second, store)
    names = (shell_a.node, shell_b.node)
    trouble = _trouble(a) or _trouble(b)
    return _not_measured(names, number, trouble) if trouble else _measured(asked, pack, names, number, a.result())


def _parse_rank_0(text: str) -> NcclRun:
    return parse_nccl(text, collective="all_reduce")


def _trouble(side: Future[Any]) -> NodeTrouble | None:
    trouble = side.exception()
    if trouble is None or isinstance(trouble, _NOT_MEASURED):
        return trouble
    raise trouble


def _measured(
    asked: NcclAsked, pack: LimitsPack, names: tuple[str, str], number: int, answer: Answer[NcclRun]
) -> PairTest:
    run, subject = answer.value, " with ".join(names)
    findings = judge_nccl(run, asked, pack, subject=subject, evidence=answer.evidence)
    figure = Reading(
        metric=asked.metric, subject=subject, value=run.plateau_gb_s, unit="GB/s", evidence=answer.evidence
    )
    details = {"curve": [list(point) for point in run.curve], "transport": run.transport.words}
    limit = pack.threshold(asked.metric)
    margin = run.plateau_gb_s / limit.at_least if limit and limit.at_least else None
    result = PairResult(a=names[0], b=names[1], passed=_passed(findings), round=number, margin=margin)
    return PairTest(result=result, findings=findings, reading=figure, details=details)


def _passed(findings: tuple[Finding, ...]) -> bool | None:
    """Whether the pair holds: a failure decides, then an open question, and only then a pass."""
    outcome = worst(finding.outcome for finding in findings)
    return None if outcome is Outcome.ERROR else outcome is Outcome.PASS


def _not_measured(names: tuple[str, str], number: int, trouble: NodeTrouble) -> PairTest:
    finding = Finding(
        metric="nccl_pair_completeness",
        subject=" with ".join(names),
        outcome=Outcome.ERROR,
        observed=str(trouble),
        expected="one run over both nodes",
        cause=f"the pair {names[0]} and {names[1]} could not be measured: {trouble}",
        remedy="Run the launcher by hand on both nodes; check that they reach each other on the management network.",
        source="our launcher",
    )
    return PairTest(result=PairResult(a=names[0], b=names[1], passed=None, round=number), findings=(finding,))


def run_rails(
    shell_a: Shell,
    shell_b: Shell,
    store: EvidenceStore,
    pack: LimitsPack,
    deadline: Deadline,
    *,
    root_host: str,
    adapters: Sequence[str],
) -> dict[str, bool | None]:
    """Adapter name → whether writes between the two nodes over this rail reach the limit; None = no figure."""
    found: dict[str, bool | None] = {}
    for number, adapter in enumerate(adapters):
        limit_s = deadline.timeout_s(60.0, f"rail {adapter} of {shell_a.node} and {shell_b.node}")
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rail") as beside:
            server = beside.submit(ask, shell_a, rail_server(adapter, number, limit_s), store)
            deadline.wait(_RAIL_STARTS_S, f"rail {adapter} to listen")
            client = _asked(shell_b, rail_client(adapter, number, root_host, limit_s), store)
            _trouble(server)
        found[adapter] = _reaches(client, adapter, pack)
    return found


def _asked(shell: Shell, command: Command[WriteBandwidth], store: EvidenceStore) -> Answer[WriteBandwidth] | None:
    """The client's answer; None when it gave none, which says no more than that."""
    try:
        return ask(shell, command, store)
    except _NOT_MEASURED:
        return None


def _reaches(answer: Answer[WriteBandwidth] | None, adapter: str, pack: LimitsPack) -> bool | None:
    if answer is None:
        return None
    figure = answer.value.ib_write_bw_gbit_s
    reading = Reading(metric="ib_write_bw_gbit_s", subject=adapter, value=figure, unit="Gbit/s")
    return pack.judge(reading).outcome is Outcome.PASS
