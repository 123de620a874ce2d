"""The image service by itself: boot artifacts, images, hostile callers, and whose port it is."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from inventory.errors import BadSettings
from inventory.ledger import Ledger
from inventory.model import now
from os_images.agent import read_credential
from os_images.installers.agent_image import phoned_home
from os_images.service import ImageService
from tests.os_images.boxes import OTHER_UUID, UUID, Box, Site, manifest_for


def ask(site: Site, method: str, path: str, **more: Any) -> requests.Response:
    """One request."""
    return requests.request(method, f"{site.url}{path}", timeout=10, **more)


def boot_path(credential: dict[str, str], kind: str = "iso") -> str:
    """The path of a boot artifact."""
    return f"/boot/{credential['attempt']}/{credential['token']}/agent.{kind}"


def register(site: Site, credential: dict[str, str], **change: Any) -> requests.Response:
    """Register as the right machine, or with something changed."""
    body = {
        "attempt": credential["attempt"],
        "token": credential["token"],
        "uuid": UUID,
        "serial": "CH12345678",
        "macs": [],
        "disks": [{"by_path": "nvme-small", "size_bytes": 1 << 30}],
        **change,
    }
    return ask(site, "POST", "/agent/v1/register", json=body)


@pytest.mark.parametrize("kind", ["iso", "efi"])
def test_a_boot_artifact_carries_its_node_s_credential(site: Site, kind: str) -> None:
    """Same length as the file on disk, only the embed area differs, and the agent reads it."""
    service = site.start()
    credential = site.begin()
    url = service.boot_url(credential["attempt"], credential["token"], kind)
    got = requests.get(url, timeout=10)
    original = (site.folder / f"agent.{kind}").read_bytes()
    assert (200, len(original)) == (got.status_code, len(got.content))
    assert credential == read_credential(got.content)
    assert 4096 >= sum(a != b for a, b in zip(original, got.content, strict=True)) > 0
    assert ["fetched"] == site.kinds(credential)


def test_a_boot_artifact_is_read_in_pieces(site: Site) -> None:
    """BMCs ask for the length first and then for ranges, also across the edges of the embed area."""
    site.start()
    credential = site.begin()
    whole = ask(site, "GET", boot_path(credential)).content
    head = ask(site, "HEAD", boot_path(credential))
    assert (200, str(len(whole)), "bytes") == (
        head.status_code,
        head.headers["Content-Length"],
        head.headers["Accept-Ranges"],
    )
    for start, stop in ((0, 1), (299_990, 300_100), (300_500, 304_500), (len(whole) - 5, len(whole))):
        piece = ask(site, "GET", boot_path(credential), headers={"Range": f"bytes={start}-{stop - 1}"})
        assert (206, f"bytes {start}-{stop - 1}/{len(whole)}") == (piece.status_code, piece.headers["Content-Range"])
        assert whole[start:stop] == piece.content
    assert whole[-7:] == ask(site, "GET", boot_path(credential), headers={"Range": "bytes=-7"}).content
    for nonsense in (f"bytes={len(whole)}-", "bytes=9-3", "pages=1-2", "bytes=a-b"):
        assert 416 == ask(site, "GET", boot_path(credential), headers={"Range": nonsense}).status_code


def test_a_boot_artifact_is_for_whoever_has_the_token(site: Site) -> None:
    """403 for a guess, 404 in words for a missing or unfit file, 410 once the attempt is over."""
    site.start()
    credential = site.begin()
    assert 403 == ask(site, "GET", boot_path({**credential, "token": "guess"})).status_code
    assert 404 == ask(site, "GET", boot_path(credential, "exe")).status_code
    (site.folder / "agent.efi").write_bytes(b"a ramdisk that nobody prepared" * 1000)
    unfit = ask(site, "GET", boot_path(credential, "efi"))
    assert (404, True) == (unfit.status_code, "no empty credential area" in unfit.json()["error"])
    (site.folder / "agent.efi").unlink()
    assert 404 == ask(site, "GET", boot_path(credential, "efi")).status_code
    site.ledger.attempt_event(credential["attempt"], "done", {})
    over = ask(site, "GET", boot_path(credential))
    assert (410, "this attempt is over: done") == (over.status_code, over.json()["error"])


def test_an_image_is_served_whole_and_by_range(site: Site) -> None:
    """What resuming agents need; anything unknown is a 404 in words."""
    site.start()
    content = Path(site.image.artifact.file).read_bytes()
    path = f"/images/{site.image.digest}"
    assert content == ask(site, "GET", path).content
    rest = ask(site, "GET", path, headers={"Range": "bytes=5000000-"})
    assert (206, content[5_000_000:]) == (rest.status_code, rest.content)
    assert 416 == ask(site, "GET", path, headers={"Range": f"bytes={len(content)}-"}).status_code
    assert 404 == ask(site, "GET", "/images/" + "0" * 64).status_code
    Path(site.image.artifact.file).write_bytes(content[:-1])
    changed = ask(site, "GET", path)
    assert (404, True) == (changed.status_code, f"the manifest says {len(content)}" in changed.json()["error"])


def test_an_image_that_came_later_is_served(site: Site) -> None:
    """The process that holds the port may be older than the newest manifest."""
    site.start()
    (site.folder / "later.raw").write_bytes(b"later")
    later = manifest_for(site.folder / "later.raw")
    versions = "\n".join(f'{name} = "{version}"' for name, version in later.versions.items())
    (site.folder / "later.toml").write_text(
        f'name = "later"\nversion = "1"\nsource = "made by this test"\n[artifact]\nfile = "later.raw"\n'
        f'sha256 = "{later.digest}"\nsize = 5\n[versions]\n{versions}'
    )
    assert b"later" == ask(site, "GET", f"/images/{later.digest}").content


def test_an_attempt_a_day_old_is_over(tmp_path: Path, site: Site) -> None:
    """A token found next week opens nothing."""
    site.start()
    yesterday = Ledger.open(f"sqlite:///{tmp_path}/ledger.db", clock=lambda: now() - timedelta(hours=25))
    site.ledger, today = yesterday, site.ledger
    credential = site.begin()
    site.ledger = today
    yesterday.close()
    got = register(site, credential)
    assert (403, "this attempt is too old") == (got.status_code, got.json()["error"])


def test_registering_again_after_a_lost_answer_gives_the_same_job(site: Site) -> None:
    """The same machine, not yet done: same job, noted once; another machine: 409."""
    site.start()
    credential = site.begin()
    first, second = register(site, credential), register(site, credential)
    assert (200, first.json()) == (second.status_code, second.json())
    assert 409 == register(site, credential, uuid=OTHER_UUID).status_code
    assert ["registered", "refused"] == site.kinds(credential)


def test_an_ending_said_twice_is_noted_once(site: Site) -> None:
    """A lost answer to `done` is repeated by the agent; nothing else may be said after it."""
    site.start()
    credential = site.begin()
    event = {"attempt": credential["attempt"], "token": credential["token"], "detail": ""}
    assert 409 == ask(site, "POST", "/agent/v1/events", json={**event, "kind": "done"}).status_code  # not registered
    register(site, credential)
    said = [
        ask(site, "POST", "/agent/v1/events", json={**event, "kind": k}).status_code for k in ("done", "done", "failed")
    ]
    assert ([204, 204, 409], ["registered", "done"]) == (said, site.kinds(credential))


def phone(site: Site, seed: dict[str, str], **change: Any) -> int:
    """Phone home as the installed node does."""
    body = {
        "attempt": seed["attempt"],
        "token": seed["token"],
        "host_name": "r1-n01",
        "addresses": ["127.78.1.1:2222"],
        "ssh_host_key": "ssh-ed25519 AAAAhost",
        "machine_uuid": UUID,
        "boot_id": "b1",
        "image_digest": "0" * 64,
        **change,
    }
    return ask(site, "POST", "/agent/v1/phone-home", json=body).status_code


def test_a_node_phones_home_once_and_keeps_its_host_key(site: Site, box: Box) -> None:
    """Heard twice it is noted once; a new address is noted; another machine, token or host key is refused."""
    site.start()
    credential = site.begin()
    box.run(credential, sleep=lambda _: None)
    seed = box.seeds["nvme-small"]
    assert [204, 204] == [phone(site, seed), phone(site, seed)]
    assert 1 == site.kinds(credential).count("phone-home")
    refused = [
        phone(site, seed, token=credential["token"]),
        phone(site, seed, machine_uuid=OTHER_UUID),
        phone(site, seed, ssh_host_key="ssh-ed25519 AAAAother"),
        phone(site, seed, addresses=[]),
    ]
    assert [403, 409, 409, 400] == refused
    assert 204 == phone(site, seed, addresses=["127.78.1.9:22"], boot_id="b2")
    home = phoned_home(site.events(credential))
    assert home is not None
    assert (("127.78.1.9:22",), "ssh-ed25519 AAAAhost", "b2") == (home.addresses, home.ssh_host_key, home.boot_id)


HOSTILE = [
    b"",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b'{"attempt": 1}',
    b"[" * 60_000,
    b'{"attempt":"a","token":"\\ud800","uuid":"u","serial":"s"}',
    b'{"attempt":"a","token":"t","uuid":"u\\u001b[2J","serial":"s"}',
    b'{"attempt":"a","token":"t","uuid":"u","serial":"s","disks":[{"by_path":"d","size_bytes":1e400}]}',
    b'{"attempt":"a","token":"t","uuid":"u","serial":"s","disks":[{"by_path":"d","size_bytes":-1}]}',
    b'{"attempt":"a","token":"t","uuid":"u","serial":"s","extra":1}',
    json.dumps({"attempt": "a" * 300, "token": "t", "uuid": "u", "serial": "s"}).encode(),
]


@pytest.mark.parametrize("path", ["register", "events", "phone-home"])
@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_not_understood_is_refused_in_one_sentence(site: Site, path: str, body: bytes) -> None:
    """400 with a JSON error that does not repeat the input; never a traceback."""
    site.start()
    got = ask(site, "POST", f"/agent/v1/{path}", data=body)
    assert 400 == got.status_code
    assert ["error"] == list(got.json())
    assert "Traceback" not in got.text
    assert "\x1b" not in got.json()["error"]


def test_a_body_too_large_is_cut_off(site: Site) -> None:
    """413 before it is read."""
    site.start()
    assert 413 == ask(site, "POST", "/agent/v1/register", data=b"x" * 100_000).status_code


def test_a_ledger_in_trouble_means_try_again(site: Site) -> None:
    """503, which agents ride out."""
    site.start()
    credential = site.begin()
    file = Path(site.ledger.name.removeprefix("sqlite:///"))
    site.ledger.close()
    for part in file.parent.glob("ledger.db*"):
        part.unlink()
    file.write_bytes(b"not a ledger any more" * 1000)
    got = register(site, credential)
    assert (503, "2") == (got.status_code, got.headers["Retry-After"])


def test_a_second_process_of_the_same_ledger_stands_by_and_takes_over(site: Site) -> None:
    """`start` returns at once; within a second after the first one stops the second serves."""
    first = site.start()
    second = site.start()
    assert (True, False) == (first.serving, second.serving)
    first.stop()
    for _ in range(100):
        if second.serving:
            break
        threading.Event().wait(0.05)
    assert ("rackmint images", True) == (ask(site, "GET", "/health").json()["service"], second.serving)


def test_a_port_of_another_ledger_is_refused(site: Site, tmp_path: Path) -> None:
    """Two sites on one port would serve each other's nodes."""
    site.start()
    other = Ledger.open(f"sqlite:///{tmp_path}/other.db")
    try:
        with pytest.raises(BadSettings, match="not rackmint with this ledger"):
            site.start(book=other)
    finally:
        other.close()


class _Stranger(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer as some other web server does."""
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_port_whose_owner_is_just_ending_is_waited_for(site: Site) -> None:
    """The process that served before has the port for a moment and says nothing any more: that is no stranger."""
    ending = socket.create_server(("127.0.0.1", site.port))
    threading.Timer(0.5, ending.close).start()
    assert True is site.start().serving


def test_a_port_of_somebody_else_is_refused(site: Site) -> None:
    """Named at start, not found out by a node that never boots."""
    with http.server.HTTPServer(("127.0.0.1", site.port), _Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever)
        thread.start()
        try:
            with pytest.raises(BadSettings, match=f"port 127.0.0.1:{site.port} is taken"):
                site.start()
        finally:
            stranger.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("192.0.2.1:1", "cannot listen on 192.0.2.1:1"),  # RFC 5737: nobody's own address
        ("no port", "Write HOST:PORT"),
        ("127.0.0.1:99999", "Write HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_had_is_refused(site: Site, listen: str, said: str) -> None:
    """One sentence before any node is touched."""
    with pytest.raises(BadSettings, match=said):
        ImageService(site.ledger, listen, site.url, {}, site.folder).start()


def test_a_caller_that_hangs_up_harms_nobody(site: Site) -> None:
    """Half a request and gone: the next one is answered."""
    site.start()
    with socket.create_connection(("127.0.0.1", site.port)) as rude:
        rude.sendall(b"POST /agent/v1/register HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
    assert 200 == ask(site, "GET", "/health").status_code
