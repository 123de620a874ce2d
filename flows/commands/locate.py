"""`locate NODE`: light the lamp on a node's front, so that the person in the hall finds it."""

from __future__ import annotations

import click

from flows.commands.options import answer, as_json
from flows.settings import load_settings
from flows.site import Site, looking
from inventory.errors import BadSettings, BookUnreachable
from inventory.model import NodeRef
from inventory.redfish.bmc import no_fence


@click.command()
@click.argument("node")
@click.option("--off", is_flag=True, help="Darken it again.")
@as_json
@click.pass_obj
def locate(settings_file: str, node: str, off: bool, as_json: bool) -> int:
    """Light a node's identification lamp.

    It is read back, so exit code 0 means that the BMC says it shines. A run that works on the node is not disturbed.
    """
    site = Site.open(load_settings(settings_file))
    try:
        found = _named(site, node)
        with looking(site, found).bmc(fence=no_fence) as bmc:
            bmc.locate(not off)
    finally:
        site.close()
    where = f"rack {found.rack}, unit {found.unit}" if found.rack and found.unit else "place not known"
    answer(
        as_json, f"{node} ({where}): the lamp is {'dark' if off else 'lit'}",
        node=node, rack=found.rack, unit=found.unit, lit=not off,
    )  # fmt: skip
    return 0


def _named(site: Site, name: str) -> NodeRef:
    """The node as NetBox knows it; while NetBox is down, as the last run knew it."""
    try:
        found = site.netbox().look_up(name=name)
    except BookUnreachable:
        found = next((node for node in site.ledger.nodes() if node.name == name), None)
    if found is None or not found.bmc_url:
        lacks = "the book has no BMC address for it" if found else "no such node"
        raise BadSettings(f"{name}: {lacks}. Look in NetBox")
    return found
