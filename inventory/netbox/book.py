"""What NetBox says of one node, as our own frozen values: no record of the client library leaves this package."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from inventory.model import Frozen, NodeRef


class BookPart(Frozen):
    """A module: the part that stands in a bay, in the book."""

    id: int
    status: str
    model: str
    part_number: str = ""
    manufacturer: str = ""
    kind: str = ""  # module type profile: "GPU", "Memory", …
    serial: str = ""
    custom_fields: dict[str, Any] = Field(default_factory=dict)

    @property
    def firmware(self) -> str:
        """The firmware version recorded last."""
        return str(self.custom_fields.get("firmware") or "")


class BookBay(Frozen):
    """A module bay: a physical slot of the node."""

    id: int
    name: str
    part: BookPart | None = None


class BookPort(Frozen):
    """An interface of the node."""

    id: int
    name: str
    type: str
    mac: str = ""  # primary, upper case
    macs: tuple[str, ...] = ()  # all of them, upper case
    wwn: str = ""  # InfiniBand port GUID, upper case
    module_id: int | None = None
    mgmt_only: bool = False
    addresses: tuple[str, ...] = ()


class BookNode(Frozen):
    """A node as the book has it at one moment. `etag` makes a later change conditional on that moment."""

    id: int
    name: str
    status: str
    site: str = ""
    rack: str = ""
    unit: int | None = None
    serial: str = ""
    manufacturer: str = ""
    model: str = ""
    role: str = ""
    tags: tuple[str, ...] = ()
    oob_ip: str = ""  # without prefix length
    primary_ip: str = ""
    custom_fields: dict[str, Any] = Field(default_factory=dict)
    bays: tuple[BookBay, ...] = ()
    ports: tuple[BookPort, ...] = ()
    last_updated: datetime
    etag: str
    server_time: datetime  # NetBox's own clock at reading, by which claims end

    @property
    def ref(self) -> NodeRef:
        """How the rest of rackmint names this node."""
        return NodeRef(
            name=self.name,
            node_class=self.text("node_class"),
            bmc_url=self.text("bmc_url") or (f"https://{_bracketed(self.oob_ip)}" if self.oob_ip else ""),
            rack=self.rack,
            unit=self.unit,
            site=self.site,
            address=self.primary_ip,
            serial=self.serial,
            uuid=self.text("node_uuid"),
            status=self.status,
            netbox_id=self.id,
        )

    def text(self, field: str) -> str:
        """A custom field as text; empty when unset."""
        value = self.custom_fields.get(field)
        return "" if value is None else str(value)

    @property
    def parts(self) -> tuple[tuple[str, BookPart], ...]:
        """Bay name and part of every occupied bay, in bay order."""
        return tuple((bay.name, bay.part) for bay in self.bays if bay.part)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
