"""image: lay the class's OS image on the boot disk, unless it is there already; BIOS changes ride on the same boot.

The node ends up running from its own disk, with its BMC's media empty and its boot override cleared, whatever happens
in between. The wiping step is begun only for a node the plan named, and is never begun twice: an attempt that was
under way when a run died is taken up where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple, TypeVar

from bios_profiles.profile import plan as plan_bios
from flows.site import NodeSite
from flows.stages.take_up import HANDED_OVER, Far, UnderWay, give_up, under_way
from flows.step import digest
from inventory.command import Shell
from inventory.deadline import Deadline
from inventory.errors import BadSettings, BudgetSpent, ChangeNotApplied, LoginRefused, NodeUnreachable
from inventory.evidence import EvidenceStore
from inventory.findings import Finding, Outcome, good
from inventory.inband import read_software
from inventory.ledger import AttemptEvent
from inventory.redfish import Bmc
from inventory.report import NodeReport, Stage, StageRecord
from os_images.compatibility import check_compatibility
from os_images.installers.agent_image import (
    Login,
    build_job,
    judge_attempt,
    new_attempt,
    phoned_home,
    watch,
)
from os_images.verify import same_version, verify

T = TypeVar("T")
STAGE = Stage.IMAGE

# BootProgress.LastState while firmware still has the machine. Source: DMTF ComputerSystem schema, LastState.
POSTING = frozenset({
    "PrimaryProcessorInitializationStarted", "BusInitializationStarted", "MemoryInitializationStarted",
    "SecondaryProcessorInitializationStarted", "PCIResourceConfigStarted", "SystemHardwareInitializationComplete",
})  # fmt: skip

_LOGIN_S = 30.0  # our choice: a node that has phoned home answers SSH at once; one that is off should not be waited for
_FAREWELL_S = 240.0  # our choice: power off, eject and clear, each read back, on a slow BMC
_FIRST_WORDS_S = 120.0  # our choice: some twenty short questions to a node that has just booted
_LOOKS_A_PROGRESS = 8  # our choice: looks into our own ledger between two questions to the BMC
_KINDS = {"virtual_media": "iso", "uefi_http": "efi"}
# Shares of the stage's budget, our choice: the agent's part is the longer one, and one re-arming must fit in.
_AGENT_SHARE, _FIRST_BOOT_SHARE = 0.4, 0.4


def inputs(report: NodeReport, site: NodeSite) -> dict[str, str]:
    """The image, the chassis and its boot disk, and what the node itself says is on it now."""
    there = image_on(site, address_of(report, site))
    drives = sorted(drive.serial or drive.id for drive in report.inventory.drives)
    return {
        "image": site.manifest.digest,
        "versions": digest(site.manifest.versions),
        "chassis": report.inventory.identity.serial or "",
        "drives": digest(drives),
        "on the node": there.said if there else "nothing that answers",
    }


def address_of(report: NodeReport, site: NodeSite) -> str:
    """Where the node's OS answers: as it phoned home last, else as the book says."""
    attempt = site.site.ledger.last_attempt(site.node.key)
    home = phoned_home(site.site.ledger.attempt_events(attempt.attempt_id)) if attempt else None
    return home.addresses[0] if home and home.addresses else report.address


class OnNode(NamedTuple):
    """What the node itself says is laid on it."""

    digest: str  # of the image; empty when it is none of ours
    drifted: tuple[str, ...] = ()  # versions that are not the image's any more

    @property
    def said(self) -> str:
        """As a stage's input: the digest alone when all is as it was laid."""
        return " ".join((self.digest or "another image", *self.drifted))


def image_on(site: NodeSite, address: str) -> OnNode | None:
    """Which image is on the node, and what was changed since it was laid; None when nobody answers."""
    told = _asked(site, address, read_software)
    if told is None:
        return None
    software, _ = told
    stated = site.manifest.versions if software.image_digest == site.manifest.digest else {}
    versions = {name: str(getattr(software, name, None) or "") for name in stated}
    return OnNode(
        software.image_digest or "",
        tuple(
            f"{name} {told}" for name, told in versions.items() if told and not same_version(name, told, stated[name])
        ),
    )


def _asked(site: NodeSite, address: str, question: Callable[[Shell, EvidenceStore], T]) -> T | None:
    if not address:
        return None
    try:
        with site.shell(address, deadline=site.deadline.part(_LOGIN_S)) as shell:
            return question(shell, site.site.evidence)
    except (NodeUnreachable, LoginRefused, BudgetSpent):
        return None


def run(report: NodeReport, site: NodeSite) -> StageRecord:
    """Already so → prove it. Under way → go on with it. Else lay it, boot it, prove it."""
    unfit = site.profile.misfit(report.inventory.identity)
    if unfit:
        raise BadSettings(f"{site.node.name}: {unfit}. Name the right profile in node class {site.node_class.name}")
    models = tuple(sorted({gpu.model for gpu in report.inventory.gpus if gpu.model}))
    fits = check_compatibility(site.manifest, models, nvswitch=site.node_class.nvswitch)
    if not good(fits):
        return StageRecord(stage=STAGE, findings=fits)
    address = address_of(report, site)
    there = image_on(site, address)
    if there and there.digest == site.manifest.digest and not (there.drifted and site.may_wipe):
        return _proven(site, fits, address, did=(), posts=0)
    return _lay(report, site, fits)


def _lay(report: NodeReport, site: NodeSite, fits: tuple[Finding, ...]) -> StageRecord:
    """The agent's boot, then the disk's boot; each is gone on with where an earlier run left it."""
    with site.bmc() as bmc:
        found = under_way(site, bmc)
        if found.far is Far.NOWHERE and not site.may_wipe:
            raise ChangeNotApplied(
                site.node.name, "the image is not on the node and wiping its disk was not agreed to",
                do="Run `rackmint plan`, then provision with its wipe agreed.",
            )  # fmt: skip
        laid = _agents_part(report, site, bmc, found)
        finding = judge_attempt(laid.events)
        if finding.outcome is not Outcome.PASS:
            return StageRecord(stage=STAGE, findings=(*fits, finding), did=laid.did, posts=laid.posts)
        events, more = _first_boot(site, bmc, laid.attempt_id, booting=found.far is Far.DISK)
        bios = bmc.bios()
    posts, home = laid.posts + more, phoned_home(events)
    if home is None:
        return StageRecord(stage=STAGE, findings=(*fits, judge_attempt(events)), did=laid.did, posts=posts)
    record = _proven(site, (*fits, finding), home.addresses[0], did=laid.did, posts=posts)
    return record.model_copy(update={"inventory": report.inventory.model_copy(update={"bios": bios})})


# -- the agent's boot -----------------------------------------------------------------------------------------------


class _Laid(NamedTuple):
    """What the agent's part came to."""

    attempt_id: str
    events: tuple[AttemptEvent, ...]
    did: tuple[str, ...]
    posts: int


class _Booted(NamedTuple):
    """An agent's boot that was begun, and what the BMC said of boot progress before it."""

    attempt_id: str
    before: tuple[str | None, str | None]


def _agents_part(report: NodeReport, site: NodeSite, bmc: Bmc, found: UnderWay) -> _Laid:
    """Begin an attempt or go on with the one found, to its end. Media and override are undone in any case."""
    did: tuple[str, ...] = ("went on with the imaging attempt that was under way",)
    attempt_id, posts = found.attempt_id, 0
    if found.far is Far.DISK:
        return _Laid(attempt_id, site.site.ledger.attempt_events(attempt_id), did, posts)
    riding = _stage_bios(site, bmc) if found.far is Far.NOWHERE else ()
    booted = _Booted(attempt_id, (None, None))
    try:
        if found.far is Far.NOWHERE:
            booted, posts = _boot_agent(report, site, bmc), 1
            did = (f"boot disk laid with image {site.manifest.name} (attempt {booted.attempt_id})", *riding)
        attempt_id, more = _agent(report, site, bmc, booted)
    finally:
        _leave_in_known_order(site)
    return _Laid(attempt_id, site.site.ledger.attempt_events(attempt_id), did, posts + more)


def _stage_bios(site: NodeSite, bmc: Bmc) -> tuple[str, ...]:
    """The profile's changes, staged so that they ride on the imaging boot's POST: one sentence each."""
    changes = plan_bios(site.profile, bmc.bios()).changes
    if changes:
        site.step("stage_bios", changes=dict(changes))
        bmc.stage_bios(changes)
    return tuple(
        f"BIOS {name} staged as {value}, riding on the imaging boot" for name, value in sorted(changes.items())
    )


def _boot_agent(report: NodeReport, site: NodeSite, bmc: Bmc) -> _Booted:
    """Arm the deploy agent for this node alone and power the node on; the ledger hears of it first."""
    login = Login(user=site.site.settings.ssh.user, authorized_key=site.public_key)
    job = build_job(
        site.manifest, site.node_class.boot_disk, login,
        host_name=site.node.name, service_url=site.site.settings.images.url, identity=report.inventory.identity,
        wipe=site.may_wipe and _asked_twice(site),
    )  # fmt: skip
    attempt = new_attempt(site.site.ledger, site.node, job)
    kind = _KINDS[site.node_class.boot]
    url = site.site.images.boot_url(attempt.attempt_id, attempt.token, kind)
    site.step("boot_agent", attempt=attempt.attempt_id, by=site.node_class.boot)
    _off(bmc)
    if kind == "iso":
        bmc.insert_media(url)
        bmc.boot_once("Cd")
    else:
        bmc.boot_once("UefiHttp", http_uri=url)
    before = bmc.boot_progress()
    site.step("power_on", attempt=attempt.attempt_id)
    bmc.power_on()
    return _Booted(attempt.attempt_id, before)


def _asked_twice(site: NodeSite) -> bool:
    """Foreign data on the boot disk is overwritten only for a node named by --reimage."""
    return site.node.name in site.reimage


def _off(bmc: Bmc) -> None:
    if bmc.power() != "Off":
        bmc.power_off()


def _agent(report: NodeReport, site: NodeSite, bmc: Bmc, booted: _Booted) -> tuple[str, int]:
    """Watch the agent to its end. One that was never even fetched is booted once more: (attempt, extra POSTs)."""
    try:
        _watch(site, bmc, booted)
    except BudgetSpent:
        if site.site.ledger.attempt_events(booted.attempt_id) or not give_up(site, booted.attempt_id):
            raise
    else:
        return booted.attempt_id, 0
    site.step("boot_agent_again", why="never fetched")
    again = _boot_agent(report, site, bmc)
    try:
        _watch(site, bmc, again)
    except BudgetSpent as error:
        raise _in_post(site, bmc, again.attempt_id) or error from error
    return again.attempt_id, 1


def _watch(site: NodeSite, bmc: Bmc, booted: _Booted) -> None:
    """Wait for the agent's end, but not for one that firmware has gone on without."""
    turn = count(1)

    def passed_by() -> bool:
        if next(turn) % _LOOKS_A_PROGRESS:
            return False
        now = bmc.boot_progress()
        return now != booted.before and now[0] in HANDED_OVER

    deadline = site.deadline.part(site.deadline.budget_s * _AGENT_SHARE)
    poll_s = site.site.settings.pace.poll_s
    watch(site.site.ledger, booted.attempt_id, deadline, poll_s=poll_s, passed_by=passed_by)


def _in_post(site: NodeSite, bmc: Bmc, attempt_id: str) -> BudgetSpent | None:
    """A boot that never left POST is the firmware's matter and named so, not the image service's."""
    progress, since = bmc.boot_progress()
    if site.site.ledger.attempt_events(attempt_id) or progress not in POSTING:
        return None
    return BudgetSpent(
        site.node.name, "POST never ended, twice", f"BootProgress {progress} since {since}",
        "Look at the serial console: the part that POST names is the first suspect; then a cold power cycle.",
    )  # fmt: skip


def _leave_in_known_order(site: NodeSite) -> None:
    """OS off first, then eject (ejecting under a running ramdisk corrupts it), then the disk. Also after a cancel."""
    farewell = Deadline(
        site.node.name, _FAREWELL_S, tell=site.deadline.tell
    )  # its own token: a cancel is why we are here
    with replace(site, deadline=farewell).bmc() as bmc:
        _off(bmc)
        bmc.eject_media()
        bmc.boot_to_disk()


# -- the disk's boot ------------------------------------------------------------------------------------------------


def _first_boot(site: NodeSite, bmc: Bmc, attempt_id: str, *, booting: bool) -> tuple[tuple[AttemptEvent, ...], int]:
    """Boot from the disk, unless it is booting already, and wait until the image phones home: (events, POSTs)."""
    if not booting:
        site.step("boot_disk", attempt=attempt_id)
        bmc.power_on()
    poll_s = site.site.settings.pace.poll_s
    deadline = site.deadline.part(site.deadline.budget_s * _FIRST_BOOT_SHARE)
    events = watch(site.site.ledger, attempt_id, deadline, until="phone-home", poll_s=poll_s)
    return events, 0 if booting else 1


def _proven(
    site: NodeSite, fits: tuple[Finding, ...], address: str, *, did: tuple[str, ...], posts: int
) -> StageRecord:
    """What the node itself says runs on it, held against the manifest; the question it refused comes first."""
    with site.shell(address, deadline=site.deadline.part(_FIRST_WORDS_S)) as shell:
        inside, trouble = read_software(shell, site.site.evidence)
    found = verify(inside, inside.image_digest or "", site.manifest, nvswitch=site.node_class.nvswitch)
    if trouble:
        root = next((f for f in trouble if not f.explained_by), trouble[0]).key
        found = tuple(f.model_copy(update={"explained_by": root}) if f.outcome is Outcome.ERROR else f for f in found)
    return StageRecord(
        stage=STAGE, findings=(*fits, *trouble, *found), software=inside, address=address, did=did, posts=posts
    )
