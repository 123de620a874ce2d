"""How soon and how surely the pair rounds name a bad node, link or rail: simulated racks, figures printed."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

import pytest

from burnin.pairing import PairResult, blame, next_round

# Noise: repeats of one healthy pair spread by 1-3 % (multi-node runs in public reports); 2 % here. Once in 5,000 pair
# tests a healthy pair is disturbed and loses 5 to 30 % (our assumption), once in 1,000 the test cannot be measured.
_SPREAD, _DISTURBED, _UNMEASURED = 0.02, 1 / 5000, 1 / 1000
_LIMIT = 0.93  # of the expectation, as in the limits packs; 3.5 spreads below a healthy pair
_ROUND_MINUTES = 2.0  # one pair test with its start, our estimate
_MOST_ROUNDS = 8


@dataclass
class Rack:
    """Nodes of which some are bad, and links of which some are bad."""

    nodes: list[str]
    bad: dict[str, float]  # node → share of the healthy figure it reaches
    bad_links: dict[frozenset[str], float]
    bad_rail: bool
    chance: random.Random

    def test(self, a: str, b: str, number: int) -> PairResult:
        """One pair test as the fabric would answer; the rails are tested only when the pair fails."""
        if self.chance.random() < _UNMEASURED:
            return PairResult(a=a, b=b, passed=None, round=number)
        share = min(self.bad.get(a, 1.0), self.bad.get(b, 1.0), self.bad_links.get(frozenset((a, b)), 1.0))
        share = min(share, 0.6 if self.bad_rail else 1.0)
        if self.chance.random() < _DISTURBED:
            share *= self.chance.uniform(0.7, 0.95)
        margin = share * self.chance.gauss(1.0, _SPREAD) / _LIMIT
        rails = ("rail3",) if self.bad_rail and margin < 1 else ()
        return PairResult(a=a, b=b, passed=margin >= 1, rails=rails, round=number, margin=margin)


@dataclass
class Score:
    """Counted over many racks."""

    racks: int = 0
    rounds: list[int] = field(default_factory=list)
    bad: int = 0
    named: int = 0
    wrong: int = 0  # racks in which a good node was blamed
    wrong_links: int = 0  # racks in which a good link was blamed
    missed: int = 0
    open: int = 0
    links: int = 0
    links_named: int = 0
    rails: int = 0
    rails_named: int = 0


def _rack(count: int, share: float, chance: random.Random, *, link: bool = False, rail: bool = False) -> Rack:
    nodes = [f"n{i:03d}" for i in range(count)]
    number = 0 if link or rail else max(1 if share else 0, round(count * share))
    bad = {node: chance.uniform(0.4, 0.91) for node in chance.sample(nodes, number)}
    links = {frozenset(chance.sample(nodes, 2)): 0.5} if link else {}
    return Rack(nodes, bad, links, rail, chance)


def _run(rack: Rack, score: Score, seed: int) -> None:
    results: list[PairResult] = []
    rounds = 0
    while rounds < _MOST_ROUNDS and (pairs := next_round(rack.nodes, results, seed)):
        results += [rack.test(a, b, rounds) for a, b in pairs]
        rounds += 1
    said = blame(rack.nodes, results)
    score.racks += 1
    score.rounds.append(rounds)
    score.bad += len(rack.bad)
    score.named += len(set(said.nodes) & set(rack.bad))
    score.wrong += bool(set(said.nodes) - set(rack.bad))
    score.wrong_links += bool(set(map(frozenset, said.links)) - set(rack.bad_links))
    score.missed += len(set(said.proven) & set(rack.bad))
    score.open += len(said.inconclusive) + len(said.unproven)
    met = {frozenset(result.pair) for result in results if result.passed is not None} & set(rack.bad_links)
    score.links += len(met)
    score.links_named += len({frozenset(link) for link in said.links} & met)
    score.rails += rack.bad_rail
    score.rails_named += "rail3" in said.rails


def _line(what: str, score: Score, seconds: float) -> str:
    rounds = sorted(score.rounds)
    p95 = rounds[int(len(rounds) * 0.95)]
    mean = sum(rounds) / len(rounds)
    # Nothing seen in n racks proves a rate below 3/n with 95 % confidence (rule of three).
    bound = f"<{3 / score.racks:.0e}" if not score.wrong else f"{score.wrong / score.racks:.1e}"
    return (
        f"{what:38s} {score.racks:6d} {mean:6.2f} {p95:4d} {mean * _ROUND_MINUTES:8.1f} {score.bad:7d} "
        f"{score.named:7d} {score.missed:7d} {score.open:6d} {score.wrong:6d} {bound:>8s} {score.wrong_links:5d} "
        f"{seconds:6.1f}"
    )


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pair_rounds_over_simulated_racks() -> None:
    """Prints rounds until named, named, missed and wrongly blamed for 8 to 256 nodes and 0 to 8 % bad ones."""
    print(f"\n{'rack':38s}  racks rounds  p95  minutes     bad   named  missed   open  wrong rate/95% links   secs")
    for count, racks in ((8, 40_000), (18, 30_000), (72, 10_000), (256, 300)):
        for share in (0.0, 0.014, 0.04, 0.08):
            runs = racks if share == 0.014 else racks // 10
            score, began = Score(), time.monotonic()
            for seed in range(runs):
                _run(_rack(count, share, random.Random(f"{count}/{share}/{seed}")), score, seed)
            print(_line(f"{count} nodes, {share:.1%} bad", score, time.monotonic() - began))
    for what, runs in (("link", 300), ("rail", 100)):
        score, began = Score(), time.monotonic()
        for seed in range(runs):
            rack = _rack(72, 0.0, random.Random(f"{what}/{seed}"), link=what == "link", rail=what == "rail")
            _run(rack, score, seed)
        found = f"{score.links_named}/{score.links} met" if what == "link" else f"{score.rails_named}/{score.rails}"
        print(_line(f"72 nodes, one bad {what} ({found})", score, time.monotonic() - began))
