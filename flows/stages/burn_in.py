"""burn in: what the node says of itself from inside, then what it can do under load, counters before and after."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.checks import check_counters, check_in_band, fold
from burnin.node_tests import run_node_test
from burnin.results import TestResult, explained
from flows.site import NodeSite
from flows.stages.left_running import end_left_running
from flows.step import digest
from inventory.errors import BookUnreachable, ChangeRefused
from inventory.findings import Finding, good
from inventory.inband import InBand, read_counters, read_inband
from inventory.inband.counters import gpu_subject
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
    _keep_work_off(site)
    with site.shell(report.address) as shell:
        end_left_running(shell, site)
        inside = read_inband(shell, site.site.evidence)
        findings = _look_inside(report, site, inside)
        results: tuple[TestResult, ...] = ()
        if good(findings):
            results = tuple(_load(shell, site, inside))
            loaded = tuple(finding for result in results for finding in result.findings)
            after = read_counters(shell, site.site.evidence)
            findings = (*findings, *explained((*loaded, *check_counters(inside.counters, after))))
    return StageRecord(
        stage=STAGE,
        findings=fold(findings),
        software=inside.software,
        details={
            "tests": {result.test: result.details for result in results},
            "figures": _figures(results),
            "adapters": list(_adapters(inside, site)),
        },
    )


def _keep_work_off(site: NodeSite) -> None:
    """A node that serves is cordoned with our mark first, which only its new certificate lifts; one at work is left."""
    if not site.site.settings.fleet.kubeconfig:
        return
    fleet = site.site.fleet()
    try:
        known = fleet.node(site.node.name)
    except BookUnreachable:
        if site.node.status == "active":  # it may serve, and nobody can say
            raise
        return
    if known is None or not known.schedulable:
        return
    pods = fleet.working_pods(site.node.name)
    if pods:
        raise ChangeRefused(
            site.node.name,
            f"not tested: it runs {len(pods)} pods",
            ", ".join(pods[:3]),
            "Drain it, then run this again.",
        )
    site.fence()
    site.step("cordon")
    fleet.cordon(site.node.name, site.run_id)


def _look_inside(report: NodeReport, site: NodeSite, inside: InBand) -> tuple[Finding, ...]:
    judged = check_in_band(
        report.inventory, inside.inventory, inside.software, site.node_class, site.manifest.versions,
        counters=inside.counters,
    )  # fmt: skip
    return (*inside.trouble, *judged)


def _load(shell: SshShell, site: NodeSite, inside: InBand) -> Iterator[TestResult]:
    """All tests of the class, though a failed one ends the ladder: the dearer ones would only repeat it."""
    names = {int(gpu.id): gpu_subject(gpu) for gpu in inside.inventory.gpus if gpu.id.isdigit()}
    for name in site.node_class.tests:
        site.deadline.check(name)
        site.deadline.tell(name, site.deadline.left_s)
        site.step("test", name=name)
        result = run_node_test(
            name, shell, site.site.evidence, site.pack, site.node_class, site.deadline,
            gpu_names=names, adapters=_adapters(inside, site),
        )  # fmt: skip
        yield result
        if not good(result.findings):
            return


def _adapters(inside: InBand, site: NodeSite) -> tuple[str, ...]:
    """The RDMA devices that carry collectives: ports at the rate and layer of the class's compute adapters."""
    wanted = {(nic.link_layer, nic.rate_gbit_s) for nic in site.node_class.nics if nic.role == "compute"}
    ports = [port for nic in inside.inventory.nics for port in nic.ports]
    return tuple(sorted(port.name for port in ports if port.name and (port.link_layer, port.speed_gbit_s) in wanted))


def _figures(results: tuple[TestResult, ...]) -> dict[str, tuple[float | None, str]]:
    """The node's own figures, to be compared with its cohort's: metric → (value, unit)."""
    return {
        reading.metric: (reading.value if isinstance(reading.value, int | float) else None, reading.unit)
        for result in results
        for reading in result.readings
        if reading.subject == "node"
    }
