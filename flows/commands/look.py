"""`look URL`: read one BMC, change nothing, say what was found and what could not be read."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.render.text import plain
from flows.settings import Settings, load_settings
from inventory.deadline import Deadline
from inventory.errors import BadSettings
from inventory.redfish import BmcLogin, look_as_json


@click.command()
@click.argument("url")
@click.option("--username", default="", metavar="REFERENCE", help="env:NAME or file:PATH; else the site's, else none.")
@click.option("--password", default="", metavar="REFERENCE", help="env:NAME or file:PATH; never the value itself.")
@click.option("--timeout", "timeout_s", default=180.0, show_default=True, help="Seconds for the whole look.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.pass_obj
def look(settings_file: str, url: str, username: str, password: str, timeout_s: float, as_json: bool) -> int:
    """Read one BMC over Redfish; nothing is changed on it."""
    settings = _settings(settings_file)
    login = None
    if username or password or settings_file:
        login = BmcLogin(
            settings.secret(username or settings.bmc.username).reveal(),
            settings.secret(password or settings.bmc.password),
        )
    seen = look_as_json(url, login, tls=settings.bmc.tls, deadline=Deadline(url, timeout_s))
    if as_json:
        click.echo(json.dumps(seen, indent=1, default=str))
    else:
        _show(seen)
    return 0 if seen["nodes"] else 2


def _settings(settings_file: str) -> Settings:
    """The site's settings where there are any; a look needs none."""
    try:
        return load_settings(settings_file)
    except BadSettings:
        if settings_file:
            raise
        return Settings(site="none")


def _show(seen: dict[str, Any]) -> None:
    console = Console()
    for node in seen["nodes"]:
        identity = node["identity"]
        head = " ".join(str(identity[name] or "?") for name in ("manufacturer", "model", "serial"))
        console.print(Text(f"\n{plain(head)}", style="bold"), highlight=False)
        console.print(_parts("GPU", node["gpus"], ("slot", "model", "serial", "firmware", "uuid")))
        console.print(_parts("NIC", node["nics"], ("slot", "model", "serial", "firmware")))
        console.print(
            Text(f"{len(node['firmware'])} firmware versions, {len(node['bios']['attributes'])} BIOS settings")
        )
        if node["missing"]:
            console.print(Text(f"What could not be read: {len(node['missing'])} facts", style="yellow"))
            console.print(_parts("", node["missing"][:20], ("fact", "reason", "uri")))
    console.print(Text(f"{seen['requests']} requests", style="dim"))


def _parts(what: str, parts: list[dict[str, Any]], columns: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 1))
    for column in columns:
        table.add_column(f"{what} {column}".strip(), overflow="fold")
    for part in parts:
        table.add_row(*(Text(plain(str(part[column] if part[column] is not None else "-"), 120)) for column in columns))
    return table
