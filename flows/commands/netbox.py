"""`netbox init|check`: what NetBox must know before the first node is recorded."""

from __future__ import annotations

import click

from flows.commands.options import answer, as_json, document
from flows.render.text import plain
from flows.settings import load_settings
from flows.site import Site
from inventory.classes import NodeClass
from inventory.errors import BadSettings
from inventory.netbox import NetBox


@click.group()
def netbox() -> None:
    """Prepare NetBox for the first node, and check it."""


@netbox.command()
@click.option("--plan", "plan_only", is_flag=True, help="Say what would be added; add nothing.")
@click.option("--class", "classes", multiple=True, metavar="NAME",
              help="Also add this node class's device type with its bays; may be repeated.")  # fmt: skip
@as_json
@click.pass_obj
def init(settings_file: str, plan_only: bool, classes: tuple[str, ...], as_json: bool) -> int:
    """Add what NetBox lacks.

    Custom fields, the tag and the device role that rackmint uses. What is there already is left as it is. Needs a
    token that may add these; runs need much less.
    """
    site = Site.open(load_settings(settings_file))
    try:
        book = site.netbox()
        book.check()
        added = book.ensure_catalogue([_shape(site, name) for name in classes], plan_only=plan_only)
    finally:
        site.close()
    if as_json:
        document({"planned" if plan_only else "added": added})
        return 0
    for sentence in added:
        click.echo(f"{'would add' if plan_only else 'added'}: {plain(sentence)}")
    click.echo(f"{len(added)} things {'lack' if plan_only else 'added'}." if added else "NetBox has all it needs.")
    return 0


def _shape(site: Site, name: str) -> tuple[str, str, list[str]]:
    """Maker, model and bays of a node class's machine."""
    found = site.classes.get(name)
    if found is None or not found.models or not found.manufacturers:
        known = ", ".join(sorted(key for key, value in site.classes.items() if value.models and value.manufacturers))
        raise BadSettings(f"node class {name}: not known, or it names no maker and model. Such are: {known}")
    return found.manufacturers[0], found.models[0], _bays(found)


def _bays(node_class: NodeClass) -> list[str]:
    adapters = sum(nic.count for nic in node_class.nics)
    gpus = [f"GPU{number}" for number in range(1, node_class.gpu.count + 1)]
    return [*gpus, *(f"PCIe{number}" for number in range(1, adapters + 1))]


@netbox.command()
@as_json
@click.pass_obj
def check(settings_file: str, as_json: bool) -> int:
    """Say whether NetBox is ready.

    Its version, whether it has the custom fields, and in each rack the nodes and whether their classes are known.
    Exit code 2 when something lacks.
    """
    site = Site.open(load_settings(settings_file))
    try:
        book = site.netbox()
        version, lacking = book.check(), book.ensure_catalogue(plan_only=True)
        racks = {rack: _nodes(site, book, rack) for rack in book.racks()}
    finally:
        site.close()
    strange = [said for _, wrong in racks.values() for said in wrong]
    lines = [
        f"NetBox {version} at {site.settings.netbox.url}",
        *(f"lacks {said}. Add it with: rackmint netbox init" for said in lacking),
        *(f"rack {rack}: {count} nodes" for rack, (count, _) in racks.items() if count),
        *strange,
        "ready" if not lacking and not strange else "not ready",
    ]
    answer(
        as_json, "\n".join(map(plain, lines)), version=version, lacking=lacking, strange=strange,
        nodes={rack: count for rack, (count, _) in racks.items()},
    )  # fmt: skip
    return 2 if lacking or strange else 0


def _nodes(site: Site, book: NetBox, rack: str) -> tuple[int, list[str]]:
    """How many nodes a rack has, and what keeps some of them from being worked on."""
    nodes = book.nodes_in(rack)
    wrong = [
        f"{node.name}: node class {node.node_class} is not known. Correct the device's node_class, or add the class"
        for node in nodes
        if node.node_class not in site.classes
    ]
    blind = [f"{node.name}: has no BMC address. Set its oob_ip or bmc_url" for node in nodes if not node.bmc_url]
    return len(nodes), [*wrong, *blind]
