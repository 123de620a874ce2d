"""SSH as the product speaks it, against a real OpenSSH server on loopback."""

from __future__ import annotations

import getpass
import inspect
import pkgutil
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import paramiko
import pytest

from inventory.deadline import Deadline
from inventory.errors import (
    BadSettings,
    BudgetSpent,
    Cancelled,
    CommandFailed,
    LeaseLost,
    LoginRefused,
    NodeTrouble,
    NodeUnreachable,
)
from inventory.secrets import Secret
from inventory.ssh import SshLogin, SshShell, split_address, translate

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
needs_sshd = pytest.mark.skipif(
    not Path(SSHD).exists(), reason="no OpenSSH server here: apt-get install openssh-server"
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a host key, the operator's key and a stranger's."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("host", "operator", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


@pytest.fixture(scope="module")
def sshd(keys: Path) -> Iterator[str]:
    """The address of a real sshd that lets the operator's key in."""
    port = _free_port()
    settings = keys / "sshd_config"
    settings.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/operator.pub\n"
        "PasswordAuthentication no\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        "Subsystem sftp internal-sftp\nMaxSessions 20\n"
    )
    if getpass.getuser() == "root":
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(settings)], stderr=subprocess.PIPE)
    _wait_for_port(port)
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.communicate(timeout=5)


@pytest.fixture
def shell(sshd: str, keys: Path) -> Iterator[SshShell]:
    """A logged-in shell with a minute of budget."""
    with _open(sshd, keys, Deadline("n1", 60)) as shell:
        yield shell


def _open(
    address: str, keys: Path, deadline: Deadline, *, key: str = "operator", host_key: str | None = None
) -> SshShell:
    login = SshLogin(getpass.getuser(), Secret((keys / key).read_text()))
    return SshShell.open("n1", address, login, host_key=host_key, deadline=deadline)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for_port(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"sshd did not listen on {port}")


def _running(marker: str) -> list[str]:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if line.endswith(marker) and "sleep" in line]


def _gone(marker: str) -> bool:
    for _ in range(30):
        if not _running(marker):
            return True
        time.sleep(0.1)
    return False


@needs_sshd
def test_a_command_brings_output_exit_code_and_the_machines_last_line(shell: SshShell) -> None:
    """Standard output, standard error and exit code arrive apart, arguments are quoted."""
    output = shell.run(("sh", "-c", "echo 'a  b'; echo oops >&2; exit 3"), timeout_s=10)
    assert ("a  b\n", "oops\n", 3) == (output.stdout, output.stderr, output.exit)
    assert "oops" == output.last_line
    assert "$HOME `x` 'y'\n" == shell.run(("echo", "$HOME `x` 'y'"), timeout_s=10).stdout


@needs_sshd
def test_standard_input_reaches_the_command_and_ends(shell: SshShell) -> None:
    """A large standard input arrives whole, and a command that does not read it does not hang us."""
    text = "line of text\n" * 100_000
    assert text == shell.run(("cat",), timeout_s=20, stdin=text).stdout
    assert 0 == shell.run(("true",), timeout_s=10, stdin=text).exit


@needs_sshd
def test_bytes_that_are_no_text_are_shown_and_do_not_break(shell: SshShell) -> None:
    """What is not UTF-8 becomes a replacement character."""
    assert "\ufffda" == shell.run(("printf", r"\377a"), timeout_s=10).stdout


@needs_sshd
def test_a_missing_tool_and_an_own_exit_124_are_not_time_outs(shell: SshShell) -> None:
    """127 and an early 124 are exit codes like others."""
    assert 127 == shell.run(("no-such-tool",), timeout_s=10).exit
    assert 124 == shell.run(("sh", "-c", "exit 124"), timeout_s=10).exit


@needs_sshd
def test_a_time_out_kills_the_remote_process(shell: SshShell) -> None:
    """After the time-out there is no exit code, and `ps` no longer shows the process."""
    output = shell.run(("sleep", "7777.1"), timeout_s=0.5)
    assert None is output.exit
    assert "timed out" == output.status
    assert _gone("7777.1")


@needs_sshd
def test_a_process_that_ignores_the_first_signal_is_killed_all_the_same(shell: SshShell) -> None:
    """A command that traps TERM, and the child it left behind, are gone after the time-out."""
    output = shell.run(("sh", "-c", "trap '' TERM; sleep 7777.2 & while :; do sleep 0.2; done"), timeout_s=0.5)
    assert None is output.exit
    assert _gone("7777.2")


@needs_sshd
def test_cancel_is_noticed_at_once_and_kills_the_remote_process(sshd: str, keys: Path) -> None:
    """The cancel token set from another thread ends a long command on both sides within a second."""
    deadline = Deadline("n1", 60)
    with _open(sshd, keys, deadline) as shell:
        threading.Timer(0.3, deadline.cancel.set).start()
        began = time.monotonic()
        with pytest.raises(Cancelled):
            shell.run(("sleep", "7777.3"), timeout_s=30)
        assert time.monotonic() - began < 2
    assert _gone("7777.3")


@needs_sshd
def test_the_budget_ends_a_command_before_its_own_time_out(sshd: str, keys: Path) -> None:
    """A spent budget is told as such, and the remote process is gone."""
    with _open(sshd, keys, Deadline("n1", 1.5)) as shell, pytest.raises(BudgetSpent):
        shell.run(("sleep", "7777.4"), timeout_s=30)
    assert _gone("7777.4")


@needs_sshd
def test_a_command_is_bounded_on_the_node_even_when_we_are_gone(sshd: str, keys: Path) -> None:
    """When the connection dies the remote side still ends the command at its time-out."""
    shell = _open(sshd, keys, Deadline("n1", 60))
    threading.Timer(0.3, shell.close).start()
    with pytest.raises(NodeUnreachable):
        shell.run(("sleep", "7777.5"), timeout_s=1.5)
    assert _gone("7777.5")


@needs_sshd
def test_endless_output_is_cut(shell: SshShell) -> None:
    """A tool that never stops talking is stopped and named."""
    with pytest.raises(CommandFailed, match="more than 32 MiB"):
        shell.run(("yes", "7777.6"), timeout_s=30)
    assert [] == [line for line in _running("7777.6") if line.startswith("yes")]


@needs_sshd
def test_put_makes_the_folder_and_keeps_the_mode(shell: SshShell, tmp_path: Path) -> None:
    """A file lands with its mode in folders of mode 0700, and a second put replaces it."""
    path = tmp_path / "run" / "deep" / "join.yaml"
    shell.put(str(path), b"first and longer")
    shell.put(str(path), b"second", mode=0o640)
    assert b"second" == path.read_bytes()
    assert (0o640, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)


@needs_sshd
def test_a_refused_put_names_the_path(shell: SshShell) -> None:
    """A path that cannot be written is an error of the node, with the path in it."""
    with pytest.raises(NodeTrouble, match="/proc/nowhere/x"):
        shell.put("/proc/nowhere/x", b"")


@needs_sshd
def test_the_host_key_is_learnt_and_a_changed_one_refused(sshd: str, keys: Path) -> None:
    """The key seen is told; pinned it must come back, another one ends the connection."""
    deadline = Deadline("n1", 60)
    seen = " ".join((keys / "host.pub").read_text().split()[:2])
    with _open(sshd, keys, deadline) as shell:
        assert seen == shell.host_key
    with _open(sshd, keys, deadline, host_key=seen) as shell:
        assert 0 == shell.run(("true",), timeout_s=10).exit
    other = " ".join((keys / "stranger.pub").read_text().split()[:2])
    with pytest.raises(NodeUnreachable, match=r"shows host key SHA256:.*pinned"):
        _open(sshd, keys, deadline, host_key=other)


@needs_sshd
def test_a_strangers_key_is_refused_as_a_login(sshd: str, keys: Path) -> None:
    """A key the node does not know is `LoginRefused`, not a transport error."""
    with pytest.raises(LoginRefused):
        _open(sshd, keys, Deadline("n1", 60), key="stranger")


@needs_sshd
def test_a_lost_lease_stops_the_next_command(sshd: str, keys: Path) -> None:
    """The fence is asked before every command and every file."""

    def lost() -> None:
        raise LeaseLost("n1", "the lease is held by another run")

    login = SshLogin(getpass.getuser(), Secret((keys / "operator").read_text()))
    with SshShell.open("n1", sshd, login, host_key=None, deadline=Deadline("n1", 60), fence=lost) as shell:
        with pytest.raises(LeaseLost):
            shell.run(("sleep", "7777.7"), timeout_s=10)
        with pytest.raises(LeaseLost):
            shell.put("/tmp/rackmint-never", b"")
    assert _gone("7777.7")


def _hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_an_open_port_is_not_ssh(keys: Path) -> None:
    """A port that accepts and says nothing costs the budget and no more; one that closes says so at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises((NodeUnreachable, BudgetSpent)):
            _open(address, keys, Deadline("n1", 1.0))
    with socket.create_server(("127.0.0.1", 0)) as closing:
        thread = threading.Thread(target=_hang_up, args=(closing,))
        thread.start()
        with pytest.raises(NodeUnreachable):
            _open(f"127.0.0.1:{closing.getsockname()[1]}", keys, Deadline("n1", 5.0))
        thread.join()


def test_a_closed_port_is_unreachable(keys: Path) -> None:
    """Nothing listening: the address and the system's own words are in the message."""
    address = f"127.0.0.1:{_free_port()}"
    with pytest.raises(NodeUnreachable, match=f"SSH to {address} failed.*refused"):
        _open(address, keys, Deadline("n1", 5.0))


def test_a_key_that_is_no_key_is_a_setting_and_is_not_shown() -> None:
    """Garbage in the key file is refused before the node is touched, without its text."""
    login = SshLogin("root", Secret("very secret garbage"))
    with pytest.raises(BadSettings) as caught:
        SshShell.open("n1", "127.0.0.1:1", login, host_key=None, deadline=Deadline("n1", 1))
    assert "garbage" not in str(caught.value)


def _foreign_exceptions() -> list[type[BaseException]]:
    found: set[type[BaseException]] = set()
    for module in pkgutil.iter_modules(paramiko.__path__):
        if "win" in module.name:  # Windows only; cannot be imported here
            continue
        members = vars(import_module(f"paramiko.{module.name}")).values()
        found |= {
            c for c in members if inspect.isclass(c) and issubclass(c, BaseException) and "paramiko" in c.__module__
        }
    return sorted(found, key=lambda c: c.__name__)


# Never leaves paramiko's own thread, or belongs to parts we do not use (known_hosts, auth strategies, key files).
INSIDE = {"BERException", "InvalidHostKey", "NeedRekeyException", "UnknownKeyType", "AuthFailure"}
_KEY = paramiko.Ed25519Key.generate() if hasattr(paramiko.Ed25519Key, "generate") else paramiko.RSAKey.generate(2048)
MADE_WITH: dict[str, tuple[object, ...]] = {
    "BadAuthenticationType": ("no", ["publickey"]),
    "PartialAuthentication": (["publickey"],),
    "ChannelException": (2, "connect failed"),
    "BadHostKeyException": ("n1", _KEY, _KEY),
    "NoValidConnectionsError": ({("10.0.0.1", 22): OSError("refused")},),
    "ProxyCommandFailure": ("nc", "gone"),
}


@pytest.mark.parametrize("foreign", _foreign_exceptions(), ids=lambda c: c.__name__)
def test_every_exception_of_paramiko_has_a_meaning_here(foreign: type[BaseException]) -> None:
    """Each class becomes trouble of one node with something to do, or is known never to come out."""
    if foreign.__name__ in INSIDE:
        return
    error = foreign(*MADE_WITH.get(foreign.__name__, ("said",)))
    trouble = translate("n1", "SSH failed", error)
    expected = LoginRefused if "Auth" in foreign.__name__ or "Password" in foreign.__name__ else NodeTrouble
    assert isinstance(trouble, expected)
    assert trouble.do


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", ("10.0.0.1", 22)),
        ("10.0.0.1:2222", ("10.0.0.1", 2222)),
        ("[fe80::1]:2222", ("fe80::1", 2222)),
        ("fe80::1", ("fe80::1", 22)),
        ("node.example", ("node.example", 22)),
    ],
)
def test_addresses_are_split(address: str, expected: tuple[str, int]) -> None:
    """Host and port, with 22 where none is given and IPv6 in brackets."""
    assert expected == split_address(address)
