"""One look at one BMC, changing nothing: what `rackmint look URL` prints."""

from __future__ import annotations

from typing import Any

from inventory.deadline import Deadline
from inventory.evidence import EvidenceStore
from inventory.model import Inventory, Missing
from inventory.redfish.bmc import Bmc
from inventory.redfish.client import BmcLogin
from inventory.redfish.pins import PinStore

_BUDGET_S = 900.0  # our choice: a DGX H100 read singly at 0.7 s a request, with its slow firmware lane


def look(
    url: str,
    login: BmcLogin | None = None,
    *,
    tls: str = "pin",
    pins: PinStore | None = None,
    deadline: Deadline | None = None,
    evidence: EvidenceStore | None = None,
    firmware: bool = True,
    deep: bool = False,
) -> tuple[tuple[Inventory, ...], int, tuple[Missing, ...]]:
    """The nodes behind a BMC, the requests it cost, and all that could not be read."""
    with _open(url, login, tls=tls, pins=pins, deadline=deadline, evidence=evidence) as bmc:
        nodes = bmc.read_all(firmware=firmware, deep=deep)
    return nodes, bmc.requests, tuple(missing for node in nodes for missing in node.missing)


def look_as_json(
    url: str,
    login: BmcLogin | None = None,
    *,
    tls: str = "pin",
    pins: PinStore | None = None,
    deadline: Deadline | None = None,
    evidence: EvidenceStore | None = None,
    firmware: bool = True,
    deep: bool = False,
) -> dict[str, Any]:
    """As `look`, ready for `json.dumps`; absent facts are null, never left out."""
    with _open(url, login, tls=tls, pins=pins, deadline=deadline, evidence=evidence) as bmc:
        nodes = bmc.read_all(firmware=firmware, deep=deep)
    return {
        "url": bmc.url,
        "requests": bmc.requests,
        "requests_by_lane": dict(bmc.lanes.requests),
        "quirks": [{"does": q.trait.value, "source": q.source} for q in bmc.quirks],
        "nodes": [node.model_dump(mode="json") for node in nodes],
    }


def _open(
    url: str,
    login: BmcLogin | None,
    *,
    tls: str,
    pins: PinStore | None,
    deadline: Deadline | None,
    evidence: EvidenceStore | None,
) -> Bmc:
    name = url.partition("://")[2].partition("/")[0]
    return Bmc(
        name,
        url,
        login,
        tls=tls,
        pins=pins or PinStore.in_memory(),
        deadline=deadline or Deadline(name, _BUDGET_S),
        evidence=evidence or EvidenceStore("memory://look"),
    )
