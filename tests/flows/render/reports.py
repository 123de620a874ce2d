"""Hand-made reports for the tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime

from inventory.findings import Evidence, Finding, Outcome
from inventory.model import Gpu, Identity, Inventory, Missing, NodeRef
from inventory.report import NodeReport, RackReport, Stage, StageRecord

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SEEN = Evidence(asked="GET /redfish/v1", of="r1-n01", at=AT, took_s=0.1, status="HTTP 200", sha256="ab" * 32)

# What a BMC or a book might say to whoever reads it: markup, a terminal's orders, a formula, a line turned round.
HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;owned\x07",
    "=cmd|'/C calc'!A0",
    "abc\u202egpj.exe",
    "](javascript:alert(1))",
    "first\nsecond\r\nthird",
    "{{ 7*7 }}",
)


def finding(outcome: Outcome = Outcome.FAIL, subject: str = "GPU slot 1", **more: object) -> Finding:
    """One finding with everything in it."""
    told: dict[str, object] = {
        "metric": "gpu_model", "subject": subject, "outcome": outcome, "observed": "H20", "expected": "H100",
        "remedy": "Swap the GPU", "source": "class x: the order of 2026", "evidence": SEEN,
    }  # fmt: skip
    return Finding.model_validate({**told, **more})


def node(name: str = "r1-n01", *findings: Finding, text: str = "plain", **more: object) -> NodeReport:
    """A node that was discovered and inspected; `text` stands wherever a machine may speak."""
    inventory = Inventory(
        identity=Identity(manufacturer=text, model=text, serial=text),
        gpus=(Gpu(id="1", model=text, serial=text),),
        missing=(Missing(fact=f"gpus[{text}].uuid", reason=text, uri=text),),
    )
    discover = StageRecord(stage=Stage.DISCOVER, findings=(finding(Outcome.PASS),), inventory=inventory, run_id="run")
    inspect = StageRecord(stage=Stage.INSPECT, findings=findings, did=(text,), reason=text, run_id="run")
    records = (discover, inspect) if findings else (discover,)
    told = {"node": NodeRef(name=name, node_class="class"), "run_id": "run", "records": records}
    return NodeReport.model_validate({**told, **more})


def rack(*nodes: NodeReport, **more: object) -> RackReport:
    """A run over these nodes."""
    told = {"rack": "R1", "run_id": "run", "purpose": "provision", "started_at": AT, "ended_at": AT, "nodes": nodes}
    return RackReport.model_validate({**told, **more})


def hostile(text: str) -> RackReport:
    """A rack where everything a machine or a book says is `text`."""
    bad = finding(
        observed=text, expected=text, remedy=text, source=text, cause=text, metric=text, subject=text,
        evidence=SEEN.model_copy(update={"asked": text, "status": text}),
    )  # fmt: skip
    return rack(node(text, bad, text=text), rack=text, rack_findings=(bad,), notes=(text,))
