"""What vendors do differently, one row each: whom it concerns, what to do about it, who reported it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Trait(StrEnum):
    """What a quirk makes us do."""

    NO_KEEP_ALIVE = "a new connection for every request"
    NO_EXPAND = "collections are read one member at a time"
    CD_IS_USB_CD = "virtual media boots as UsbCd"
    MINIMAL_INSERT = "media is inserted with the image alone"
    MEDIA_NEEDS_LOGIN = "media is inserted with a placeholder login"
    SERIAL_IN_SKU = "the chassis serial stands in SKU"
    HARDWARE_READY_ENDS_POST = "POST is over at SystemHardwareInitializationComplete"
    ETAG_STAR = "PATCH with If-Match: * when nothing else is accepted"


@dataclass(frozen=True, slots=True)
class Quirk:
    """One row: makers and products as regular expressions over what the BMC calls itself; empty matches all."""

    trait: Trait
    maker: str
    product: str
    source: str


QUIRKS: tuple[Quirk, ...] = (
    Quirk(Trait.NO_KEEP_ALIVE, r"HPE|Hewlett", "", "NVIDIA/libredfish src/network.rs: iLO resets reused connections"),
    Quirk(Trait.NO_EXPAND, r"^AMI\b", "", "NVIDIA nv-redfish: off for AMI Viking, required fields get dropped"),
    Quirk(Trait.NO_EXPAND, r"Fujitsu", "", "bb-Ricardo/check_redfish#20: QueryNotSupportedOnResource"),
    Quirk(Trait.CD_IS_USB_CD, r"Supermicro", "", "sushy set_system_boot_options: X11/X12 media boots as UsbCd"),
    Quirk(Trait.MINIMAL_INSERT, r"Supermicro", "", "ansible-collections/community.general#4839, #6969, #7470"),
    Quirk(Trait.MEDIA_NEEDS_LOGIN, r"^AMI\b|NVIDIA", r"DGX|AMI", "sushy VirtualMedia.is_credentials_required"),
    Quirk(Trait.SERIAL_IN_SKU, r"Dell", "", "Ironic release note: SerialNumber is the board's, SKU the service tag"),
    Quirk(Trait.HARDWARE_READY_ENDS_POST, r"Supermicro", "", "a running SYS-821GE-TNHR reports no later BootProgress"),
    Quirk(Trait.ETAG_STAR, r"^AMI\b|NVIDIA", "", "docs.nvidia.com, DGX H100 Redfish: PATCH needs If-Match: *"),
)


def quirks_of(makers: tuple[str, ...], products: tuple[str, ...]) -> tuple[Quirk, ...]:
    """The rows that concern a BMC, given all the names its root, system and manager go by."""
    return tuple(quirk for quirk in QUIRKS if _any(quirk.maker, makers) and _any(quirk.product, products))


def _any(pattern: str, names: tuple[str, ...]) -> bool:
    return not pattern or any(re.search(pattern, name, re.IGNORECASE) for name in names)
