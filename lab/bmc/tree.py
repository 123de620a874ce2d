"""Which path is which resource, and how a GET finds it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from lab.bmc import adapters, bios, chassis, gpus, managers, parts, root, systems, updates
from lab.bmc.answers import ROOT, Answer, Resource, error, etag
from lab.bmc.bmc import Bmc

T = TypeVar("T")
Reader = Callable[..., Resource | Answer | None]

_SYSTEM, _CHASSIS = "/Systems/{system}", "/Chassis/{chassis}"
_GPU, _DEVICE, _ADAPTER = (
    f"{_SYSTEM}/Processors/{{gpu}}",
    f"{_CHASSIS}/PCIeDevices/{{device}}",
    f"{_CHASSIS}/NetworkAdapters/{{adapter}}",
)

READERS: Mapping[str, Reader] = {
    "": root.service_root,
    "/SessionService": root.session_service,
    "/SessionService/Sessions": root.sessions,
    "/SessionService/Sessions/{session_id}": root.session,
    "/TaskService": root.task_service,
    "/TaskService/Tasks": root.tasks,
    "/TaskService/Tasks/{task_id}": root.task,
    "/TaskService/TaskMonitors/{task_id}": root.monitor,
    "/Registries": bios.registries,
    "/Registries/{registry}": bios.registry_of,
    "/Systems": systems.systems,
    _SYSTEM: systems.system,
    f"{_SYSTEM}/ResetActionInfo": systems.reset_action_info,
    f"{_SYSTEM}/BootOptions": systems.boot_options,
    f"{_SYSTEM}/BootOptions/{{option}}": systems.boot_option,
    f"{_SYSTEM}/EthernetInterfaces": systems.ethernet_interfaces,
    f"{_SYSTEM}/EthernetInterfaces/{{port}}": systems.ethernet_interface,
    f"{_SYSTEM}/Bios": bios.bios,
    f"{_SYSTEM}/Bios/{{settings}}": bios.bios_settings,
    f"{_SYSTEM}/Processors": parts.processors,
    f"{_SYSTEM}/Processors/{{processor}}": parts.processor,
    f"{_GPU}/ProcessorMetrics": gpus.processor_metrics,
    f"{_GPU}/EnvironmentMetrics": gpus.environment_metrics,
    f"{_GPU}/MemorySummary/MemoryMetrics": gpus.memory_summary_metrics,
    f"{_GPU}/Ports": gpus.nvlink_ports,
    f"{_GPU}/Ports/{{port}}": gpus.nvlink_port,
    f"{_GPU}/Ports/{{port}}/Metrics": gpus.nvlink_metrics,
    f"{_SYSTEM}/Memory": parts.memory,
    f"{_SYSTEM}/Memory/{{module}}": parts.memory_module,
    f"{_SYSTEM}/Memory/{{module}}/MemoryMetrics": parts.memory_metrics,
    f"{_SYSTEM}/Storage": parts.storages,
    f"{_SYSTEM}/Storage/{{storage}}": parts.storage,
    f"{_SYSTEM}/Storage/{{storage}}/Drives/{{drive}}": parts.drive,
    f"{_SYSTEM}/LogServices": managers.log_services,
    f"{_SYSTEM}/LogServices/{{log}}": managers.log_service,
    f"{_SYSTEM}/LogServices/{{log}}/Entries": managers.log_entries,
    f"{_SYSTEM}/LogServices/{{log}}/Entries/{{entry}}": managers.log_entry,
    "/Managers": managers.managers,
    "/Managers/{manager}": managers.manager,
    "/Managers/{manager}/EthernetInterfaces": managers.manager_ports,
    "/Managers/{manager}/EthernetInterfaces/{port}": managers.manager_port,
    "/{kind}/{owner}/VirtualMedia": managers.media_list,
    "/{kind}/{owner}/VirtualMedia/{slot}": managers.media,
    "/Chassis": chassis.chassis_list,
    _CHASSIS: chassis.chassis,
    f"{_CHASSIS}/Assembly": chassis.assembly,
    f"{_CHASSIS}/PowerSubsystem": chassis.power_subsystem,
    f"{_CHASSIS}/PowerSubsystem/PowerSupplies": chassis.power_supplies,
    f"{_CHASSIS}/PowerSubsystem/PowerSupplies/{{supply}}": chassis.power_supply,
    f"{_CHASSIS}/PCIeDevices": chassis.pcie_devices,
    _DEVICE: chassis.pcie_device,
    f"{_DEVICE}/PCIeFunctions": chassis.pcie_functions,
    f"{_DEVICE}/PCIeFunctions/{{function}}": chassis.pcie_function,
    f"{_CHASSIS}/NetworkAdapters": adapters.adapters,
    _ADAPTER: adapters.adapter,
    f"{_ADAPTER}/Ports": adapters.ports,
    f"{_ADAPTER}/Ports/{{port}}": adapters.port,
    f"{_ADAPTER}/NetworkDeviceFunctions": adapters.functions,
    f"{_ADAPTER}/NetworkDeviceFunctions/{{function}}": adapters.function,
    "/UpdateService": updates.update_service,
    "/UpdateService/FirmwareInventory": updates.firmware_list,
    "/UpdateService/FirmwareInventory/{firmware}": updates.firmware,
}

_EXPAND = re.compile(r"^[.*~](\(\$levels=\d+\))?$")  # DSP0266 section 7.3.1: "." "*" "~" with an optional level


class Table(Generic[T]):
    """Path templates and what stands behind each."""

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._by_length: dict[int, list[tuple[list[str], T]]] = defaultdict(list)
        for template, entry in entries.items():
            words = template.split("/")
            self._by_length[len(words)].append((words, entry))

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        """The entry whose template a path fits, and the path's own ids."""
        words = path.split("/")
        for template, entry in self._by_length[len(words)]:
            ids = _fit(template, words)
            if ids is not None:
                return entry, ids
        return None


def _fit(template: list[str], words: list[str]) -> dict[str, str] | None:
    ids = {}
    for part, word in zip(template, words, strict=True):
        if part.startswith("{"):
            ids[part[1:-1]] = word
        elif part != word:
            return None
    return ids


_TREE = Table(READERS)


def read(bmc: Bmc, path: str, query: Mapping[str, str]) -> Answer:
    """Answer a GET of `path`, which stands below /redfish/v1."""
    found = _TREE.find(path)
    ids: dict[str, Any] = found[1] if found else {}
    if "$skip" in query and query["$skip"].isdigit() and path.endswith("/Entries"):
        ids["skip"] = int(query["$skip"])
    body = found[0](bmc, **ids) if found else None
    if body is None:
        return error("ResourceMissingAtURI", f"{ROOT}{path}")
    if isinstance(body, Answer):
        return body
    if "$expand" in query:
        return _expanded(bmc, body, query["$expand"])
    return tagged(body)


def tagged(body: Resource) -> Answer:
    """A 200 with the ETag in the header and in the body."""
    tag = etag(body)
    return Answer(200, {**body, "@odata.etag": tag}, {"ETag": tag})


def _expanded(bmc: Bmc, body: Resource, how: str) -> Answer:
    """A collection with its members in place of links; refused where this BMC does not offer it."""
    if not bmc.layout.expand_levels or not _EXPAND.match(how) or "Members" not in body:
        return error("QueryNotSupportedOnResource")
    paths = [str(member["@odata.id"]).removeprefix(ROOT) for member in body["Members"]]
    members = [read(bmc, path, {}).body for path in paths]
    return tagged({**body, "Members": [one for one in members if one]})
