"""A Prefect server of our own for sites that run none: a child with SQLite that outlives the flow it shows."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import requests

from flows.settings import prefect_api_url, prefect_environment, use_embedded_prefect, use_prefect_api

_HEALTHY_WITHIN_S = 60.0  # measured: 4-10 s to healthy alone, up to 47 s on a busy pair of cores


@dataclass
class LocalServer:
    """The child, or nothing when the operator's own server is used."""

    url: str = ""
    child: subprocess.Popen[bytes] | None = None
    note: Path | None = None
    without: frozenset[str] = frozenset()  # variables that nobody we start inherits

    def wait(self) -> str:
        """Until it answers; returns what to tell the operator when it never does (Prefect then embeds a server)."""
        if not self.child:
            return ""
        ends = time.monotonic() + _HEALTHY_WITHIN_S
        while time.monotonic() < ends and self.child.poll() is None:
            if _healthy(self.url):
                return ""
            time.sleep(0.1)
        self.stop()
        use_embedded_prefect(self.without)
        return "The local Prefect server did not start; this run shows in an embedded one."

    def stop(self) -> None:
        """End the child; the files under the state folder keep the history."""
        if self.child and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        if self.note:
            self.note.unlink(missing_ok=True)


def start_server(state: Path, without: frozenset[str] = frozenset()) -> LocalServer:
    """Begin to start a server unless `PREFECT_API_URL` names one or one of an earlier run still answers.

    Variables named in `without` are not handed on to it.
    """
    if prefect_api_url():
        return LocalServer()
    home = state.resolve() / "prefect"
    home.mkdir(parents=True, exist_ok=True)
    note = home / "server.json"
    left_over = _left_over(note)
    if left_over:
        use_prefect_api(left_over)
        return LocalServer(url=left_over)
    port = _free_port()
    with (home / "server.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
            env=prefect_environment(state, without),  # its files lie under `state`, whoever started it
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal must not take the server before the flow has said goodbye
        )
    url = f"http://127.0.0.1:{port}/api"
    use_prefect_api(url)  # before Prefect is imported, which reads it once
    note.write_text(json.dumps({"url": url, "pid": child.pid}))
    return LocalServer(url=url, child=child, note=note, without=without)


def _left_over(note: Path) -> str:
    """The server of a run that was killed, if it still answers."""
    try:
        url = str(json.loads(note.read_text())["url"])
    except (OSError, ValueError, KeyError):
        return ""
    return url if _healthy(url) else ""


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=2).ok
    except requests.RequestException:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
