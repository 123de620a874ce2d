"""A Prefect server of our own for sites that run none, with SQLite; shared by commands, ended with the last of them."""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import requests

from flows import server_keeper
from flows.settings import prefect_api_url, prefect_environment, use_embedded_prefect, use_prefect_api

_HEALTHY_WITHIN_S = 60.0  # measured: 4-10 s to healthy alone, up to 47 s on a busy pair of cores
_ENDED_WITHIN_S = 15.0  # the keeper's own ten seconds, and a look or two


@dataclass
class LocalServer:
    """Our use of a server, and its keeper if we started it; neither when the operator's own server is used."""

    url: str = ""
    child: subprocess.Popen[bytes] | None = None  # the keeper
    use: BinaryIO | None = None  # locked while we use the server, also by our death
    note: Path | None = None
    without: frozenset[str] = frozenset()  # variables that nobody we start inherits

    def wait(self) -> str:
        """Until it answers; returns what to tell the operator when it never does (Prefect then embeds a server)."""
        if not self.use:
            return ""
        ends = time.monotonic() + _HEALTHY_WITHIN_S
        while time.monotonic() < ends and (self.child is None or self.child.poll() is None):
            if _healthy(self.url):
                return ""
            time.sleep(0.1)
        self.stop()
        use_embedded_prefect(self.without)
        return "The local Prefect server did not start; this run shows in an embedded one."

    def stop(self) -> None:
        """Use it no longer, and see its end if we started it and nobody else uses it; its history stays."""
        if self.use is None:
            return
        self.use.close()
        self.use = None
        ends = time.monotonic() + _ENDED_WITHIN_S
        while self.child and self.child.poll() is None and time.monotonic() < ends and not self._used_by_others():
            time.sleep(0.05)

    def _used_by_others(self) -> bool:
        """Whether another command has the lock; the keeper has it only when the note is gone."""
        if self.note is None:
            return False
        with (self.note.parent / "server.users").open("ab") as users:
            return not _locked(users) and self.note.exists()


def start_server(state: Path, without: frozenset[str] = frozenset()) -> LocalServer:
    """Begin to start a server unless `PREFECT_API_URL` names one, or one that another command started is up.

    Variables named in `without` are not handed on to it.
    """
    if prefect_api_url():
        return LocalServer()
    home = state.resolve() / "prefect"
    home.mkdir(parents=True, exist_ok=True)
    note = home / "server.json"
    with (home / "server.starting").open("ab") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)  # one at a time looks, and starts
        use = (home / "server.users").open("ab")
        fcntl.flock(use, fcntl.LOCK_SH)  # waits for a keeper that is just ending its server
        with (home / "server.kept").open("ab") as kept:
            while not (free := _locked(kept)) and not note.exists():
                time.sleep(0.05)  # its keeper is at its last words
            child = _start(home, note, kept, prefect_environment(state, without)) if free else None
        url = str(json.loads(note.read_text())["url"])
    use_prefect_api(url)  # before Prefect is imported, which reads it once
    return LocalServer(url=url, child=child, use=use, note=note, without=without)


def _start(home: Path, note: Path, kept: BinaryIO, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """The keeper, which starts the server and inherits the lock that says it lives."""
    port = _free_port()
    serve = ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
    with (home / "server.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, server_keeper.__file__, str(home / "server.users"), str(note), sys.executable, *serve],
            env=environment,  # its files lie under `state`, whoever started it
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(kept.fileno(),),
            start_new_session=True,  # Ctrl-C in the terminal must not take the server before the flow has said goodbye
        )
    note.write_text(json.dumps({"url": f"http://127.0.0.1:{port}/api", "pid": child.pid}))
    return child


def _locked(file: BinaryIO) -> bool:
    """Lock a file for ourselves alone; False when somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=2).ok
    except requests.RequestException:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
