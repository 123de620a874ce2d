"""Signs and checks canonical JSON with Ed25519; the private key is a file only its owner can read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from inventory.errors import BadSettings, CertificateRefused

_KEY_ID_DIGITS = 16  # our choice: 64 bits name a key among the few a site has


def canonical_json(value: Any) -> bytes:
    """The one byte form of a value: keys sorted, no spaces, UTF-8. Floats are refused: they print differently."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    json.loads(text, parse_float=_refuse_float, parse_constant=_refuse_float)
    return text.encode()


def _refuse_float(number: str) -> None:
    raise TypeError(f"{number}: a float has no canonical form; sign its text")


class SigningKey:
    """The site's private key. Shown as its id, never as itself."""

    __slots__ = ("_key",)

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"[signing key {self.key_id}]"

    def __reduce__(self) -> str:
        raise TypeError("a signing key is not pickled")

    @property
    def key_id(self) -> str:
        """Which key signed: the beginning of the sha256 of the raw public key."""
        return key_id_of(self.public_pem)

    @property
    def public_pem(self) -> str:
        """The public half, to be given to whoever verifies."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def sign(self, message: bytes) -> str:
        """The signature in hex."""
        return self._key.sign(message).hex()

    def private_pem(self) -> bytes:
        """For the key file and nothing else."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_key() -> SigningKey:
    """A fresh key."""
    return SigningKey(Ed25519PrivateKey.generate())


def key_id_of(public_pem: str) -> str:
    """The id of a public key."""
    raw = _public(public_pem).public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:_KEY_ID_DIGITS]


def check_signature(message: bytes, signature: str, public_pem: str) -> None:
    """Raise `CertificateRefused` unless this key signed exactly this message."""
    try:
        raw = bytes.fromhex(signature)
        if raw.hex() != signature:  # upper case or spaces: the same bytes, but not what we wrote
            raise ValueError
        _public(public_pem).verify(raw, message)
    except (InvalidSignature, ValueError) as error:
        raise CertificateRefused("the signature does not match. The certificate was altered or damaged") from error


def _public(public_pem: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(public_pem.encode())
    except ValueError as error:
        raise BadSettings("public key: not a PEM public key. Give the .pub file of the signing key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadSettings("public key: not Ed25519. Give the .pub file of the signing key")
    return key


def load_or_create_key(path: Path) -> SigningKey:
    """The site's key; made on first use with mode 0600, its public half beside it as `.pub`.

    Raises `BadSettings` when others can read it, or it cannot be read or written.
    """
    try:
        if not path.exists():
            _create(path)
        return _load(path)
    except OSError as error:
        raise BadSettings(f"signing key {path}: {error.strerror}. Check the folder's permissions and space") from error


def _create(path: Path) -> None:
    key = new_key()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_pem())
    try:
        path.hardlink_to(fresh)  # two first starts at once: one key wins whole
    except FileExistsError:
        return
    finally:
        fresh.unlink()
    path.with_name(f"{path.name}.pub").write_text(key.public_pem)


def _load(path: Path) -> SigningKey:
    if path.stat().st_mode & 0o077:
        raise BadSettings(f"signing key {path}: others can read it. Run chmod 600 {path}")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BadSettings(f"signing key {path}: not a PEM private key. Restore it, or move it away") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadSettings(f"signing key {path}: not Ed25519. Restore it, or move it away")
    return SigningKey(key)
