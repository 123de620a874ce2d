"""The lab's book: a NetBox as people would have filled it before the first node was switched on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.book.store import Row, Store
from lab.hardware import NodeState, Shape

CLASS_BY_SHAPE = {Shape.HGX: "lab-hgx", Shape.PCIE: "lab-pcie", Shape.PROCESSORS: "lab-processors"}

# Custom field → type. Text, not selections: clients write NetBox 4.7's selection objects back wrongly (pynetbox#806).
DEVICE_FIELDS = {
    "node_uuid": "text", "node_class": "text", "provision_phase": "text", "verdict": "text", "certificate_id": "text",
    "certificate_expires": "datetime", "validation_run": "text", "validated_at": "datetime", "bios_version": "text",
    "bmc_version": "text", "bios_profile": "text", "os_image": "text", "software": "json", "k8s_node": "text",
    "claim_run": "text", "claim_until": "datetime", "bmc_url": "text",
}  # fmt: skip
MODULE_FIELDS = {"firmware": "text", "gpu_uuid": "text"}
PROFILES = ("CPU", "Fan", "GPU", "Hard disk", "Memory", "Power supply", "Expansion card", "Transceiver")


class LabBook:
    """What the stand-in NetBox holds. Edit it as a person at the NetBox page would, with the methods below.

    `token` opens it; `bmc_urls` says by node name where each BMC answers.
    """

    def __init__(
        self, nodes: Iterable[NodeState], site: str, token: str, bmc_urls: Mapping[str, str] | None = None
    ) -> None:
        self.nodes = list(nodes)
        self.token = token
        self.may_add_types = True  # whether the token may create module types and manufacturers
        self.graphql_on = True  # a site may have switched GraphQL off
        self.version = "4.7.3"
        self.store = Store()
        self.writes = 0
        self.requests: list[tuple[str, str]] = []  # (method, path) of every request that was answered
        self.edited: set[int] = set()  # devices that the fault netbox_conflict has edited already
        _seed_catalogue(self.store)
        self._site = self.store.add("dcim/sites", {"name": site, "slug": site.lower()})["id"]
        for node in self.nodes:
            self._seed_node(node, (bmc_urls or {}).get(node.name, ""))

    def device(self, name: str) -> Row:
        """The row of one device, by name."""
        return self.store.one("dcim/devices", name=name)

    def edit(self, name: str, **fields: Any) -> None:
        """A person edits fields of a device: status, position, description, serial and so on."""
        self.store.change("dcim/devices", self.device(name), fields)

    def edit_custom(self, name: str, **fields: Any) -> None:
        """A person edits custom fields of a device."""
        self.edit(name, custom_fields=fields)

    def move(self, name: str, unit: int, rack: str = "") -> None:
        """A person moves a device to another rack unit on paper."""
        fields: dict[str, Any] = {"position": unit}
        if rack:
            fields["rack"] = self.store.one("dcim/racks", name=rack)["id"]
        self.edit(name, **fields)

    def module(self, name: str, bay: str) -> Row | None:
        """The module in one bay of a device, if there is one."""
        place = self.store.one("dcim/module-bays", device=self.device(name)["id"], name=bay)
        return next(self.store.every("dcim/modules", module_bay=place["id"]), None)

    def edit_module(self, name: str, bay: str, **fields: Any) -> None:
        """A person edits the module in one bay: serial, status, custom fields and so on."""
        module = self.module(name, bay)
        if module is None:
            raise KeyError(f"{name} {bay}: no module in this bay")
        self.store.change("dcim/modules", module, fields)

    def modules(self, name: str) -> dict[str, Row]:
        """All modules of a device by bay name."""
        bays = self.store.rows["dcim/module-bays"]
        found = self.store.every("dcim/modules", device=self.device(name)["id"])
        return {bays[module["module_bay"]]["name"]: module for module in found}

    def journal(self, name: str) -> list[str]:
        """The journal entries of a device, oldest first."""
        entries = self.store.every("extras/journal-entries", assigned_object_id=self.device(name)["id"])
        return [entry["comments"] for entry in entries]

    def _seed_node(self, node: NodeState, bmc_url: str) -> None:
        store = self.store
        rack = next(store.every("dcim/racks", name=node.rack), None)
        rack = rack or store.add("dcim/racks", {"name": node.rack, "site": self._site, "u_height": 48})
        device = store.add(
            "dcim/devices",
            {
                "name": node.name,
                "site": self._site,
                "rack": rack["id"],
                "position": node.unit,
                "face": "front",
                "status": "staged",
                "serial": node.serial,
                "device_type": _device_type(store, node)["id"],
                "role": {"slug": "gpu-node"},
                "custom_fields": {"node_class": CLASS_BY_SHAPE[node.shape], "bmc_url": bmc_url or None},
            },
        )
        _seed_bmc_port(store, device, node, bmc_url)


def _seed_catalogue(store: Store) -> None:
    store.add("dcim/device-roles", {"name": "GPU node", "slug": "gpu-node", "color": "4caf50"})
    store.add("extras/tags", {"name": "rackmint", "slug": "rackmint"})
    for name in PROFILES:
        store.add("dcim/module-type-profiles", {"name": name})
    for object_type, fields in (("dcim.device", DEVICE_FIELDS), ("dcim.module", MODULE_FIELDS)):
        for name, what in fields.items():
            store.add("extras/custom-fields", {"name": name, "type": what, "object_types": [object_type]})


def bay_names(node: NodeState) -> tuple[str, ...]:
    """The bays a device type of this shape has, by physical slot."""
    gpus = sorted(f"GPU{gpu.module}" for gpu in node.gpus)
    nics = (f"PCIe{nic.index + 1}" for nic in node.nics)
    return (*gpus, *nics, *(dimm.slot for dimm in node.dimms), *(drive.slot for drive in node.drives))


def _device_type(store: Store, node: NodeState) -> Row:
    maker = next(store.every("dcim/manufacturers", name=node.manufacturer), None)
    if maker is None:
        slug = node.manufacturer.lower().replace(" ", "-")
        maker = store.add("dcim/manufacturers", {"name": node.manufacturer, "slug": slug})
    known = next(store.every("dcim/device-types", model=node.model), None)
    if known:
        return known
    body = {"manufacturer": maker["id"], "model": node.model, "slug": node.model.lower(), "u_height": 6}
    made = store.add("dcim/device-types", body)
    for name in bay_names(node):
        store.add("dcim/module-bay-templates", {"device_type": made["id"], "name": name, "position": name})
    port = {"device_type": made["id"], "name": "BMC", "type": "1000base-t", "mgmt_only": True}
    store.add("dcim/interface-templates", port)
    return made


def _seed_bmc_port(store: Store, device: Row, node: NodeState, bmc_url: str) -> None:
    port = store.one("dcim/interfaces", device=device["id"], name="BMC")
    store.change("dcim/interfaces", port, {"mac_address": node.bmc_mac})
    host = bmc_url.partition("://")[2].partition(":")[0].strip("/")
    if not host:
        return
    where = {"assigned_object_type": "dcim.interface", "assigned_object_id": port["id"]}
    address = store.add("ipam/ip-addresses", {"address": f"{host}/16", **where})
    store.change("dcim/devices", device, {"oob_ip": address["id"]})
