"""Managers: the BMC itself and its virtual media; and the logs it keeps."""

from __future__ import annotations

from lab.bmc.answers import ROOT, Resource, collection, link, resource, status
from lab.bmc.bmc import Bmc

MEDIA = "Cd1"
_BOARD_MANAGER = "HGX_BMC_0"
_LOG_PAGE = 40  # entries a page; our choice, small enough that paging is met


def managers(bmc: Bmc) -> Resource:
    """All managers."""
    ids = [bmc.layout.manager, *([_BOARD_MANAGER] if bmc.layout.baseboard else [])]
    return collection("/Managers", "Manager", ids)


def manager(bmc: Bmc, manager: str) -> Resource | None:
    """One manager."""
    if manager not in {bmc.layout.manager, _BOARD_MANAGER if bmc.layout.baseboard else bmc.layout.manager}:
        return None
    path, is_host = f"/Managers/{manager}", manager == bmc.layout.manager
    facts: Resource = {"Links": {"ManagerForServers": [link(bmc.host)]}} if is_host else {}
    if is_host:
        facts["EthernetInterfaces"] = link(f"{path}/EthernetInterfaces")
    if is_host and bmc.layout.media_under == "Managers":
        facts["VirtualMedia"] = link(f"{path}/VirtualMedia")
    return resource(
        path,
        "Manager.v1_15_0.Manager",
        "Manager",
        ManagerType="BMC",
        Model=bmc.layout.product,
        FirmwareVersion=bmc.machine.state.bmc_version if is_host else "HGX-22.10-1",
        PowerState="On",
        Status=status(),
        **facts,
    )


def manager_ports(bmc: Bmc, manager: str) -> Resource | None:
    """The BMC's own network port."""
    if manager != bmc.layout.manager:
        return None
    return collection(f"{bmc.manager}/EthernetInterfaces", "EthernetInterface", ["eth0"])


def manager_port(bmc: Bmc, manager: str, port: str) -> Resource | None:
    """The BMC's own network port."""
    if manager != bmc.layout.manager or port != "eth0":
        return None
    mac = bmc.machine.state.bmc_mac
    path, kind = f"{bmc.manager}/EthernetInterfaces/eth0", "EthernetInterface.v1_9_0.EthernetInterface"
    return resource(path, kind, "BMC", MACAddress=mac, PermanentMACAddress=mac, SpeedMbps=1000, LinkStatus="LinkUp")


# --- virtual media -------------------------------------------------------------------------------------------------


def media_path(bmc: Bmc) -> str:
    """Where this maker keeps the virtual CD."""
    owner = bmc.host if bmc.layout.media_under == "Systems" else bmc.manager
    return f"{owner}/VirtualMedia"


def media_list(bmc: Bmc, kind: str, owner: str) -> Resource | None:
    """The virtual drives, of a System or of a Manager."""
    if f"/{kind}/{owner}/VirtualMedia" != media_path(bmc):
        return None
    return collection(media_path(bmc), "VirtualMedia", [MEDIA])


def media(bmc: Bmc, kind: str, owner: str, slot: str) -> Resource | None:
    """The virtual CD drive."""
    path, disc = f"{media_path(bmc)}/{MEDIA}", bmc.machine.media
    if f"/{kind}/{owner}/VirtualMedia/{slot}" != path:
        return None
    actions = {
        f"#VirtualMedia.{verb}": {"target": f"{ROOT}{path}/Actions/VirtualMedia.{verb}"}
        for verb in ("InsertMedia", "EjectMedia")
    }
    return resource(
        path,
        "VirtualMedia.v1_6_0.VirtualMedia",
        "Virtual CD",
        MediaTypes=["CD", "DVD"],
        Image=disc.image or None,
        ImageName=disc.image.rsplit("/", 1)[-1] or None,
        Inserted=bool(disc.image),
        WriteProtected=disc.write_protected if disc.image else None,
        ConnectedVia="URI" if disc.image else "NotConnected",
        Actions=actions,
    )


# --- logs ----------------------------------------------------------------------------------------------------------


def log_services(bmc: Bmc, system: str) -> Resource | None:
    """The host's log."""
    return collection(f"{bmc.host}/LogServices", "LogService", ["SEL"]) if system == bmc.layout.host else None


def log_service(bmc: Bmc, system: str, log: str) -> Resource | None:
    """One log."""
    if system != bmc.layout.host or log != "SEL":
        return None
    path = f"{bmc.host}/LogServices/SEL"
    return resource(path, "LogService.v1_3_0.LogService", "System Event Log", Entries=link(f"{path}/Entries"))


def _log(bmc: Bmc) -> list[tuple[str, str, str]]:
    """(time, severity, text): what happened, then what the BMC misses among the hardware."""
    state, since = bmc.machine.state, bmc.machine.progress_at
    lost = [f"GPU {gpu.module}: PCIe link lost" for gpu in state.gpus if not gpu.present]
    lost += [f"{dimm.slot}: memory module not detected" for dimm in state.dimms if not dimm.present]
    return [*((at, "OK", text) for at, text in bmc.machine.events), *((since, "Critical", text) for text in lost)]


def log_entries(bmc: Bmc, system: str, log: str, skip: int = 0) -> Resource | None:
    """The log's entries, a page at a time."""
    if system != bmc.layout.host or log != "SEL":
        return None
    path = f"{bmc.host}/LogServices/SEL/Entries"
    entries = [_entry(f"{path}/{number}", *event) for number, event in enumerate(_log(bmc), 1)]
    page: Resource = {
        **collection(path, "LogEntry", []),
        "Members": entries[skip : skip + _LOG_PAGE],
        "Members@odata.count": len(entries),
    }
    if skip + _LOG_PAGE < len(entries):
        page["Members@odata.nextLink"] = f"{ROOT}{path}?$skip={skip + _LOG_PAGE}"
    return page


def log_entry(bmc: Bmc, system: str, log: str, entry: str) -> Resource | None:
    """One entry."""
    events = dict(enumerate(_log(bmc), 1))
    if system != bmc.layout.host or log != "SEL" or not entry.isdigit() or int(entry) not in events:
        return None
    return _entry(f"{bmc.host}/LogServices/SEL/Entries/{entry}", *events[int(entry)])


def _entry(path: str, at: str, severity: str, text: str) -> Resource:
    kind = "LogEntry.v1_13_0.LogEntry"
    return resource(path, kind, "Log Entry", EntryType="Event", Created=at or None, Message=text, Severity=severity)
