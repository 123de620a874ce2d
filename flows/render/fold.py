"""Many alike made one: gaps that differ by an index only, findings that differ by their subject only. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inventory.findings import Finding, Outcome

WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN, Outcome.NOT_APPLICABLE, Outcome.PASS)


def gaps(facts: Iterable[tuple[str, str]]) -> list[tuple[str, int, str]]:
    """(fact, why) pairs folded: "gpus[*].uuid" told 8 times with one reason is one row of (fact, count, why)."""
    counted: dict[tuple[str, str], list[str]] = {}
    for fact, why in facts:
        counted.setdefault((_pattern(fact), _pattern(why)), []).append(fact)
    return [(found[0] if len(found) == 1 else fact, len(found), why) for (fact, why), found in counted.items()]


def _pattern(fact: str) -> str:
    """The fact with what is only an index taken out: in brackets, or a number at the end."""
    return re.sub(r"(?<=[ A-Za-z_])\d+$", "*", re.sub(r"\[[^\]]*\]", "[*]", fact))


def findings(found: Iterable[Finding]) -> list[tuple[Finding, list[str]]]:
    """Worst first, roots before what follows from them; each with all subjects that say the very same."""
    told: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for finding in found:
        same = (
            finding.outcome, finding.metric, _pattern(finding.observed), finding.expected, finding.remedy,
            finding.source, finding.cause, finding.explained_by,
        )  # fmt: skip
        told.setdefault(same, (finding, []))[1].append(finding.subject)
    return sorted(told.values(), key=lambda one: (WORST_FIRST.index(one[0].outcome), bool(one[0].explained_by)))
