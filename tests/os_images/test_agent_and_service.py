"""The deploy agent against the image service, over real HTTP with real bytes onto real files."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inventory.findings import Outcome
from os_images.installers.agent_image import judge_attempt
from tests.os_images.boxes import MIB, OTHER_UUID, UUID, Box, Scissors, Site, manifest_for


def no_wait(_: float) -> None:
    """Retry at once."""


def short_wait(_: float) -> None:
    """Retry soon: the other side is a real process that needs a moment."""
    time.sleep(0.05)


def test_a_good_image_is_laid_and_reported(site: Site, box: Box) -> None:
    """Bytes on the chosen disk, seed last, events in order."""
    site.start()
    credential = site.begin()
    assert "done" == box.run(credential, sleep=no_wait)
    assert Path(site.image.artifact.file).read_bytes() == box.disk().read_bytes()
    assert ["nvme-small"] == box.opened
    assert ["registered", "booted", "writing", "written", "seeded", "done"] == [
        kind
        for kind, before in zip(site.kinds(credential), ["", *site.kinds(credential)], strict=False)
        if kind != before
    ]
    seed = box.seeds["nvme-small"]
    assert {
        "authorized_key": "ssh-ed25519 AAAA test",
        "user": "root",
        "host_name": "r1-n01",
        "image_name": "test-image",
        "image_digest": site.image.digest,
        "phone_home_url": f"{site.url}/agent/v1/phone-home",
        "attempt": credential["attempt"],
    } == {key: value for key, value in seed.items() if key != "token"}
    assert credential["token"] != seed["token"]
    assert Outcome.PASS == judge_attempt(site.events(credential)).outcome


def test_tokens_are_nowhere_in_the_ledger(site: Site, box: Box, tmp_path: Path) -> None:
    """Only digests of tokens are kept."""
    site.start()
    credential = site.begin()
    box.run(credential, sleep=no_wait)
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.db*"))
    assert [False, False] == [t.encode() in stored for t in (credential["token"], box.seeds["nvme-small"]["token"])]


def test_a_wrong_digest_leaves_nothing_bootable(site: Site, box: Box) -> None:
    """Refused with both digests; the first MiB is empty; the old content cannot boot either."""
    got = bytearray((site.folder / "image.raw").read_bytes())
    got[3 * MIB] ^= 1
    (site.folder / "image.raw").write_bytes(got)
    site.start()
    box.disk().write_bytes(b"an older system" * 200_000)
    credential = site.begin()
    received = hashlib.sha256(got).hexdigest()
    reason = f"image checksum mismatch: expected sha256 {site.image.digest}, received sha256 {received}"
    assert f"failed: {reason}" == box.run(credential, sleep=no_wait)
    assert bytes(MIB) == box.disk().read_bytes()[:MIB]
    finding = judge_attempt(site.events(credential))
    assert (Outcome.FAIL, f"the image was not laid: {reason}") == (finding.outcome, finding.cause)
    assert {} == box.seeds


def test_a_failed_attempt_is_not_begun_again(site: Site, box: Box) -> None:
    """A BMC that boots the same medium for ever gets a no, and the disk is not opened."""
    site.image = manifest_for(site.folder / "image.raw", sha256="0" * 64)
    site.start()
    credential = site.begin()
    box.run(credential, sleep=no_wait)
    again = box.run(credential, sleep=no_wait)
    assert "failed: the service says HTTP 409: this attempt is over: failed; nothing may be written" == again
    assert ["nvme-small"] == box.opened


def test_a_completed_attempt_is_not_begun_again(site: Site, box: Box) -> None:
    """A node that boots the agent once more after `done` keeps its disk."""
    site.start()
    credential = site.begin()
    box.run(credential, sleep=no_wait)
    assert box.run(credential, sleep=no_wait).startswith(
        "failed: the service says HTTP 409: this attempt is over: done"
    )
    assert ["nvme-small"] == box.opened
    assert Outcome.PASS == judge_attempt(site.events(credential)).outcome


def test_an_agent_that_lost_power_may_begin_again(site: Site, box: Box) -> None:
    """Cut in the middle: nothing is told and nothing boots; the next boot of the same machine does the job."""
    site.start()

    def cut(position: int) -> None:
        box.power = position < 3 * MIB

    box.on_write = cut
    credential = site.begin()
    assert "failed: stopped" == box.run(credential, sleep=no_wait)
    assert bytes(MIB) == box.disk().read_bytes()[:MIB]
    assert "failed" not in site.kinds(credential)
    box.power, box.on_write = True, lambda _: None
    assert "done" == box.run(credential, sleep=no_wait)
    assert Path(site.image.artifact.file).read_bytes() == box.disk().read_bytes()


def test_another_machine_gets_nothing(site: Site, box: Box, tmp_path: Path) -> None:
    """The medium of one node in another: 409, no disk opened, and a note for whoever looks."""
    site.start()
    credential = site.begin()
    stranger = Box(tmp_path, uuid=OTHER_UUID)
    said = stranger.run(credential, sleep=no_wait)
    assert f"asked for the job of r1-n01, which is {UUID}" in said
    assert [] == stranger.opened
    assert ["refused"] == site.kinds(credential)


def test_a_uuid_with_swapped_bytes_is_the_same_machine(site: Site, box: Box, tmp_path: Path) -> None:
    """Some BMCs print the first three fields byte-swapped against what the kernel prints."""
    site.start()
    credential = site.begin()
    swapped = "a1c35a0f-bb70-0e4d-9f2e-5c1d2a3b4c5d"
    assert "done" == Box(tmp_path, uuid=swapped).run(credential, sleep=no_wait)


def test_a_wrong_token_gets_nothing(site: Site, box: Box) -> None:
    """403, whether the attempt exists or not."""
    site.start()
    credential = site.begin()
    expected = "failed: the service says HTTP 403: unknown attempt or token"
    assert expected == box.run({**credential, "token": "guess"}, sleep=no_wait)
    assert expected == box.run({**credential, "attempt": "nobody"}, sleep=no_wait)
    assert [] == box.opened


def test_a_foreign_disk_is_refused(site: Site, box: Box) -> None:
    """Somebody else's data is named and left alone; with wiping approved it is overwritten."""
    site.start()
    box.signature = "LVM2_member"
    credential = site.begin()
    assert "carries LVM2_member: somebody else's data" in box.run(credential, sleep=no_wait)
    assert [] == box.opened
    assert Outcome.FAIL == judge_attempt(site.events(credential)).outcome
    approved = site.begin(wipe=True)
    assert "done" == box.run(approved, sleep=no_wait)


@pytest.mark.parametrize("image_format", ["raw.gz", "raw.xz"])
def test_a_packed_image_is_unpacked_while_it_streams(site: Site, box: Box, image_format: str) -> None:
    """The digest is that of the bytes sent; the disk gets the unpacked ones."""
    raw = (site.folder / "image.raw").read_bytes()
    packed = site.folder / "image.packed"
    packed.write_bytes({"raw.gz": gzip.compress, "raw.xz": lzma.compress}[image_format](raw))
    site.image = manifest_for(packed, format=image_format, size_raw=len(raw))
    site.start()
    credential = site.begin()
    assert "done" == box.run(credential, sleep=no_wait)
    assert raw == box.disk().read_bytes()


def test_a_dropped_connection_is_taken_up_where_it_broke(site: Site, box: Box) -> None:
    """Two cuts in the middle: the rest is asked for by range, and the digest is right."""
    site.start()
    relay = Scissors(site.port, [2 * MIB, 1 * MIB])
    try:
        credential = site.begin(url=f"http://127.0.0.1:{relay.port}")
        assert "done" == box.run(credential, sleep=no_wait)
    finally:
        relay.close()
    assert Path(site.image.artifact.file).read_bytes() == box.disk().read_bytes()
    ranges = [r.lower().split(b"range: bytes=")[1].split(b"-")[0] for r in relay.requests if r.startswith(b"GET /im")]
    starts = [int(start) for start in ranges]
    assert (3, 0, True) == (len(starts), starts[0], 0 < starts[1] < starts[2] < site.image.artifact.size)


SERVE_ALONE = """
import sys, time
from pathlib import Path
from inventory.ledger import Ledger
from os_images.manifest import load_manifests
from os_images.service import ImageService
ledger, port, folder = Ledger.open(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
service = ImageService(ledger, f"127.0.0.1:{port}", f"http://127.0.0.1:{port}", load_manifests(folder), folder)
service.start()
print("up", flush=True)
time.sleep(60)
"""


def test_a_killed_service_is_replaced_in_the_middle_of_an_image(site: Site, box: Box, tmp_path: Path) -> None:
    """Kill -9 of the serving process: the one standing by takes the port, and the agent goes on with the same job."""
    (site.folder / "image.raw").write_bytes(random.Random(6).randbytes(24 * MIB))  # more than sockets can hold
    site.image = manifest_for(site.folder / "image.raw")
    (site.folder / "test.toml").write_text(
        f'name = "test-image"\nversion = "1"\nsource = "made by this test"\n[artifact]\nfile = "image.raw"\n'
        f'sha256 = "{site.image.digest}"\nsize = {site.image.artifact.size}\n[versions]\n'
        + "\n".join(f'{name} = "{version}"' for name, version in site.image.versions.items())
    )
    book = f"sqlite:///{tmp_path}/ledger.db"
    argv = [sys.executable, "-c", SERVE_ALONE, book, str(site.port), str(site.folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as first:
        assert first.stdout is not None
        assert "up\n" == first.stdout.readline()
        second = site.start()
        assert second.serving is False

        def kill(position: int) -> None:
            if position > 2 * MIB and first.poll() is None:
                os.kill(first.pid, signal.SIGKILL)
                first.wait()

        box.on_write = kill
        credential = site.begin()
        assert "done" == box.run(credential, retry_s=3000.0, sleep=short_wait)
    assert -signal.SIGKILL == first.returncode
    assert second.serving is True
    assert any(line.startswith(f"image {site.url}/images/") and "trying again" in line for line in box.told)
    assert Path(site.image.artifact.file).read_bytes() == box.disk().read_bytes()
    assert ["nvme-small"] == box.opened
    assert 1 == site.kinds(credential).count("registered")


def test_patience_ends(site: Site, box: Box) -> None:
    """A service that never answers: so many seconds, then the last error, and no disk opened."""
    slept: list[float] = []
    credential = site.begin()
    said = box.run(credential, retry_s=30.0, sleep=slept.append)
    assert "no success in 30 s" in said
    assert "Connection refused" in said
    assert [1.0, 2.0, 4.0, 8.0, 10.0] == slept[:5]
    assert [] == box.opened
