"""RDMA devices from sysfs (preferred) and from `ibstat`: firmware, port state, rate, link layer, GUID, counters."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pydantic import Field

from inventory.command import Command
from inventory.model import Frozen
from inventory.parsers.words import count, known, met, number, undressed

# A kernel path with or without its beginning: "…/infiniband/mlx5_0/ports/1/rate" or "mlx5_0/ports/1/rate".
_PATH = re.compile(
    r"^(?:.*?([0-9a-f:.]+)/infiniband/|.*/infiniband/)?([A-Za-z0-9_.-]+)/((?:ports/\d+|device)/.+|[a-z_]+)$"
)
_PORT = re.compile(r"^ports/(\d+)/(.+)$")
_FIELDS = frozenset({"fw_ver", "hca_type", "board_id", "node_guid", "node_type", "node_desc", "sys_image_guid"})
_MAC_LENGTH = len("02:00:00:00:00:01")
_PCI_SLOT = re.compile(r"^PCI_SLOT_NAME=(\S+)$", re.MULTILINE)

_ROOT = "/sys/class/infiniband/*/"
_GLOBS = (
    *("fw_ver", "hca_type", "board_id", "node_guid", "device/uevent", "device/net/*/address"),
    *("ports/*/state", "ports/*/phys_state", "ports/*/rate", "ports/*/link_layer", "ports/*/gids/0"),
    *("ports/*/counters/*", "ports/*/hw_counters/*"),
)
_SCRIPT = 'grep -sH "" ' + " ".join(_ROOT + glob for glob in _GLOBS)


class RdmaPort(Frozen):
    """One port, with its error counters."""

    number: int
    state: str | None = None  # "ACTIVE", "INIT", "DOWN", "ARMED"
    physical_state: str | None = None  # "LinkUp", "Polling", "Disabled"
    rate_gbit_s: float | None = None
    link_layer: str | None = None
    guid: str | None = None  # upper case with colons
    counters: dict[str, int | None] = Field(default_factory=dict)


class RdmaDevice(Frozen):
    """One adapter as the RDMA stack names it."""

    name: str
    kind: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    node_guid: str | None = None
    pci_address: str | None = None
    interface: str | None = None  # the network interface on top, "ens1f0np0" or "ibs1"
    mac: str | None = None
    ports: tuple[RdmaPort, ...] = ()


def parse_sysfs(text: str) -> tuple[RdmaDevice, ...]:
    """`grep -H`'s `path:value` lines; raises `ValueError` when none speaks of a device."""
    pairs = (line.partition(":")[::2] for line in undressed(text) if ":" in line)
    files: dict[str, list[str]] = defaultdict(list)
    for path, value in pairs:
        if "/" in path:
            files[path].append(value)
    return devices_from_files({path: "\n".join(values) for path, values in files.items()}, text)


def parse_sysfs_json(text: str) -> tuple[RdmaDevice, ...]:
    """The same from a recorded `{path: text}` document."""
    try:
        files = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a JSON object of paths: {error}, {met(text)}") from error
    if not isinstance(files, dict):
        raise ValueError(f"expected a JSON object of paths, met {type(files).__name__}")
    return devices_from_files({path: value for path, value in files.items() if isinstance(value, str)}, text)


def parse_sysfs_or_none(text: str) -> tuple[RdmaDevice, ...]:
    """As `parse_sysfs`; no answer at all means no adapter, which the class may or may not allow."""
    return parse_sysfs(text) if text.strip() else ()


# grep(1): 1 nothing found, 2 some pattern stands for no file.
SYSFS = Command("sysfs-ib", ("sh", "-c", _SCRIPT), parse_sysfs_or_none, 15.0, ok_exits=frozenset({0, 1, 2}))


def devices_from_files(files: Mapping[str, str], text: str = "") -> tuple[RdmaDevice, ...]:
    """One device per folder that has a port."""
    by_device: dict[str, dict[str, str]] = defaultdict(dict)
    for path, value in files.items():
        match = _PATH.match(path)
        if match and (match[3] in _FIELDS or match[3].startswith(("ports/", "device/"))):
            by_device[match[2]][match[3]] = value.strip()
            if match[1]:  # /sys/bus/pci/devices/0000:ba:00.0/infiniband/mlx5_8/…
                by_device[match[2]].setdefault("device/uevent", f"PCI_SLOT_NAME={match[1]}")
    devices = tuple(_device(name, facts) for name, facts in by_device.items())
    if not any(device.ports for device in devices):
        raise ValueError(f"expected `mlx5_0/ports/1/state:4: ACTIVE`, {met(text)}")
    return devices


def parse_ibstat(text: str) -> tuple[RdmaDevice, ...]:
    """`CA 'mlx5_0'` blocks; raises `ValueError` when there is none."""
    blocks: list[tuple[str, list[str]]] = []
    for line in undressed(text):
        head = re.match(r"^CA '([^']+)'", line)
        if head:
            blocks.append((head[1], []))
        elif blocks:
            blocks[-1][1].append(line)
    if not blocks:
        raise ValueError(f"expected `CA 'mlx5_0'`, {met(text)}")
    return tuple(_ibstat_device(name, rows) for name, rows in blocks)


def colons(guid: str | None) -> str | None:
    """Any spelling of a GUID or MAC as `B8:CE:F6:03:…`; None for zeros and for what is none."""
    digits = re.sub(r"^0x|[^0-9a-f]", "", (guid or "").lower())
    if len(digits) not in (12, 16) or not int(digits, 16):
        return None
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2)).upper()


def _device(name: str, facts: Mapping[str, str]) -> RdmaDevice:
    slot = _PCI_SLOT.search(facts.get("device/uevent", ""))
    address = next((p for p in facts if p.startswith("device/net/") and p.endswith("/address")), None)
    mac = colons(facts[address]) if address else None
    numbers = sorted({int(m[1]) for path in facts if (m := _PORT.match(path))})
    return RdmaDevice(
        name=name,
        kind=known(facts.get("hca_type")),
        firmware=known(facts.get("fw_ver")),
        board_id=known(facts.get("board_id")),
        node_guid=colons(facts.get("node_guid")),
        pci_address=slot[1].lower() if slot else None,
        interface=address.split("/")[2] if address else None,
        mac=mac if mac and len(mac) == _MAC_LENGTH else None,  # IPoIB addresses are 20 bytes long
        ports=tuple(
            _port(n, {m[2]: v for p, v in facts.items() if (m := _PORT.match(p)) and m[1] == str(n)}) for n in numbers
        ),
    )


def _port(index: int, facts: Mapping[str, str]) -> RdmaPort:
    gid = facts.get("gids/0", "").replace(":", "")
    return RdmaPort(
        number=index,
        state=_word(facts.get("state")),
        physical_state=_word(facts.get("phys_state")),
        rate_gbit_s=number(facts.get("rate")),
        link_layer=known(facts.get("link_layer")),
        guid=colons(gid[16:]) if len(gid) == 32 else None,
        counters={path.rsplit("/", 1)[1]: count(value) for path, value in facts.items() if "counters/" in path},
    )


def _word(text: str | None) -> str | None:
    """`4: ACTIVE` is ACTIVE."""
    return known((text or "").rpartition(":")[2])


def _ibstat_device(name: str, rows: Iterable[str]) -> RdmaDevice:
    facts: dict[str, str] = {}
    ports: list[tuple[int, dict[str, str]]] = []
    for row in rows:
        key, colon, value = (part.strip() for part in row.partition(":"))
        port = re.match(r"^Port (\d+)$", key)
        if port and colon:
            ports.append((int(port[1]), {}))
        elif colon:
            (ports[-1][1] if ports else facts)[key] = value
    return RdmaDevice(
        name=name,
        kind=known(facts.get("CA type")),
        firmware=known(facts.get("Firmware version")),
        node_guid=colons(facts.get("Node GUID")),
        ports=tuple(_ibstat_port(n, port) for n, port in ports),
    )


# ibstat's words for the states that sysfs numbers.
_STATES = {"Active": "ACTIVE", "Initializing": "INIT", "Armed": "ARMED", "Down": "DOWN"}


def _ibstat_port(index: int, facts: Mapping[str, str]) -> RdmaPort:
    state = known(facts.get("State"))
    return RdmaPort(
        number=index,
        state=_STATES.get(state, state) if state else None,
        physical_state=known(facts.get("Physical state")),
        rate_gbit_s=number(facts.get("Rate")),
        link_layer=known(facts.get("Link layer")),
        guid=colons(facts.get("Port GUID")),
    )


IBSTAT = Command("ibstat", ("ibstat",), parse_ibstat, 15.0)
