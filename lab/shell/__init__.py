"""What the simulated nodes answer over SSH, derived from the same state as everything else of the lab."""

from lab.shell.answers import answer
from lab.shell.jobs import Job, jobs, running_commands
from lab.shell.local import run_here
from lab.shell.reply import Reply
from lab.shell.server import ShellServer, serve_shells

__all__ = ["Job", "Reply", "ShellServer", "answer", "jobs", "run_here", "running_commands", "serve_shells"]
