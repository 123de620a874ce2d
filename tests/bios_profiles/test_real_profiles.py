"""The profiles for real machines, held against what those machines show over Redfish."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bios_profiles.profile import BiosPlan, BiosProfile, judge, load_profiles, plan
from inventory.findings import Outcome
from inventory.model import Bios, Identity

TREES = Path(__file__).parents[3] / "shared" / "redfish_trees"
BIOS = {
    "dgx-h100": (
        "dgx_h100",
        "redfish/v1/Systems/DGX",
        "redfish/v1/Registries/BiosAttributeRegistry113.en-US.1.1.3.json",
    ),
    "supermicro-sys-821ge-h100": (
        "sys_821ge_hgx_h100",
        "redfish/v1/Systems/1",
        "registries/BiosAttributeRegistry.1.0.0.json",
    ),
}

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not TREES.is_dir(), reason="the reference Redfish trees are not beside the repository"),
]


def read(tree: str, *paths: str) -> list[dict[str, Any]]:
    """Resources of a captured tree."""
    wanted = [f"{tree}/{path}/index.json" for path in paths]
    found = {}
    with tarfile.open(TREES / f"{tree}.tar.xz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            opened = archive.extractfile(member) if name in wanted else None
            if opened:
                found[name] = json.load(opened)
    return [found[name] for name in wanted]


@pytest.fixture(params=sorted(BIOS))
def machine(request: pytest.FixtureRequest) -> tuple[BiosProfile, Bios, Identity, dict[str, dict[str, Any]]]:
    """A real machine's profile, settings, identity and attribute registry."""
    tree, system, registry = BIOS[request.param]
    node, bios, names = read(tree, system, f"{system}/Bios", registry)
    entries = {entry["AttributeName"]: entry for entry in names["RegistryEntries"]["Attributes"]}
    identity = Identity(manufacturer=node["Manufacturer"], model=node["Model"])
    return load_profiles()[request.param], Bios(attributes=bios["Attributes"]), identity, entries


def test_every_setting_exists_and_allows_the_wanted_value(
    machine: tuple[BiosProfile, Bios, Identity, dict[str, dict[str, Any]]],
) -> None:
    """No value is asked for that the machine's own registry does not list, and none is read-only."""
    profile, bios, identity, registry = machine
    assert "" == profile.misfit(identity)
    for setting in profile.settings:
        names = setting.names_in(bios)
        assert names != (), setting.name
        for name in names:
            entry = registry[name]
            allowed = {v.get("ValueDisplayName") or v["ValueName"] for v in entry.get("Value", ())} or {True, False}
            assert {setting.value, *setting.accepted} <= allowed, name
            assert not entry.get("ReadOnly"), name


def test_the_plan_for_the_machine_as_found_is_short_and_settles_it(
    machine: tuple[BiosProfile, Bios, Identity, dict[str, dict[str, Any]]],
) -> None:
    """A DGX needs nothing; the Supermicro needs the three values it ships the other way round."""
    profile, bios, _, _ = machine
    changes = {re.sub("_[0-9A-F]{4}$", "", name): value for name, value in plan(profile, bios).changes.items()}
    expected = {
        "dgx-h100": {},
        "supermicro-sys-821ge-h100": {"RelaxedOrdering": "Yes", "CSMSupport": "Disabled", "IPv4HTTPSupport": "Enabled"},
    }
    assert expected[profile.name] == changes
    settled = Bios(attributes={**bios.attributes, **plan(profile, bios).changes})
    assert {Outcome.PASS} == {f.outcome for f in judge(profile, settled)}
    assert BiosPlan(already=plan(profile, settled).already) == plan(profile, settled)
