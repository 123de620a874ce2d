"""Secrets that stand out are used everywhere, and are found nowhere but where they are kept."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flows.settings import load_settings
from inventory.ledger import Ledger
from lab.bmc.bmc import Login
from lab.kubernetes.access import BOOTSTRAP_TYPE
from lab.kubernetes.kinds import KINDS
from lab.kubernetes.store import Change
from lab.machine import Machine
from lab.rack import LabHandle, LabPlan, start_lab
from lab.shell.node import memory
from tests.flows.canary import Watcher, files_below, found, spellings
from tests.flows.conftest import SCALE, shorten

ROOT = Path(__file__).resolve().parents[2]
GIVEN = {
    "bmc_password": "canary/bmc+7\"Q%z&'w0rd",  # every character that somebody would have to escape
    "netbox_token": "canarynetbox0123456789abcdef01234567",
    "fleet_token": "canary-fleet_AbCdEf0123456789xyz",
}
FAULTS = {
    "r1-n02": "media_stale", "r1-n03": "image_checksum_mismatch", "r1-n05": "bmc_dead", "r1-n06": "driver_missing",
}  # fmt: skip
STRANGER = "r1-n04"  # its BMC has another password

pytestmark = pytest.mark.slow


@dataclass
class Ran:
    """What was run and what came of it, with every secret that was in play."""

    lab: LabHandle
    folder: Path
    secrets: dict[str, str]
    said: dict[str, bytes] = field(default_factory=dict)  # command → standard output and error
    codes: dict[str, int] = field(default_factory=dict)
    watched: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Where ledger, evidence, reports, logs and Prefect's own files lie."""
        return Path(load_settings(str(self.lab.settings_file)).state)

    def runs(self) -> list[str]:
        """The runs so far that provisioned or proved, oldest first."""
        ledger = Ledger.open(load_settings(str(self.lab.settings_file)).ledger_url)
        found = [run.run_id for run in ledger.runs() if run.purpose != "audit"]
        ledger.close()
        return found[::-1]

    def run(self, name: str, *argv: str, **env: str) -> None:
        """One command of an operator who keeps two of the secrets in his environment, watched from outside."""
        given = {"CANARY_BMC": self.secrets["bmc_password"], "CANARY_NETBOX": self.secrets["netbox_token"]}
        shell = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "RACKMINT"))}
        (self.folder / "tmp").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "--settings", str(self.lab.settings_file), *argv],
            cwd=ROOT, env={**shell, **given, **env, "TMPDIR": str(self.folder / "tmp")},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        watcher = Watcher(process.pid)
        self.said[name], _ = process.communicate(timeout=280)
        watcher.stop()
        self.codes[name] = process.returncode
        self.watched += watcher.places()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """A rack of six with faults that speak of addresses and credentials: provisioned, proven again, audited, shown."""
    folder = tmp_path_factory.mktemp("canary")
    (folder / "lab" / "secrets").mkdir(parents=True)
    for name, value in GIVEN.items():
        (folder / "lab" / "secrets" / name).write_text(value)
    with start_lab(folder / "lab", LabPlan(nodes=6, scale=SCALE)) as lab:
        shorten(lab)
        text = lab.settings_file.read_text()
        for name, variable in (("bmc_password", "CANARY_BMC"), ("netbox_token", "CANARY_NETBOX")):
            text = text.replace(f"file:{lab.settings_file.parent}/secrets/{name}", f"env:{variable}")
        lab.settings_file.write_text(text)
        made = Ran(lab, folder, {**GIVEN, **_lines_of_the_key(lab)})
        _capture(lab, made.secrets)
        for node, fault in FAULTS.items():
            lab.inject(node, fault)
        lab.call(lambda: setattr(lab.rack.bmcs[STRANGER].bmc, "login", Login("rackmint", "quite another one")))
        for trace, nodes in (("stage", ("r1-n01", "r1-n02", "r1-n03")), ("node", ("r1-n04", "r1-n05", "r1-n06"))):
            named = [word for node in nodes for word in ("--node", node)]
            made.run(f"provision, a task a {trace}", "provision", "R1", "--yes", *named, RACKMINT_TRACE=trace)
        made.run("revalidate", "revalidate", "R1", "--node", "r1-n01", "--json")
        made.run("audit", "audit", "R1")
        for number, run_id in enumerate(made.runs()):
            made.run(f"report {number}", "report", run_id, "--all", "--json")
        made.run("page", "report", "--html", str(folder / "report.html"))
        made.run("plan", "plan", "R1", "--json")
        made.run("status", "status", "--json")
        yield made


def _lines_of_the_key(lab: LabHandle) -> dict[str, str]:
    """An SSH key is given away by any of its lines."""
    lines = (lab.settings_file.parent / "secrets" / "ssh_key").read_text().splitlines()
    return {f"ssh_key, line {number}": line for number, line in enumerate(lines) if len(line) > 24 and "-" not in line}


def _capture(lab: LabHandle, secrets: dict[str, str]) -> None:
    """Learn, from the far side, every token that is minted: join tokens in the cluster, imaging tokens at the agent."""

    def changed(change: Change) -> None:
        body = change.after
        if change.plural == "secrets" and body and body["type"] == BOOTSTRAP_TYPE:
            data = {name: base64.b64decode(value).decode() for name, value in body["data"].items()}
            secrets[f"join token {data['token-id']}"] = data["token-secret"]

    def listen(machine: Machine) -> None:
        wire = machine.wire

        def heard(credential: Mapping[str, str]) -> Mapping[str, str]:
            secrets[f"imaging token of {machine.name}, attempt {credential['attempt']}"] = credential["token"]
            return wire(credential)

        machine.wire = heard

    def begin() -> None:
        lab.rack.cluster.store.on_change.append(changed)
        for machine in lab.machines.values():
            listen(machine)

    lab.call(begin)


def _seeds(lab: LabHandle) -> dict[str, str]:
    return {f"seed of {name}": machine.seed["token"] for name, machine in lab.machines.items() if machine.seed}


def test_the_searcher_finds_what_is_there(tmp_path: Path) -> None:
    """A search that finds nothing proves something only if it would have found it."""
    secret = GIVEN["bmc_password"]
    for number, spelt in enumerate(sorted(spellings(secret))):
        (tmp_path / f"file{number}").write_bytes(b"before " + spelt + b" after")
    wrapped = base64.b64encode(f"rackmint:{secret}!".encode())
    (tmp_path / "basic").write_bytes(b"Authorization: Basic " + wrapped)
    with closing(sqlite3.connect(tmp_path / "some.db")) as database, database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table t (said text)")
        database.execute("insert into t values (?)", [json.dumps({"said": f"password {secret}"})])
    places = dict(files_below(tmp_path))
    hits = found({"it": secret}, places.items())
    assert {f"it in {file}" for file in places if not file.endswith(("-wal", "-shm", ".db"))} <= set(hits)
    assert any(".db" in hit for hit in hits)
    assert [] == found({"another": "canary-not-there-000"}, places.items())


def test_the_faults_were_met_and_the_secrets_were_used(ran: Ran) -> None:
    """The run went as planned: verdicts of all kinds, tokens minted for imaging and for joining."""
    reports = [json.loads(said) for name, said in ran.said.items() if name.startswith("report")]
    certified = {node["node"]["name"]: bool(node["certificate_id"]) for report in reports for node in report["nodes"]}
    assert {**dict.fromkeys((*FAULTS, STRANGER), False), "r1-n01": True} == certified, ran.said
    kinds = {name.partition(" ")[0] for name in ran.secrets}
    assert {"bmc_password", "netbox_token", "fleet_token", "ssh_key,", "join", "imaging"} <= kinds
    assert len([name for name in ran.secrets if name.startswith("imaging")]) >= 3
    assert {0, 1, 2, 3} >= set(ran.codes.values()), ran.codes


def test_no_secret_lies_in_the_state_folder(ran: Ran) -> None:
    """Ledger, evidence, logs, reports, Prefect's database and its server's log: every byte of every file."""
    secrets = {**ran.secrets, **_seeds(ran.lab)}
    names = [name for name, _ in files_below(ran.state)]
    assert {"ledger.db", "prefect.db", "server.log"} <= {Path(name).name for name in names}
    assert len([name for name in names if "/evidence/" in name]) > 100
    assert [] == found(secrets, files_below(ran.state))
    # The attempt that never reached its agent had a token too, in the address that a BMC was given.
    shape = re.compile(rb"/boot/[^/\s]+/([^/\s]+)/agent")
    addresses = [hit.replace(b"\\", b"") for _, content in files_below(ran.state) for hit in shape.findall(content)]
    assert {b"[redacted]"} == set(addresses)


def test_no_secret_is_shown(ran: Ran) -> None:
    """Terminal, JSON documents, the HTML page, and what was left in the temporary folder."""
    secrets = {**ran.secrets, **_seeds(ran.lab)}
    page = [("report.html", (ran.folder / "report.html").read_bytes())]
    assert [] == found(secrets, [*ran.said.items(), *page, *files_below(ran.folder / "tmp")])


def test_no_secret_is_an_argument_or_inherited(ran: Ran) -> None:
    """Command lines of all our processes all along, and the environment of every one we started ourselves."""
    assert any(b"prefect" in content for _, content in ran.watched)
    assert [] == found({**ran.secrets, **_seeds(ran.lab)}, ran.watched)


def test_no_secret_reaches_the_books(ran: Ran) -> None:
    """Everything NetBox holds, and every object of the cluster but the join tokens' own."""
    book = json.dumps(ran.lab.call(lambda: dict(ran.lab.rack.book.store.rows)), default=str)

    def objects() -> dict[str, list[dict[str, object]]]:
        kinds = {kind.plural: kind for kind in KINDS.values()}
        return {plural: ran.lab.rack.cluster.store.all(kind) for plural, kind in kinds.items() if plural != "secrets"}

    cluster = json.dumps(ran.lab.call(objects), default=str)
    assert "r1-n01" in book
    assert "r1-n01" in cluster
    secrets = {**ran.secrets, **_seeds(ran.lab)}
    assert [] == found(secrets, [("NetBox", book.encode()), ("Kubernetes", cluster.encode())])


def test_no_secret_is_left_on_a_node(ran: Ran) -> None:
    """The file a node joined with is gone, and its token with it."""
    files = [
        (f"{name}:{path}", content)
        for name, machine in ran.lab.machines.items()
        for path, content in memory(machine).files.items()
    ]
    assert [] == found({k: v for k, v in ran.secrets.items() if k.startswith("join")}, files)
    left = ran.lab.call(lambda: ran.lab.rack.cluster.store.all(KINDS["secrets"]))
    assert [] == [secret["metadata"]["name"] for secret in left if secret["type"] == BOOTSTRAP_TYPE]
