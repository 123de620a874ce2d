"""The command line as an operator and as a program uses it: two runs over one rack, then a swapped GPU."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.cli_process import Ran, rackmint
from tests.flows.conftest import shorten

NODES = 3  # two of one class, so that pairs are tested, and one of another
STAGES = ("discover", "inspect", "image", "tune", "burn_in", "record", "join")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """A rack that the tests of this file take through its life, in their order."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(nodes=NODES, scale=1000.0)) as lab:
        shorten(lab)
        yield lab


@pytest.fixture(scope="module")
def folder(lab: LabHandle) -> Path:
    """Where the operator stands: settings beside him."""
    return lab.settings_file.parent


@pytest.fixture(scope="module")
def first(folder: Path) -> Ran:
    """The first run over the rack."""
    return rackmint("provision", "R1", "--yes", cwd=folder)


def run(*argv: str, cwd: Path) -> Any:
    """A command's JSON document."""
    ran = rackmint(*argv, "--json", cwd=cwd)
    assert "Traceback" not in ran.err, ran.err
    return json.loads(ran.out)


def ran_in(report: Any, node: str) -> list[str]:
    """The stages that were run again on one node."""
    records = next(n for n in report["nodes"] if n["node"]["name"] == node)["records"]
    return [record["stage"] for record in records if not record["reused_from"]]


@pytest.mark.slow
def test_a_cold_rack_ends_certified(first: Ran) -> None:
    """Plan, progress, table and sums on standard output, nothing on standard error, exit code 0."""
    assert (0, "") == (first.code, first.err)
    assert f"{NODES} accepted; {2 * NODES} POSTs" in first.out
    assert all(len(line) <= 100 for line in first.out.splitlines()), "wider than 100 columns"


@pytest.mark.slow
def test_the_same_again_keeps_everything_and_says_why(first: Ran, folder: Path) -> None:
    """0 POSTs, 0 NetBox writes, each kept stage with its reason."""
    began = time.monotonic()
    ran = rackmint("provision", "R1", "--yes", cwd=folder)
    print(f"the second run took {time.monotonic() - began:.1f} s")
    assert (0, "") == (ran.code, ran.err)
    assert f"{NODES} accepted; 0 POSTs; 0 NetBox writes" in ran.out
    for stage in ("inspect", "image", "tune", "burn in"):
        assert f"kept {stage} of r1-n01…r1-n03 from run " in ran.out
    assert "unchanged: " in ran.out


@pytest.mark.slow
def test_a_swapped_gpu_is_planned_and_proven_alone(first: Ran, lab: LabHandle, folder: Path) -> None:
    """The certificate is stale, what depends on the GPU runs again on that node, and nothing on the others."""
    before = run("certificate", "show", "r1-n02", cwd=folder)["certificate_id"]
    lab.inject("r1-n02", "gpu_swapped")
    planned = {n["node"]["name"]: [s["action"] for s in n["stages"]] for n in run("plan", "R1", cwd=folder)["nodes"]}
    assert {
        "r1-n01": ["look", "reuse", "reuse", "reuse", "reuse", "look", "look"],
        "r1-n02": ["look", "run", "reuse", "reuse", "run", "look", "look"],
        "r1-n03": ["look", "reuse", "reuse", "reuse", "reuse", "look", "look"],
    } == planned
    report = run("provision", "R1", "--yes", cwd=folder)
    assert ["discover", "inspect", "burn_in", "record", "join"] == sorted(ran_in(report, "r1-n02"), key=STAGES.index)
    assert ["discover", "record", "join"] == ran_in(report, "r1-n01")
    assert 0 == sum(record["posts"] for node in report["nodes"] for record in node["records"])
    assert before != run("certificate", "show", "r1-n02", cwd=folder)["certificate_id"]


@pytest.mark.slow
def test_a_certificate_is_verified_offline_and_revoked(first: Ran, folder: Path, tmp_path: Path) -> None:
    """Shown, handed on, verified with the public key alone, refused when a digit changes, revoked by name."""
    public = tmp_path / "key.pem"
    public.write_text(rackmint("certificate", "key", cwd=folder).out)
    text = rackmint("certificate", "show", "r1-n01", "--json", cwd=folder).out
    (tmp_path / "good.json").write_text(text)
    (tmp_path / "forged.json").write_text(text.replace("r1-n01", "r1-n99"))
    good = rackmint("certificate", "verify", "good.json", "--public-key", "key.pem", cwd=tmp_path)
    forged = rackmint("certificate", "verify", "forged.json", "--public-key", "key.pem", cwd=tmp_path)
    assert (0, 1) == (good.code, forged.code)
    assert "r1-n01, signed by key " in good.out
    assert forged.out.startswith("refused: ")
    assert 0 == rackmint("certificate", "revoke", "r1-n01", "--reason", "a test", cwd=folder).code
    shown = rackmint("certificate", "show", "r1-n01", cwd=folder)
    assert 1 == shown.code
    assert "revoked by " in shown.out


@pytest.mark.slow
def test_reports_in_every_form(first: Ran, folder: Path, tmp_path: Path) -> None:
    """Terminal, one node, everything, JSON, and a page; each with the run's exit code."""
    page = tmp_path / "report.html"
    forms = (("report",), ("report", "--node", "r1-n01"), ("report", "--node", "r1-n01", "--all"),
             ("report", "--html", str(page)), ("status",), ("plan", "R1"))  # fmt: skip
    said = [rackmint(*form, cwd=folder) for form in forms]
    assert [0] * len(forms) == [ran.code for ran in said]
    wide = [line for ran in said for line in ran.out.splitlines() if len(line) > 100]
    assert [] == wide
    assert "<h1>Rack R1: " in page.read_text()
    assert ["r1-n01", "r1-n02", "r1-n03"] == [n["node"]["name"] for n in run("report", cwd=folder)["nodes"]]
    assert "r1-n02" == run("report", "--node", "r1-n02", cwd=folder)["node"]["name"]


@pytest.mark.slow
def test_netbox_is_checked_and_prepared(first: Ran, folder: Path) -> None:
    """A prepared NetBox needs nothing; a node class's device type is planned, added, and then there."""
    assert 0 == rackmint("netbox", "check", cwd=folder).code
    assert {"added": []} == run("netbox", "init", cwd=folder)
    planned = run("netbox", "init", "--plan", "--class", "dgx-h100", cwd=folder)["planned"]
    assert planned == run("netbox", "init", "--class", "dgx-h100", cwd=folder)["added"]
    assert {"planned": []} == run("netbox", "init", "--plan", "--class", "dgx-h100", cwd=folder)
    assert "bay GPU8 of " in planned[8]


@pytest.mark.slow
def test_a_lamp_is_lit_and_darkened(first: Ran, folder: Path) -> None:
    """`locate` says where the node stands and reads the lamp back; an unknown node is wrong usage."""
    assert "(rack R1, unit " in rackmint("locate", "r1-n03", cwd=folder).out
    assert run("locate", "r1-n03", "--off", cwd=folder)["lit"] is False
    assert 3 == rackmint("locate", "r9-n99", cwd=folder).code


@pytest.mark.slow
def test_a_node_in_service_that_would_be_wiped_is_reported_and_left_alone(
    first: Ran, lab: LabHandle, folder: Path, tmp_path: Path
) -> None:
    """With a ledger that knows nothing, a serving rack is undecided as a whole, and no node is touched."""
    settings = (folder / "rackmint.toml").read_text().splitlines()
    fresh = [f'state = "{tmp_path / "state"}"' if line.startswith("state =") else line for line in settings]
    (tmp_path / "rackmint.toml").write_text("\n".join(fresh))
    before = {name: machine.posts for name, machine in lab.machines.items()}
    refused = rackmint("provision", "R1", "--yes", cwd=tmp_path)
    assert 2 == refused.code
    assert refused.sentence.startswith("rackmint: rack R1: nothing to do: r1-n01: in service (NetBox says active")
    one = run("provision", "R1", "--yes", "--reimage", "r1-n03", cwd=tmp_path)
    notes = {n["node"]["name"]: n["note"] for n in one["nodes"]}
    assert "r1-n01: left alone: in service, and not named by --reimage to be wiped or restarted" == notes["r1-n01"]
    now = {name: machine.posts for name, machine in lab.machines.items()}
    assert {**before, "r1-n03": before["r1-n03"] + 2} == now


def test_every_command_explains_itself() -> None:
    """Each command has a help text whose first line is a whole sentence, and `--json` wherever it prints anything."""
    from click import Context, Group

    from flows.cli import rackmint as command

    def walk(group: Group, path: str) -> Iterator[tuple[str, Any]]:
        for name, found in group.commands.items():
            if isinstance(found, Group):
                yield from walk(found, f"{path} {name}")
            else:
                yield f"{path} {name}", found

    found = dict(walk(command, "rackmint"))
    assert [] == [path for path, c in found.items() if not c.get_short_help_str(200).endswith(".")]
    assert [] == [path for path, c in found.items() if "--json" not in c.get_help(Context(c))]
