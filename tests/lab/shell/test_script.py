"""The small shell: what a wrapper around a command may rely on."""

from __future__ import annotations

import asyncio
import time

import pytest

from lab.machine import Machine
from lab.shell import jobs, running_commands
from lab.shell.local import run_here
from lab.shell.reply import Reply


def typed(machine: Machine, script: str, *words: str, stdin: str = "") -> Reply:
    """What `sh -c script` comes to."""
    return asyncio.run(run_here(machine, ("sh", "-c", script, *words), stdin))


@pytest.mark.parametrize(
    ("script", "stdout", "code"),
    [
        ("echo one; echo two", "one\ntwo\n", 0),
        ("true && echo yes || echo no", "yes\n", 0),
        ("false && echo yes || echo no", "no\n", 0),
        ("false; echo $?", "1\n", 0),
        ("nosuch", "", 127),
        ("exit 7; echo never", "", 7),
        ("exec echo gone; echo never", "gone\n", 0),
        ("A=b; echo \"$A\" '$A' ${A} ${B:-c}", "b $A b c\n", 0),
        ("A='two words'; for w in $A \"$A\"; do echo [$w]; done", "[two]\n[words]\n[two words]\n", 0),
        ("echo $(echo in $(echo deep))", "in deep\n", 0),
        ("echo a b | wc -l", "1\n", 0),
        ("echo quiet > /dev/null", "", 0),
        ("echo kept > /run/x; cat /run/x", "kept\n", 0),
        ("cat /nowhere 2>/dev/null || echo none", "none\n", 0),
        ("if test -e /etc/os-release; then echo there; else echo gone; fi", "there\n", 0),
        ("[ a = a ] && echo same", "same\n", 0),
        ("cd /sys/class/infiniband && cat mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n", 0),
        ("echo /sys/class/infiniband/mlx5_[01]/fw_ver", "/sys/class/infiniband/mlx5_0/fw_ver "
         "/sys/class/infiniband/mlx5_1/fw_ver\n", 0),
        ("env A=b sh -c 'echo $A'", "b\n", 0),
        ("sleep 1 & wait; echo done", "done\n", 0),
        ("(cd /etc; cat hostname); pwd", "r1-n01\n/root\n", 0),
        ("echo 'unended", "", 2),
    ],
)  # fmt: skip
def test_scripts(node: Machine, script: str, stdout: str, code: int) -> None:
    """Lists, joints, quoting, loops, patterns and redirection do what sh does."""
    reply = typed(node, script)
    assert (stdout, code) == (reply.stdout, reply.exit)


def test_positional_words_keep_their_blanks(node: Machine) -> None:
    """`"$@"` hands every word on as it came."""
    reply = typed(node, 'for word in "$@"; do echo "<$word>"; done; echo $0 $#', "name", "a b", "c")
    assert "<a b>\n<c>\nname 2\n" == reply.stdout


def test_a_timeout_ends_with_124(node: Machine) -> None:
    """`timeout` cuts a command off in real seconds and says so by its exit code."""
    began = time.monotonic()
    reply = asyncio.run(run_here(node, ("timeout", "-k", "2", "0.1", "sleep", "30")))
    assert 124 == reply.exit
    assert time.monotonic() - began < 5


def test_the_pid_it_tells_is_the_one_that_can_be_killed(node: Machine) -> None:
    """A group told by `$$` ends on `kill -TERM -- -PID`, and the table says how."""

    async def both() -> str:
        running = asyncio.create_task(run_here(node, ("sh", "-c", "echo $$; exec sleep 30")))
        await asyncio.sleep(0.05)
        (pid,) = jobs(node).running
        await run_here(node, ("kill", "-TERM", "--", f"-{pid}"))
        with pytest.raises(asyncio.CancelledError):
            await running
        return next(job.ended_by for job in jobs(node).ended if job.pid == pid)

    assert "TERM" == asyncio.run(both())
    assert () == running_commands(node)


def test_standard_input_reaches_a_file(node: Machine) -> None:
    """`cat > file` keeps what came in, and a reboot forgets it."""
    typed(node, "mkdir -p /run/rackmint && cat > /run/rackmint/a", stdin="text\n")
    assert "text\n" == typed(node, "cat /run/rackmint/a").stdout
    node.new_boot_id()
    assert 1 == typed(node, "cat /run/rackmint/a").exit
