"""One site opened: its ledger, evidence, books, images, and for each node the doors a stage may use."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bios_profiles.profile import BiosProfile, load_profiles
from burnin.limits import LimitsPack, load_limits
from flows.settings import Settings
from inventory.classes import NodeClass, load_classes
from inventory.deadline import Deadline
from inventory.errors import BadSettings
from inventory.evidence import EvidenceStore
from inventory.fleet import Fleet
from inventory.ledger import Lease, Ledger
from inventory.model import NodeRef, now
from inventory.netbox import NetBox
from inventory.redact import REDACTOR
from inventory.redfish import Bmc, BmcLogin, PinStore
from inventory.redfish.bmc import POWER_S
from inventory.report import Stage
from inventory.signing import SigningKey, load_or_create_key
from inventory.ssh import SshLogin, SshShell, no_fence, read_key
from os_images.manifest import ImageManifest, load_manifests
from os_images.service import ImageService

T = TypeVar("T")

# Two status periods of a kubelet, whose GPU count may be 10 s old. Source: kubelet nodeStatusUpdateFrequency.
_GATES_HOLD_S = 20.0

# Objects made before Python looks for garbage in circles, and rounds before it looks through older ones. Measured: with
# its own (700, 10, 10) a rack of 64 spends 15 % of its time looking and finds next to nothing: our data has no circles.
_GARBAGE = (20_000, 20, 50)

_POWER_LEAST_S = 5.0  # our choice: a simulated rack on a busy machine still needs real seconds

# Our choice: long enough for the slowest healthy machine of a class, short enough for a night shift; a class overrides.
_DEFAULT_BUDGET_S = {
    Stage.DISCOVER: 1200.0,  # a DGX H100's tree costs 25-45 s; a node found off needs a POST before its GPUs answer
    Stage.INSPECT: 60.0,
    Stage.IMAGE: 3600.0,  # two POSTs of 5-10 minutes and some GB over the rack's network
    Stage.TUNE: 1800.0,
    Stage.BURN_IN: 7200.0,
    Stage.RECORD: 300.0,
    Stage.JOIN: 900.0,
}


@dataclass
class Site:
    """What one run needs of a site. Open it once a process; clients that are not thread-safe are one a thread."""

    settings: Settings
    ledger: Ledger
    evidence: EvidenceStore
    classes: dict[str, NodeClass]
    profiles: dict[str, BiosProfile]
    packs: dict[str, LimitsPack]
    manifests: dict[str, ImageManifest]
    images: ImageService
    key: SigningKey
    _local: threading.local = field(default_factory=threading.local)  # clients that are one a thread
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _netbox: NetBox | None = None

    @classmethod
    def open(cls, settings: Settings) -> Site:
        """Open ledger, evidence and books of one site; raises `BadSettings` before any node is touched."""
        _make_folder(settings.state)
        gc.set_threshold(*_GARBAGE)
        ledger = Ledger.open(settings.ledger_url)
        images_folder = Path(settings.images.folder)
        manifests = load_manifests(images_folder)
        return cls(
            settings=settings,
            ledger=ledger,
            evidence=EvidenceStore(settings.evidence_url, REDACTOR),
            classes=load_classes(*_folders(settings.classes)),
            profiles=load_profiles(*_folders(settings.profiles)),
            packs=load_limits(*_folders(settings.limits_packs)),
            manifests=manifests,
            images=ImageService(
                ledger, settings.images.listen, settings.images.url, images=manifests, folder=images_folder
            ),
            key=load_or_create_key(settings.signing_key_file),
        )

    def netbox(self) -> NetBox:
        """The NetBox client, one for all threads; raises `BadSettings` when the site names no NetBox."""
        if not self.settings.netbox.url:
            raise BadSettings("the settings name no NetBox. Set [netbox] url and token")
        with self._opening:
            if self._netbox is None:
                wanted = self.settings.netbox
                self._netbox = NetBox(wanted.url, self.settings.secret(wanted.token), verify=wanted.ca or True)
        return self._netbox

    @property
    def book_writes(self) -> int:
        """Requests sent to NetBox so far that were meant to change something there."""
        return self._netbox.writes if self._netbox else 0

    def fleet(self) -> Fleet:
        """The thread's own Kubernetes client; raises `BadSettings` when the site names no cluster."""
        if not self.settings.fleet.kubeconfig:
            raise BadSettings("the settings name no Kubernetes cluster. Set [fleet] kubeconfig")
        if not hasattr(self._local, "fleet"):
            pace = self.settings.pace
            self._local.fleet = Fleet(
                Path(self.settings.fleet.kubeconfig), poll_s=pace.poll_s, hold_s=_GATES_HOLD_S / pace.scale
            )
        client: Fleet = self._local.fleet
        return client

    def class_of(self, node: NodeRef) -> NodeClass:
        """The node's class; raises `BadSettings` naming the classes there are."""
        if node.node_class not in self.classes:
            known = ", ".join(sorted(self.classes))
            raise BadSettings(f"{node.name}: node class {node.node_class or '(none)'!s} is not known. Known: {known}")
        return self.classes[node.node_class]

    def budget_s(self, node: NodeRef, stage: Stage) -> float:
        """How long one stage may take on this node."""
        return self.class_of(node).budget_s.get(stage.value, _DEFAULT_BUDGET_S[stage])

    def close(self) -> None:
        """Stop the image service and let go of the ledger."""
        self.images.stop()
        self.ledger.close()


@dataclass(frozen=True)
class NodeSite:
    """A site as one stage of one node may use it: its doors, its budget, its lease."""

    site: Site
    node: NodeRef
    run_id: str
    lease: Lease
    deadline: Deadline
    record_id: int = 0
    looks_only: bool = False  # no lease is held: a BMC refuses every change, a shell answers questions
    may_change: bool = True  # False in re-validation: what would have to be changed is a finding
    may_wipe: bool = False  # the plan named this node's disk, and the operator agreed
    reimage: frozenset[str] = (
        frozenset()
    )  # nodes named by --reimage: in service or with foreign data, wiped all the same

    @property
    def node_class(self) -> NodeClass:
        """What this node must be."""
        return self.site.class_of(self.node)

    @property
    def profile(self) -> BiosProfile:
        """How its BIOS should be set."""
        return _named(self.site.profiles, self.node_class.bios_profile, "BIOS profile", self.node_class)

    @property
    def pack(self) -> LimitsPack:
        """The limits it is judged by."""
        return _named(self.site.packs, self.node_class.limits, "limits pack", self.node_class)

    @property
    def manifest(self) -> ImageManifest:
        """The image that is laid on it."""
        return _named(self.site.manifests, self.node_class.image, "image", self.node_class)

    def fence(self) -> None:
        """Raise `LeaseLost` unless this run still owns the node; called before everything that changes it."""
        self.site.ledger.check(self.lease)

    def step(self, step: str, **detail: object) -> None:
        """Note a sub-step in the ledger before it acts."""
        self.site.ledger.note_step(self.record_id, step, dict(detail))

    def bmc(self, *, fence: Callable[[], None] | None = None) -> Bmc:
        """The node's BMC, to be used in a `with` block by this thread alone."""
        settings = self.site.settings
        return Bmc(
            self.node.name,
            self.node.bmc_url,
            BmcLogin(settings.value(settings.bmc.username), settings.secret(settings.bmc.password)),
            tls=settings.bmc.tls,
            pins=pins_of(self.site.ledger),
            deadline=self.deadline,
            evidence=self.site.evidence,
            fence=fence or self.fence,
            poll_s=settings.pace.poll_s,
            power_s=max(_POWER_LEAST_S, POWER_S / settings.pace.scale),
        )

    @contextmanager
    def shell(self, address: str, *, deadline: Deadline | None = None) -> Iterator[SshShell]:
        """A shell on the node with the host key pinned that its image reported at first boot."""
        settings = self.site.settings
        login = SshLogin(settings.ssh.user, settings.secret(settings.ssh.private_key))
        pinned = self.site.ledger.pin("ssh", self.node.key)
        fence = no_fence if self.looks_only else self.fence
        with SshShell.open(
            self.node.name, address, login, host_key=pinned, deadline=deadline or self.deadline, fence=fence
        ) as shell:
            yield shell

    @property
    def public_key(self) -> str:
        """The OpenSSH public key that belongs to the site's private key."""
        key = read_key(self.site.settings.secret(self.site.settings.ssh.private_key))
        return f"{key.get_name()} {key.get_base64()}"


def looking(site: Site, node: NodeRef, budget_s: float = 0.0, *, cancel: threading.Event | None = None) -> NodeSite:
    """A site for somebody who only looks: it holds no lease, so every change is refused by the fence."""
    return NodeSite(
        site=site,
        node=node,
        run_id="looking",
        lease=Lease(node.key, node.name, "looking", "looking", -1, 0, now(), now()),
        deadline=Deadline(node.name, budget_s or site.budget_s(node, Stage.DISCOVER), cancel=cancel),
        looks_only=True,
        may_change=False,
    )


def pins_of(ledger: Ledger) -> PinStore:
    """BMC certificates trusted on first use, remembered in the ledger."""
    return PinStore(get=lambda url: ledger.pin("bmc", url), set=lambda url, sha256: ledger.set_pin("bmc", url, sha256))


def _named(found: dict[str, T], name: str, what: str, node_class: NodeClass) -> T:
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise BadSettings(f"node class {node_class.name} names {what} {name!r}, which is not there. Known: {known}")
    return found[name]


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(":") if part)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadSettings(f"state folder {folder}: {error.strerror}. Set `state` to a folder you may write") from error
