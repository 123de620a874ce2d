"""discover: read the node's BMC and make sure it is the machine the book means."""

from __future__ import annotations

from flows.site import NodeSite
from inventory.errors import BadSettings
from inventory.findings import Finding, Outcome
from inventory.model import Inventory, NodeRef
from inventory.redfish import Bmc
from inventory.report import NodeReport, Stage, StageRecord

STAGE = Stage.DISCOVER

# What a BMC says when nobody has written a serial. Source: the placeholder list NetBox importers share.
_PLACEHOLDERS = frozenset({"", "0", "n/a", "none", "default string", "to be filled by o.e.m.", "system serial number"})

# BootProgress.LastState values at which hardware initialisation is over. Source: DMTF DSP8010.
_POSTED = frozenset({"SystemHardwareInitializationComplete", "SetupEntered", "OSBootStarted", "OSRunning"})
_SETTLED = frozenset({"On", "Off", "Unknown", "Paused"})  # PowerState values that are no transition. Source: DSP8010


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """Nothing: what a machine is made of is looked at in every run."""
    return {}


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Read identity, parts, firmware, BIOS and boot state; powers the node on if the GPUs only answer then."""
    if not site.node.bmc_url:
        raise BadSettings(f"{site.node.name}: the book has no BMC address. Set oob_ip or bmc_url in NetBox")
    with site.bmc() as bmc:
        inventory = _read_in_peace(site, bmc)
        asleep = inventory.power == "Off" and not inventory.gpus and site.node_class.gpu.count > 0
        wake = asleep and site.may_change
        if wake:
            inventory = _woken(site, bmc)
        requests = bmc.requests
    return StageRecord(
        stage=STAGE,
        findings=(*_who(site.node, inventory), _read(inventory)),
        inventory=inventory,
        did=("powered on, because its GPUs do not answer in standby",) if wake else (),
        posts=1 if wake else 0,
        details={"requests": requests, "missing": len(inventory.missing), "gpus_found_in": inventory.gpus_found_in},
    )


def _read_in_peace(site: NodeSite, bmc: Bmc) -> Inventory:
    """All facts of one moment: what was read while the power went on or off is half of each, and read again."""
    while True:
        before = bmc.power()
        inventory = bmc.read()
        if bmc.power() == before and before in _SETTLED:
            return inventory
        site.deadline.wait(site.site.settings.pace.poll_s, f"the power to settle, it is {before}")


def _woken(site: NodeSite, bmc: Bmc) -> Inventory:
    """Power on from its own disk and read again, as soon as the GPUs answer or POST is through without them."""
    bmc.eject_media()  # whatever a run that died had in there must not boot now
    bmc.boot_to_disk()
    site.step("power_on")
    bmc.power_on()
    while True:
        posted = bmc.boot_progress()[0] in _POSTED
        inventory = bmc.read()
        if inventory.gpus or posted:
            return inventory
        site.deadline.wait(site.site.settings.pace.poll_s, "POST to come far enough for the GPUs to answer")


def _who(node: NodeRef, inventory: Inventory) -> tuple[Finding, ...]:
    """The chassis serial must be there, and be the book's."""
    serial = (inventory.identity.serial or "").strip()
    if serial.lower() in _PLACEHOLDERS:
        outcome, cause = Outcome.ERROR, f"the BMC names no chassis serial (it says {serial or 'nothing'!r})"
    elif node.serial and serial != node.serial:
        outcome = Outcome.FAIL
        cause = f"this is another machine: the BMC says chassis {serial}, the book says {node.serial}"
    else:
        outcome, cause = Outcome.PASS, ""
    return (
        Finding(
            metric="chassis_serial",
            subject="node",
            outcome=outcome,
            observed=serial or "nothing",
            expected=node.serial or "a serial number",
            remedy=""
            if outcome is Outcome.PASS
            else "Check cabling and the device's serial in NetBox before going on.",
            source="NetBox device serial",
            cause=cause,
            value=serial,
            evidence=inventory.identity.source.evidence if inventory.identity.source else None,
        ),
    )


def _read(inventory: Inventory) -> Finding:
    """That the BMC told parts at all; whether they are the right ones is inspection's business."""
    told = bool(inventory.gpus or inventory.nics or inventory.dimms)
    return Finding(
        metric="inventory_read",
        subject="node",
        outcome=Outcome.PASS if told else Outcome.ERROR,
        observed=f"{len(inventory.gpus)} GPUs, {len(inventory.nics)} NICs, {len(inventory.dimms)} DIMMs",
        expected="parts are told",
        remedy="" if told else "Reset the BMC; some list their parts only after a host POST.",
        source="Redfish",
        cause="" if told else "the BMC answers and lists no parts at all",
        evidence=inventory.identity.source.evidence if inventory.identity.source else None,
    )
