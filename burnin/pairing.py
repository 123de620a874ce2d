"""Finds the bad node, link or rail among many by testing pairs. Pure: it plans rounds and reads results.

A pair test is an OR: it fails if either node, the link between them or a rail both use is bad. So nothing is blamed
on one failure: a node is, when two different partners confirm that themselves pass with others; a link, when the
pair fails twice and both ends pass with others; a rail, when unrelated pairs fail on it. Else: inconclusive.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from inventory.model import Frozen

Pair = tuple[str, str]
Round = tuple[Pair, ...]

_CONFIRMATIONS = 2  # partners that must agree before a node is blamed; with one, a healthy partner is blamed as often
_COVERAGE = 2  # partners each node is tried with: at 256 nodes and 8 bad, 0.24 suspects stay after two rounds
_ENOUGH = 4  # partners after which a node that only just passes is tried no more; our choice
_CLEAR = 1.03  # a pass above this is beyond noise: 1.5 times the 2 % by which repeats of one pair spread; our choice
_RAIL_SHARE = 0.5  # a bad rail switch fails most pairs; below this share it is more likely a node's own adapter


class PairResult(Frozen):
    """What one pair test came to. `None` = could not be measured, which speaks neither for nor against anybody."""

    a: str
    b: str
    passed: bool | None
    rails: tuple[str, ...] = ()  # rails that fell short, where they were tested one by one
    round: int = 0
    margin: float | None = None  # figure over limit: 1.0 = just reached; None = not told

    @property
    def clear(self) -> bool:
        """Passed beyond what noise can do. A pass without a margin counts as clear."""
        return bool(self.passed) and (self.margin is None or self.margin >= _CLEAR)

    @property
    def pair(self) -> Pair:
        """The two, in one order whoever was rank 0."""
        return (self.a, self.b) if self.a < self.b else (self.b, self.a)


class Blame(Frozen):
    """What the results say so far."""

    nodes: tuple[str, ...] = ()  # blamed
    links: tuple[Pair, ...] = ()
    rails: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()  # in a failure that nothing explains yet
    proven: tuple[str, ...] = ()  # passed with a partner and stands in no unexplained failure
    unproven: tuple[str, ...] = ()  # no pair of theirs could be measured


def rounds(nodes: Sequence[str], seed: int = 0) -> tuple[Round, ...]:
    """Everybody against everybody, each node once a round (circle method); with an odd number one rests each round."""
    order: list[str | None] = [*_shuffled(nodes, str(seed))]
    if len(order) % 2:
        order.append(None)
    planned = []
    for _ in range(len(order) - 1):
        half = len(order) // 2
        met = zip(order[:half], reversed(order[half:]), strict=True)
        planned.append(tuple((a, b) for a, b in met if a is not None and b is not None))
        order = [order[0], order[-1], *order[1:-1]]
    return tuple(planned)


def _shuffled(nodes: Sequence[str], seed: str) -> list[str]:
    order = sorted(set(nodes))
    random.Random(seed).shuffle(order)  # noqa: S311 (a repeatable draw, no secret)
    return order


class _Tally:
    """Results counted once, so that planning and blaming stay fast for hundreds of nodes."""

    def __init__(self, results: Iterable[PairResult]) -> None:
        self.results = tuple(results)
        self.met: dict[str, set[str]] = defaultdict(set)  # measured or not: do not draw this pair again
        self.measured: dict[str, set[str]] = defaultdict(set)  # whatever it came to
        self.passes: dict[str, set[str]] = defaultdict(set)
        self.clear: dict[str, set[str]] = defaultdict(set)  # those of the passes that are beyond noise
        self.fails: dict[str, set[str]] = defaultdict(set)
        self.failed: Counter[Pair] = Counter()
        self.rails = _bad_rails(self.results)
        for result in self.results:
            self._count(result)

    def _count(self, result: PairResult) -> None:
        a, b = result.a, result.b
        self.met[a].add(b)
        self.met[b].add(a)
        if result.passed is None:
            return
        self.measured[a].add(b)
        self.measured[b].add(a)
        if not result.passed and result.rails and set(result.rails) <= self.rails:
            return  # the rail explains it
        side = self.passes if result.passed else self.fails
        side[a].add(b)
        side[b].add(a)
        if result.clear:
            self.clear[a].add(b)
            self.clear[b].add(a)
        if not result.passed:
            self.failed[result.pair] += 1

    def covered(self, node: str) -> bool:
        """Tried with enough partners: two, one of which passed clearly or failed; else up to four."""
        tried = len(self.measured[node])
        return tried >= _ENOUGH or (tried >= _COVERAGE and bool(self.clear[node] | self.fails[node]))

    def confirming(self, node: str) -> int:
        """Partners it failed with that pass with somebody else."""
        return sum(bool(self.passes[partner] - {node}) for partner in self.fails[node])

    def blamed(self) -> set[str]:
        """Nodes that two proven partners fail with, and more fail with than pass with."""
        return {
            node
            for node in list(self.fails)
            if self.confirming(node) >= _CONFIRMATIONS and len(self.fails[node]) > len(self.passes[node])
        }

    def bad_links(self, blamed: set[str]) -> set[Pair]:
        """Pairs that failed twice, never passed, and whose ends each pass clearly with two others."""
        return {
            pair
            for pair, times in self.failed.items()
            if times >= 2
            and not blamed & set(pair)
            and pair[1] not in self.passes[pair[0]]
            and all(len(self.clear[end]) >= _CONFIRMATIONS for end in pair)
        }

    def unexplained(self, blamed: set[str], links: set[Pair]) -> set[Pair]:
        """Failed pairs without a blamed node or link, unless they passed as often as they failed."""
        return {
            pair
            for pair, times in self.failed.items()
            if not blamed & set(pair) and pair not in links and not self._settled(pair, times)
        }

    def _settled(self, pair: Pair, times: int) -> bool:
        """A pair that failed once and then passed, both ends passing with two others: it did not repeat."""
        again = pair[1] in self.passes[pair[0]]
        return times == 1 and again and all(len(self.passes[end]) > _CONFIRMATIONS for end in pair)


def _bad_rails(results: Sequence[PairResult]) -> set[str]:
    measured = [result for result in results if result.passed is not None]
    by_rail: dict[str, list[PairResult]] = defaultdict(list)
    for result in measured:
        for rail in result.rails if not result.passed else ():
            by_rail[rail].append(result)
    return {
        rail
        for rail, failed in by_rail.items()
        if len(failed) >= _RAIL_SHARE * len(measured) and not _shared_node(failed)
    }


def _shared_node(failed: Sequence[PairResult]) -> bool:
    """Whether one node stands in all of these, and so explains them by itself; one failure alone always does."""
    return bool(set.intersection(*({result.a, result.b} for result in failed)))


def blame(nodes: Sequence[str], results: Iterable[PairResult]) -> Blame:
    """Who or what is to blame after these results, and who is proven."""
    tally = _Tally(results)
    blamed = tally.blamed()
    links = tally.bad_links(blamed)
    open_nodes = {node for pair in tally.unexplained(blamed, links) for node in pair}
    good = {node for node in nodes if tally.passes[node]} - blamed - open_nodes
    return Blame(
        nodes=tuple(sorted(blamed)),
        links=tuple(sorted(links)),
        rails=tuple(sorted(tally.rails)),
        inconclusive=tuple(sorted(open_nodes)),
        proven=tuple(sorted(good)),
        unproven=tuple(sorted(set(nodes) - blamed - open_nodes - good)),
    )


def next_round(nodes: Sequence[str], results: Sequence[PairResult], seed: int = 0) -> Round:
    """The pairs to test next; empty when nothing more would be learnt.

    Suspects meet proven partners they have not met; a failed pair whose ends pass with others is tried once more;
    all others meet a second partner.
    """
    if not results:
        planned = rounds(nodes, seed)
        return planned[0] if planned else ()
    return _Planner(nodes, results, seed).round()


class _Planner:
    """One round being drawn."""

    def __init__(self, nodes: Sequence[str], results: Sequence[PairResult], seed: int) -> None:
        self.tally = _Tally(results)
        self.blamed = self.tally.blamed()
        links = self.tally.bad_links(self.blamed)
        self.open_pairs = self.tally.unexplained(self.blamed, links)
        self.free = [n for n in _shuffled(nodes, f"{seed}/{len(results)}") if n not in self.blamed]
        self.suspects = [node for node in self.free if any(node in pair for pair in self.open_pairs)]
        self.drawn: list[Pair] = []

    def round(self) -> Round:
        """Confirm links, then suspects, then coverage; partners are taken only while somebody needs them."""
        self._repeat_failed_pairs()
        for suspect in self.suspects:
            self._draw(suspect, [n for n in self.free if n not in self.suspects and self.tally.passes[n]])
        needy = [node for node in self.free if not self.tally.covered(node) and node not in self.suspects]
        for node in needy:
            self._draw(node, [*(n for n in needy if n != node), *self.free])
        return tuple(self.drawn)

    def _repeat_failed_pairs(self) -> None:
        for pair in sorted(self.open_pairs):
            ends_pass = all(len(self.tally.clear[end] - set(pair)) >= _CONFIRMATIONS for end in pair)
            if ends_pass and self.tally.failed[pair] < 2 and not self._busy(*pair):
                self.drawn.append(pair)

    def _busy(self, *nodes: str) -> bool:
        return any(node in pair for pair in self.drawn for node in nodes)

    def _draw(self, node: str, partners: Sequence[str]) -> None:
        if self._busy(node):
            return
        met = self.tally.met[node]
        partner = next((p for p in partners if p != node and p not in met and not self._busy(p)), None)
        if partner is not None:
            self.drawn.append((node, partner))
