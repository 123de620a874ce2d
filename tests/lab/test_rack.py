"""A whole lab in a thread: its files, its levers, and deploy boots by the real agent against the real image service."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import requests
import urllib3

from inventory.classes import BootDisk
from inventory.ledger import Ledger
from inventory.model import Identity, NodeRef
from lab.hardware import Shape
from lab.hostkey import public_part
from lab.machine import Machine
from lab.rack import LabHandle, LabPlan, start_lab
from os_images.installers.agent_image import Login, NewAttempt, build_job, new_attempt
from os_images.manifest import load_manifests
from os_images.service import ImageService

SHAPES = (Shape.HGX, Shape.PCIE, Shape.PROCESSORS)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHandle]:
    """Three nodes, one of each shape."""
    with start_lab(tmp_path_factory.mktemp("lab"), LabPlan(nodes=3, shapes=SHAPES, scale=1000)) as up:
        yield up


@dataclass
class Imaging:
    """The product's side of a deploy: ledger and image service."""

    lab: LabHandle
    ledger: Ledger
    service: ImageService

    def deploy(self, machine: Machine, **override: Any) -> NewAttempt:
        """Note an attempt and boot the node's ramdisk over virtual media."""
        state = machine.state
        node = NodeRef(name=machine.name, node_class="lab-hgx", serial=state.serial)
        manifest = load_manifests(self.lab.rack.folder / "images")["lab-ubuntu-24.04"]
        url = f"http://127.0.0.1:{self.service.port}"
        login = Login(user="root", authorized_key=public_part(self.lab.rack.secrets.ssh_key))
        identity = Identity(uuid=state.uuid, serial=state.serial)
        rule = BootDisk(size_bytes_at_most=2_000_000_000_000)
        job = build_job(manifest, rule, login, host_name=machine.name, service_url=url, identity=identity, wipe=False)
        attempt = new_attempt(self.ledger, node, job)
        boot_url = self.service.boot_url(attempt.attempt_id, attempt.token, "iso")
        self.lab.call(lambda: _boot_cd(machine, boot_url))
        return attempt


def _boot_cd(machine: Machine, url: str) -> None:
    machine.media.image = url
    machine.override.target, machine.override.enabled = "Cd", "Once"
    machine.reset("ForceRestart" if machine.power == "On" else "On")


@pytest.fixture
def imaging(lab: LabHandle, tmp_path: Path) -> Iterator[Imaging]:
    """An image service over a ledger of its own."""
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    folder = lab.rack.folder / "images"
    listen = tomllib.loads(lab.settings_file.read_text())["images"]["listen"]
    service = ImageService(ledger, listen, f"http://{listen}", load_manifests(folder), folder)
    service.start()
    yield Imaging(lab, ledger, service)
    service.stop()
    ledger.close()


def test_files(lab: LabHandle) -> None:
    """The settings file names every door, secrets are for their owner only, and lab.json tells where the levers are."""
    settings = tomllib.loads(lab.settings_file.read_text())
    assert {"site", "state", "bmc", "ssh", "netbox", "fleet", "images", "pace", "limits"} == set(settings)
    secrets = list((lab.rack.folder / "secrets").iterdir())
    assert 6 == len(secrets)
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in secrets}
    facts = json.loads((lab.rack.folder / "lab.json").read_text())
    assert 3 == len(requests.get(f"{facts['control']}/status", timeout=5).json()["nodes"])


def test_levers(lab: LabHandle) -> None:
    """A fault goes in and out over HTTP; a wrong name is answered with the right ones."""
    control = lab.rack.control_url
    asked = {"node": "*", "fault": "nvlink_down"}
    assert ["r1-n01", "r1-n02"] == requests.post(f"{control}/inject", json=asked, timeout=5).json()["done"]
    status = requests.get(f"{control}/status", timeout=5).json()["nodes"]
    assert [["nvlink_down"], ["nvlink_down"], []] == [node["faults"] for node in status]
    assert 200 == requests.post(f"{control}/heal", json={"node": "*"}, timeout=5).status_code
    wrong = requests.post(f"{control}/inject", json={"node": "r1-n01", "fault": "nonsense"}, timeout=5)
    assert (400, True) == (wrong.status_code, "gpu_lost" in wrong.text)
    assert 400 == requests.post(f"{control}/inject", json={"node": "r9", "fault": "gpu_lost"}, timeout=5).status_code
    assert set() == lab.machines["r1-n01"].state.faults


def test_a_dead_bmc_refuses_and_comes_back(lab: LabHandle, until: Callable[..., None]) -> None:
    """bmc_dead closes the port; healing opens the same one."""
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    url = f"{lab.rack.bmcs['r1-n02'].url}/redfish/v1/"

    def answers() -> bool:
        with requests.Session() as session:
            session.verify = session.trust_env = False
            try:
                return session.get(url, timeout=5).ok
            except requests.ConnectionError:
                return False

    assert answers()
    lab.inject("r1-n02", "bmc_dead")
    until(lambda: not answers())
    lab.heal("r1-n02")
    until(answers)


def test_deploy_then_disk(lab: LabHandle, imaging: Imaging, until: Callable[..., None]) -> None:
    """The real agent lays the image and powers off; the disk boot runs it, phones home and answers SSH."""
    machine = lab.machines["r1-n01"]
    attempt = imaging.deploy(machine)
    until(lambda: machine.power == "Off")
    assert ["agent"] == machine.boots, machine.agent_log
    assert "done" == machine.agent_log[-1]
    lab.call(lambda: machine.reset("On"))
    until(lambda: "phone-home" in [event.kind for event in imaging.ledger.attempt_events(attempt.attempt_id)])
    assert (["agent", "disk"], 2, True) == (machine.boots, machine.posts, machine.running)
    assert "570.158.01" == machine.software["driver"]
    assert machine.name == _host_name(lab, machine)


def _host_name(lab: LabHandle, machine: Machine) -> str:
    async def ask() -> str:
        host, port = machine.ssh_address.split(":")
        known = asyncssh.import_known_hosts(f"[{host}]:{port} {public_part(machine.ssh_host_key)}")
        key = asyncssh.import_private_key(lab.rack.secrets.ssh_key)
        async with asyncssh.connect(
            host, int(port), username="root", client_keys=[key], known_hosts=known, config=None
        ) as connection:
            return str((await connection.run("hostname", check=True)).stdout).strip()

    return lab.run(ask())


def test_a_bent_image_is_not_bootable(lab: LabHandle, imaging: Imaging, until: Callable[..., None]) -> None:
    """One flipped bit on the way: the agent says checksum mismatch, and nothing boots from the disk."""
    machine = lab.machines["r1-n03"]
    lab.inject(machine.name, "image_checksum_mismatch")
    imaging.deploy(machine)
    until(lambda: machine.power == "Off")
    assert "image checksum mismatch" in machine.agent_log[-1]
    assert (1, None) == (machine.state.drives[0].writes_begun, machine.boot_drive)
    lab.heal(machine.name)


def test_foreign_data_is_not_overwritten(lab: LabHandle, imaging: Imaging, until: Callable[..., None]) -> None:
    """A boot disk with somebody else's signature: the job is refused and nothing is written."""
    machine = lab.machines["r1-n02"]
    lab.inject(machine.name, "wrong_disk")
    imaging.deploy(machine)
    until(lambda: machine.power == "Off")
    assert "LVM2_member" in machine.agent_log[-1]
    assert 0 == machine.state.drives[0].writes_begun
    lab.heal(machine.name)


def test_power_cut_in_the_ramdisk(lab: LabHandle, imaging: Imaging, until: Callable[..., None]) -> None:
    """An agent that tries to reach its service is gone with the power, and the next boot is not hindered."""
    machine = lab.machines["r1-n02"]
    wire, machine.wire = machine.wire, lambda credential: {**credential, "service": "http://127.0.0.1:9"}
    imaging.deploy(machine)
    until(lambda: "trying again" in machine.agent_log[-1])
    lab.call(lambda: machine.reset("ForceOff"))
    until(lambda: machine.power == "Off")
    assert 0 == machine.state.drives[0].writes_begun
    machine.wire = wire
    imaging.deploy(machine)
    until(lambda: machine.agent_log[-1] == "done")
    assert 1 == machine.state.drives[0].writes_begun
