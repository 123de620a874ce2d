"""The pair planner: who meets whom, and who is to blame."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from burnin.pair_judge import judge_pairs
from burnin.pairing import PairResult, blame, next_round, rounds
from inventory.findings import Outcome

_sizes = st.integers(0, 40)


def _nodes(count: int) -> list[str]:
    return [f"n{index:02d}" for index in range(count)]


def _results(*texts: str) -> list[PairResult]:
    """`a+b` passed, `a-b` failed, `a?b` not measured, `a-b/rail2` failed on that rail."""
    found = []
    for text in texts:
        pair, _, rail = text.partition("/")
        passed = {"+": True, "-": False, "?": None}[pair[1]]
        found.append(PairResult(a=pair[0], b=pair[2], passed=passed, rails=(rail,) if rail else ()))
    return found


def _play(count: int, bad: set[str], links: set[frozenset[str]], seed: int = 3) -> list[PairResult]:
    nodes, results, played = _nodes(count), list[PairResult](), 0
    while played < 8 and (pairs := next_round(nodes, results, seed)):
        played += 1
        for a, b in pairs:
            passed = not ({a, b} & bad or frozenset((a, b)) in links)
            results.append(PairResult(a=a, b=b, passed=passed, round=played))
    return results


@given(_sizes, st.integers(0, 99))
def test_every_round_uses_each_node_at_most_once(count: int, seed: int) -> None:
    """A node that is busy twice would share its adapters and look slow."""
    for planned in rounds(_nodes(count), seed):
        met = [node for pair in planned for node in pair]
        assert len(set(met)) == len(met)


@given(_sizes, st.integers(0, 99))
def test_all_pairs_meet_exactly_once(count: int, seed: int) -> None:
    """A 1-factorisation: everybody against everybody, nobody twice."""
    met = [frozenset(pair) for planned in rounds(_nodes(count), seed) for pair in planned]
    assert len(set(met)) == len(met) == count * (count - 1) // 2


@given(st.integers(2, 40))
def test_an_even_rack_needs_one_round_less_than_it_has_nodes(count: int) -> None:
    """17 rounds for 18 nodes; with an odd number one rests in each round."""
    assert count - 1 + count % 2 == len(rounds(_nodes(count)))


@given(st.data())
def test_no_node_is_blamed_by_fewer_than_two_partners(data: st.DataObject) -> None:
    """Whatever the results, each blamed node failed with two different partners that pass with somebody else."""
    nodes = _nodes(data.draw(st.integers(2, 9)))
    pair = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)).filter(lambda p: p[0] != p[1])
    result = st.builds(
        lambda p, passed: PairResult(a=p[0], b=p[1], passed=passed), pair, st.sampled_from([True, False, None])
    )
    results = data.draw(st.lists(result, max_size=40))
    for node in blame(nodes, results).nodes:
        failed = {(set(r.pair) - {node}).pop() for r in results if node in r.pair and r.passed is False}
        confirming = {p for p in failed if any(r.passed and p in r.pair and node not in r.pair for r in results)}
        assert 2 <= len(confirming)


@given(st.integers(6, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_one_bad_node_is_named_within_three_rounds_and_nobody_else(count: int, data: st.DataObject) -> None:
    """Without noise the planner is exact."""
    bad = data.draw(st.sampled_from(_nodes(count)))
    results = _play(count, {bad}, set(), data.draw(st.integers(0, 99)))
    said = blame(_nodes(count), [result for result in results if result.round <= 3])
    assert ((bad,), (), ()) == (said.nodes, said.links, said.inconclusive)


@given(st.integers(2, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_drawn_rounds_use_each_node_at_most_once(count: int, data: st.DataObject) -> None:
    """Also the rounds drawn for suspects."""
    bad = set(data.draw(st.lists(st.sampled_from(_nodes(count)), max_size=3)))
    results = _play(count, bad, set())
    for number in {result.round for result in results}:
        met = [node for result in results if result.round == number for node in result.pair]
        assert len(set(met)) == len(met)


def test_one_failure_blames_nobody() -> None:
    """Two suspects, no culprit, and others are proven."""
    said = blame("abcd", _results("a-b", "c+d"))
    assert ((), ("a", "b"), ("c", "d")) == (said.nodes, said.inconclusive, said.proven)


def test_partners_that_pass_with_nobody_confirm_nothing() -> None:
    """Two bad partners must not send a good node home."""
    said = blame("abc", _results("a-b", "a-c"))
    assert ((), ("a", "b", "c")) == (said.nodes, said.inconclusive)


def test_a_node_is_blamed_when_two_proven_partners_fail_with_it() -> None:
    """And its partners are cleared."""
    said = blame("abcd", _results("a-b", "a-c", "b+c", "b+d"))
    assert (("a",), ("b", "c", "d")) == (said.nodes, said.proven)


def test_a_link_is_blamed_when_both_ends_pass_with_others() -> None:
    """The cable between two good nodes, after it failed twice."""
    results = _results("a-b", "a+c", "b+d", "a+d", "b+c", "a-b")
    said = blame("abcd", results)
    assert (("a", "b"),) == said.links
    assert ((), ("a", "b", "c", "d")) == (said.nodes, said.proven)
    finding = next(f for f in judge_pairs("abcd", results) if f.subject == "a with b")
    assert "the link between a and b is too slow, and both pass with others" == finding.cause


def test_a_bad_link_is_tried_again_before_it_is_blamed() -> None:
    """The planner repeats the pair once both ends are proven."""
    first = next_round(_nodes(8), [], 3)[0]
    results = _play(8, set(), {frozenset(first)})
    assert (tuple(sorted(first)),) == blame(_nodes(8), results).links


def test_passes_within_noise_do_not_turn_a_weak_node_into_a_bad_link() -> None:
    """A node that only just passes with others clears nobody: its failed pair stays open."""
    just = [PairResult(a="a", b=p, passed=True, margin=1.005) for p in "cd"]
    clear = [PairResult(a="b", b=p, passed=True, margin=1.07) for p in "cd"]
    said = blame("abcd", [*_results("a-b", "a-b"), *just, *clear])
    assert ((), ("a", "b")) == (said.links, said.inconclusive)


def test_a_rail_is_blamed_when_unrelated_pairs_fail_on_it() -> None:
    """Its switch, not four nodes; and none of them is proven meanwhile."""
    results = _results("a-b/rail2", "c-d/rail2", "a-c/rail2")
    said = blame("abcd", results)
    assert (("rail2",), (), ()) == (said.rails, said.nodes, said.inconclusive)
    outcomes = {f.subject: f.outcome for f in judge_pairs("abcd", results)}
    assert (Outcome.FAIL, Outcome.ERROR) == (outcomes["rail2"], outcomes["a"])


def test_a_rail_that_always_fails_with_one_node_is_that_nodes() -> None:
    """One bad adapter is no bad rail switch."""
    said = blame("abcd", _results("a-b/rail2", "c+d", "a-c/rail2", "b+d"))
    assert (("a",), ()) == (said.nodes, said.rails)


def test_pairs_that_could_not_be_measured_speak_for_nobody() -> None:
    """An error is neither a pass nor a failure; the node is tried with another partner."""
    results = _results("a?b", "c+d")
    assert (("a", "b"), ()) == (blame("abcd", results).unproven, blame("abcd", results).nodes)
    again = {frozenset(pair) for pair in next_round("abcd", results)}
    assert frozenset("ab") not in again
    assert {"a", "b"} <= set().union(*again)


def test_a_rack_of_one_is_not_proven() -> None:
    """Nothing to test against, and the report says so."""
    assert () == next_round(["only"], [])
    (finding,) = judge_pairs(["only"], [])
    assert (Outcome.NOT_APPLICABLE, "not proven: no partner") == (finding.outcome, finding.observed)


def test_two_nodes_that_fail_stay_undecided() -> None:
    """With no third to confirm, both are undecided and neither is blamed."""
    found = {f.subject: f.outcome for f in judge_pairs("ab", _results("a-b"))}
    assert {"a": Outcome.ERROR, "b": Outcome.ERROR} == found
    assert () == next_round("ab", _results("a-b"))
