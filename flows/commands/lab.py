"""`lab up|down|status|faults|inject|heal`: the simulated rack, run as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import requests
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inventory.errors import BadSettings

_UP_WITHIN_S = 60.0  # our choice: 64 nodes come up in a few seconds; a loaded machine gets time
_folder = click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("lab-rack"),
                       show_default=True, help="Where the lab keeps its settings, secrets and images.")  # fmt: skip


@click.group()
def lab() -> None:
    """A simulated rack on loopback: real protocols, no hardware; break it and see what is said."""


@lab.command()
@_folder
@click.option("--nodes", default=8, show_default=True, help="Nodes per rack.", type=click.IntRange(1, 254))
@click.option("--racks", default=1, show_default=True, type=click.IntRange(1, 16))
@click.option("--scale", default=200.0, show_default=True, help="How much faster than life its clock runs.")
@click.option("--seed", default=7, show_default=True, help="Other serial numbers for another seed.")
def up(folder: Path, nodes: int, racks: int, scale: float, seed: int) -> int:
    """Start the lab and write its settings file, so that the next command needs no option."""
    start_lab_process(folder, nodes=nodes, racks=racks, scale=scale, seed=seed)
    link = Path("rackmint.toml")
    if not link.exists() or link.is_symlink():
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "rackmint.toml")
    names = ", ".join(f"R{number}" for number in range(1, racks + 1))
    click.echo(
        f"The lab is up: {racks * nodes} nodes in {names}. Settings: {folder / 'rackmint.toml'} (linked as {link})"
    )
    click.echo("Next: rackmint provision R1")
    return 0


@lab.command()
@_folder
def down(folder: Path) -> int:
    """Stop the lab; what rackmint itself remembers stays in the folder."""
    stop_lab_process(folder)
    click.echo("The lab is down.")
    return 0


@lab.command()
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def status(folder: Path, as_json: bool) -> int:
    """Each node's power, what it booted, how many POSTs it cost, and what is broken."""
    told = _ask(folder, "GET", "/status")
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return 0
    table = Table(box=None, padding=(0, 1))
    columns = ("name", "shape", "power", "posts", "boots", "running", "joined", "faults")
    for column in columns:
        table.add_column(column)
    for node in told["nodes"]:
        table.add_row(*(Text(_cell(node.get(column))) for column in columns))
    Console().print(table)
    return 0


@lab.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def faults(as_json: bool) -> int:
    """The faults that can be injected, each with the public report it comes from."""
    from lab.faults import FAULTS

    if as_json:
        rows = [{"name": f.name, "stage": f.stage, "what": f.what, "cites": f.cites} for f in FAULTS.values()]
        click.echo(json.dumps(rows, indent=1))
        return 0
    table = Table(box=None, padding=(0, 1))
    for column in ("fault", "stage", "what happens", "seen in"):
        table.add_column(column, overflow="fold")
    for fault in FAULTS.values():
        table.add_row(fault.name, str(fault.stage), fault.what, fault.cites)
    Console().print(table)
    return 0


@lab.command()
@_folder
@click.argument("node")
@click.argument("fault")
def inject(folder: Path, node: str, fault: str) -> int:
    """Break NODE ("*" = all) with FAULT; `rackmint lab faults` lists them."""
    _ask(folder, "POST", "/inject", {"node": node, "fault": fault})
    click.echo(f"{node}: {fault} injected")
    return 0


@lab.command()
@_folder
@click.argument("node")
@click.argument("fault", required=False, default="")
def heal(folder: Path, node: str, fault: str) -> int:
    """Mend NODE ("*" = all) of FAULT, or of all of them."""
    _ask(folder, "POST", "/heal", {"node": node, "fault": fault})
    click.echo(f"{node}: {fault or 'all faults'} healed")
    return 0


def start_lab_process(folder: Path, *, nodes: int, racks: int, scale: float, seed: int) -> None:
    """Start the lab's process and wait until it answers; raises `BadSettings` with its last words when it does not."""
    folder.mkdir(parents=True, exist_ok=True)
    if _answers(folder):
        raise BadSettings(f"a lab is up already in {folder}. Stop it with `rackmint lab down --folder {folder}`")
    (folder / "lab.json").unlink(missing_ok=True)
    argv = [sys.executable, "-m", "lab.rack", "--folder", str(folder), "--nodes", str(nodes), "--racks", str(racks),
            "--scale", str(scale), "--seed", str(seed)]  # fmt: skip
    with (folder / "lab.log").open("wb") as log:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    ends = time.monotonic() + _UP_WITHIN_S
    while time.monotonic() < ends and child.poll() is None:
        if _answers(folder):
            return
        time.sleep(0.1)
    child.kill()
    words = (folder / "lab.log").read_text(errors="replace").strip().splitlines()
    raise BadSettings(f"the lab did not come up: {words[-1] if words else 'no word'}. See {folder / 'lab.log'}")


def stop_lab_process(folder: Path) -> None:
    """End the lab's process; quiet when there is none."""
    try:
        pid = int(json.loads((folder / "lab.json").read_text())["pid"])
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError, KeyError):
        return
    ends = time.monotonic() + 10
    while time.monotonic() < ends and _answers(folder):
        time.sleep(0.05)


def _ask(folder: Path, method: str, path: str, body: dict[str, str] | None = None) -> Any:
    try:
        url = json.loads((folder / "lab.json").read_text())["control"]
        answer = requests.request(method, f"{url}{path}", json=body, timeout=30)
    except (OSError, ValueError, KeyError) as error:
        raise BadSettings(f"no lab answers in {folder}. Start one with `rackmint lab up`") from error
    if not answer.ok:
        raise BadSettings(f"the lab says: {answer.text.strip()[:500]}")
    return answer.json()


def _answers(folder: Path) -> bool:
    try:
        _ask(folder, "GET", "/status")
    except BadSettings:
        return False
    return True


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value if value is not None else "")
