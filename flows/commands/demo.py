"""`demo`: an 8-node rack with planted faults, from nothing to certified, in one command."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
import requests

from flows.commands.lab import start_lab_process, stop_lab_process
from flows.commands.provision import provision
from inventory.findings import Verdict
from inventory.ledger import Ledger
from inventory.report import NodeReport, RackReport

# node → (fault, the verdict it must end in, a word its cause must name)
_PLANTED = {
    "r1-n03": ("gpu_lost", Verdict.REJECTED, "GPU"),
    "r1-n05": ("bmc_503_burst", Verdict.ACCEPTED, ""),
    "r1-n06": ("nccl_slow", Verdict.REJECTED, "nccl"),
}


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("demo-rack"), show_default=True
)
@click.option("--keep", is_flag=True, help="Leave the lab running afterwards, to look around.")
@click.pass_context
def demo(context: click.Context, folder: Path, keep: bool) -> int:
    """Bring up a simulated rack, plant three faults, provision it, and check what was said."""
    began = time.monotonic()
    start_lab_process(folder, nodes=8, racks=1, scale=200.0, seed=7)
    try:
        control = json.loads((folder / "lab.json").read_text())["control"]
        for node, (fault, _, _) in _PLANTED.items():
            requests.post(f"{control}/inject", json={"node": node, "fault": fault}, timeout=10).raise_for_status()
            click.echo(f"planted: {node} {fault}")
        context.obj = str(folder / "rackmint.toml")
        context.invoke(provision, rack="R1", yes=True)
        report = _newest(folder)
        wrong = _wrong(report)
    finally:
        if not keep:
            stop_lab_process(folder)
    _tell(report, wrong, time.monotonic() - began)
    return 1 if wrong else 0


def _newest(folder: Path) -> RackReport:
    ledger = Ledger.open(f"sqlite:///{(folder / 'state').resolve() / 'ledger.db'}")
    try:
        text = next(text for run in ledger.runs() if (text := ledger.run_report(run.run_id)))
    finally:
        ledger.close()
    return RackReport.model_validate_json(text)


def _wrong(report: RackReport) -> list[str]:
    return [said for node in report.nodes if (said := _judge(node))]


def _judge(node: NodeReport) -> str:
    fault, verdict, word = _PLANTED.get(node.node.name, ("", Verdict.ACCEPTED, ""))
    if node.verdict is not verdict:
        return f"{node.node.name} ({fault or 'healthy'}): {node.verdict.value}, expected {verdict.value}: {node.cause}"
    if word.lower() not in node.cause.lower():
        return f"{node.node.name} ({fault}): the cause does not name it: {node.cause}"
    return ""


def _tell(report: RackReport, wrong: list[str], took_s: float) -> None:
    for sentence in wrong:
        click.secho(f"NOT as it should be: {sentence}", fg="red")
    if not wrong:
        click.secho(
            f"As it should be, in {took_s:.0f} s: {report.count(Verdict.ACCEPTED)} nodes certified, recorded and "
            f"joined (one of them flaky at first), "
            f"{report.count(Verdict.REJECTED)} rejected with the planted cause named.",
            fg="green",
        )
