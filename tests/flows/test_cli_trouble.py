"""What goes wrong before or around a run ends in one clear sentence and the right exit code; nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.rack import LabHandle, LabPlan, start_lab
from tests.flows.cli_process import interrupted, rackmint
from tests.flows.conftest import shorten

SCALE = 300.0  # a POST of 300 s takes 1 s: time enough to interrupt an imaging


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """A rack of two."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(nodes=2, scale=SCALE)) as lab:
        shorten(lab)
        yield lab


@pytest.fixture
def site(lab: LabHandle, tmp_path: Path) -> Path:
    """An operator's folder with the lab's settings and a state of its own."""
    lines = lab.settings_file.read_text().splitlines()
    own = [f'state = "{tmp_path / "state"}"' if line.startswith("state =") else line for line in lines]
    (tmp_path / "rackmint.toml").write_text("\n".join(own))
    return tmp_path


def change(site: Path, before: str, after: str) -> None:
    """Mend or break one setting."""
    file = site / "rackmint.toml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_an_unknown_rack_is_named_with_those_there_are(site: Path) -> None:
    """`provision R9` says which racks NetBox has, and is wrong usage."""
    ran = rackmint("provision", "R9", "--yes", cwd=site)
    assert (3, "rackmint: NetBox has no rack R9. There is R1") == (ran.code, ran.sentence)


def test_an_unknown_node_is_named_with_those_there_are(site: Path) -> None:
    """`--node` of another rack is wrong usage."""
    ran = rackmint("plan", "R1", "--node", "r2-n01", cwd=site)
    assert (3, "rackmint: rack R1 has no node r2-n01. It has: r1-n01, r1-n02") == (ran.code, ran.sentence)


def test_broken_toml_names_the_line(site: Path) -> None:
    """Settings that are no TOML are told with line and column."""
    (site / "rackmint.toml").write_text('site = "x"\n[netbox\n')
    ran = rackmint("provision", "R1", "--yes", cwd=site)
    said = (
        "rackmint: rackmint.toml: not valid TOML: Expected ']' at the end of a table declaration (at line 2, column 8)"
    )
    assert (3, f"{said}. Mend that line") == (ran.code, ran.sentence)


def test_missing_settings_say_where_they_may_be(tmp_path: Path) -> None:
    """In an empty folder an operator learns how to name settings and how to try without any."""
    ran = rackmint("status", cwd=tmp_path)
    assert 3 == ran.code
    assert ran.sentence.startswith("rackmint: rackmint.toml: no such settings file. Name one with --settings")


def test_an_unknown_key_is_told_with_the_one_that_was_meant(site: Path) -> None:
    """A misspelt setting is refused, never ignored."""
    change(site, "poll_s", "pol_s")
    ran = rackmint("status", cwd=site)
    assert (3, "rackmint: rackmint.toml: pace.pol_s: no such setting. Did you mean poll_s?") == (ran.code, ran.sentence)


def without_override() -> tuple[str, ...]:
    """What makes even root obey permissions; nothing where the tests are not run by root."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is not there: root cannot be refused a file")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def test_a_ledger_that_may_not_be_written_is_told_before_any_node_is_touched(lab: LabHandle, site: Path) -> None:
    """No permission on the ledger: its file is named, the exit code is that of bad settings."""
    before = {name: machine.posts for name, machine in lab.machines.items()}
    assert 0 == rackmint("status", cwd=site).code  # there is a ledger
    for file in (site / "state").glob("ledger.db*"):
        file.chmod(0o444)
    (site / "state").chmod(0o555)
    ran = rackmint("provision", "R1", "--yes", cwd=site, before=without_override())
    (site / "state").chmod(0o755)
    assert 3 == ran.code
    assert "state/ledger.db: " in ran.sentence
    assert before == {name: machine.posts for name, machine in lab.machines.items()}


def test_a_state_folder_that_cannot_be_made_is_told(site: Path) -> None:
    """`state` where nobody may write is a bad setting."""
    change(site, f'state = "{site / "state"}"', 'state = "/proc/rackmint"')
    ran = rackmint("provision", "R1", "--yes", cwd=site)
    assert 3 == ran.code
    assert ran.sentence.endswith("Set `state` to a folder you may write")


def test_a_netbox_that_does_not_answer_is_told_with_its_address(site: Path, lab: LabHandle) -> None:
    """NetBox unreachable at start: nothing is decided, nothing is touched."""
    text = (site / "rackmint.toml").read_text()
    url = text.partition("[netbox]")[2].partition('url = "')[2].partition('"')[0]
    (site / "rackmint.toml").write_text(text.replace(f'url = "{url}"', 'url = "http://127.0.0.1:9"', 1))
    ran = rackmint("provision", "R1", "--yes", cwd=site)
    assert 2 == ran.code
    assert ran.sentence.startswith("rackmint: GET http://127.0.0.1:9/api/dcim/racks/: ")
    assert ran.sentence.endswith("Connection refused. Check the URL and that NetBox runs")


def test_nobody_to_ask_is_wrong_usage(site: Path) -> None:
    """Without a terminal and without --yes nothing is wiped and nothing hangs: the plan is shown, then refused."""
    ran = rackmint("provision", "R1", cwd=site)
    assert 3 == ran.code
    assert "2 disks wiped" in ran.out
    assert "agree with --yes" in ran.sentence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 210 MiB, a little more than a run asks for."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=210m", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk to fill: mounting one needs root ({mounted.stderr.strip()})")
    yield disk
    subprocess.run(["umount", disk], check=True)


def fill(disk: Path) -> None:
    """Take all the room there is."""
    with (disk / "ballast").open("wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass


def test_a_disk_with_too_little_room_is_told_before_anything_begins(site: Path, small_disk: Path) -> None:
    """What could not be noted to its end is not begun."""
    change(site, str(site / "state"), str(small_disk / "state"))
    with (small_disk / "ballast").open("wb") as file:
        file.write(b"\0" * (50 * 2**20))
    ran = rackmint("provision", "R1", "--yes", cwd=site)
    assert 2 == ran.code
    assert ran.sentence.endswith("a run needs 200. Make room, then run the same command again")


def wiped(lab: LabHandle) -> list[int]:
    """How often each node's disk was begun to be laid."""
    return [machine.boot_drive.writes_begun if machine.boot_drive else 0 for machine in lab.machines.values()]


@pytest.mark.slow
def test_a_disk_that_fills_up_stops_the_run_and_loses_nothing(lab: LabHandle, site: Path, small_disk: Path) -> None:
    """In the middle of imaging: one sentence; with room again the same command ends well, and no disk is laid twice."""
    change(site, str(site / "state"), str(small_disk / "state"))
    before = wiped(lab)
    full = interrupted("provision", "R1", "--yes", cwd=site, when="r1-n02 image: begins", act=lambda: fill(small_disk))
    assert 2 == full.code, full
    assert "the disk is full" in full.sentence or "No space left on device" in full.sentence
    (small_disk / "ballast").unlink()
    again = rackmint("provision", "R1", "--yes", cwd=site)
    assert 0 == again.code, again
    assert [count + 1 for count in before] == wiped(lab)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_gives_leases_back_and_the_next_run_goes_on(lab: LabHandle, site: Path) -> None:
    """During imaging: exit 130 and a sentence, no lease is held, and the same command ends with all accepted."""
    stopped = interrupted("provision", "R1", "--yes", "--reimage", "r1-n01", "--reimage", "r1-n02", cwd=site,
                          when="r1-n02 image: begins")  # fmt: skip
    assert 130 == stopped.code, stopped
    assert stopped.sentence.endswith("interrupted. Leases are given back; the same command goes on from here")
    told = json.loads(rackmint("status", "--json", cwd=site).out)
    assert ([], ["interrupted"]) == (told["leases"], [run["outcome"] for run in told["runs"]])
    again = rackmint("provision", "R1", "--yes", "--reimage", "r1-n01", "--reimage", "r1-n02", cwd=site)
    assert 0 == again.code, again
