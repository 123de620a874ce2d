"""`demo`: an 8-node rack with planted faults, from nothing to certified, in one command."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
import requests

from flows.commands.lab import start_lab_process, stop_lab_process
from flows.commands.options import as_json, document
from flows.commands.provision import provision
from flows.render.console import console
from flows.render.html import page
from flows.settings import load_settings
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
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("demo-rack"),
              show_default=True, help="Where the lab, the ledger and the report are kept.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the lab running afterwards, to look around.")
@as_json
@click.pass_context
def demo(context: click.Context, folder: Path, keep: bool, as_json: bool) -> int:
    """See it all on a simulated rack.

    Brings up eight nodes, plants three faults, provisions the rack and checks what was said of each node: exit code 0
    when two were rejected with the planted cause named, the flaky one recovered, and all others were certified.
    """
    began = time.monotonic()
    start_lab_process(folder, nodes=8, racks=1, scale=200.0, seed=7)
    try:
        _plant(folder, quiet=as_json)
        context.obj = str(folder / "rackmint.toml")
        context.invoke(provision, rack="R1", yes=True, as_json=as_json)
        report = _newest(folder)
        (folder / "report.html").write_text(
            page(report, evidence_url=load_settings(context.obj).evidence_url, beside=folder / "report.html"),
            encoding="utf-8",
        )
    finally:
        if not keep:
            stop_lab_process(folder)
    wrong = [said for node in report.nodes if (said := _judge(node))]
    if as_json:
        document({"as_planted": not wrong, "wrong": wrong, "took_s": round(time.monotonic() - began, 1)})
    else:
        _tell(report, wrong, folder, time.monotonic() - began)
    return 1 if wrong else 0


def _plant(folder: Path, *, quiet: bool) -> None:
    control = json.loads((folder / "lab.json").read_text())["control"]
    for node, (fault, verdict, _) in _PLANTED.items():
        requests.post(f"{control}/inject", json={"node": node, "fault": fault}, timeout=10).raise_for_status()
        if not quiet:
            click.echo(f"planted: {fault} on {node}, which must end {verdict.value}")


def _newest(folder: Path) -> RackReport:
    ledger = Ledger.open(f"sqlite:///{(folder / 'state').resolve() / 'ledger.db'}")
    try:
        text = next(text for run in ledger.runs() if (text := ledger.run_report(run.run_id)))
    finally:
        ledger.close()
    return RackReport.model_validate_json(text)


def _judge(node: NodeReport) -> str:
    fault, verdict, word = _PLANTED.get(node.node.name, ("", Verdict.ACCEPTED, ""))
    if node.verdict is not verdict:
        return f"{node.node.name} ({fault or 'healthy'}): {node.verdict.value}, expected {verdict.value}: {node.cause}"
    if word.lower() not in node.cause.lower():
        return f"{node.node.name} ({fault}): the cause does not name it: {node.cause}"
    return ""


def _tell(report: RackReport, wrong: list[str], folder: Path, took_s: float) -> None:
    out = console()
    for sentence in wrong:
        out.print(f"NOT as it should be: {sentence}", style="bold red")
    if not wrong:
        out.print(
            f"\nAs it should be, in {took_s:.0f} s: {report.count(Verdict.ACCEPTED)} nodes certified, recorded and "
            f"joined, one of them flaky at first; {report.count(Verdict.REJECTED)} rejected with the planted cause "
            "named.",
            style="green",
        )
    out.print(f"The report as a page: {folder / 'report.html'}", soft_wrap=True)
