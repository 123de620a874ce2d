"""`certificate show|verify|revoke|key`: the signed statement about a node, checkable offline."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from flows.commands.options import answer, as_json
from flows.render import fold
from flows.render.console import show as show_on_screen
from flows.render.terminal import gap_in_words
from flows.render.text import plain
from flows.settings import load_settings
from inventory.certificate import NodeCertificate, due, parse, verify
from inventory.errors import BadSettings, CertificateRefused
from inventory.ledger import Ledger
from inventory.model import now
from inventory.signing import load_or_create_key


@click.group()
def certificate() -> None:
    """A node's certificate: show, verify, revoke.

    The certificate says who the node is, what is on it, what was proven and what was not. It is signed: whoever has
    the public key can verify it without asking us.
    """


@certificate.command()
@click.argument("which")
@as_json
@click.pass_obj
def show(settings_file: str, which: str, as_json: bool) -> int:
    """Show a certificate by its id, or a node's newest by the node's name.

    Exit code 1 when it is revoked or its term is over. With --json it is printed as it is handed on and verified.
    """
    with _ledger(settings_file) as ledger:
        found = _find(ledger, which)
        revoked = ledger.revocation(found.certificate_id)
    over = due(found, now())
    if as_json:
        click.echo(found.to_json().decode())
    else:
        state = f"revoked by {revoked.by}: {revoked.reason}" if revoked else "its term is over" if over else "in force"
        show_on_screen(_table(found, state))
    return 1 if revoked or over else 0


@certificate.command(name="verify")
@click.argument("file", type=click.File("rb"))
@click.option("--public-key", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="PEM file; needs neither network nor ledger. Without it the site's own key is used.")  # fmt: skip
@as_json
@click.pass_obj
def verify_file(settings_file: str, file: click.File, public_key: Path | None, as_json: bool) -> int:
    """Verify a certificate offline.

    FILE is what `rackmint certificate show NODE --json` printed, "-" is standard input. Exit code 1 when it is not
    what was signed or its term is over. Whether it was revoked only the ledger knows.
    """
    pem = public_key.read_text() if public_key else _public_key(settings_file)
    try:
        found = parse(file.read())  # type: ignore[attr-defined]  # click hands an open file
        verify(found, pem)
    except CertificateRefused as error:
        answer(as_json, f"refused: {plain(str(error))}", verified=False, why=plain(str(error)))
        return 1
    over = due(found, now())
    answer(
        as_json,
        f"{found.certificate_id}: {plain(found.node)}, signed by key {found.key_id}, "
        f"{'its term ended on' if over else 'until'} {found.expires_at:%Y-%m-%d}",
        verified=True, certificate=found.certificate_id, node=found.node, key=found.key_id,
        expires=found.expires_at.isoformat(), due=over,
    )  # fmt: skip
    return 1 if over else 0


@certificate.command()
@click.argument("which")
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@as_json
@click.pass_obj
def revoke(settings_file: str, which: str, reason: str, as_json: bool) -> int:
    """Declare a certificate void; the node is proven again at the next run."""
    with _ledger(settings_file) as ledger:
        found = _find(ledger, which)
        done = ledger.revoke(found.certificate_id, reason, getpass.getuser())
    said = "revoked; `rackmint audit` and the next run see it" if done else "was revoked already"
    answer(
        as_json, f"{found.certificate_id} of {plain(found.node)}: {said}",
        certificate=found.certificate_id, node=found.node, revoked=True, before=not done,
    )  # fmt: skip
    return 0


@certificate.command()
@as_json
@click.pass_obj
def key(settings_file: str, as_json: bool) -> int:
    """Print the public key, to be given to whoever verifies."""
    pem = _public_key(settings_file)
    answer(as_json, pem.rstrip(), public_key=pem)
    return 0


def _public_key(settings_file: str) -> str:
    return load_or_create_key(load_settings(settings_file).signing_key_file).public_pem


@contextmanager
def _ledger(settings_file: str) -> Iterator[Ledger]:
    ledger = Ledger.open(load_settings(settings_file).ledger_url)
    try:
        yield ledger
    finally:
        ledger.close()


def _find(ledger: Ledger, which: str) -> NodeCertificate:
    found = ledger.certificate(which)
    if found:
        return found
    keys = [node.key for node in ledger.nodes() if node.name == which]
    certificates = [c for key in keys for c in ledger.certificates(key)]
    if not certificates:
        raise BadSettings(f"{which}: neither a certificate id nor a node with one. `rackmint report` names both")
    return max(certificates, key=lambda c: c.issued_at)


def _table(found: NodeCertificate, state: str) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(found, state):
        table.add_row(name, Text(plain(text, 4000)))
    return table


def _rows(found: NodeCertificate, state: str) -> Iterator[tuple[str, str]]:
    parts = Counter(part.kind for part in found.parts)
    stages = Counter(proof.stage.replace("_", " ") for proof in found.proven)
    yield "certificate", f"{found.certificate_id}, {state}"
    yield "node", f"{found.node}, class {found.node_class}, chassis {found.serial}, tag {found.service_tag}"
    yield "bound to", ", ".join(f"{count} × {kind}" for kind, count in sorted(parts.items()))
    yield "image", f"{found.image}, sha256 {found.image_digest[:12]}…"
    said = [f"{name} {text}" for name, text in sorted(found.software.items()) if name != "image_digest"]
    yield "software", ", ".join(said)
    yield "BIOS profile", f"{found.bios_profile}, sha256 {found.bios_profile_digest[:12]}…"
    yield "limits", f"{found.limits}, version {found.limits_version}"
    yield "proven", f"{len(found.proven)} findings: " + ", ".join(f"{count} {stage}" for stage, count in stages.items())
    gaps = [gap_in_words(*gap) for gap in fold.gaps((n.subject, n.reason) for n in found.not_proven)]
    yield from zip(("not proven", *[""] * len(gaps)), gaps or ["nothing"], strict=False)
    yield "issued", f"{found.issued_at:%Y-%m-%d %H:%M} UTC by run {found.run_id}, rackmint {found.rackmint_version}"
    yield "expires", f"{found.expires_at:%Y-%m-%d %H:%M} UTC"
    yield "signed by", f"key {found.key_id}"
