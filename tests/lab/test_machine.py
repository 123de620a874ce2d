"""A machine's power, POST and boot, without any BMC in front."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from lab.boots import OpenDrive
from lab.clock import LabClock
from lab.faults import FAULTS
from lab.hardware import Shape, build_node
from lab.image import LAB_SOFTWARE, make_image, read_image
from lab.machine import Machine, PointlessReset
from os_images.agent import Stopped


def _machine(shape: Shape = Shape.HGX, scale: float = 5000, *, imaged: bool = False) -> Machine:
    machine = Machine(build_node("R1", 1, shape), LabClock(scale))
    if imaged:
        machine.state.drives[0].content = make_image(LAB_SOFTWARE, 4096)
    return machine


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 10))


async def _until(there: Callable[[], object]) -> None:
    while not there():
        await asyncio.sleep(0.005)


def test_a_clock_compresses() -> None:
    """300 s of POST are 3 s at scale 100; a clock that stands still is refused."""
    assert 3.0 == LabClock(100).real_s(300)
    with pytest.raises(ValueError, match="never moves"):
        LabClock(0)


def test_an_image_says_what_it_carries() -> None:
    """What is written can be read, on a larger disk too; a cut-off image is no image."""
    image = make_image(LAB_SOFTWARE, 5000)
    assert (5000, dict(LAB_SOFTWARE)) == (len(image), read_image(image))
    assert dict(LAB_SOFTWARE) == read_image(image + bytes(999))
    assert {} == read_image(image[:-100])
    with pytest.raises(ValueError, match="too few"):
        make_image(LAB_SOFTWARE, 10)


def test_a_disk_boot_runs_what_lies_there() -> None:
    """POST, then the OS of the image, with a boot id and a host key of its own; off again, nothing runs."""

    async def work() -> None:
        machine = _machine(imaged=True)
        machine.reset("On")
        await _until(lambda: machine.running)
        assert ("OSRunning", ["disk"], 1) == (machine.progress, machine.boots, machine.posts)
        assert "570.158.01" == machine.software["driver"]
        first, key = machine.boot_id, machine.ssh_host_key
        machine.reset("GracefulRestart")
        await _until(lambda: machine.running and machine.boot_id != first)
        assert key == machine.ssh_host_key
        machine.reset("ForceOff")
        await _until(lambda: machine.power == "Off")
        assert (False, []) == (machine.running, machine.kernel_log)

    _run(work)


def test_progress_goes_through_post() -> None:
    """The boot progress takes its steps in order and in the right power state."""

    async def work() -> None:
        machine = _machine()
        machine.reset("On")
        await _until(lambda: machine.boots)
        texts = [text.removeprefix("Boot progress: ") for _, text in machine.events]
        assert [
            "None",
            "PrimaryProcessorInitializationStarted",
            "MemoryInitializationStarted",
            "PCIResourceConfigStarted",
            "SystemHardwareInitializationComplete",
            "SetupEntered",
        ] == texts

    _run(work)


@pytest.mark.parametrize(
    ("power", "kind"), [("Off", "ForceOff"), ("Off", "ForceRestart"), ("On", "On"), ("PoweringOff", "GracefulShutdown")]
)
def test_pointless_resets(power: str, kind: str) -> None:
    """What is so already is not done again."""
    machine = _machine()
    machine.power = power
    with pytest.raises(PointlessReset):
        machine.reset(kind)


def test_a_shutdown_can_be_forced() -> None:
    """ForceOff overtakes a graceful shutdown that is under way."""

    async def work() -> None:
        machine = _machine(scale=100, imaged=True)
        machine.switch_on_idle()
        machine.os_up = True
        machine.reset("GracefulShutdown")
        machine.reset("ForceOff")
        await _until(lambda: machine.power == "Off")
        assert not machine.os_up

    _run(work)


def test_a_deploy_boot_comes_from_where_it_is_told() -> None:
    """UEFI HTTP boots the artifact only if the BIOS lets it; else the disk, else nothing."""

    async def work() -> None:
        app = web.Application()

        async def artifact(_: web.Request) -> web.Response:
            return web.Response(body=b"a ramdisk without a credential")

        app.router.add_get("/agent.efi", artifact)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/agent.efi"
        for allowed, booted in (("Disable", "nothing"), ("Enable", "agent")):
            machine = _machine()
            machine.state.bios["Ipv4Http"] = allowed
            machine.override.target, machine.override.enabled, machine.override.http_uri = "UefiHttp", "Once", url
            machine.reset("On")
            await _until(lambda: machine.boots)  # noqa: B023  (this machine)
            assert [booted] == machine.boots
            await machine.stop()
        await runner.cleanup()

    _run(work)


def test_once_may_stick() -> None:
    """With boot_once_sticks the override outlives the boot."""
    machine = _machine()
    machine.override.target, machine.override.enabled = "Cd", "Once"
    FAULTS["boot_once_sticks"].apply(machine)
    assert ("Cd", "Cd") == (machine.next_boot(), machine.override.target)
    FAULTS["boot_once_sticks"].heal(machine)
    assert ("Cd", "None") == (machine.next_boot(), machine.override.target)


def test_a_disk_keeps_what_was_flushed_until_power_went() -> None:
    """Writing counts once a session; after the power cut a write ends the agent."""
    import threading

    lost = threading.Event()
    drive = build_node("R1", 1, Shape.HGX).drives[0]
    drive.seed, drive.host_key = {"token": "old"}, "old"
    disk = OpenDrive(drive, lost)
    disk.write(b"abc")
    disk.flush()
    lost.set()
    with pytest.raises(Stopped):
        disk.write(b"def")
    disk.close()
    assert (b"abc", 1, {}, "") == (drive.content, drive.writes_begun, drive.seed, drive.host_key)
