"""`certificate show|verify|revoke`: the signed statement about a node, checkable offline."""

from __future__ import annotations

import getpass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.render.terminal import show as show_table
from flows.render.text import plain
from flows.settings import load_settings
from inventory.certificate import NodeCertificate, due, parse, verify
from inventory.errors import BadSettings, CertificateRefused
from inventory.ledger import Ledger
from inventory.model import now
from inventory.signing import load_or_create_key


@click.group()
def certificate() -> None:
    """The node certificate: show, verify, revoke, and the public key that verifies."""


@certificate.command()
@click.argument("which")
@click.option("--json", "as_json", is_flag=True, help="The certificate itself, as it is handed on.")
@click.pass_obj
def show(settings_file: str, which: str, as_json: bool) -> int:
    """Show a certificate by its id, or a node's newest by the node's name."""
    ledger = Ledger.open(load_settings(settings_file).ledger_url)
    try:
        found = _find(ledger, which)
        revoked = ledger.revocation(found.certificate_id)
    finally:
        ledger.close()
    if as_json:
        click.echo(found.to_json().decode())
    else:
        state = f"revoked by {revoked.by}: {revoked.reason}" if revoked else "due" if due(found, now()) else "in force"
        show_table(Console(), _table(found, state))
    return 1 if revoked or due(found, now()) else 0


@certificate.command(name="verify")
@click.argument("file", type=click.File("rb"))
@click.option("--public-key", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="PEM file; needs neither network nor ledger. Without it the site's own key is used.")  # fmt: skip
@click.pass_obj
def verify_file(settings_file: str, file: click.File, public_key: Path | None) -> int:
    """Verify a certificate file ("-" = standard input) offline against a public key."""
    pem = public_key.read_text() if public_key else _public_key(settings_file)
    try:
        found = parse(file.read())  # type: ignore[attr-defined]  # click hands an open file
        verify(found, pem)
    except CertificateRefused as error:
        click.echo(f"refused: {plain(str(error))}", err=True)
        return 1
    click.echo(
        f"{found.certificate_id}: {plain(found.node)}, signed by key {found.key_id}, until {found.expires_at:%Y-%m-%d}"
    )
    return 1 if due(found, now()) else 0


@certificate.command()
@click.argument("which")
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.pass_obj
def revoke(settings_file: str, which: str, reason: str) -> int:
    """Declare a certificate void; the node is proven again at the next run."""
    ledger = Ledger.open(load_settings(settings_file).ledger_url)
    try:
        found = _find(ledger, which)
        done = ledger.revoke(found.certificate_id, reason, getpass.getuser())
    finally:
        ledger.close()
    click.echo(f"{found.certificate_id}: {'revoked' if done else 'was revoked already'}")
    return 0


@certificate.command()
@click.pass_obj
def key(settings_file: str) -> int:
    """Print the public key, to be given to whoever verifies."""
    click.echo(_public_key(settings_file), nl=False)
    return 0


def _public_key(settings_file: str) -> str:
    return load_or_create_key(load_settings(settings_file).signing_key_file).public_pem


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
    gpus = [part for part in found.parts if part.kind == "gpu"]
    rows = {
        "certificate": f"{found.certificate_id} ({state})",
        "node": f"{found.node}, class {found.node_class}, chassis {found.serial}, tag {found.service_tag}",
        "parts": f"{len(found.parts)} bound, {len(gpus)} GPUs",
        "image": f"{found.image} {found.image_digest[:12]}",
        "software": ", ".join(f"{name} {version}" for name, version in sorted(found.software.items())),
        "BIOS profile": f"{found.bios_profile} {found.bios_profile_digest[:12]}",
        "limits": f"{found.limits} {found.limits_version}",
        "proven": f"{len(found.proven)} findings",
        "not proven": "; ".join(f"{n.subject}: {n.reason}" for n in found.not_proven) or "nothing",
        "issued": f"{found.issued_at:%Y-%m-%d %H:%M} UTC by run {found.run_id}, rackmint {found.rackmint_version}",
        "expires": f"{found.expires_at:%Y-%m-%d %H:%M} UTC",
        "key": found.key_id,
    }
    for name, text in rows.items():
        table.add_row(name, Text(plain(text, 4000)))
    return table
