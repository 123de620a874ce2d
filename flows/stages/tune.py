"""tune: the BIOS profile holds, proven by reading back. Changes normally rode on the imaging boot already."""

from __future__ import annotations

from bios_profiles.profile import digest as profile_digest
from bios_profiles.profile import judge, plan
from flows.site import NodeSite
from flows.step import digest
from inventory.model import Bios
from inventory.redfish import Bmc
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.TUNE


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """The profile, and the settings as they stand."""
    bios = report.inventory.bios
    return {
        "BIOS profile": profile_digest(site.profile),
        "BIOS settings": digest({"now": bios.attributes, "pending": bios.pending, "version": bios.version}),
        "chassis": report.inventory.identity.serial or "",
    }


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Read, and if something is still off: stage it, restart once, read again. A second refusal is a failure."""
    with site.bmc() as bmc:
        bios = bmc.bios()
        changes = plan(site.profile, bios).changes
        if not changes or not site.may_change:
            return _record(report, site, bios, did=(), posts=0)
        _restart_with(bmc, site, changes)
        after = bmc.bios()
    did = tuple(f"BIOS {name} set to {value}" for name, value in sorted(changes.items()))
    return _record(report, site, after, did=did, posts=1)


def _restart_with(bmc: Bmc, site: NodeSite, changes: dict[str, str | int | bool | None]) -> None:
    site.step("stage_bios", changes=dict(changes))
    bmc.stage_bios(changes)
    _, before = bmc.boot_progress()
    site.step("restart")
    bmc.restart()
    bmc.wait_posted(since=before)


def _record(report: NodeReport, site: NodeSite, bios: Bios, *, did: tuple[str, ...], posts: int) -> StageRecord:
    return StageRecord(
        stage=STAGE,
        findings=judge(site.profile, bios),
        did=did,
        posts=posts,
        inventory=report.inventory.model_copy(update={"bios": bios}),
        details={"profile": site.profile.name, "profile_digest": profile_digest(site.profile)},
    )
