"""Many alike made one: gaps that differ by an index only, findings that differ by their subject only. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inventory.findings import Finding, Outcome

_WHERE = re.compile(r" \(/redfish/[^)]*\)$")
WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.NOT_APPLICABLE, Outcome.PASS)


def gaps(facts: Iterable[tuple[str, str]]) -> list[tuple[str, int, str]]:
    """(fact, why) pairs folded: "gpus[*].uuid" told 8 times with one reason is one row of (fact, count, why)."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for fact, why in facts:
        alike.setdefault((_pattern(fact), _pattern(why)), []).append((fact, why))
    return [
        (_one(pattern, [fact for fact, _ in found]), len(found), _one(reason, [why for _, why in found]))
        for (pattern, reason), found in alike.items()
    ]


def _one(pattern: str, texts: list[str]) -> str:
    """The text itself when all say it, else what they have in common."""
    return texts[0] if len(set(texts)) == 1 else pattern


def _pattern(fact: str) -> str:
    """The fact with what is only an index taken out: in brackets, or a number at the end."""
    return re.sub(r"(?<=[ A-Za-z_])\d+$", "*", re.sub(r"\[[^\]]*\]", "[*]", fact))


def findings(found: Iterable[Finding]) -> list[tuple[Finding, list[str]]]:
    """Worst first, roots before what follows from them; each with all subjects that say the very same."""
    told: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for finding in found:
        observed = _WHERE.sub("", finding.observed)  # each part is told at a place of its own
        same = (
            finding.outcome, finding.metric, observed, finding.expected, finding.remedy, finding.source, finding.cause,
            finding.explained_by,
        )  # fmt: skip
        first, subjects = told.get(same, (finding, []))
        if subjects:
            first = first.model_copy(update={"observed": observed})
        told[same] = (first, [*subjects, finding.subject])
    return sorted(told.values(), key=lambda one: (WORST_FIRST.index(one[0].outcome), bool(one[0].explained_by)))
