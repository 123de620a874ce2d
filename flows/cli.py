"""The `rackmint` command: exit 0 accepted, 1 rejected, 2 undecided, 3 usage or settings, 130 interrupted."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback

import click
from rich.text import Text

from flows.commands import audit, certificate, demo, lab, locate, look, netbox, provision, serve, show
from flows.render.console import console
from flows.render.text import plain
from inventory.errors import BadSettings, Cancelled, RackmintError
from inventory.redact import REDACTOR

ACCEPTED, REJECTED, UNDECIDED, USAGE, INTERRUPTED = 0, 1, 2, 3, 130

# What a full or read-only disk says, and what to do about it.
_DISK = {
    errno.ENOSPC: "the disk is full. Free space, then run the same command again: finished stages are kept",
    errno.EROFS: "the disk is read-only. Remount it, then run the same command again",
    errno.EDQUOT: "the disk quota is used up. Free space, then run the same command again",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--settings", "settings_file", default="", metavar="FILE",
              help="The site's settings; else $RACKMINT_SETTINGS, else ./rackmint.toml.")  # fmt: skip
@click.version_option(package_name="rackmint")
@click.pass_context
def rackmint(context: click.Context, settings_file: str) -> None:
    """Racks of bare-metal GPU servers: from cabled to validated Kubernetes node on the books.

    Exit codes: 0 all accepted, 1 some rejected, 2 some undecided, 3 wrong usage or settings, 130 interrupted.
    """
    context.obj = settings_file


for _command in (
    provision.plan, provision.provision, provision.revalidate, audit.audit, show.status, show.report,
    certificate.certificate, look.look, locate.locate, netbox.netbox, lab.lab, demo.demo, serve.serve,
):  # fmt: skip
    rackmint.add_command(_command)


def main() -> None:
    """Run the command line; every trouble becomes one sentence and one exit code."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` for one, has seen enough. Source: Python's docs, "Note on SIGPIPE"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ACCEPTED
    sys.exit(code)


def run(argv: list[str]) -> int:
    """The command line as a function: argv in, exit code out."""
    try:
        result = rackmint.main(argv, prog_name="rackmint", standalone_mode=False)
        return int(result) if isinstance(result, int) else ACCEPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (Python's own exit code 1 would say "rejected")
        return _say(*_told(error))


def _told(error: BaseException) -> tuple[str, int]:
    """The sentence and the exit code for what ended a command."""
    match error:
        case KeyboardInterrupt() | click.exceptions.Abort():
            return "interrupted. Leases are given back; the same command goes on from here", INTERRUPTED
        case Cancelled():
            return str(error), INTERRUPTED
        case BadSettings():
            return str(error), USAGE
        case RackmintError():
            return str(error), UNDECIDED
        case OSError():
            said = _DISK.get(error.errno or 0, error.strerror or str(error))
            return f"{error.filename}: {said}" if error.filename else said, UNDECIDED
        case _:
            return _broke(error), UNDECIDED


def _broke(error: BaseException) -> str:
    """A fault of our own in one sentence; the trace goes to a file, for us."""
    trace = "".join(traceback.format_exception(error))
    with tempfile.NamedTemporaryFile("w", prefix="rackmint-trace-", suffix=".txt", delete=False) as file:
        file.write(REDACTOR.clean(trace))
    return f"rackmint itself broke here: {type(error).__name__}: {error}. Please report it with {file.name}"


def _say(sentence: str, code: int) -> int:
    text = Text(f"rackmint: {plain(REDACTOR.clean(sentence), 2000)}", style="bold red")
    console(stderr=True).print(text, soft_wrap=True)
    return code


if __name__ == "__main__":
    main()
