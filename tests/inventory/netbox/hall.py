"""A filled NetBox for tests, whichever it is: a person at its page, its nodes, and reports about them."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from aiohttp import web

from inventory.certificate import NodeCertificate
from inventory.findings import Finding, Outcome
from inventory.model import Bios, Dimm, Drive, Gpu, Identity, Inventory, Nic, NicPort, Software
from inventory.netbox import NetBox
from inventory.report import NodeReport, Stage, StageRecord
from inventory.secrets import Secret
from lab.book.kinds import KINDS, LINK
from lab.hardware import NodeState, Shape, build_node
from lab.netbox import LabBook

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
        """The journal of one device, oldest first."""
        where = {"assigned_object_type": "dcim.device", "assigned_object_id": self.device(name)["id"]}
        rows = sorted(self.get("extras/journal-entries", **where), key=lambda row: row["id"])
        return [row["comments"] for row in rows]


class Hall:
    """One NetBox, filled, with a client, a person, and the nodes that are on record."""

    def __init__(
        self, url: str, token: str, nodes: list[NodeState], book: LabBook | None = None, faults: set[str] | None = None
    ) -> None:
        self.url, self.token, self.nodes = url, token, nodes
        self._book, self._faults = book, faults
        self.rack = nodes[0].rack
        self.netbox = NetBox(url, Secret(token))
        self.person = Person(url, token)

    @property
    def book(self) -> LabBook:
        """What the stand-in holds; a real NetBox has none."""
        assert self._book is not None
        return self._book

    @property
    def faults(self) -> set[str]:
        """The stand-in's live faults."""
        assert self._faults is not None
        return self._faults

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


# With the devices, and with the catalogue.
_COME_ALONG = ("dcim/module-bays", "dcim/interfaces", "dcim/mac-addresses", "ipam/ip-addresses", "extras/custom-fields")


def copy_to(person: Person, book: LabBook) -> None:
    """Enter what a LabBook holds into another NetBox, object by object; what exists there already is used."""
    ids: dict[tuple[str, int], int] = {}
    for path, kind in KINDS.items():
        if path in _COME_ALONG:
            continue
        for row in book.store.rows[path].values():
            body = {n: _mapped(ids, kind.fields[n], row[n]) for n in kind.fields if row[n] is not None}
            body["tags"] = []
            if kind.object_type:
                body["custom_fields"] = {n: v for n, v in row["custom_fields"].items() if v is not None}
            key = next((n for n in ("slug", "name", "model") if n in kind.fields), "name")
            kind_of = {"device_type_id": body["device_type"]} if path.endswith("templates") else {}
            held = person.get(path, **{key: row[key]}, **kind_of)
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
    ip = held[0] if held else person.add("ipam/ip-addresses", {"address": address, **where})
    if held:
        for other in person.get("dcim/devices", name=str(held[0]["assigned_object"]["device"]["name"])):
            person.edit("dcim/devices", other["id"], oob_ip=None)
        person.edit("ipam/ip-addresses", ip["id"], **where)
    person.edit("dcim/devices", device_id, oob_ip=ip["id"])


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
        dimms=tuple(
            Dimm(id=d.slot, slot=d.slot, serial=d.serial, size_mib=d.size_mib) for d in node.dimms if d.present
        ),
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


def certificate(node: NodeState, run_id: str = "run-1", days: int = 30) -> NodeCertificate:
    """A certificate of this node; what it proves does not matter here."""
    issued = datetime(2026, 5, 1, 12, tzinfo=UTC)
    return NodeCertificate(
        certificate_id=f"cert-{run_id}",
        node=node.name,
        node_key=node.serial,
        node_class="lab-hgx",
        serial=node.serial,
        service_tag=node.sku,
        board_serial=node.board_serial,
        uuid=node.uuid,
        parts=(),
        firmware={},
        software={},
        bios_profile="lab-hgx",
        bios_profile_digest="cd" * 32,
        image="lab-ubuntu",
        image_digest="ab" * 32,
        limits="lab-hgx",
        limits_version="1",
        proven=(),
        not_proven=(),
        issued_at=issued,
        expires_at=issued + timedelta(days=days),
        run_id=run_id,
        rackmint_version="0.1.0",
        key_id="key",
    )


def record(hall: Hall, node: NodeState, run_id: str = "run-1", **more: Any) -> int:
    """One node recorded in one run with a certificate; the number of writes."""
    said = report(hall, node, run_id, **more)
    book = hall.netbox.read(said.node.netbox_id or 0)
    cert = None if more.get("failed") else certificate(node)
    return hall.netbox.record(hall.netbox.plan_record(book, said, cert))
