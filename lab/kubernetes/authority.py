"""The lab cluster's certificate authority and the signature on its cluster-info."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

_CA_DAYS = 3650  # kubeadm's default for a cluster's root
_CLIENT_DAYS = 365  # kube-controller-manager's --cluster-signing-duration default


class Authority:
    """Signs what a cluster signs."""

    def __init__(self, name: str = "kubernetes") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        begins = datetime.now(UTC) - timedelta(minutes=5)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + timedelta(days=_CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        """The root certificate."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    @property
    def pin(self) -> str:
        """What kubeadm pins: sha256 of the root's public key info."""
        return spki_pin(self.pem)

    def issue(self, request_pem: bytes) -> str:
        """A certificate for what was asked, as the controller manager's signer does."""
        request = x509.load_pem_x509_csr(request_pem)
        begins = datetime.now(UTC) - timedelta(minutes=5)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._name)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + timedelta(days=_CLIENT_DAYS))
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM).decode()


def spki_pin(certificate_pem: str) -> str:
    """`sha256:…` of a certificate's public key info, RFC 7469's pin as kubeadm writes it."""
    key = x509.load_pem_x509_certificate(certificate_pem.encode()).public_key()
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def subject_of(request_pem: bytes) -> tuple[str, tuple[str, ...]]:
    """Common name and organisations of a certificate request."""
    subject = x509.load_pem_x509_csr(request_pem).subject
    names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = tuple(str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return (names[0] if names else ""), groups


def detached_signature(payload: str, token_id: str, token_secret: str) -> str:
    """The JWS, without its payload, that proves cluster-info to whoever holds the token."""
    head = _encoded(json.dumps({"alg": "HS256", "kid": token_id}, separators=(",", ":")).encode())
    message = f"{head}.{_encoded(payload.encode())}".encode()
    digest = hmac.new(f"{token_id}.{token_secret}".encode(), message, hashlib.sha256).digest()
    return f"{head}..{_encoded(digest)}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
