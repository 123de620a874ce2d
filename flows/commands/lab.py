"""`lab up|down|status|faults|inject|heal`: the simulated rack, run as a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import requests

from flows.commands.options import answer, as_json, document
from flows.render.console import show
from flows.render.terminal import table
from inventory.errors import BadSettings

_UP_WITHIN_S = 60.0  # our choice: 64 nodes come up in a few seconds; a loaded machine gets time
_folder = click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("lab-rack"),
                       show_default=True, help="Where the lab keeps its settings, secrets and images.")  # fmt: skip


@click.group()
def lab() -> None:
    """A simulated rack to try things on.

    Its BMCs, nodes, NetBox and Kubernetes answer on loopback by their real protocols. Break it and see what is said.
    """


@lab.command()
@_folder
@click.option("--nodes", default=8, show_default=True, help="Nodes per rack.", type=click.IntRange(1, 254))
@click.option("--racks", default=1, show_default=True, type=click.IntRange(1, 16))
@click.option("--scale", default=200.0, show_default=True, help="How much faster than life its clock runs.")
@click.option("--seed", default=7, show_default=True, help="Other serial numbers for another seed.")
@as_json
def up(folder: Path, nodes: int, racks: int, scale: float, seed: int, as_json: bool) -> int:
    """Start the lab.

    Its settings file is linked as rackmint.toml, so that the next command needs no option.
    """
    start_lab_process(folder, nodes=nodes, racks=racks, scale=scale, seed=seed)
    link = Path("rackmint.toml")
    linked = not link.exists() or link.is_symlink()
    if linked:
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "rackmint.toml")
    names = [f"R{number}" for number in range(1, racks + 1)]
    settings = f"--settings {folder / 'rackmint.toml'} "
    answer(
        as_json,
        f"The lab is up: {racks * nodes} nodes in {', '.join(names)}. Its settings are in {folder / 'rackmint.toml'}"
        f"{', linked as rackmint.toml' if linked else '; ./rackmint.toml was there before and is left alone'}.\n"
        f"Next: rackmint {'' if linked else settings}provision R1",
        folder=folder, settings=folder / "rackmint.toml", racks=names, nodes=racks * nodes,
    )  # fmt: skip
    return 0


@lab.command()
@_folder
@as_json
def down(folder: Path, as_json: bool) -> int:
    """Stop the lab; what rackmint itself remembers stays in the folder."""
    was_up = stop_lab_process(folder)
    answer(as_json, "The lab is down." if was_up else f"No lab was up in {folder}.", folder=folder, was_up=was_up)
    return 0


@lab.command()
@_folder
@as_json
def status(folder: Path, as_json: bool) -> int:
    """Each node's power, what it booted, how many POSTs it cost, and what is broken."""
    told = _ask(folder, "GET", "/status")
    if as_json:
        document(told)
        return 0
    columns = {"node": "name", "shape": "shape", "power": "power", "POSTs": "posts", "booted": "boots",
               "OS runs": "running", "joined": "joined", "faults": "faults"}  # fmt: skip
    rows = ([_cell(node.get(key)) for key in columns.values()] for node in told["nodes"])
    show(table(*columns, rows=rows, right=("POSTs",)))
    return 0


@lab.command()
@as_json
def faults(as_json: bool) -> int:
    """The faults that can be injected, each with the public report it comes from."""
    from lab.faults import FAULTS

    if as_json:
        rows = [{"name": f.name, "stage": f.stage, "what": f.what, "cites": f.cites} for f in FAULTS.values()]
        document(rows)
        return 0
    told = table("fault", "stage", "what happens, and where it was seen in life", rows=(
        (fault.name, str(fault.stage), f"{fault.what} ({fault.cites})") for fault in FAULTS.values()
    ))  # fmt: skip
    told.columns[0].no_wrap = True
    show(told)
    return 0


@lab.command()
@_folder
@click.argument("node")
@click.argument("fault")
@as_json
def inject(folder: Path, node: str, fault: str, as_json: bool) -> int:
    """Break NODE ("*" = all) with FAULT; `rackmint lab faults` lists them."""
    _ask(folder, "POST", "/inject", {"node": node, "fault": fault})
    answer(as_json, f"{node}: {fault} injected", node=node, injected=fault)
    return 0


@lab.command()
@_folder
@click.argument("node")
@click.argument("fault", required=False, default="")
@as_json
def heal(folder: Path, node: str, fault: str, as_json: bool) -> int:
    """Mend NODE ("*" = all) of FAULT, or of all of them."""
    _ask(folder, "POST", "/heal", {"node": node, "fault": fault})
    said = f"{node}: {fault or 'all faults'} healed. Where a run made NetBox say failed, whoever mends says so there: "
    answer(as_json, f"{said}rackmint lab edit {shlex.quote(node)} netbox_restaged", node=node, healed=fault or "all")
    return 0


@lab.command()
@_folder
@click.argument("node")
@click.argument("edit")
@as_json
def edit(folder: Path, node: str, edit: str, as_json: bool) -> int:
    """Do at NODE ("*" = all) what people do behind rackmint's back; `rackmint lab edits` lists it."""
    _ask(folder, "POST", "/rack-edit", {"node": node, "edit": edit})
    answer(as_json, f"{node}: {edit} done", node=node, edit=edit)
    return 0


@lab.command()
@as_json
def edits(as_json: bool) -> int:
    """What people do behind rackmint's back, for an audit to find."""
    from lab.edits import EDITS

    if as_json:
        document([{"name": edit.name, "what": edit.what} for edit in EDITS.values()])
    else:
        show(table("edit", "what happens", rows=((edit.name, edit.what) for edit in EDITS.values())))
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


def stop_lab_process(folder: Path) -> bool:
    """End the lab's process; whether there was one."""
    if not _answers(folder):  # a process number in a file of an earlier day may be anybody's by now
        return False
    try:
        pid = int(json.loads((folder / "lab.json").read_text())["pid"])
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError, KeyError):
        return False
    ends = time.monotonic() + 10
    while time.monotonic() < ends and _answers(folder):
        time.sleep(0.05)
    return True


def _ask(folder: Path, method: str, path: str, body: dict[str, str] | None = None) -> Any:
    try:
        url = json.loads((folder / "lab.json").read_text())["control"]
        said = requests.request(method, f"{url}{path}", json=body, timeout=30)
    except (OSError, ValueError, KeyError) as error:
        raise BadSettings(f"no lab answers in {folder}. Start one with `rackmint lab up`") from error
    if not said.ok:
        raise BadSettings(f"the lab says: {said.text.strip()[:500]}")
    return said.json()


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
