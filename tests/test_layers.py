"""Who may import whom: arrows point down, each foreign library has one door, the environment one reader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("flows", "burnin", "bios_profiles", "os_images", "inventory", "lab")

# One foreign library, one door: the only modules that may import it.
DOORS = {
    "sushy": ("inventory.redfish",),
    "paramiko": ("inventory.ssh", "lab"),
    "pynetbox": ("inventory.netbox",),
    "kubernetes": ("inventory.fleet",),
    "sqlalchemy": ("inventory.ledger", "inventory.migrations"),
    "alembic": ("inventory.ledger_database", "inventory.migrations"),
    "prefect": ("flows.tasks", "flows.provision", "flows.revalidate", "flows.audit", "flows.deployments"),
    "rich": ("flows.render", "flows.cli", "flows.commands"),
    "click": ("flows.cli", "flows.commands", "lab.rack"),
    "asyncssh": ("lab",),
    "aiohttp": ("lab", "os_images.service", "os_images.web"),
    "requests": ("inventory.redfish", "inventory.netbox", "flows.local_server", "flows.commands", "lab"),
    "jinja2": ("flows.render",),
    "yaml": ("inventory.fleet", "lab"),
    "fsspec": ("inventory.evidence",),
    "cryptography": ("inventory.signing", "inventory.redfish", "lab", "inventory.fleet"),
}

# What each part may not import of ours. The doors of inventory never import each other.
_DOOR_MODULES = ("inventory.redfish", "inventory.ssh", "inventory.netbox", "inventory.fleet")
FORBIDDEN = {
    "inventory": ("flows", "burnin", "bios_profiles", "os_images", "lab"),
    "burnin": ("flows", "bios_profiles", "os_images", "lab", *_DOOR_MODULES, "inventory.ledger"),
    "bios_profiles": ("flows", "burnin", "os_images", "lab", *_DOOR_MODULES, "inventory.ledger"),
    "os_images": ("flows", "burnin", "bios_profiles", "lab", *_DOOR_MODULES),
    "lab": ("flows", "burnin", "bios_profiles", *_DOOR_MODULES, "inventory.ledger"),
    "flows.stages": ("flows.provision", "flows.revalidate", "flows.audit", "flows.tasks", "flows.commands", "lab"),
    "flows.site": ("flows.stages", "flows.running", "lab"),
    "flows.running": ("flows.stages", "flows.tasks", "lab"),
    "flows.provision": ("flows.commands", "flows.cli", "lab"),
    "flows.commands.provision": ("lab",),
    **{door: tuple(other for other in _DOOR_MODULES if other != door) for door in _DOOR_MODULES},
}  # fmt: skip


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the product by its dotted name."""
    for part in OURS:
        for file in sorted((ROOT / part).rglob("*.py")):
            yield (
                ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"),
                ast.parse(file.read_text()),
            )


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module a tree imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, part: str) -> bool:
    """Whether a module is a part or lies in it."""
    return name == part or name.startswith(f"{part}.")


def breaches(name: str, tree: ast.Module) -> list[str]:
    """What one module imports against the tables."""
    found = []
    for imported in imports(tree):
        library = imported.partition(".")[0]
        if library in DOORS and not any(within(name, door) or name.startswith(door) for door in DOORS[library]):
            found.append(f"{name} imports {imported}: only {', '.join(DOORS[library])} may")
        for part, barred in FORBIDDEN.items():
            if within(name, part) and any(within(imported, b) for b in barred):
                found.append(f"{name} imports {imported}: {part} may not")
    return found


def test_every_import_keeps_to_the_tables() -> None:
    """No module imports against its layer, and no foreign library but through its door."""
    assert [] == [breach for name, tree in modules() for breach in breaches(name, tree)]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("inventory.model", "from flows.site import Site"),
        ("burnin.nccl", "import paramiko"),
        ("inventory.netbox.wire", "from inventory.ssh import SshShell"),
        ("flows.stages.image", "from prefect import task"),
        ("lab.rack", "from inventory.redfish import Bmc"),
    ],
)
def test_a_planted_breach_is_found(name: str, source: str) -> None:
    """The tables do bite."""
    assert breaches(name, ast.parse(source))


def test_only_settings_read_the_environment() -> None:
    """`os.environ` and `os.getenv` stand in one file."""
    readers = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert {"flows.settings"} == readers
