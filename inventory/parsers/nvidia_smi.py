"""`nvidia-smi -q -x`, drivers 470 to 595: one `Gpu` per element, and what the document itself says is not in it.

What is absent, `N/A` or deprecated is None, never 0. Layouts differ by driver generation: ECC counters came in three
forms, throttle reasons and power readings were renamed, the module id moved, row remapping can be the word "N/A".
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from inventory.command import Command
from inventory.model import Frozen, Gpu
from inventory.parsers.words import count, known, met, number, undressed, yes

_LOST = re.compile(r"unable to determine the device handle for gpu\s*:?\s*(.+)$", re.IGNORECASE)
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)
_REASON_PREFIXES = ("clocks_throttle_reason_", "clocks_event_reason_")  # drivers up to 525, from 535 on
_NO_DEVICES = "No devices were found"


class SmiLog(Frozen):
    """One answer of nvidia-smi: driver, GPUs, and what it could not tell."""

    driver: str | None = None
    cuda: str | None = None  # the newest CUDA the driver serves, not the toolkit's
    attached: int | None = None
    gpus: tuple[Gpu, ...] = ()
    unread: tuple[str, ...] = ()  # one sentence each: lost GPUs, a partial document


def parse_query(text: str) -> SmiLog:
    """The XML log; text before it becomes `unread`. Raises `ValueError` when there is no whole document."""
    clean = "\n".join(undressed(text))
    start, end = clean.find("<nvidia_smi_log"), clean.rfind("</nvidia_smi_log>")
    if start < 0:
        if _NO_DEVICES in clean:
            return SmiLog(attached=0, unread=(_NO_DEVICES,))
        raise ValueError(f"expected <nvidia_smi_log>, {met(clean)}")
    if end < 0:
        raise ValueError(f"expected </nvidia_smi_log>: the document is cut off after {clean.rstrip()[-60:]!r}")
    root = _root(clean[start : end + len("</nvidia_smi_log>")])
    elements = root.findall("gpu")
    gpus = tuple(_gpu(element, index) for index, element in enumerate(elements))
    attached = count(root.findtext("attached_gpus"))
    return SmiLog(
        driver=known(root.findtext("driver_version")),
        cuda=known(root.findtext("cuda_version")),
        attached=attached,
        gpus=gpus,
        unread=(*lost_gpus(clean[:start]), *_partial(attached, len(gpus))),
    )


QUERY = Command(
    name="nvidia-smi-xml",
    argv=("nvidia-smi", "-q", "-x"),
    parse=parse_query,
    timeout_s=60.0,  # 3 s with persistence on; without it each of 8 GPUs is initialised anew
    ok_exits=frozenset({0, 14, 15}),  # nvidia-smi(1): 14 InfoROM corrupted, 15 GPU off the bus: the rest is still told
)


def lost_gpus(text: str) -> tuple[str, ...]:
    """The lines in which nvidia-smi names a GPU that no longer answers (on either stream, exit 0 or not)."""
    return tuple(line.strip() for line in undressed(text) if _LOST.search(line))


def pci_address(text: str | None) -> str | None:
    """`00000000:1B:00.0` as the kernel writes it, `0000:1b:00.0`."""
    match = _ADDRESS.search(text or "")
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def _root(document: str) -> ElementTree.Element:
    if "<!ENTITY" in document:
        raise ValueError("expected a plain document, met an entity declaration")
    try:
        return ElementTree.fromstring(document)  # noqa: S314 (no entities, see above; external ones are never loaded)
    except ElementTree.ParseError as error:
        line = document.splitlines()[error.position[0] - 1 : error.position[0]]
        raise ValueError(f"expected well-formed XML: {error}, {met(''.join(line))}") from error


def _partial(attached: int | None, told: int) -> tuple[str, ...]:
    if attached is None or attached == told:
        return ()
    return (f"partial document: attached_gpus says {attached}, {told} told about",)


def _gpu(gpu: ElementTree.Element, index: int) -> Gpu:
    def text(path: str) -> str | None:
        return known(gpu.findtext(path))

    uuid = text("uuid")
    return Gpu(
        id=str(index),
        serial=text("serial"),
        uuid=uuid.removeprefix("GPU-").lower() if uuid else None,
        model=text("product_name"),
        manufacturer=text("product_brand"),
        part_number=text("gpu_part_number") or text("board_part_number"),
        firmware=text("vbios_version"),
        slot=text("platformInfo/module_id") or text("gpu_module_id"),  # from 570 on, and before
        pci_address=pci_address(text("pci/pci_bus_id") or gpu.get("id")),
        pci_device_id=_device_id(text("pci/pci_device_id")),
        memory_mib=count(text("fb_memory_usage/total")),
        fabric_state=_fabric(gpu),
        throttle_reasons=_throttle_reasons(gpu),
        temperature_c=number(text("temperature/gpu_temp")),
        persistence=yes(text("persistence_mode"), "enabled", "disabled"),
        mig_enabled=yes(text("mig_mode/current_mig"), "enabled", "disabled"),
        **_ecc(gpu),
        **_remap(gpu),
        **_link(gpu),
        **_power(gpu),
    )


def _device_id(text: str | None) -> str | None:
    """`0x233010DE` is device 2330 of vendor 10de."""
    digits = (text or "").lower().removeprefix("0x")
    return f"{digits[4:]}:{digits[:4]}" if re.fullmatch(r"[0-9a-f]{8}", digits) else None


def _fabric(gpu: ElementTree.Element) -> str | None:
    state, status = known(gpu.findtext("fabric/state")), known(gpu.findtext("fabric/status"))
    if state == "Completed" and status not in (None, "Success"):
        return f"{state} ({status})"
    return state


def _throttle_reasons(gpu: ElementTree.Element) -> tuple[str, ...] | None:
    """The active ones; None when the element is not there or no reason has a value."""
    for tag in ("clocks_event_reasons", "clocks_throttle_reasons"):
        values = {child.tag: yes(child.text, "active", "not active") for child in gpu.iterfind(f"{tag}/*")}
        if any(value is not None for value in values.values()):
            return tuple(_reason(name) for name, active in values.items() if active)
    return None


def _reason(tag: str) -> str:
    for prefix in _REASON_PREFIXES:
        tag = tag.removeprefix(prefix)
    return tag


def _ecc(gpu: ElementTree.Element) -> dict[str, object]:
    return {
        "ecc_enabled": yes(gpu.findtext("ecc_mode/current_ecc"), "enabled", "disabled"),
        "ecc_pending_enabled": yes(gpu.findtext("ecc_mode/pending_ecc"), "enabled", "disabled"),
        "ecc_correctable": _errors(gpu.find("ecc_errors/aggregate"), uncorrectable=False),
        "ecc_uncorrectable": _errors(gpu.find("ecc_errors/aggregate"), uncorrectable=True),
        "ecc_volatile_uncorrectable": _errors(gpu.find("ecc_errors/volatile"), uncorrectable=True),
        "sram_threshold_exceeded": yes(gpu.findtext("ecc_errors/aggregate/sram_threshold_exceeded")),
    }


def _errors(counters: ElementTree.Element | None, *, uncorrectable: bool) -> int | None:
    """The sum of one kind. One unknown addend makes it unknown, unless what is known is already an error."""
    if counters is None:
        return None
    old = counters.find("double_bit" if uncorrectable else "single_bit")  # Pascal and Volta
    if old is not None:
        return count(old.findtext("total"))
    addends = [c for c in counters if c.tag.startswith(("sram_", "dram_")) and _is_of_kind(c.tag, uncorrectable)]
    values = [count(addend.text) for addend in addends]
    total = sum(value or 0 for value in values)
    return total if values and (total or None not in values) else None


def _is_of_kind(tag: str, uncorrectable: bool) -> bool:
    return ("_uncorrectable" in tag) if uncorrectable else ("_correctable" in tag)


def _remap(gpu: ElementTree.Element) -> dict[str, object]:
    """All None where the element is the word "N/A": MIG, or a part without row remapping."""
    return {
        "remap_pending": yes(gpu.findtext("remapped_rows/remapped_row_pending")),
        "remap_failed": yes(gpu.findtext("remapped_rows/remapped_row_failure")),
        "remapped_rows_uncorrectable": count(gpu.findtext("remapped_rows/remapped_row_unc")),
    }


def _link(gpu: ElementTree.Element) -> dict[str, object]:
    """`max_link_gen` is what both ends can do together; the generation now may be 1 on an idle GPU."""
    link = "pci/pci_gpu_link_info"
    return {
        "pcie_width": count(gpu.findtext(f"{link}/link_widths/current_link_width")),
        "pcie_width_max": count(gpu.findtext(f"{link}/link_widths/max_link_width")),
        "pcie_generation": count(gpu.findtext(f"{link}/pcie_gen/current_link_gen")),
        "pcie_generation_max": count(gpu.findtext(f"{link}/pcie_gen/max_link_gen")),
        "pcie_replays": count(gpu.findtext("pci/replay_counter")),
    }


def _power(gpu: ElementTree.Element) -> dict[str, object]:
    """`power_readings` up to 525, `gpu_power_readings` after; the draw split into average and instant by 595."""

    def first(*names: str) -> float | None:
        paths = [f"{group}/{name}" for group in ("gpu_power_readings", "power_readings") for name in names]
        return next((value for path in paths if (value := number(gpu.findtext(path))) is not None), None)

    return {
        "power_w": first("power_draw", "average_power_draw", "instant_power_draw"),
        "power_limit_w": first("current_power_limit", "enforced_power_limit", "power_limit"),
        "power_limit_default_w": first("default_power_limit"),
    }
