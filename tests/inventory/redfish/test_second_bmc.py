"""sushy-tools' emulator as a second, independent BMC: what is proven against our own lab must hold there too."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from inventory.redfish import Bmc, BmcLogin

OpenBmc = Callable[..., AbstractContextManager[Bmc]]
EMULATOR = Path(sys.executable).with_name("sushy-emulator")
UUID = "5a1e3c52-0b6d-4f0e-9c1b-7d2f4a6b8c90"
pytestmark = pytest.mark.skipif(
    not EMULATOR.exists() and not shutil.which("sushy-emulator"), reason="sushy-tools is not installed: not proven here"
)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The emulator in a process of its own, with one system that is off."""
    folder = tmp_path_factory.mktemp("emulator")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    config = folder / "emulator.conf"
    system = {
        "uuid": UUID,
        "name": "n1",
        "power_state": "Off",
        "nics": [{"mac": "52:54:00:00:00:01", "ip": "10.0.0.1"}],
    }
    config.write_text(
        f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n"
        f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{system!r}]\n"
    )
    command = [str(EMULATOR if EMULATOR.exists() else "sushy-emulator"), "--fake", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _until_it_answers(url)
        yield url
    finally:
        process.terminate()
        process.wait()


def _until_it_answers(url: str) -> None:
    ends = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(f"{url}/redfish/v1/").close()  # noqa: S310 (loopback)
            return
        except urllib.error.URLError:
            assert time.monotonic() < ends, "the emulator does not come up"
            time.sleep(0.1)


def test_the_inventory_is_read_as_far_as_it_goes(emulator: str, connect: OpenBmc, login: BmcLogin) -> None:
    """A BMC without processors, BIOS and firmware is read, and each hole is told."""
    with connect(emulator, login) as bmc:
        read = bmc.read()
    missing = {entry.fact for entry in read.missing}
    assert ("Sushy Emulator", UUID) == (read.identity.manufacturer, read.identity.uuid)
    assert {"gpus", "bios", "dimms", "drives", "firmware", "nics"} <= missing


def test_the_boot_source_is_set_and_cleared(emulator: str, connect: OpenBmc, login: BmcLogin) -> None:
    """It reports Once as Continuous; the target is what proves it, and clearing leaves no override."""
    with connect(emulator, login) as bmc:
        bmc.boot_once("Cd")
        assert "Cd" == bmc.read(firmware=False, parts=False).boot.target
        bmc.boot_to_disk()
        assert bmc.read(firmware=False, parts=False).boot.target in ("None", "Hdd")


def test_media_goes_in_and_out(emulator: str, connect: OpenBmc, login: BmcLogin, odd: Any) -> None:
    """It really fetches the image."""
    odd.on("GET", "/agent.iso")(lambda asked: (200, b"image"))
    with connect(emulator, login) as bmc:
        bmc.insert_media(f"{odd.url}/agent.iso")
        assert 1 <= odd.count("GET", "/agent.iso")
        bmc.eject_media()


@pytest.mark.slow
def test_power_follows_though_it_takes_its_time(emulator: str, connect: OpenBmc, login: BmcLogin) -> None:
    """The emulator obeys between one and eleven seconds later; it is waited for and proven."""
    with connect(emulator, login, budget_s=90.0) as bmc:
        bmc.power_on()
        assert "On" == bmc.power()
        bmc.power_off()
        assert "Off" == bmc.power()
