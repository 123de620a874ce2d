"""What the pair tests of a rack mean for each node, in findings: blamed, proven, open, or without a partner."""

from __future__ import annotations

from collections.abc import Sequence

from burnin.pairing import Blame, Pair, PairResult, blame
from inventory.findings import Finding, Outcome

_SOURCE = "a node is blamed when two different partners fail with it that pass with others"


def judge_pairs(nodes: Sequence[str], results: Sequence[PairResult]) -> tuple[Finding, ...]:
    """One finding per node, and one more per blamed link and rail. The subject is who is meant."""
    said = blame(nodes, results)
    per_node = tuple(_node(node, said, results) for node in sorted(set(nodes)))
    links = tuple(_link(link, results) for link in said.links)
    return (*per_node, *links, *(_rail(rail) for rail in said.rails))


def _node(node: str, said: Blame, results: Sequence[PairResult]) -> Finding:
    failed = _partners(node, results, passed=False)
    if node in said.nodes:
        others = ", ".join(failed)
        return _finding(
            node,
            Outcome.FAIL,
            f"fails with {others}, which pass with others",
            cause=f"{node}: too slow over the network with {len(failed)} partners ({others}) that pass with others",
            remedy="Test its rails one by one; look at adapters, GPUDirect, cables and switch ports of this node.",
        )
    if node in said.proven:
        return _finding(node, Outcome.PASS, f"passes with {', '.join(_partners(node, results, passed=True))}")
    if node in said.inconclusive:
        return _finding(
            node,
            Outcome.ERROR,
            f"fails with {', '.join(failed)}; not confirmed by a second partner",
            cause=f"{node}: failed with {', '.join(failed)}, and no second partner could confirm which of them it is",
            remedy="Pair it with nodes that pass; it stays undecided until then.",
        )
    if failed:
        return _finding(
            node,
            Outcome.ERROR,
            f"every pair fell short on {', '.join(said.rails)}",
            cause=f"{node}: cannot be proven while rail {', '.join(said.rails)} is too slow for the rack",
            remedy="Mend the rail, then test again.",
        )
    return _alone(node, results)


def _alone(node: str, results: Sequence[PairResult]) -> Finding:
    """Without a partner nothing is proven, and that is said; with one that gave no figure it is an error."""
    if not _partners(node, results, passed=None):
        return _finding(node, Outcome.NOT_APPLICABLE, "not proven: no partner")
    return _finding(
        node,
        Outcome.ERROR,
        "no pair of it could be measured",
        cause=f"{node}: no pair test with it came to a figure",
        remedy="Run the launcher by hand between this node and another.",
    )


def _partners(node: str, results: Sequence[PairResult], *, passed: bool | None) -> list[str]:
    met = {r.b if r.a == node else r.a for r in results if node in r.pair and r.passed is passed}
    return sorted(met)


def _link(link: Pair, results: Sequence[PairResult]) -> Finding:
    times = sum(r.pair == link and r.passed is False for r in results)
    return _finding(
        " with ".join(link),
        Outcome.FAIL,
        f"failed {times} times; both pass with others",
        cause=f"the link between {link[0]} and {link[1]} is too slow, and both pass with others",
        remedy="Look at the switches and cables between the two, not at the nodes.",
    )


def _rail(rail: str) -> Finding:
    return _finding(
        rail,
        Outcome.FAIL,
        "most pairs fall short on this rail",
        cause=f"rail {rail} is too slow for most pairs: its switch or its wiring, not the nodes",
        remedy="Look at the rail's leaf switch, its firmware and flow control; compare cables with the plan.",
    )


def _finding(subject: str, outcome: Outcome, seen: str, *, cause: str = "", remedy: str = "") -> Finding:
    return Finding(
        metric="nccl_pair",
        subject=subject,
        outcome=outcome,
        observed=seen,
        expected="at least one partner passes, and no failure stays unexplained",
        cause=cause,
        remedy=remedy,
        source=_SOURCE,
    )
