"""A simulated rack for every test that asks for one, and the line run over it without Prefect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.plan import plan_rack
from flows.provision import provision
from flows.rack import new_run_id, nodes_of, running
from flows.revalidate import LOOK_ONLY, revalidate
from flows.running import Mandate
from flows.settings import load_settings
from flows.site import Site
from inventory.report import RackReport
from lab.rack import LabHandle, LabPlan, start_lab

# Budgets that end a hopeless wait in seconds, and still bear two busy cores.
BUDGETS_S = {"discover": 30, "inspect": 30, "image": 40, "tune": 30, "burn_in": 60, "record": 20, "join": 20}
SCALE = 2000.0  # a POST of 300 s takes 0.15 s


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., LabHandle]]:
    """Starts labs and stops them again."""
    started: list[LabHandle] = []

    def make(**wanted: object) -> LabHandle:
        lab = start_lab(tmp_path / f"lab{len(started)}", LabPlan(**{"scale": SCALE, **wanted}))
        started.append(lab)
        shorten(lab)
        return lab

    yield make
    for lab in started:
        lab.stop()


def shorten(lab: LabHandle) -> None:
    """Give the site classes of its own: the lab's, with the budgets above."""
    folder = lab.settings_file.parent / "classes"
    folder.mkdir()
    for name in ("lab-hgx", "lab-pcie", "lab-processors"):
        text = (Path(__file__).parents[2] / f"inventory/classes/{name}.toml").read_text()
        head, _, _ = text.partition("[budget_s]")
        budgets = "".join(f"{stage} = {seconds}\n" for stage, seconds in BUDGETS_S.items())
        (folder / f"{name}.toml").write_text(f"{head}[budget_s]\n{budgets}")
    settings = lab.settings_file.read_text()
    lab.settings_file.write_text(f'classes = "{folder}"\n{settings}')


def run_line(
    lab: LabHandle, rack: str = "R1", *, nodes: tuple[str, ...] = (), reimage: tuple[str, ...] = ()
) -> RackReport:
    """Plan and provision a rack as the command does, without Prefect."""
    site = Site.open(load_settings(str(lab.settings_file)))
    try:
        plan = plan_rack(site, rack, nodes_of(site, rack, nodes), frozenset(reimage))
    finally:
        site.close()
    return asyncio.run(_line(lab, rack, plan.able, Mandate(wipe=frozenset(plan.wipe), reimage=frozenset(reimage))))


async def _line(lab: LabHandle, rack: str, nodes: tuple[str, ...], may: Mandate) -> RackReport:
    async with running(str(lab.settings_file), new_run_id(), "provision", rack, may) as run:
        return await provision(run, rack, nodes)


def proven_again(lab: LabHandle, rack: str = "R1", *, due: bool = False, nodes: tuple[str, ...] = ()) -> RackReport:
    """Re-validate a rack, or what is due, as the command does, without Prefect."""

    async def line() -> RackReport:
        async with running(str(lab.settings_file), new_run_id(), "revalidate", rack or "due", LOOK_ONLY) as run:
            return await revalidate(run, rack, due=due, nodes=nodes)

    return asyncio.run(line())
