"""BMCs on their bad days, and what another maker's client, sushy, makes of a good one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
import sushy
import urllib3

from lab.background import BackgroundLoop
from lab.bmc.bmc import Login
from lab.bmc.serve import BmcServer, start_bmc
from lab.clock import LabClock
from lab.faults import FAULTS
from lab.hardware import Shape, build_node
from lab.machine import Machine

LOGIN = Login("lab", "a-password")
Start = Callable[[Shape], BmcServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a BMC of a shape, its machine powered and idle."""
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    started: list[BmcServer] = []
    with BackgroundLoop() as loop:

        def bmc(shape: Shape) -> BmcServer:
            machine = Machine(build_node("R1", 1, shape), LabClock(1000))
            machine.switch_on_idle()
            started.append(loop.run(start_bmc(machine, "127.0.0.1", login=LOGIN, certificates=tmp_path)))
            return started[-1]

        yield bmc
        for server in started:
            loop.run(server.stop())


@pytest.fixture
def http() -> Iterator[requests.Session]:
    """A session that asks nobody about certificates."""
    with requests.Session() as session:
        session.verify = session.trust_env = False
        session.auth = (LOGIN.username, LOGIN.password)
        yield session


def test_a_busy_bmc_recovers(start: Start, http: requests.Session) -> None:
    """Four times 503 with Retry-After, then answers, and the fault has worn off."""
    server = start(Shape.PCIE)
    machine = server.bmc.machine
    FAULTS["bmc_503_burst"].apply(machine)
    answers = [http.get(f"{server.url}/redfish/v1/Systems", timeout=5) for _ in range(6)]
    assert [503, 503, 503, 503, 200, 200] == [answer.status_code for answer in answers]
    assert "1" == answers[0].headers["Retry-After"]
    assert ({"bmc_503_burst"}, False) == (machine.state.recovered, machine.fault("bmc_503_burst"))


def test_a_flaky_bmc_recovers(start: Start, http: requests.Session) -> None:
    """Every second read is reset until five were, then none."""
    server = start(Shape.HGX)
    FAULTS["flaky_bmc"].apply(server.bmc.machine)
    resets = 0
    for _ in range(14):
        try:
            http.get(f"{server.url}/redfish/v1/Systems", timeout=5)
        except requests.ConnectionError:
            resets += 1
    assert (5, {"flaky_bmc"}) == (resets, server.bmc.machine.state.recovered)


def test_stale_media(start: Start, http: requests.Session) -> None:
    """Insert and eject are accepted and change nothing."""
    server = start(Shape.PROCESSORS)
    FAULTS["media_stale"].apply(server.bmc.machine)
    path = f"{server.url}/redfish/v1/Systems/1/VirtualMedia/Cd1"
    body = {"Image": "http://127.0.0.1/a.iso"}
    answer = http.post(f"{path}/Actions/VirtualMedia.InsertMedia", json=body, timeout=5)
    assert (204, False) == (answer.status_code, http.get(path, timeout=5).json()["Inserted"])


def test_minimal_media_bodies(start: Start, http: requests.Session) -> None:
    """The second shape's BMC refuses Inserted in an insert, and an insert over a disc that is there."""
    server = start(Shape.PCIE)
    path = f"{server.url}/redfish/v1/Managers/1/VirtualMedia/Cd1/Actions/VirtualMedia.InsertMedia"
    full = {"Image": "http://127.0.0.1/a.iso", "Inserted": True}
    assert 400 == http.post(path, json=full, timeout=5).status_code
    assert [204, 409] == [http.post(path, json={"Image": full["Image"]}, timeout=5).status_code for _ in range(2)]


def test_a_log_has_pages(start: Start, http: requests.Session) -> None:
    """Entries beyond a page are reached by the next link, and none is lost."""
    server = start(Shape.PCIE)
    server.bmc.machine.events = [("2026-01-01T00:00:00Z", f"event {number}") for number in range(95)]
    found, path = [], "/redfish/v1/Systems/1/LogServices/SEL/Entries"
    while path:
        page = http.get(f"{server.url}{path}", timeout=5).json()
        found += [entry["Message"] for entry in page["Members"]]
        path = page.get("Members@odata.nextLink", "")
    assert [f"event {number}" for number in range(95)] == found


def test_a_lost_gpu_stands_in_the_log(start: Start, http: requests.Session) -> None:
    """What is broken shows in the event log too, as critical."""
    server = start(Shape.HGX)
    FAULTS["gpu_lost"].apply(server.bmc.machine)
    log = http.get(f"{server.url}/redfish/v1/Systems/System_0/LogServices/SEL/Entries", timeout=5).json()
    critical = [entry["Message"] for entry in log["Members"] if entry["Severity"] == "Critical"]
    assert ["GPU 6: PCIe link lost"] == critical


@pytest.mark.parametrize("shape", [Shape.HGX, Shape.PROCESSORS])
def test_sushy_understands_it(start: Start, monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """OpenStack's client reads the host and its settings, sets its boot source and turns its light on."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = start(shape)
    state = server.bmc.machine.state
    client = sushy.Sushy(server.url, username=LOGIN.username, password=LOGIN.password, verify=False)
    systems = [one for one in client.get_system_collection().get_members() if one.json.get("Bios")]
    assert [state.serial] == [system.serial_number for system in systems]
    host = systems[0]
    host.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_HDD, enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)
    assert ("Hdd", "Continuous") == (server.bmc.machine.override.target, server.bmc.machine.override.enabled)
    assert dict(state.bios) == host.bios.attributes
    host.set_indicator_led(sushy.INDICATOR_LED_BLINKING)
    assert server.bmc.machine.locating
    assert 2 == len([one for one in host.processors.get_members() if str(one.processor_type) == "ProcessorType.CPU"])
    client._auth.close()
