"""SSH keys of the lab: a node's host key, made at the first boot of an image, and the operator's own pair."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_host_key() -> str:
    """A new Ed25519 private key as OpenSSH text."""
    return (
        Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        .decode()
    )


def public_part(private: str) -> str:
    """`ssh-ed25519 AAAA…` of a private key in OpenSSH form."""
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
