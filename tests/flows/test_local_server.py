"""Our own Prefect server is shared by the commands of a site, and ends with the last of them, however that ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A command as far as the server goes: it says which one it has, and uses it until its standard input ends.
_USER = """
import sys
from pathlib import Path
from flows.local_server import start_server
server = start_server(Path(sys.argv[1]))
said = server.wait()
print(said or server.url, flush=True)
sys.stdin.read()
server.stop()
"""


def user(state: Path) -> subprocess.Popen[str]:
    """Start one."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    argv = [sys.executable, "-c", _USER, str(state)]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env={**env, "PYTHONPATH": str(ROOT)}, stdin=pipe, stdout=pipe, text=True)


def has(command: subprocess.Popen[str]) -> str:
    """The URL of the server it has."""
    assert command.stdout
    return command.stdout.readline().strip()


def servers(state: Path) -> list[str]:
    """Keepers and servers that run for this folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment, line = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"PREFECT_HOME={state.resolve()}/".encode() in environment and b"prefect\0server" in line:
            found.append(line.decode().replace("\0", " "))
    return found


@pytest.mark.slow
def test_the_last_command_ends_the_server(tmp_path: Path) -> None:
    """Two commands, one server; the first ends and the second still has it; that one is killed and the server ends."""
    first = user(tmp_path)
    url = has(first)
    assert url.startswith("http://127.0.0.1:")
    second = user(tmp_path)
    assert url == has(second)
    first.communicate("")
    assert 0 == first.returncode
    assert 2 == len(servers(tmp_path)), "a keeper and its server"
    assert url == json.loads((tmp_path / "prefect" / "server.json").read_text())["url"]
    second.kill()
    second.communicate()
    ends = time.monotonic() + 20
    while servers(tmp_path) and time.monotonic() < ends:
        time.sleep(0.1)
    assert [] == servers(tmp_path)
    third = user(tmp_path)
    assert has(third) not in ("", url)
    third.communicate("")
    assert [] == servers(tmp_path)
