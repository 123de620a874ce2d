"""`look URL`: read one BMC, change nothing, say what was found and what could not be read."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from flows.commands.options import as_json, document
from flows.render import fold
from flows.render.console import show
from flows.render.terminal import gap_in_words, table
from flows.render.text import plain
from flows.settings import Settings, load_settings
from flows.site import pins_of
from inventory.deadline import Deadline
from inventory.errors import BadSettings
from inventory.ledger import Ledger
from inventory.redfish import BmcLogin, PinStore, look_as_json

_COLUMNS = {
    "gpus": ("slot", "model", "serial", "firmware", "uuid"),
    "nics": ("id", "model", "serial", "firmware"),
    "drives": ("id", "model", "serial", "firmware"),
}


@click.command()
@click.argument("url")
@click.option("--username", default="", metavar="REFERENCE", help="env:NAME or file:PATH; else the site's, else none.")
@click.option("--password", default="", metavar="REFERENCE", help="env:NAME or file:PATH; never the value itself.")
@click.option("--timeout", "timeout_s", default=180.0, show_default=True, help="Seconds for the whole look.")
@as_json
@click.pass_obj
def look(settings_file: str, url: str, username: str, password: str, timeout_s: float, as_json: bool) -> int:
    """Read one BMC over Redfish.

    Nothing is changed on it, and no settings are needed. The site's own login is sent over HTTPS only, and only to a
    BMC whose certificate is the one seen before.
    """
    address = url if "://" in url else f"https://{url}"
    if not address.startswith(("https://", "http://")):
        raise click.UsageError(f"{url}: a BMC's address begins with https:// or http://")
    settings = _settings(settings_file)
    with ExitStack() as stack:
        login, pins = None, None
        if username or password:
            login = BmcLogin(
                settings.value(username or settings.bmc.username),
                settings.secret(password or settings.bmc.password),
            )
        elif settings.file and address.startswith("https://"):
            login = BmcLogin(settings.value(settings.bmc.username), settings.secret(settings.bmc.password))
            pins = _pins(settings, stack)
        seen = look_as_json(address, login, tls=settings.bmc.tls, pins=pins, deadline=Deadline(address, timeout_s))
    if as_json:
        document(seen)
    else:
        show(_page(seen))
    return 0 if seen["nodes"] else 2


def _settings(settings_file: str) -> Settings:
    """The site's settings where there are any; a look needs none."""
    try:
        return load_settings(settings_file)
    except BadSettings:
        if settings_file:
            raise
        return Settings(site="none")


def _pins(settings: Settings, stack: ExitStack) -> PinStore:
    ledger = Ledger.open(settings.ledger_url)
    stack.callback(ledger.close)
    return pins_of(ledger)


def _page(seen: dict[str, Any]) -> RenderableType:
    lines: list[RenderableType] = []
    for node in seen["nodes"]:
        lines += [*_node(node), Text("")]
    return Group(*lines, Text(f"nodes: {len(seen['nodes'])}, requests: {seen['requests']}", style="dim"))


def _node(node: dict[str, Any]) -> list[RenderableType]:
    identity = node["identity"]
    head = " ".join(str(identity[name] or "?") for name in ("manufacturer", "model", "serial"))
    power = plain(str(node["power"] or "not told"))
    lines: list[RenderableType] = [Text(f"{plain(head)}: power {power}", style="bold")]
    for kind, columns in _COLUMNS.items():
        if node[kind]:
            lines.append(_parts(kind.removesuffix("s"), node[kind], columns))
        else:
            lines.append(Text(f"no {kind}", style="yellow"))
    firmware, settings = len(node["firmware"]), len(node["bios"]["attributes"])
    lines.append(Text(f"{len(node['dimms'])} DIMMs, {firmware} firmware versions, {settings} BIOS settings"))
    gaps = fold.gaps((gap["fact"], gap["reason"]) for gap in node["missing"])
    return [*lines, *(Text(f"not read: {gap_in_words(*gap)}", style="yellow") for gap in gaps)]


def _parts(what: str, parts: list[dict[str, Any]], columns: tuple[str, ...]) -> RenderableType:
    heads = (f"{what} {columns[0]}", *columns[1:])
    rows = [[str(part[column] if part[column] is not None else "-")[:120] for column in columns] for part in parts]
    return table(*heads, rows=rows)
