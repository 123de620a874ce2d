"""Commands on a node over SSH, each of which ends on both sides when its time is up or somebody asks to stop.

How a command is wrapped, so that it can be stopped, stands in `inventory/remote_command.py`.
Files go over SFTP: parent folders are made with mode 0700, the file gets its mode before its content.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

import paramiko
from paramiko.buffered_pipe import PipeTimeout
from paramiko.ssh_exception import AuthenticationException, BadHostKeyException, IncompatiblePeer, SSHException

from inventory.command import Output
from inventory.deadline import Deadline
from inventory.errors import BadSettings, CommandFailed, LoginRefused, NodeTrouble, NodeUnreachable
from inventory.model import now
from inventory.remote_command import KILL_AFTER_S, kill_line, pid_told, without_pid, wrapped
from inventory.secrets import Secret

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its tracebacks go to a log, never to a terminal

CONNECT_S = 10.0  # our choice: three SYN retries on a loaded management network
BANNER_S = 15.0  # paramiko's own default; sshd on a node in its first boot can take seconds
POLL_S = 0.2  # our choice: how late a cancel may be noticed
GRACE_S = 3.0  # our choice: after `timeout` should have killed everything, before we give up on it
MOST_BYTES = 32 * 2**20  # our choice: a full `lspci -vvv` of an 8-GPU server is 1.2 MB
_WINDOW_BYTES = 16 * 2**20  # our choice: what a command may say between two polls
_CHUNK_BYTES = 2**15  # paramiko's usual packet
_NO_EXIT = -1  # paramiko's word for an end without an exit code
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")  # RFC 8332: how an ssh-rsa key signs today
_CUT_OFF_EXITS = frozenset({124, 137, 143, -1})  # timeout(1): 124, or 128 + signal; -1: paramiko's word for "by signal"


def no_fence() -> None:
    """Used where no lease is held."""


@dataclass(frozen=True, slots=True)
class SshLogin:
    """Who logs in, and with which key (OpenSSH or PEM text)."""

    username: str
    private_key: Secret


# What each foreign exception means to us, most particular first. `EOFError` is how paramiko tells of a lost connection.
TRANSLATION: tuple[tuple[type[BaseException], type[NodeTrouble], str], ...] = (
    (
        BadHostKeyException,
        NodeUnreachable,
        "The host key changed: was the node imaged anew, or is this another machine?",
    ),
    (
        IncompatiblePeer,
        NodeUnreachable,
        "Its SSH server is too old, or shows another kind of host key than the pinned one.",
    ),
    (AuthenticationException, LoginRefused, "Check [ssh] user and private_key, and the key in the image's seed."),
    (paramiko.SFTPError, CommandFailed, "Is the SFTP subsystem enabled on the node?"),
    (PipeTimeout, NodeUnreachable, "The connection is up and silent."),
    (SSHException, NodeUnreachable, "Is sshd running and healthy?"),
    (TimeoutError, NodeUnreachable, "Is it powered on and booted?"),
    (EOFError, NodeUnreachable, "The connection was closed by the node."),
    (OSError, NodeUnreachable, "Is it powered on and booted?"),
)
FOREIGN = tuple(row[0] for row in TRANSLATION)


def translate(node: str, failed: str, error: BaseException) -> NodeTrouble:
    """Our error for one of paramiko's or the socket's."""
    for theirs, ours, advice in TRANSLATION:
        if isinstance(error, theirs):
            return ours(node, failed, str(error) or type(error).__name__, advice)
    return NodeUnreachable(node, failed, str(error) or type(error).__name__)


@contextlib.contextmanager
def _translated(node: str, failed: str) -> Iterator[None]:
    try:
        yield
    except FOREIGN as error:
        raise translate(node, failed, error) from error


def read_key(secret: Secret) -> paramiko.PKey:
    """The private key behind a secret; raises `BadSettings` that never shows it."""
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with contextlib.suppress(SSHException, ValueError, IndexError):
            return kind.from_private_key(StringIO(secret.reveal().strip() + "\n"))
    raise BadSettings(
        "[ssh] private_key: not an unencrypted Ed25519, ECDSA or RSA key. Write one with ssh-keygen -t ed25519"
    )


def _bare(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command without the variables that `env` sets before it: what somebody who waits wants to read."""
    words = list(argv)
    while words and (words[0] == "env" or (argv[0] == "env" and "=" in words[0])):
        words.pop(0)
    return tuple(words)


def split_address(address: str) -> tuple[str, int]:
    """`host`, `host:port` or `[v6]:port`; port 22 when none is given."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(port)
    return address.strip("[]"), 22


class SshShell:
    """One SSH connection to one node: key-only, host key pinned or learnt, no agent, no known_hosts, no ssh config."""

    def __init__(
        self, node: str, transport: paramiko.Transport, deadline: Deadline, fence: Callable[[], None] = no_fence
    ) -> None:
        self.node = node
        self._transport = transport
        self._deadline = deadline
        self._fence = fence
        key = transport.get_remote_server_key()
        self.host_key = f"{key.get_name()} {key.get_base64()}"

    @classmethod
    def open(
        cls,
        node: str,
        address: str,
        login: SshLogin,
        *,
        host_key: str | None,
        deadline: Deadline,
        fence: Callable[[], None] = no_fence,
    ) -> Self:
        """Connect, check the host key, log in. Raises `NodeUnreachable` or `LoginRefused`."""
        key = read_key(login.private_key)
        failed = f"SSH to {address} failed"
        with _translated(node, failed):
            transport = _transport(address, host_key, deadline)
            try:
                _await(transport, deadline, f"an SSH server at {address}", lambda e: transport.start_client(event=e))
                _check_host_key(transport, address, host_key)
                _await(
                    transport, deadline, f"the SSH login at {address}",
                    lambda e: transport.auth_publickey(login.username, key, event=e),
                )  # fmt: skip
                if not transport.is_authenticated():
                    raise AuthenticationException(f"key of {login.username} not accepted")
            except BaseException:
                transport.close()
                raise
        return cls(node, transport, deadline, fence)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def within(self, deadline: Deadline) -> Self:
        """The same connection in another deadline: to put things in order when its own has ended or was cancelled."""
        return type(self)(self.node, self._transport, deadline, self._fence)

    def close(self) -> None:
        """End the connection; remote commands are bounded by their own `timeout`."""
        self._transport.close()

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: str = "") -> Output:
        """Run to the end or to the time-out; then the remote process is gone as well.

        Raises `Cancelled` or `BudgetSpent` (after killing it) and `NodeUnreachable` when the connection dies.
        """
        self._fence()
        what = f"`{shlex.join(_bare(argv))}`"
        allowed_s = self._deadline.timeout_s(timeout_s, what)
        with _translated(self.node, f"{what} was cut off"):
            call = _Call(self._channel(), argv, allowed_s, stdin)
            try:
                call.follow(self._deadline, what)
            except BaseException:
                self._kill(call)
                raise
            finally:
                call.channel.close()
            if call.exit is None:
                self._kill(call)
        if call.flooded:
            raise CommandFailed(self.node, f"{what} answered more than {MOST_BYTES >> 20} MiB")
        if call.exit is None:
            self._deadline.check(what)
        elif call.exit == _NO_EXIT and not self._transport.is_active():
            raise NodeUnreachable(self.node, f"{what} was cut off", "the connection ended before the command did")
        return call.output(argv)

    def put(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Lay a file on the node: its folder is made (0700), the mode is set before the content."""
        self._fence()
        with _translated(self.node, f"writing {path} over SFTP failed"):
            channel = self._channel()
            channel.invoke_subsystem("sftp")
            with paramiko.SFTPClient(channel) as sftp:
                _make_folders(sftp, PurePosixPath(path).parent)
                with sftp.open(path, "w") as file:
                    sftp.chmod(path, mode)
                    file.write(data)

    def _channel(self) -> paramiko.Channel:
        wait_s = self._deadline.timeout_s(CONNECT_S, "an SSH channel")
        channel = self._transport.open_session(window_size=_WINDOW_BYTES, timeout=wait_s)
        channel.settimeout(CONNECT_S)
        return channel

    def _kill(self, call: _Call) -> None:
        """End a remote process group for certain; a node that is gone needs no killing."""
        pid = call.await_pid(GRACE_S)
        if pid is None:
            return
        with contextlib.suppress(SSHException, OSError, EOFError):
            self._signal("TERM", pid)
            call.channel.status_event.wait(KILL_AFTER_S + POLL_S)
            self._signal("KILL", pid)

    def _signal(self, name: str, pid: int) -> None:
        with self._transport.open_session(timeout=CONNECT_S) as channel:
            channel.exec_command(kill_line(name, pid))
            channel.status_event.wait(GRACE_S)


class _Call:
    """One running remote command: feeds it, drains it, knows its process group."""

    def __init__(self, channel: paramiko.Channel, argv: tuple[str, ...], allowed_s: float, stdin: str) -> None:
        self.channel = channel
        self.exit: int | None = None
        self._allowed_s = allowed_s
        self._stdin, self._fed = stdin.encode(), False
        self._out, self._err = bytearray(), bytearray()
        self._began, self._started_at = time.monotonic(), now()
        channel.exec_command(wrapped(argv, allowed_s))

    @property
    def flooded(self) -> bool:
        """It said more than anybody will read."""
        return len(self._out) + len(self._err) > MOST_BYTES

    @property
    def pid(self) -> int | None:
        """The remote process group, once it told."""
        return pid_told(self._err.decode(errors="replace"))

    def follow(self, deadline: Deadline, what: str) -> None:
        """Until it ends, floods, or outlives its `timeout`; `exit` stays None unless it ended by itself."""
        while not self.channel.status_event.wait(self._feed()):
            self._drain()
            deadline.tell(what, deadline.left_s)
            deadline.check(what)
            if self.flooded or self._age_s > self._allowed_s + KILL_AFTER_S + GRACE_S:
                return
        self._drain_rest()
        code = self.channel.exit_status
        if not self.flooded and not (code in _CUT_OFF_EXITS and self._age_s >= self._allowed_s):
            self.exit = code

    def await_pid(self, patience_s: float) -> int | None:
        """The process group, waiting for its first line if it has only just begun."""
        ends = time.monotonic() + patience_s
        while self.pid is None and not self.channel.closed and time.monotonic() < ends:
            time.sleep(0.01)
            self._drain()
        return self.pid

    def output(self, argv: tuple[str, ...]) -> Output:
        """What it came to."""
        stderr = without_pid(self._err.decode(errors="replace"))
        return Output(argv, self._out.decode(errors="replace"), stderr, self.exit, self._started_at, self._age_s)

    @property
    def _age_s(self) -> float:
        return time.monotonic() - self._began

    def _feed(self) -> float:
        """Send what standard input is left; how long to wait before looking again."""
        if self._fed:
            return POLL_S
        with contextlib.suppress(OSError):  # it ended without reading: its exit code tells
            while self._stdin and self.channel.send_ready():
                self._stdin = self._stdin[self.channel.send(self._stdin[:_CHUNK_BYTES]) :]
            if not self._stdin:
                self.channel.shutdown_write()
                self._fed = True
        return POLL_S if self._fed else 0.01

    def _drain(self) -> None:
        while self.channel.recv_ready() and not self.flooded:
            self._out += self.channel.recv(_CHUNK_BYTES)
        while self.channel.recv_stderr_ready() and not self.flooded:
            self._err += self.channel.recv_stderr(_CHUNK_BYTES)

    def _drain_rest(self) -> None:
        """Read to the end of file; a child left behind with our standard output is not waited for."""
        ends = time.monotonic() + GRACE_S
        while not (self.channel.eof_received or self.channel.closed) and time.monotonic() < ends:
            self._drain()
            time.sleep(0.005)
        self._drain()


def _transport(address: str, host_key: str | None, deadline: Deadline) -> paramiko.Transport:
    wait_s = deadline.timeout_s(CONNECT_S, f"a connection to {address}")
    connection = socket.create_connection(split_address(address), wait_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each command waits 40 ms for an ACK
    transport = paramiko.Transport(connection)
    transport.banner_timeout = deadline.timeout_s(BANNER_S, f"the SSH banner of {address}")
    if host_key:
        kind = host_key.split()[0]
        transport.get_security_options().key_types = _RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)
    return transport


def _await(
    transport: paramiko.Transport, deadline: Deadline, what: str, begin: Callable[[threading.Event], object]
) -> None:
    """Begin one step of the handshake and wait for it, cancel in hand."""
    done = threading.Event()
    begin(done)
    ends = time.monotonic() + BANNER_S + CONNECT_S
    while not done.wait(POLL_S):
        deadline.tell(what, deadline.left_s)
        deadline.check(what)
        if time.monotonic() > ends:
            raise TimeoutError(f"no answer in {BANNER_S + CONNECT_S:.0f} s while waiting for {what}")
    failure = transport.get_exception()
    if failure or not transport.is_active():
        raise failure or EOFError(f"connection closed while waiting for {what}")


def _check_host_key(transport: paramiko.Transport, address: str, pinned: str | None) -> None:
    seen = transport.get_remote_server_key()
    if pinned and pinned.split()[:2] != [seen.get_name(), seen.get_base64()]:
        raise SSHException(f"{address} shows host key {seen.fingerprint}, pinned is another")


def _make_folders(sftp: paramiko.SFTPClient, folder: PurePosixPath) -> None:
    try:
        sftp.stat(str(folder))
    except FileNotFoundError:
        _make_folders(sftp, folder.parent)
        sftp.mkdir(str(folder), 0o700)
