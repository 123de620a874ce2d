"""The SSH servers, spoken to by the product's own client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from inventory.deadline import Deadline
from inventory.errors import Cancelled, LoginRefused, NodeUnreachable
from inventory.remote_command import LEFT_RUNNING
from inventory.secrets import Secret
from inventory.ssh import SshLogin, SshShell
from lab.background import BackgroundLoop
from lab.hostkey import make_host_key, public_part
from lab.machine import Machine
from lab.shell import jobs, running_commands, serve_shells


@pytest.fixture
def served(make_node) -> Iterator[list[Machine]]:
    """Three nodes, each on its own address."""
    loop = BackgroundLoop()
    machines = [make_node(number=number) for number in (1, 2, 3)]
    server = loop.run(serve_shells({(f"127.78.9.{n}", 0): machine for n, machine in enumerate(machines, 1)}))
    for machine in machines:
        machine.ssh_address = server.addresses[machine.name]
    yield machines
    loop.run(server.stop())
    loop.stop()


@pytest.fixture
def login(operator_key: str) -> SshLogin:
    """The operator's login."""
    return SshLogin("root", Secret(operator_key))


def opened(machine: Machine, login: SshLogin, *, host_key: str | None = None, deadline: Deadline | None = None):
    """The product's shell on a node."""
    deadline = deadline or Deadline(machine.name, 20.0)
    return SshShell.open(machine.name, machine.ssh_address, login, host_key=host_key, deadline=deadline)


def test_each_node_answers_for_itself(served, login) -> None:
    """Three addresses, three host names, three host keys, each the installed system's own."""
    found = {}
    for machine in served:
        with opened(machine, login) as shell:
            found[shell.run(("hostname",), timeout_s=5).stdout] = shell.host_key
    assert {f"{machine.name}\n": public_part(machine.ssh_host_key) for machine in served} == found


def test_a_node_that_is_not_up_closes_at_once(served, login) -> None:
    """No SSH from a machine whose OS does not run."""
    served[0].os_up = False
    with pytest.raises(NodeUnreachable):
        opened(served[0], login)


def test_another_key_is_refused(served) -> None:
    """Only the key in the seed opens."""
    with pytest.raises(LoginRefused):
        opened(served[0], SshLogin("root", Secret(make_host_key())))


def test_another_user_is_refused(served, operator_key) -> None:
    """Only the user in the seed may come in."""
    with pytest.raises(LoginRefused):
        opened(served[0], SshLogin("admin", Secret(operator_key)))


def test_a_new_image_has_a_new_host_key(served, login) -> None:
    """A pinned key from before the imaging is refused afterwards."""
    pinned = public_part(served[0].ssh_host_key)
    with opened(served[0], login, host_key=pinned) as shell:
        assert 0 == shell.run(("true",), timeout_s=5).exit
    served[0].state.drives[0].host_key = make_host_key()
    with pytest.raises(NodeUnreachable):
        opened(served[0], login, host_key=pinned)


def test_a_cancel_leaves_nothing_running(served, login) -> None:
    """A cancelled command is ended by a signal, not by the connection's end."""
    cancel = threading.Event()
    deadline = Deadline("n", 20.0, cancel=cancel)
    with opened(served[0], login, deadline=deadline) as shell:
        threading.Timer(0.3, cancel.set).start()
        with pytest.raises(Cancelled):
            shell.run(("sleep", "30"), timeout_s=20)
    assert () == running_commands(served[0])
    assert {"TERM"} == {job.ended_by for job in jobs(served[0]).ended if "sleep 30" in job.command}


def test_a_lost_connection_leaves_its_commands(served, login) -> None:
    """As with a real sshd and no terminal: what runs when the client goes away goes on, and can be found and ended."""
    with opened(served[0], login) as shell:
        beside = threading.Thread(target=lambda: _quietly(shell))
        beside.start()
        _until(lambda: any("sleep 30" in line for line in running_commands(served[0])))
    beside.join(10)
    with opened(served[0], login) as shell:
        assert 0 == shell.run(("pgrep", "-f", LEFT_RUNNING), timeout_s=10).exit
        assert 0 == shell.run(("pkill", "-TERM", "-f", LEFT_RUNNING), timeout_s=10).exit
        _until(lambda: shell.run(("pgrep", "-f", LEFT_RUNNING), timeout_s=10).exit == 1)
    assert {"TERM"} == {job.ended_by for job in jobs(served[0]).ended if "sleep 30" in job.command}


def test_a_power_cut_ends_connections_and_commands(served, login) -> None:
    """A node without power says nothing more."""
    with opened(served[0], login) as shell:
        threading.Timer(0.3, lambda: setattr(served[0], "power", "Off")).start()
        with pytest.raises(NodeUnreachable):
            shell.run(("sleep", "30"), timeout_s=15)
    _until(lambda: not running_commands(served[0]))
    assert {"power"} == {job.ended_by for job in jobs(served[0]).ended if "sleep 30" in job.command}


def test_a_hang_is_cut_off_at_the_time_limit(served, login) -> None:
    """With `ssh_hangs` a login works, no tool ever answers, and the time-out leaves nothing behind."""
    served[0].state.faults.add("ssh_hangs")
    with opened(served[0], login) as shell:
        began = time.monotonic()
        output = shell.run(("nvidia-smi", "-q", "-x"), timeout_s=0.5)
    assert (None, "") == (output.exit, output.stdout)
    assert time.monotonic() - began < 5
    assert () == running_commands(served[0])


def test_a_file_is_laid_over_sftp(served, login) -> None:
    """`put` makes the folder and the command after it reads the file."""
    with opened(served[0], login) as shell:
        shell.put("/run/rackmint/deep/join.yaml", b"kind: JoinConfiguration\n")
        assert "kind: JoinConfiguration\n" == shell.run(("cat", "/run/rackmint/deep/join.yaml"), timeout_s=5).stdout
        shell.run(("rm", "-rf", "/run/rackmint"), timeout_s=5)
        assert 1 == shell.run(("cat", "/run/rackmint/deep/join.yaml"), timeout_s=5).exit


def test_standard_input_is_carried(served, login) -> None:
    """What is sent in comes out of `cat`."""
    with opened(served[0], login) as shell:
        assert "a\nb\n" == shell.run(("cat",), timeout_s=5, stdin="a\nb\n").stdout


def _quietly(shell: SshShell) -> None:
    try:
        shell.run(("sleep", "30"), timeout_s=25)
    except NodeUnreachable:
        return


def _until(holds) -> None:
    ends = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < ends, "waited 10 s in vain"
        time.sleep(0.02)
