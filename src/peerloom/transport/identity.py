"""A peer's identity: a P-256 key made on its own machine, and a self-signed certificate.

The id is the hash of the public key, so no authority is needed.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import PeerError
from .files import refuse_loose_permissions, write_whole

__all__ = [
    "Identity",
    "certificate_id",
    "certificate_verifies",
    "read_id",
    "self_signed",
    "short_id",
    "spelled_id",
]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_KEY, _CERTIFICATE = "identity.key", "identity.crt"
_YEARS = 10
# The certificate allows digital_signature alone.
_FORBIDDEN_USES = (
    "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """A peer's key and certificate in its folder, which the private key never leaves."""

    folder: Path
    id: str
    certificate: bytes
    """PEM, public."""

    @classmethod
    def create(cls, folder: Path) -> Identity:
        """Make a new key and its self-signed certificate. Refuses to replace a key."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / _KEY).exists():
            raise PeerError(
                f"{folder / _KEY} exists: this folder already has an identity. "
                "Use it, or choose another folder."
            )
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_whole(folder / _KEY, secret, mode=0o600)
        write_whole(folder / _CERTIFICATE, self_signed(key))
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Identity:
        """Read the identity of a folder.

        Refuses missing files, a key that others may read, and a certificate of another key.
        """
        for name in (_KEY, _CERTIFICATE):
            if not (folder / name).is_file():
                raise PeerError(
                    f"{folder / name} is missing. "
                    f"Make an identity first: peerloom peer init --folder {folder}"
                )
        refuse_loose_permissions(folder / _KEY)
        certificate = (folder / _CERTIFICATE).read_bytes()
        identity = cls(folder, certificate_id(certificate), certificate)
        if _id_of(identity._private().public_key()) != identity.id:
            raise PeerError(
                f"Key and certificate in {folder} do not belong together. "
                "Restore both from the same copy."
            )
        return identity

    @property
    def key_file(self) -> Path:
        """The private key's path, for the TLS library; mode 0600."""
        return self.folder / _KEY

    @property
    def certificate_file(self) -> Path:
        """The certificate's path."""
        return self.folder / _CERTIFICATE

    def sign(self, purpose: str, data: bytes) -> bytes:
        """Sign data for one purpose; the signature is valid for no other purpose."""
        return self._private().sign(_purposed(purpose, data), ec.ECDSA(hashes.SHA256()))

    def _private(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        except (ValueError, TypeError):
            raise PeerError(
                f"{self.key_file} holds no readable key. Restore it, or make a new identity."
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise PeerError(f"{self.key_file} holds no P-256 key. Make a new identity.")
        return key


@lru_cache(maxsize=4096)
def certificate_id(certificate: bytes) -> str:
    """The id in a certificate (PEM or DER): the hash of its public key.

    A renewed certificate over the same key has the same id.
    """
    return _id_of(_public(certificate))


def certificate_verifies(certificate: bytes, purpose: str, data: bytes, signature: bytes) -> bool:
    """Whether the holder of this certificate signed this data for this purpose."""
    try:
        _public(certificate).verify(signature, _purposed(purpose, data), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def spelled_id(id: str) -> str:
    """An id as people compare it: eight groups of seven characters.

    Each quarter of the id, 13 characters, is followed by a check character.
    """
    quarters = [id[start : start + 13] for start in range(0, 52, 13)]
    text = "".join(quarter + _check(quarter) for quarter in quarters)
    return "-".join(text[start : start + 7] for start in range(0, 56, 7))


def read_id(text: str) -> str:
    """The id that a person typed, with or without check characters. Refuses typing errors."""
    plain = text.upper().replace("-", "").replace(" ", "")
    if len(plain) == 56:
        quarters = [plain[start : start + 14] for start in range(0, 56, 14)]
        if all(
            set(quarter) <= set(_ALPHABET) and _check(quarter[:13]) == quarter[13]
            for quarter in quarters
        ):
            return "".join(quarter[:13] for quarter in quarters)
        raise PeerError(
            f"'{text}' is no peer id: a check character does not fit. Compare it with the original."
        )
    if len(plain) == 52 and set(plain) <= set(_ALPHABET):
        return plain
    raise PeerError(
        f"'{text}' is no peer id: it has {len(plain)} characters, "
        "not 52 or, with check characters, 56."
    )


def short_id(id: str) -> str:
    """The first seven characters of an id, enough to tell members apart in a log."""
    return id[:7]


def _public(certificate: bytes) -> ec.EllipticCurvePublicKey:
    try:
        if certificate.startswith(b"-----"):
            key = x509.load_pem_x509_certificate(certificate).public_key()
        else:
            key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise PeerError(
            "This is no readable certificate. Ask its owner for the file identity.crt again."
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PeerError("A peer's certificate must hold a P-256 key, and this one does not.")
    return key


def _id_of(key: ec.EllipticCurvePublicKey) -> str:
    spki = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b32encode(hashlib.sha256(spki).digest()).decode().rstrip("=")


def _purposed(purpose: str, data: bytes) -> bytes:
    return b"peerloom " + purpose.encode() + b"\0" + data


def _check(quarter: str) -> str:
    """The Luhn check character over 32 characters.

    It finds every single wrong character and almost every swap of neighbours.
    """
    total = 0
    for index, letter in enumerate(quarter):
        value = _ALPHABET.index(letter) * (1 + index % 2)
        total += value // 32 + value % 32
    return _ALPHABET[-total % 32]


def self_signed(key: ec.EllipticCurvePrivateKey, since: datetime.datetime | None = None) -> bytes:
    """A self-signed certificate of this key, named by the short id.

    It serves both ends of TLS and is valid for ten years from `since`, or from now.
    """
    now = since or datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    common_name = f"peerloom {short_id(_id_of(public))}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    forbidden = dict.fromkeys(_FORBIDDEN_USES, False)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(int.from_bytes(os.urandom(19), "big"))
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of peers differ
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, **forbidden), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
