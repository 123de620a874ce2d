"""What happens after POST: a deploy boot runs the real agent on the simulated disks, a disk boot starts the laid OS."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, cast

import aiohttp

from lab.hardware import DriveState
from lab.hostkey import make_host_key, public_part
from lab.image import read_image, share
from os_images.agent import DiskFacts, Facts, Stopped, read_credential, run_agent

if TYPE_CHECKING:
    from lab.machine import Machine

NOTHING_TO_BOOT = "SetupEntered"  # where firmware ends when no boot source answers
AFTER_POST = frozenset({"SystemHardwareInitializationComplete", "OSBootStarted", "OSRunning", NOTHING_TO_BOOT})
RAMDISK_S = 30.0  # a deploy ramdisk from firmware to its first network call; our choice
OS_BOOT_S = 45.0  # an installed OS from firmware to SSH; our choice
OURS = "rackmint-lab-image"  # what a disk with a lab image on it says it carries
PHONE_HOME_EVERY_S = 5.0  # pause of the first-boot unit between two tries; our choice
HTTP_BOOT_SETTINGS = ("Ipv4Http", "IPv4HTTPSupport_0091")  # what the shapes' BIOSes call it
CD_TARGETS = frozenset({"Cd", "UsbCd", "Usb"})
FETCH_LIMIT_S = 20.0  # UEFI gives up on an HTTP server that hangs; our choice
FETCH_AGAIN_S, FETCH_LEAST_S = 0.1, 1.0  # real seconds: however fast the lab's clock is, a server's restart takes some

# A ramdisk is a thread: the agent is synchronous. 64 imaging at once is the widest rack the lab is meant for.
_RAMDISKS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="lab-ramdisk")


async def boot(machine: Machine) -> None:
    """Boot from the override if it has something bootable, else from disk, else end in setup."""
    artifact = await _artifact(machine, machine.next_boot())
    credential = _credential(artifact)
    drive = machine.boot_drive
    if artifact:
        machine.boots.append("agent")
        await _run_ramdisk(machine, credential)
    elif drive:
        machine.boots.append("disk")
        await _start_os(machine, drive)
    else:
        machine.boots.append("nothing")
        machine.reach(NOTHING_TO_BOOT)


# --- the deploy ramdisk --------------------------------------------------------------------------------------------


async def _artifact(machine: Machine, target: str) -> bytes:
    """The bytes the firmware boots over HTTP or from the virtual CD; empty when there are none to be had."""
    if target == "UefiHttp" and http_boot_on(machine):
        return await _fetch(machine, machine.override.http_uri)
    if target in CD_TARGETS:
        return await _fetch(machine, machine.media.image)
    return b""


def http_boot_on(machine: Machine) -> bool:
    """Whether the BIOS lets UEFI boot over HTTP; a model without the setting always does."""
    settings = (machine.state.bios.get(name) for name in HTTP_BOOT_SETTINGS)
    return not any(str(value).startswith("Disable") for value in settings)


async def _fetch(machine: Machine, url: str) -> bytes:
    """Ask while nobody listens there, as long as firmware has patience."""
    asks = int(max(FETCH_LEAST_S, machine.clock.real_s(FETCH_LIMIT_S)) / FETCH_AGAIN_S)
    for _ in range(asks if url else 0):
        try:
            return await _fetch_once(url)
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(FETCH_AGAIN_S)
    return b""


async def _fetch_once(url: str) -> bytes:
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=FETCH_LIMIT_S)) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            return await answer.read() if answer.status == 200 else b""
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return b""


def _credential(artifact: bytes) -> dict[str, str]:
    try:
        return read_credential(artifact)
    except ValueError:
        return {}  # a ramdisk that nobody addressed to this node has nothing to do


async def _run_ramdisk(machine: Machine, credential: Mapping[str, str]) -> None:
    """Run the agent until it is through, then power off, as a ramdisk does; a power cut ends it on the spot."""
    machine.reach("OSBootStarted")
    await machine.clock.sleep(RAMDISK_S)
    if machine.fault("agent_lost"):
        return
    if not credential:
        machine.agent_log.append("no credential in the boot artifact: nothing to do")
        return
    lost = threading.Event()
    try:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(_RAMDISKS, _agent, machine, machine.wire(credential), lost)
    finally:
        lost.set()
    machine.agent_log.append(result)
    machine.halt()


def _agent(machine: Machine, credential: Mapping[str, str], lost: threading.Event) -> str:
    """The real agent, with the simulated disks for /dev/disk/by-path."""
    drives = {drive.by_path: drive for drive in machine.state.drives}

    def open_disk(by_path: str) -> AbstractContextManager[BinaryIO]:
        machine.joined = None  # a node that is laid anew is in no cluster
        return cast("AbstractContextManager[BinaryIO]", OpenDrive(drives[by_path], lost))

    def write_seed(by_path: str, seed: Mapping[str, str]) -> None:
        drives[by_path].seed = dict(seed)

    return run_agent(
        credential,
        facts(machine),
        open_disk,
        write_seed,
        tell=machine.agent_log.append,
        cancelled=lost.is_set,
        sleep=lambda seconds: cast("None", lost.wait(seconds)),
    )


def facts(machine: Machine) -> Facts:
    """What the ramdisk finds out about the machine it runs on."""
    state = machine.state
    return Facts(
        uuid=state.uuid,
        serial=state.serial,
        macs=(state.mgmt_mac, *(nic.mac for nic in state.nics)),
        disks=tuple(
            DiskFacts(
                by_path=drive.by_path,
                size_bytes=drive.size_bytes,
                wwn=drive.wwn,
                serial=drive.serial,
                model=drive.model,
                signature=drive.foreign or (OURS if drive.content else ""),
            )
            for drive in state.drives
        ),
    )


class OpenDrive(io.BytesIO):
    """One disk opened for writing: what is flushed stays, and nothing is written once power is gone."""

    def __init__(self, drive: DriveState, lost: threading.Event) -> None:
        super().__init__(drive.content or b"")
        self._drive, self._lost, self._touched = drive, lost, False

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # bytes are all the agent writes
        """Write, unless power is gone; the first write is the destructive step."""
        if self._lost.is_set():
            raise Stopped
        if not self._touched:
            self._touched = True
            self._drive.writes_begun += 1
            self._drive.seed, self._drive.host_key, self._drive.phoned_home, self._drive.foreign = {}, "", False, ""
        return super().write(data)

    def flush(self) -> None:
        """Bring what was written to the medium."""
        if self._touched:
            self._drive.content = share(self.getvalue())

    def close(self) -> None:
        """Flush, then close."""
        if not self.closed:
            self.flush()
        super().close()


# --- the installed OS ----------------------------------------------------------------------------------------------


async def _start_os(machine: Machine, drive: DriveState) -> None:
    """Bring the OS up after its boot time; a first boot makes a host key and phones home."""
    machine.reach("OSBootStarted")
    await machine.clock.sleep(OS_BOOT_S)
    drive.host_key = drive.host_key or make_host_key()
    machine.new_boot_id()
    machine.boot_log = _boot_log(read_image(drive.content or b""))
    machine.os_up = True
    machine.reach("OSRunning")
    if drive.seed.get("phone_home_url") and not drive.phoned_home:
        machine.aside(_phone_home(machine, drive))


def _boot_log(software: Mapping[str, str]) -> list[str]:
    return [
        f"Linux version {software.get('kernel', '')} (lab@build) #1 SMP",
        f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {software.get('driver', '')}",
    ]


async def _phone_home(machine: Machine, drive: DriveState) -> None:
    """Tell the image service that this node is up, until it has heard it or says no."""
    body = {
        "attempt": drive.seed.get("attempt", ""),
        "token": drive.seed.get("token", ""),
        "host_name": drive.seed.get("host_name", machine.name),
        "addresses": [machine.ssh_address] if machine.ssh_address else [],
        "ssh_host_key": public_part(drive.host_key),
        "machine_uuid": machine.state.uuid,
        "boot_id": machine.boot_id,
        "image_digest": drive.seed.get("image_digest", ""),
    }
    while not await _told(machine, drive.seed["phone_home_url"], body):
        await asyncio.sleep(max(0.1, machine.clock.real_s(PHONE_HOME_EVERY_S)))
    drive.phoned_home = True


async def _told(machine: Machine, url: str, body: Mapping[str, object]) -> bool:
    """Whether this need not be said again: heard, or refused for good."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=FETCH_LIMIT_S)) as session,
            session.post(url, json=body) as answer,
        ):
            machine.boot_log.append(f"rackmint-first-boot[612]: phone home: HTTP {answer.status}")
            return answer.status < 500
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False
