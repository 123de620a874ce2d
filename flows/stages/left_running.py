"""left running: commands of a run that died, which go on without it on the node until their own time is up."""

from __future__ import annotations

from flows.site import NodeSite
from inventory.command import Command, ask
from inventory.remote_command import LEFT_RUNNING
from inventory.ssh import SshShell

# pgrep and pkill: exit 1 says that nothing matched. Source: procps-ng pgrep(1).
_ANY: Command[str] = Command(
    "commands left running", ("pgrep", "-f", LEFT_RUNNING), str, timeout_s=20.0, ok_exits=frozenset({0, 1})
)
_END: Command[str] = Command(
    "end commands left running", ("pkill", "-TERM", "-f", LEFT_RUNNING), str, timeout_s=20.0,
    ok_exits=frozenset({0, 1}), changes_node=True,
)  # fmt: skip


def end_left_running(shell: SshShell, site: NodeSite) -> None:
    """End them: a load that still runs would spoil every figure. Nothing is asked unless the owner before us died."""
    if site.lease.attempt > 1:
        ask(shell, _END, site.site.evidence)
        wait_left_running(shell, site)


def wait_left_running(shell: SshShell, site: NodeSite) -> None:
    """Wait until they have ended, each by itself or at its time-out."""
    while ask(shell, _ANY, site.site.evidence).output.exit == 0:
        site.deadline.wait(site.site.settings.pace.poll_s, "commands of a run that died to end")
