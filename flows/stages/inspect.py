"""inspect: hold what the BMC told against what the node class demands. Nothing is changed."""

from __future__ import annotations

from burnin.checks import check_out_of_band
from flows.site import NodeSite
from flows.step import digest
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.INSPECT

# Readings that move by themselves and would make every run look like a change.
_VOLATILE = {"source", "temperature_c", "power_w", "throttle_reasons", "pcie_replays", "state", "read_at"}


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """The class's demands and the parts as discovered."""
    inventory = report.inventory
    return {
        "node class": digest(site.node_class.model_dump(mode="json", exclude={"budget_s", "image", "limits", "tests"})),
        **{
            name: digest([part.model_dump(mode="json", exclude=_VOLATILE) for part in getattr(inventory, name)])
            for name in ("gpus", "nics", "dimms", "drives", "cpus", "firmware")
        },
        "identity": digest(inventory.identity.model_dump(mode="json", exclude={"source", "host_name"})),
    }


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """All that is wrong from outside, at once."""
    return StageRecord(stage=STAGE, findings=check_out_of_band(report.inventory, site.node_class, site.node))
