"""A lab BMC over real HTTPS: login, the three shapes' GPUs, power, boot, BIOS, media, tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3

from lab.background import BackgroundLoop
from lab.bmc.bmc import Login
from lab.bmc.serve import BmcServer, start_bmc
from lab.clock import LabClock
from lab.hardware import Shape, build_node
from lab.machine import Machine

LOGIN = Login("lab", "a-password")


@dataclass
class Client:
    """The least of a Redfish client: a session, and JSON by path."""

    server: BmcServer
    http: requests.Session

    @property
    def machine(self) -> Machine:
        """The machine behind the BMC."""
        return self.server.bmc.machine

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """One request, whatever comes of it."""
        return self.http.request(method, f"{self.server.url}/redfish/v1{path}", timeout=10, **more)

    def get(self, path: str) -> Any:
        """The body of a GET that must succeed."""
        answer = self.call("GET", path)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    def ids(self, path: str) -> list[str]:
        """The last parts of a collection's links."""
        return [member["@odata.id"].rsplit("/", 1)[1] for member in self.get(path)["Members"]]

    def reset(self, kind: str) -> int:
        """The status a reset is answered with."""
        host = self.server.bmc.host
        return self.call("POST", f"{host}/Actions/ComputerSystem.Reset", json={"ResetType": kind}).status_code

    def until(self, there: Callable[[], bool], limit_s: float = 10.0) -> None:
        """Wait until something holds."""
        ends = time.monotonic() + limit_s
        while not there():
            assert time.monotonic() < ends, f"{self.machine.power} {self.machine.progress} {self.machine.boots}"
            time.sleep(0.01)


def _session() -> requests.Session:
    session = requests.Session()
    session.verify = session.trust_env = False
    return session


@pytest.fixture(scope="module")
def loop() -> Iterator[BackgroundLoop]:
    """An event loop in a thread."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture
def connect(loop: BackgroundLoop, tmp_path: Path) -> Iterator[Callable[[Shape], Client]]:
    """Start a BMC of a shape and log in."""
    clients: list[Client] = []
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def start(shape: Shape) -> Client:
        machine = Machine(build_node("R1", 1, shape), LabClock(1000))
        server = loop.run(start_bmc(machine, "127.0.0.1", login=LOGIN, certificates=tmp_path))
        client = Client(server, _session())
        clients.append(client)
        body = {"UserName": LOGIN.username, "Password": LOGIN.password}
        client.http.headers["X-Auth-Token"] = client.call("POST", "/SessionService/Sessions", json=body).headers[
            "X-Auth-Token"
        ]
        return client

    yield start
    for client in clients:
        client.http.close()
        loop.run(client.machine.stop())
        loop.run(client.server.stop())


Connect = Callable[[Shape], Client]


@pytest.mark.parametrize("shape", list(Shape))
def test_every_link_is_answered(connect: Connect, shape: Shape) -> None:
    """Each link of a powered machine leads to a resource with an ETag; none is dead."""
    client = connect(shape)
    client.machine.switch_on_idle()
    dead, seen, todo = [], set(), ["/redfish/v1/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = client.call("GET", path.removeprefix("/redfish/v1"))
        if answer.status_code != 200 or "ETag" not in answer.headers:
            dead.append((path, answer.status_code))
            continue
        todo += [link for link in _links(answer.json()) if "#" not in link]
    assert [] == dead


def _links(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        for key, value in body.items():
            if key == "@odata.id" and isinstance(value, str):
                yield value
            else:
                yield from _links(value)
    elif isinstance(body, list):
        for one in body:
            yield from _links(one)


def test_a_baseboard_stands_first_and_sleeps_with_the_host(connect: Connect) -> None:
    """An HGX lists its baseboard System first, and it answers 503 until the host is through POST."""
    client = connect(Shape.HGX)
    assert ["HGX_Baseboard_0", "System_0"] == client.ids("/Systems")
    assert 503 == client.call("GET", "/Systems/HGX_Baseboard_0").status_code
    assert 204 == client.reset("On")
    client.until(lambda: client.machine.boots == ["nothing"])
    assert 200 == client.call("GET", "/Systems/HGX_Baseboard_0").status_code


def test_hgx_gpus_are_processors_of_the_baseboard(connect: Connect) -> None:
    """Eight GPUs with serial, UUID and VBIOS, beside an FPGA that is none."""
    client = connect(Shape.HGX)
    client.machine.switch_on_idle()
    path = "/Systems/HGX_Baseboard_0/Processors"
    gpus = [one for one in map(client.get, (f"{path}/{i}" for i in client.ids(path))) if one["ProcessorType"] == "GPU"]
    expected = {(gpu.serial, gpu.uuid, gpu.vbios) for gpu in client.machine.state.gpus}
    assert expected == {(gpu["SerialNumber"], gpu["UUID"], gpu["FirmwareVersion"]) for gpu in gpus}


def test_pcie_gpus_are_devices_only(connect: Connect) -> None:
    """An HGX box of the second shape shows GPUs under its chassis and none under Processors."""
    client = connect(Shape.PCIE)
    assert ["CPU1", "CPU2"] == client.ids("/Systems/1/Processors")
    devices = [name for name in client.ids("/Chassis/1/PCIeDevices") if name.startswith("GPU")]
    assert [f"GPU{number}" for number in range(1, 9)] == devices
    assert client.get("/Chassis/1/PCIeDevices/GPU1")["Oem"]["Lab"]["GPUGuid"] is None


def test_processor_gpus_have_no_model(connect: Connect) -> None:
    """The third shape's GPUs are Processors with a part number and without a Model."""
    client = connect(Shape.PROCESSORS)
    gpu = client.get("/Systems/1/Processors/GPU3")
    assert ("GPU", "2330-885-A1", False) == (gpu["ProcessorType"], gpu["PartNumber"], "Model" in gpu)


def test_logins(connect: Connect) -> None:
    """A wrong password and no login get 401, Basic works, the session limit holds, logout frees a slot."""
    client = connect(Shape.PCIE)
    bare = _session()
    url = f"{client.server.url}/redfish/v1"
    assert 200 == bare.get(f"{url}/").status_code
    assert 401 == bare.get(f"{url}/Systems").status_code
    assert 401 == bare.get(f"{url}/Systems", auth=("lab", "wrong")).status_code
    assert 200 == bare.get(f"{url}/Systems", auth=("lab", "a-password")).status_code
    body = {"UserName": "lab", "Password": "a-password"}
    opened = [bare.post(f"{url}/SessionService/Sessions", json=body) for _ in range(8)]
    assert [*[201] * 7, 503] == [one.status_code for one in opened]
    place = opened[0].headers["Location"].removeprefix("/redfish/v1")
    assert 204 == client.call("DELETE", place).status_code
    assert 201 == bare.post(f"{url}/SessionService/Sessions", json=body).status_code
    bare.close()


def test_power_transitions(connect: Connect) -> None:
    """On goes through POST to an end; pointless transitions get 409 and unknown ones 400."""
    client = connect(Shape.PROCESSORS)
    assert 409 == client.reset("ForceOff")
    assert 400 == client.reset("GracefulRestart")
    assert 204 == client.reset("On")
    assert "PoweringOn" == client.machine.power
    client.until(lambda: client.machine.progress == "SetupEntered")
    assert 409 == client.reset("On")
    assert 204 == client.reset("ForceRestart")
    client.until(lambda: client.machine.posts == 2 and client.machine.progress == "SetupEntered")
    assert 204 == client.reset("GracefulShutdown")
    client.until(lambda: client.machine.power == "Off")


def test_bios_settings_wait_for_post(connect: Connect) -> None:
    """A staged setting needs the ETag, is refused when unknown, and holds only after a POST."""
    client = connect(Shape.HGX)
    path = "/Systems/System_0/Bios/SD"
    change = {"Attributes": {"SRIOVEnable": "Enable"}}
    assert 428 == client.call("PATCH", path, json=change).status_code
    assert 412 == client.call("PATCH", path, json=change, headers={"If-Match": '"old"'}).status_code
    refused = client.call("PATCH", path, json={"Attributes": {"Nonsense": 1}}, headers={"If-Match": "*"})
    info = refused.json()["error"]["@Message.ExtendedInfo"][0]
    assert (400, ["Nonsense"]) == (refused.status_code, info["MessageArgs"])
    tag = client.get(path)["@odata.etag"]
    assert 200 == client.call("PATCH", path, json=change, headers={"If-Match": tag}).status_code
    assert "Enable" == client.get(path)["Attributes"]["SRIOVEnable"]
    assert "Disable" == client.get("/Systems/System_0/Bios")["Attributes"]["SRIOVEnable"]
    client.reset("On")
    client.until(lambda: client.machine.progress == "SetupEntered")
    assert "Enable" == client.get("/Systems/System_0/Bios")["Attributes"]["SRIOVEnable"]


def test_once_is_consumed(connect: Connect) -> None:
    """A Once override is gone after the next boot, a Continuous one stays."""
    client = connect(Shape.PCIE)
    boot = {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}
    assert 200 == client.call("PATCH", "/Systems/1", json={"Boot": boot}).status_code
    assert "Cd" == client.get("/Systems/1")["Boot"]["BootSourceOverrideTarget"]
    client.reset("On")
    client.until(lambda: client.machine.progress == "SetupEntered")
    after = client.get("/Systems/1")["Boot"]
    assert ("Disabled", "None") == (after["BootSourceOverrideEnabled"], after["BootSourceOverrideTarget"])


def test_media_by_task(connect: Connect) -> None:
    """Inserting on an HGX answers 202 with a monitor and a numeric Retry-After; the disc is there at its end."""
    client = connect(Shape.HGX)
    path = "/Managers/BMC/VirtualMedia/Cd1"
    begun = client.call("POST", f"{path}/Actions/VirtualMedia.InsertMedia", json={"Image": "http://127.0.0.1/a.iso"})
    assert (202, "1") == (begun.status_code, begun.headers["Retry-After"])
    monitor = begun.headers["Location"].removeprefix("/redfish/v1")
    client.until(lambda: client.call("GET", monitor).status_code == 200)
    assert "Completed" == client.call("GET", monitor).json()["TaskState"]
    client.until(lambda: client.get(path)["Inserted"])
    assert 204 == client.call("POST", f"{path}/Actions/VirtualMedia.EjectMedia", json={}).status_code
    assert client.get(path)["Image"] is None


def test_expand(connect: Connect) -> None:
    """Where it is offered, $expand brings the members; elsewhere it is refused."""
    hgx, plain = connect(Shape.HGX), connect(Shape.PROCESSORS)
    hgx.machine.switch_on_idle()
    ports = hgx.get("/Systems/HGX_Baseboard_0/Processors/GPU_SXM_1/Ports?$expand=.($levels=1)")
    assert ["LinkUp"] * 18 == [port["LinkStatus"] for port in ports["Members"]]
    assert 400 == plain.call("GET", "/Systems/1/Memory?$expand=.($levels=1)").status_code
