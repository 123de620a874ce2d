"""SSH servers for all nodes in one process: each on its own address, only while the installed OS runs.

As with a real sshd, the key in the seed is the only way in, and the host key is the installed system's own. A node
that is off or still booting closes the connection at once. Every command goes into the node's process table (`jobs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping

import asyncssh

from lab.machine import Machine
from lab.shell.jobs import Job, jobs
from lab.shell.run import Run, Say
from lab.shell.script import run_text
from lab.shell.sftp import NodeFiles

_LOOK_EVERY_S = 0.1  # how late a power cut closes its connections; our choice
_LOGIN_S = 30.0


class NodeLogin(asyncssh.SSHServer):
    """Who may log in: the seed's user with the seed's key, nobody else."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def begin_auth(self, username: str) -> bool:
        """Always ask for a key."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Keys only."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether this is the key and the user the installer left."""
        seed = self._machine.seed
        known = asyncssh.import_public_key(seed["authorized_key"]) if seed.get("authorized_key") else None
        return username == seed.get("user", "root") and known is not None and known.public_data == key.public_data


class ShellServer:
    """The listening side of every node."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}  # node name → "127.78.1.1:22022"
        self._loops: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._open: dict[asyncssh.SSHServerConnection, tuple[Machine, str]] = {}
        self._logins: set[asyncio.Task[None]] = set()
        self._machines: list[Machine] = []

    async def start(self, machines: Mapping[tuple[str, int], Machine]) -> None:
        """Listen on every address (port 0: any)."""
        self._machines += machines.values()
        for (host, port), machine in machines.items():
            listener = _listen(host, port)
            self._sockets.append(listener)
            self._loops.append(asyncio.create_task(self._accept(listener, machine)))
            bound = listener.getsockname()
            self.addresses[machine.state.name] = f"{bound[0]}:{bound[1]}"
        self._loops.append(asyncio.create_task(self._watch_power()))

    async def stop(self) -> None:
        """Close everything and end every command."""
        tasks = [*self._loops, *self._logins]
        for task in tasks:
            task.cancel()
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._sockets:
            listener.close()
        left = [job for machine in self._machines for job in jobs(machine).running.values()]
        for job in left:
            job.end("power")
        await asyncio.gather(*(job.task for job in left if job.task), return_exceptions=True)

    async def _accept(self, listener: socket.socket, machine: Machine) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            if not machine.running or not machine.ssh_host_key:
                client.close()
                continue
            login = asyncio.create_task(self._serve(client, machine))
            self._logins.add(login)
            login.add_done_callback(self._logins.discard)

    async def _serve(self, client: socket.socket, machine: Machine) -> None:
        """One connection, until either side ends it."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, asyncssh.Error):
            connection = await asyncssh.run_server(
                client,
                server_factory=lambda: NodeLogin(machine),
                server_host_keys=[asyncssh.import_private_key(machine.ssh_host_key)],
                process_factory=lambda process: _handle(machine, process),
                sftp_factory=lambda channel: NodeFiles(channel, machine),
                encoding=None,
                line_editor=False,
                agent_forwarding=False,
                login_timeout=_LOGIN_S,
                gss_host=None,
            )
            self._open[connection] = (machine, machine.boot_id)
            await connection.wait_closed()
            self._open.pop(connection, None)

    async def _watch_power(self) -> None:
        """A node that lost its power says nothing more: its commands and connections are gone."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for connection, (machine, boot_id) in list(self._open.items()):
                if not machine.running or machine.boot_id != boot_id:
                    connection.abort()
                    for job in list(jobs(machine).running.values()):
                        job.end("power")


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(64)
    listener.setblocking(False)
    return listener


async def _handle(machine: Machine, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """One command on a channel. It is out of the table before the other side hears of its end."""
    job, table = Job(process.command or "-sh"), jobs(machine)
    job.task = asyncio.current_task()
    table.begin(job)
    code: int | None = None
    try:
        code = await _run(machine, process, job)
    except asyncio.CancelledError:
        job.ended_by = job.ended_by or "KILL"
    finally:
        table.finish(job)
        _tell_end(process, job, code)


async def _run(machine: Machine, process: asyncssh.SSHServerProcess[bytes], job: Job) -> int:
    async def stdin() -> str:
        return (await process.stdin.read()).decode(errors="replace")

    run = Run(machine, job, _say(process.stdout, job), _say(process.stderr, job), stdin)
    run.env = {"USER": machine.seed.get("user", "root"), "HOME": "/root", "PATH": "/usr/local/bin:/usr/bin:/sbin"}
    try:
        code = await run_text(run, process.command or (await stdin()))
        await asyncio.gather(*run.beside)  # they hold the channel's streams, so it stays open for them
        return code & 0xFF
    finally:
        for task in run.beside:
            task.cancel()


def _say(stream: asyncssh.SSHWriter[bytes], job: Job) -> Say:
    """A stream of a command without a terminal: when its client is gone it goes on until it has something to say."""

    def say(text: str) -> None:
        try:
            if text:
                stream.write(text.encode())
        except OSError:
            job.end("PIPE")

    return say


def _tell_end(process: asyncssh.SSHServerProcess[bytes], job: Job, code: int | None) -> None:
    """Exit code or signal to the other side, if it is still there."""
    with contextlib.suppress(OSError):
        if code is not None:
            process.exit(code)
        else:
            process.exit_with_signal("KILL" if job.ended_by == "KILL" else "TERM")


async def serve_shells(machines: Mapping[tuple[str, int], Machine]) -> ShellServer:
    """Begin to serve every node; `addresses` of the answer says where. Stop it with `await server.stop()`."""
    server = ShellServer()
    await server.start(machines)
    return server
