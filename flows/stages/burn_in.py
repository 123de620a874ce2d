"""burn in: what the node says of itself from inside, then what it can do under load, counters before and after."""

from __future__ import annotations

from burnin.checks import check_counters, check_in_band, fold

from burnin.node_tests import run_node_test
from flows.site import NodeSite
from flows.step import digest
from inventory.findings import Finding, good
from inventory.inband import InBand, read_counters, read_inband
from inventory.report import NodeReport, Stage, StageRecord
from inventory.ssh import SshShell

STAGE = Stage.BURN_IN


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Limits, tests, the parts under test and the software they are tested with."""
    inventory, software = report.inventory, report.software
    return {
        "limits": site.pack.digest,
        "tests": digest(site.node_class.tests),
        "node class": digest(site.node_class.model_dump(mode="json", exclude={"budget_s"})),
        "gpus": digest(sorted((g.serial or g.id, g.firmware, g.slot) for g in inventory.gpus)),
        "nics": digest(sorted((n.serial or n.id, n.firmware, n.slot) for n in inventory.nics)),
        "software": digest([software.driver, software.cuda, software.nccl, software.fabric_manager, software.kernel]),
        "image": software.image_digest or "",
        "BIOS settings": digest(inventory.bios.attributes),
        "chassis": inventory.identity.serial or "",
    }


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Cheap to dear; a rung that fails ends the ladder, and everything seen so far is told at once."""
    with site.shell(report.address) as shell:
        inside = read_inband(shell, site.site.evidence)
        findings = _look_inside(report, site, inside)
        details: dict[str, object] = {}
        if good(findings):
            loaded, details = _load(shell, site)
            after = read_counters(shell, site.site.evidence)
            findings = (*findings, *loaded, *check_counters(inside.counters, after))
    return StageRecord(
        stage=STAGE,
        findings=fold(findings),
        software=inside.software,
        details={**details, "tests": list(site.node_class.tests)},
    )


def _look_inside(report: NodeReport, site: NodeSite, inside: InBand) -> tuple[Finding, ...]:
    judged = check_in_band(report.inventory, inside.inventory, inside.software, site.node_class, site.manifest.versions)
    return (*inside.trouble, *judged)


def _load(shell: SshShell, site: NodeSite) -> tuple[tuple[Finding, ...], dict[str, object]]:
    """All tests of the class, though a failed one ends the ladder: the dearer ones would only repeat it."""
    findings: tuple[Finding, ...] = ()
    details: dict[str, object] = {}
    for name in site.node_class.tests:
        site.deadline.check(name)
        site.deadline.tell(name, site.deadline.left_s)
        site.step("test", name=name)
        result = run_node_test(name, shell, site.site.evidence, site.pack, site.node_class, site.deadline)
        findings = (*findings, *result.findings)
        details[name] = result.details
        if not good(result.findings):
            break
    return findings, details
