"""NetBox, the book: which nodes there are, what it says of one, and how a run's findings get into it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from inventory.certificate import NodeCertificate
from inventory.deadline import Deadline
from inventory.errors import BadSettings, BookUnreachable, ChangeNotApplied
from inventory.model import NodeRef
from inventory.netbox import claims, differ
from inventory.netbox.book import BookNode
from inventory.netbox.catalogue import ensure_catalogue
from inventory.netbox.identity import look_up, refuse_twins
from inventory.netbox.parts import clean_serial
from inventory.netbox.plan import Known, PartType, RecordPlan, resolve, same_type
from inventory.netbox.reading import REF_FIELDS, device_ref, read_nodes
from inventory.netbox.wire import Row, Wire
from inventory.netbox.writing import TAG, Fence, carry_out
from inventory.report import NodeReport
from inventory.secrets import Secret

_OLDEST = (4, 6)  # the first with ETag and If-Match on devices (netbox#21356)


def _no_fence() -> None:
    """Used where no lease guards the node."""


class NetBox:
    """One NetBox. Safe to share between threads; close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        token: Secret,
        *,
        verify: bool | str = True,
        timeout_s: float = 30.0,
        deadline: Deadline | None = None,
    ) -> None:
        self._wire = Wire(url, token, verify=verify, timeout_s=timeout_s, deadline=deadline)
        self._types: tuple[PartType, ...] = ()
        self._tags: list[int] | None = None

    def __enter__(self) -> NetBox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    @property
    def writes(self) -> int:
        """Requests sent so far that were meant to change something."""
        return self._wire.writes

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._wire.requests

    def check(self) -> str:
        """NetBox's version; raises `BadSettings` below 4.6, `LoginRefused` for a bad token, `BookUnreachable`."""
        said = self._wire.status()
        version = str(said.get("netbox-version", ""))
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if not numbers:
            raise BookUnreachable(f"{self._wire.url}/api/status/: names no netbox-version. Check that this is a NetBox")
        if numbers < _OLDEST:
            raise BadSettings(f"NetBox {version} at {self._wire.url}: rackmint needs 4.6 or newer. Upgrade NetBox")
        return version

    def racks(self) -> tuple[str, ...]:
        """The names of all racks."""
        return tuple(sorted(row["name"] for row in self._wire.listed("dcim/racks", fields=("id", "name"))))

    def nodes_in(self, rack: str, status: str | None = None) -> tuple[NodeRef, ...]:
        """The nodes of a rack from the bottom up: its devices that have a node class. `status` chooses among them."""
        asked = {"rack_id": self._rack_id(rack), **({"status": status} if status else {})}
        rows = self._wire.listed("dcim/devices", fields=REF_FIELDS, **asked)
        nodes = [device_ref(row) for row in rows if (row["custom_fields"] or {}).get("node_class")]
        refuse_twins(nodes)
        return tuple(sorted(nodes, key=lambda node: (node.unit or 0, node.name)))

    def read(self, netbox_id: int) -> BookNode:
        """All the book says of one node."""
        return claims.read_one(self._wire, netbox_id)

    def read_many(self, netbox_ids: Sequence[int]) -> tuple[BookNode, ...]:
        """As `read`, for a rack or a hall: one request per hundred nodes."""
        return read_nodes(self._wire, netbox_ids)

    def look_up(self, *, serial: str = "", uuid: str = "", bmc_mac: str = "", name: str = "") -> NodeRef | None:
        """Whose machine is this? By UUID, serial, BMC MAC, name; `BadSettings` names both where keys disagree."""
        return look_up(self._wire, serial=serial, uuid=uuid, bmc_mac=bmc_mac, name=name)

    def find(self, *, serial: str = "", uuid: str = "", bmc_mac: str = "", name: str = "") -> int:
        """The NetBox id of this machine; raises `BadSettings` where the book does not know it."""
        found = self.look_up(serial=serial, uuid=uuid, bmc_mac=bmc_mac, name=name)
        if found is None or found.netbox_id is None:
            asked = ", ".join(value for value in (name, serial, uuid, bmc_mac) if value)
            raise BadSettings(f"NetBox knows no node {asked}. Add the device, or correct its serial")
        return found.netbox_id

    def plan_record(self, book: BookNode, report: NodeReport, certificate: NodeCertificate | None = None) -> RecordPlan:
        """The writes that make the book say what was found. Asks about new parts only; nothing changed = no request."""
        plan = differ.plan_record(book, report, certificate)
        serials = {part.seen.serial for part in plan.new_parts} | {part.serial for part in plan.changed_parts}
        if not plan.parts_changed:
            return plan
        known = Known(
            elsewhere=self._elsewhere(plan, {serial for serial in serials if serial}),
            types=self._part_types(plan),
            may_add_types=self._may_add_types(plan),
        )
        return differ.finish(resolve(plan, known))

    def record(self, plan: RecordPlan, *, fence: Fence = _no_fence) -> int:
        """Write the plan and prove it by reading back; the number of writes. May be repeated after any interruption."""
        if not plan.writes:
            return 0
        before = self._wire.writes_of_thread
        carry_out(self._wire, plan, self._tag_ids(), fence)
        self._prove(plan)
        return self._wire.writes_of_thread - before

    def claim(self, book: BookNode, run_id: str, until: datetime) -> BookNode:
        """Put the run's name on the node for others to see; raises `LeaseHeld` naming who has it."""
        return claims.claim(self._wire, book, run_id, until)

    def release_claim(self, book: BookNode, run_id: str) -> int:
        """Take the run's name off again, if it is still there; the number of writes."""
        return claims.release_claim(self._wire, book, run_id)

    def set_status(self, netbox_id: int, status: str, run_id: str, fields: Mapping[str, Any] | None = None) -> int:
        """Move a node to `active` or `failed`, with custom `fields` if any; the number of writes, 0 = so already."""
        return claims.set_status(self._wire, self.read(netbox_id), status, run_id, fields or {})

    def ensure_catalogue(
        self, shapes: Iterable[tuple[str, str, Sequence[str]]] = (), *, plan_only: bool = False
    ) -> tuple[str, ...]:
        """Custom fields, tag, role, and device types (maker, model, bays) that lack; what was added, in words."""
        return ensure_catalogue(self._wire, shapes, plan_only=plan_only)

    def _rack_id(self, rack: str) -> int:
        found = self._wire.listed("dcim/racks", name=rack, fields=("id", "name", "site"))
        if len(found) > 1:
            sites = ", ".join(row["site"]["name"] for row in found)
            raise BadSettings(f"NetBox has a rack {rack} in each of {sites}. Name racks so that one is meant")
        if not found:
            near = difflib.get_close_matches(rack, self.racks(), n=5, cutoff=0.4) or self.racks()[:5]
            raise BadSettings(f"NetBox has no rack {rack}. There is {', '.join(near) or 'no rack at all'}")
        return int(found[0]["id"])

    def _elsewhere(self, plan: RecordPlan, serials: set[str]) -> dict[str, str]:
        """Where else the book has these serials; parts that this very plan re-labels do not count."""
        if not serials:
            return {}
        rows = self._wire.listed_by("dcim/modules", "serial", serials, fields=("id", "serial", "device", "module_bay"))
        relabelled = {part.module_id for part in plan.changed_parts if part.serial}
        held = {row["serial"].lower(): row for row in rows if row["id"] not in relabelled}
        places = {serial: held.get(serial.lower()) for serial in serials}
        return {s: f"{row['device']['name']}, bay {row['module_bay']['name']}" for s, row in places.items() if row}

    def _part_types(self, plan: RecordPlan) -> tuple[PartType, ...]:
        """The catalogue's module types: read once, and again when a part is met that it lacks."""
        if plan.new_parts and self._lacking(plan):
            fields = ("id", "model", "part_number", "manufacturer")
            self._types = tuple(_part_type(row) for row in self._wire.listed("dcim/module-types", fields=fields))
        return self._types

    def _lacking(self, plan: RecordPlan) -> bool:
        return not all(any(same_type(part.seen, held) for held in self._types) for part in plan.new_parts)

    def _may_add_types(self, plan: RecordPlan) -> bool:
        return self._lacking(plan) and self._wire.may_add("dcim/module-types")

    def _tag_ids(self) -> list[int]:
        """Our tag, where it has been set up."""
        if self._tags is None:
            self._tags = [int(row["id"]) for row in self._wire.listed("extras/tags", slug=TAG, fields=("id",))]
        return self._tags

    def _prove(self, plan: RecordPlan) -> None:
        fresh = self.read(plan.book.id)
        if not clean_serial(fresh.serial) and plan.device.get("serial"):
            raise ChangeNotApplied(fresh.name, "NetBox record", "the serial is still empty")
        again = differ.plan_record(fresh, plan.report, plan.certificate)
        if again.parts_changed:  # what was left out before is left out again
            again = differ.finish(resolve(again, plan.known or Known()))
        if again.sentences:
            left = "; ".join(again.sentences[:5])
            raise ChangeNotApplied(fresh.name, "NetBox record", f"still differs after writing: {left}")


def _part_type(row: Row) -> PartType:
    return PartType(
        id=int(row["id"]),
        manufacturer=row["manufacturer"]["name"],
        model=row["model"],
        part_number=row["part_number"] or "",
    )
