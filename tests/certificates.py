"""An authority of its own per test, and certificates that it issues."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates for loopback; `certificate` is its own PEM file."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        made = self._begin(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(usage, critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = folder / f"{name}.pem"
        signed = made.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())
        self.certificate.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(self, folder: Path, name: str, password: bytes | None = None) -> tuple[Path, Path]:
        """A certificate and its key as PEM files `name`.pem and `name`.key in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._begin(_named(name), key.public_key())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = made.add_extension(names, critical=False).add_extension(signer, critical=False).sign(self._key, hashes.SHA256())
        certificate, private = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        locked = NoEncryption() if password is None else BestAvailableEncryption(password)
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
        return certificate, private

    def _begin(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(public)
        return made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
