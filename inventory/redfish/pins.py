"""Certificates pinned on first use: which BMC showed which one, and what it shows now."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from inventory.deadline import Deadline
from inventory.errors import NodeUnreachable

_CONNECT_S = 5.0  # our choice: a BMC on the management network answers a SYN in milliseconds or not at all


@dataclass(frozen=True, slots=True)
class PinStore:
    """Where the SHA-256 of each BMC's leaf certificate is remembered: two functions, usually the ledger's."""

    get: Callable[[str], str | None]
    set: Callable[[str, str], None]

    @classmethod
    def in_memory(cls) -> PinStore:
        """Pins that live as long as this process, for a single look."""
        held: dict[str, str] = {}
        return cls(held.get, held.__setitem__)


def trusting_context() -> ssl.SSLContext:
    """A context that accepts any certificate; whoever uses it checks the fingerprint itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinned(node: str, url: str, pins: PinStore, deadline: Deadline) -> str:
    """The fingerprint this BMC must show: the remembered one, or on the very first contact the one it shows now.

    Only a TLS handshake is made here; no request and no credential has left before the answer is known.
    """
    known = pins.get(url)
    if known:
        return known
    shown = leaf_sha256(node, url, deadline)
    pins.set(url, shown)
    return shown


def leaf_sha256(node: str, url: str, deadline: Deadline) -> str:
    """The SHA-256 of the certificate a BMC shows, in hex; `NodeUnreachable` when it does not get that far."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    timeout_s = deadline.timeout_s(_CONNECT_S, f"TLS handshake with {url}")
    try:
        with (
            socket.create_connection((host, port), timeout=timeout_s) as raw,
            trusting_context().wrap_socket(raw, server_hostname=host) as tls,
        ):
            return hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
    except ssl.SSLError as error:
        raise NodeUnreachable(node, f"TLS handshake with {url}", str(error), "Check the BMC's TLS settings.") from error
    except OSError as error:
        raise NodeUnreachable(node, f"connect to {url}", str(error), "Check cabling, address and BMC power.") from error
