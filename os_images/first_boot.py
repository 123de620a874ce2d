"""The installed node's first words: where it is, by which key it is known, which image it runs. Carried by the image.

`python3 first_boot.py /path/to/rackmint.json`, run by a unit once network and sshd are up, tries until the service has
heard it or says no for good. Standard library only, one file.
"""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PAUSE_S = 5.0  # our choice: a service that comes back is met soon, and a rack of nodes does not flood it
_ANSWER_S = 30.0  # our choice
_SSH_PORT = 22  # what an image's sshd listens on


def known(root: Path = Path("/")) -> dict[str, str]:
    """What the node knows of itself. Raises `OSError` when there is no whole host key: then there is no SSH either."""
    key = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    if len(key) < 2:  # a power cut right after the first boot leaves an empty file
        raise OSError("the SSH host key is empty: remove it and make a new one")
    return {
        "ssh_host_key": " ".join(key[:2]),
        "machine_uuid": (root / "sys/class/dmi/id/product_uuid").read_text().strip().lower(),
        "boot_id": (root / "proc/sys/kernel/random/boot_id").read_text().strip(),
    }


def address_towards(url: str) -> str:
    """The node's own address on the way to the service; nothing is sent to find it out."""
    where = urllib.parse.urlsplit(url)
    host, port = where.hostname or "", where.port or (443 if where.scheme == "https" else 80)
    family, _, _, _, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(remote)
        own = str(probe.getsockname()[0])
    return f"[{own}]:{_SSH_PORT}" if ":" in own else f"{own}:{_SSH_PORT}"


def phone_home(
    seed: Mapping[str, str], facts: Mapping[str, str], *, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Say it until it is heard; the HTTP status that ended it: 204 when heard, 4xx when refused for good."""
    while True:
        try:
            return _say(seed, facts)
        except OSError as error:  # no network yet, no service, or a service that says "later"
            sys.stderr.write(f"rackmint: {error}; trying again in {_PAUSE_S:g} s\n")
            sleep(_PAUSE_S)


def _say(seed: Mapping[str, str], facts: Mapping[str, str]) -> int:
    url = seed["phone_home_url"]
    body: dict[str, Any] = {
        "attempt": seed["attempt"],
        "token": seed["token"],
        "host_name": socket.gethostname(),
        "addresses": [address_towards(url)],
        "image_digest": seed["image_digest"],
        **facts,
    }
    request = urllib.request.Request(  # noqa: S310 (the scheme is the seed's)
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            if error.code < 500:
                return error.code
        raise ConnectionError(f"HTTP {error.code}") from error


def main(argv: list[str]) -> int:
    """Phone home with the seed in the named file."""
    seed = json.loads(Path(argv[1]).read_text())
    status = phone_home(seed, known())
    sys.stderr.write(f"rackmint: the service says HTTP {status}\n")
    return 0 if status == 204 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
