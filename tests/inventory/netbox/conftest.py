"""A NetBox to test against: the lab's stand-in always; a real one as well where `RACKMINT_TEST_NETBOX` names it.

The variable holds "URL TOKEN". Both are filled with the same racks, devices, bays and addresses.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from aiohttp import web

from inventory.findings import Finding, Outcome
from inventory.model import Bios, Dimm, Drive, Gpu, Identity, Inventory, Nic, NicPort, Software
from inventory.netbox import NetBox
from inventory.report import NodeReport, Stage, StageRecord
from inventory.secrets import Secret
from lab.book.kinds import KINDS, LINK
from lab.hardware import NodeState, Shape, build_node
from lab.netbox import LabBook, make_app

TOKEN = "lab-token-of-the-book"


class Served:
    """An aiohttp application in a thread of its own, on a port of its own."""

    def __init__(self, app: web.Application) -> None:
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(app, access_log=None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    async def _start(self) -> str:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def stop(self) -> None:
        """Stop serving."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Person:
    """Somebody at the NetBox page: plain REST, no conditions, as the product never does it."""

    def __init__(self, url: str, token: str) -> None:
        keyword = "Bearer" if token.startswith("nbt_") else "Token"
        self.url = url
        self.http = requests.Session()
        self.http.headers["Authorization"] = f"{keyword} {token}"

    def get(self, path: str, **filters: object) -> list[dict[str, Any]]:
        """A whole list."""
        answer = self.http.get(f"{self.url}/api/{path}/", params={"limit": 0, **filters})
        answer.raise_for_status()
        rows: list[dict[str, Any]] = answer.json()["results"]
        return rows

    def add(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One more object."""
        answer = self.http.post(f"{self.url}/api/{path}/", json=body)
        assert answer.ok, f"{path} {body}: {answer.text}"
        made: dict[str, Any] = answer.json()
        return made

    def edit(self, path: str, row_id: int, **fields: object) -> dict[str, Any]:
        """Change one object."""
        answer = self.http.patch(f"{self.url}/api/{path}/{row_id}/", json=fields)
        assert answer.ok, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    def device(self, name: str) -> dict[str, Any]:
        """One device by name."""
        (found,) = self.get("dcim/devices", name=name)
        return found

    def module(self, name: str, bay: str) -> dict[str, Any]:
        """The module in one bay."""
        modules = self.get("dcim/modules", device_id=self.device(name)["id"])
        (found,) = [module for module in modules if module["module_bay"]["name"] == bay]
        return found

    def journal(self, name: str) -> list[str]:
        """The journal of one device."""
        where = {"assigned_object_type": "dcim.device", "assigned_object_id": self.device(name)["id"]}
        return [row["comments"] for row in self.get("extras/journal-entries", **where)]


class Hall:
    """One NetBox, filled, with a client, a person, and the nodes that are on record."""

    def __init__(self, url: str, token: str, nodes: list[NodeState], book: LabBook | None) -> None:
        self.url, self.token, self.nodes, self.book = url, token, nodes, book
        self.rack = nodes[0].rack
        self.netbox = NetBox(url, Secret(token))
        self.person = Person(url, token)

    def ids(self) -> list[int]:
        """The device ids of the nodes, in their order."""
        refs = {ref.name: ref.netbox_id or 0 for ref in self.netbox.nodes_in(self.rack)}
        return [refs[node.name] for node in self.nodes]

    def close(self) -> None:
        """Hang up."""
        self.netbox.close()
        self.person.http.close()


def nodes_of(rack: str, count: int = 2, seed: int = 7) -> list[NodeState]:
    """Fresh nodes of one rack."""
    return [build_node(rack, number, Shape.HGX, seed=seed) for number in range(1, count + 1)]


def bmc_urls(nodes: list[NodeState]) -> dict[str, str]:
    """A BMC address for each node."""
    return {node.name: f"https://127.77.1.{number}:8443" for number, node in enumerate(nodes, 1)}


def copy_to(person: Person, book: LabBook) -> None:
    """Enter what a LabBook holds into another NetBox, object by object; what exists there already is used."""
    ids: dict[tuple[str, int], int] = {}
    for path, kind in KINDS.items():
        if path in ("dcim/module-bays", "dcim/interfaces", "dcim/mac-addresses", "ipam/ip-addresses"):
            continue  # these come with the devices
        for row in book.store.rows[path].values():
            body = {n: _mapped(ids, kind.fields[n], row[n]) for n in kind.fields if row[n] is not None}
            body["tags"] = []
            if kind.object_type:
                body["custom_fields"] = {n: v for n, v in row["custom_fields"].items() if v is not None}
            key = next((n for n in ("slug", "name", "model") if n in kind.fields), "name")
            held = [] if path.endswith("templates") else person.get(path, **{key: row[key]})
            body.pop("oob_ip", None)
            ids[path, row["id"]] = (held[0] if held else person.add(path, body))["id"]
    for row in book.store.rows["dcim/devices"].values():
        _enter_bmc(person, book, row, ids["dcim/devices", row["id"]])


def _mapped(ids: dict[tuple[str, int], int], what: str, value: Any) -> Any:
    path = what.removeprefix(LINK)
    return ids.get((path, value)) if what.startswith(LINK) else value


def _enter_bmc(person: Person, book: LabBook, row: dict[str, Any], device_id: int) -> None:
    (port,) = [p for p in person.get("dcim/interfaces", device_id=device_id) if p["name"] == "BMC"]
    mine = book.store.one("dcim/interfaces", device=row["id"], name="BMC")
    mac = book.store.rows["dcim/mac-addresses"][mine["primary_mac_address"]]["mac_address"]
    person.edit("dcim/interfaces", port["id"], mac_address=mac)
    address = book.store.rows["ipam/ip-addresses"][row["oob_ip"]]["address"]
    where = {"assigned_object_type": "dcim.interface", "assigned_object_id": port["id"]}
    held = person.get("ipam/ip-addresses", address=address)
    ip = person.edit("ipam/ip-addresses", held[0]["id"], **where) if held else person.add("ipam/ip-addresses", {"address": address, **where})
    person.edit("dcim/devices", device_id, oob_ip=ip["id"])


REAL = os.environ.get("RACKMINT_TEST_NETBOX", "")
WHERE = ["lab", pytest.param("real", marks=[pytest.mark.shared, pytest.mark.slow])]


@pytest.fixture(params=WHERE)
def hall(request: pytest.FixtureRequest) -> Iterator[Hall]:
    """A filled NetBox with two nodes in a rack of its own: the stand-in, and the real one where there is one."""
    rack = "R1" if request.param == "lab" else f"R{uuid.uuid4().hex[:6].upper()}"
    seed = 7 if request.param == "lab" else uuid.uuid4().int % 10**6
    nodes = nodes_of(rack, seed=seed)
    book = LabBook(nodes, "lab", TOKEN, bmc_urls(nodes))
    if request.param == "real":
        yield from _real(nodes, book)
        return
    served = Served(make_app(book))
    made = Hall(served.url, TOKEN, nodes, book)
    yield made
    made.close()
    served.stop()


def _real(nodes: list[NodeState], book: LabBook) -> Iterator[Hall]:
    if not REAL:
        pytest.skip("no real NetBox: set RACKMINT_TEST_NETBOX to 'URL TOKEN' to run this against one")
    url, _, token = REAL.partition(" ")
    made = Hall(url, token, nodes, None)
    copy_to(made.person, book)
    yield made
    made.close()


@pytest.fixture
def lab_hall() -> Iterator[Hall]:
    """The stand-in alone, for what a real NetBox cannot be made to do on demand."""
    nodes = nodes_of("R1")
    book = LabBook(nodes, "lab", TOKEN, bmc_urls(nodes))
    served = Served(make_app(book))
    made = Hall(served.url, TOKEN, nodes, book)
    yield made
    made.close()
    served.stop()


def found(node: NodeState) -> Inventory:
    """What a BMC would have told of this node, all of it."""
    return Inventory(
        identity=Identity(manufacturer=node.manufacturer, model=node.model, serial=node.serial, uuid=node.uuid),
        gpus=tuple(
            Gpu(id=f"GPU_SXM_{g.module}", slot=str(g.module), serial=g.serial, uuid=g.uuid, model=g.model,
                part_number=g.part_number, manufacturer="NVIDIA", firmware=g.vbios)
            for g in node.gpus if g.present
        ),
        nics=tuple(
            Nic(id=f"NIC_{n.index}", slot=str(n.index + 1), serial=n.serial, model=n.model, part_number=n.part_number,
                manufacturer="NVIDIA", firmware=n.firmware,
                ports=(NicPort(id="1", mac=n.mac, guid=n.guid, link_layer=n.link_layer, speed_max_gbit_s=400.0),))
            for n in node.nics
        ),
        dimms=tuple(Dimm(id=d.slot, slot=d.slot, serial=d.serial, size_mib=d.size_mib) for d in node.dimms if d.present),
        drives=tuple(Drive(id=d.slot, slot=d.slot, serial=d.serial, model=d.model) for d in node.drives),
        bios=Bios(version=node.bios_version),
        bmc_version=node.bmc_version,
    )  # fmt: skip


SOFTWARE = Software(os="ubuntu 24.04", image_name="lab-ubuntu", image_digest="ab" * 32, kernel="6.8.0", driver="550.1")


def report(
    hall: Hall, node: NodeState, run_id: str = "run-1", *, inventory: Inventory | None = None, failed: str = ""
) -> NodeReport:
    """A report of a node that passed every stage before the book, or failed its burn-in with this cause."""
    (ref,) = [ref for ref in hall.netbox.nodes_in(hall.rack) if ref.name == node.name]
    said = NodeReport(node=ref, run_id=run_id)
    for stage in (Stage.DISCOVER, Stage.INSPECT, Stage.IMAGE, Stage.TUNE, Stage.BURN_IN):
        bad = failed and stage is Stage.BURN_IN
        finding = Finding(
            metric=stage.value,
            subject="node",
            outcome=Outcome.FAIL if bad else Outcome.PASS,
            observed="seen",
            expected="seen",
            cause=failed if bad else "",
        )
        inv = (inventory or found(node)) if stage is Stage.DISCOVER else None
        software = SOFTWARE if stage is Stage.IMAGE else None
        said = said.plus(StageRecord(stage=stage, findings=(finding,), inventory=inv, software=software))
    return said
