"""The `rackmint` command: exit 0 accepted, 1 rejected, 2 undecided, 3 usage or settings, 130 interrupted."""

from __future__ import annotations

import errno
import logging
import sys

import click
from rich.console import Console
from rich.text import Text

from flows.commands import audit, certificate, demo, lab, look, provision, serve, show
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
    certificate.certificate, look.look, lab.lab, demo.demo, serve.serve,
):  # fmt: skip
    rackmint.add_command(_command)


def main() -> None:
    """Run the command line; every trouble becomes one sentence and one exit code."""
    logging.getLogger("rackmint").addHandler(logging.StreamHandler())
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """The command line as a function: argv in, exit code out."""
    try:
        result = rackmint.main(argv, prog_name="rackmint", standalone_mode=False)
        return int(result) if isinstance(result, int) else ACCEPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except (KeyboardInterrupt, Cancelled, click.exceptions.Abort):
        return _say("interrupted: leases are released; the same command goes on from here", INTERRUPTED)
    except RackmintError as error:
        return _say(str(error), USAGE if isinstance(error, BadSettings) else UNDECIDED)
    except OSError as error:
        if error.errno not in _DISK:
            raise
        return _say(f"{error.filename or 'state folder'}: {_DISK[error.errno]}", UNDECIDED)


def _say(sentence: str, code: int) -> int:
    text = Text(f"rackmint: {plain(REDACTOR.clean(sentence), 2000)}", style="bold red")
    Console(stderr=True, soft_wrap=True).print(text, highlight=False)
    return code


if __name__ == "__main__":
    main()
