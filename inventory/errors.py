"""Everything that can go wrong at a door, as a tree.

    RackmintError
    ├── NodeTrouble             something about one node; becomes one `error` finding at one place
    │   ├── NodeUnreachable     no answer: transport; the door has already retried
    │   ├── NodeBusy            answered "not now" for longer than the budget
    │   ├── LoginRefused        the credential was not accepted
    │   ├── CommandFailed       a remote command ended with an exit code that is not tolerated
    │   ├── OutputNotUnderstood a tool or BMC answered something the reader does not know
    │   ├── ChangeRefused       a BMC, NetBox or Kubernetes said no to a change
    │   ├── ChangeNotApplied    accepted, and reading back shows the old state
    │   ├── BudgetSpent         no progress within the stage's budget
    │   └── LeaseLost           another run owns the node now; nothing more may be written
    ├── LeaseHeld               the node is being worked on by somebody else
    ├── BookUnreachable         NetBox or Kubernetes does not answer
    ├── CertificateRefused      not proven enough to be certified, or a certificate that is not what we signed
    ├── LedgerUnavailable       our own store cannot be read or written: full, locked, damaged, gone
    ├── BadSettings             refused before any node is touched: settings, class, profile, limits, unknown rack
    └── Cancelled               the operator or Prefect asked to stop

Messages read `<node>: <what failed, with command or URL>: <the machine's own last line>. <what to do>`.
"""

from __future__ import annotations


class RackmintError(Exception):
    """Anything rackmint raises on purpose."""


class NodeTrouble(RackmintError):
    """Something about one node. `said` is the machine's own last line."""

    def __init__(self, node: str, failed: str, said: str = "", do: str = "") -> None:
        self.node, self.failed, self.said, self.do = node, failed, said, do
        super().__init__(node, failed, said, do)

    def __str__(self) -> str:
        text = f"{self.node}: {self.failed}"
        if self.said:
            text += f": {self.said}"
        return f"{text.rstrip('.')}. {self.do}" if self.do else text


class NodeUnreachable(NodeTrouble):
    """No answer at the BMC or over SSH."""


class NodeBusy(NodeTrouble):
    """Answered "not now" for longer than the budget."""


class LoginRefused(NodeTrouble):
    """The credential was not accepted."""


class CommandFailed(NodeTrouble):
    """A remote command ended with an exit code that is not tolerated."""


class OutputNotUnderstood(NodeTrouble):
    """A tool or BMC answered something the reader does not know."""


class ChangeRefused(NodeTrouble):
    """A BMC, NetBox or Kubernetes said no to a change."""


class ChangeNotApplied(NodeTrouble):
    """A change was accepted and reading back shows the old state."""


class BudgetSpent(NodeTrouble):
    """No progress within the budget; `failed` names what was waited for."""


class LeaseLost(NodeTrouble):
    """Another run owns the node now; nothing more may be written by this one."""


class LeaseHeld(RackmintError):
    """The node is being worked on by somebody else."""

    def __init__(self, node: str, holder: str, purpose: str, since: str, until: str) -> None:
        self.node, self.holder, self.purpose, self.since, self.until = node, holder, purpose, since, until
        super().__init__(f"{node}: held by run {holder} ({purpose}) since {since}, lease until {until}")


class BookUnreachable(RackmintError):
    """NetBox or Kubernetes does not answer; results wait in the outbox."""


class CertificateRefused(RackmintError):
    """Not proven enough to be certified, or a certificate that is not what we signed."""


class LedgerUnavailable(RackmintError):
    """Our own store cannot be read or written; nothing may be changed that could not be noted first."""


class BadSettings(RackmintError):
    """Refused before any node is touched."""


class Cancelled(RackmintError):
    """The operator or Prefect asked to stop."""
