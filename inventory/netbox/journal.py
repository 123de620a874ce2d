"""The journal entry of a run, for a person at the device's page. Machine text is shown as code, never as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inventory.findings import Verdict, root_cause
from inventory.netbox.parts import clean

if TYPE_CHECKING:
    from inventory.netbox.plan import RecordPlan

_LINES_MOST = 60  # our choice: more is not read; every change stands in NetBox's own change log


def mark(run_id: str) -> str:
    """The words by which an entry of this run is found again."""
    return f"rackmint run {code(run_id)}"


def code(text: str) -> str:
    """Text from a machine as a Markdown code span: no HTML, link or image in it comes alive."""
    return f"`{(clean(text) or '').replace('`', chr(39))}`"


def entry(plan: RecordPlan, said: Verdict) -> str:
    """The entry's Markdown text."""
    lines = [f"{mark(plan.report.run_id)}: {said.value}{_certificate(plan)}"]
    root = root_cause(plan.report.findings)
    if said is not Verdict.ACCEPTED and root:
        lines.append(f"- cause: {code(root.sentence)}")
    lines += [f"- {code(sentence)}" for sentence in plan.sentences]
    lines += [f"- not written: {code(finding.sentence)}" for finding in plan.findings]
    hidden = len(lines) - _LINES_MOST
    return "\n".join([*lines[:_LINES_MOST], *([f"- and {hidden} more"] if hidden > 0 else [])])


def entry_kind(said: Verdict) -> str:
    """NetBox's colour for an entry."""
    return {Verdict.ACCEPTED: "success", Verdict.REJECTED: "danger", Verdict.UNDECIDED: "warning"}[said]


def _certificate(plan: RecordPlan) -> str:
    if plan.certificate is None:
        return ""
    return f", certificate {code(plan.certificate.certificate_id)} until {plan.certificate.expires_at:%Y-%m-%d}"
