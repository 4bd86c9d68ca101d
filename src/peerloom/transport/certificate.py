"""The certificate of a peer: its key, signed by itself, in one form and no other.

OpenSSL looks certificates up by their Subject. Where every Subject is the hash of the key, no
member can bear that of another.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from ..errors import PeerError

__all__ = [
    "certificate_id",
    "certificate_subject",
    "certificate_verifies",
    "check_certificate",
    "id_of",
    "purposed",
    "self_signed",
]

_YEARS = 10
_LONGEST = 2000  # characters; the usual form has about 700
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)


@lru_cache(maxsize=4096)
def certificate_id(certificate: bytes) -> str:
    """The id in a certificate (PEM or DER): the hash of its public key.

    A renewed certificate over the same key has the same id.
    """
    return id_of(_public(_read(certificate)))


def certificate_verifies(certificate: bytes, purpose: str, data: bytes, signature: bytes) -> bool:
    """Whether the holder of this certificate signed this data for this purpose."""
    try:
        _public(_read(certificate)).verify(
            signature, purposed(purpose, data), ec.ECDSA(hashes.SHA256())
        )
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def certificate_subject(certificate: str) -> bytes:
    """The Subject, by which OpenSSL looks a certificate up."""
    return _read(certificate.encode()).subject.public_bytes()


@lru_cache(maxsize=4096)
def check_certificate(certificate: str) -> None:
    """Refuse a certificate of another form than `self_signed` gives it.

    For one release, the form of rosters of format 1 is accepted, too.
    """
    if len(certificate) > _LONGEST:
        raise PeerError(
            f"the certificate has {len(certificate)} characters; those of peers have fewer than "
            f"{_LONGEST}"
        )
    found = _read(certificate.encode())
    key = _public(found)
    if found.public_bytes(serialization.Encoding.PEM).decode() != certificate:
        raise PeerError("the certificate's text holds more than the certificate")
    try:
        fault = _fault(found, key)
        if not fault:
            found.verify_directly_issued_by(found)
    except (*_UNREADABLE, InvalidSignature, x509.ExtensionNotFound, x509.DuplicateExtension):
        fault = "its own signature does not hold, or a part of it cannot be read"
    if fault:
        raise PeerError(f"the certificate is not as peers make them: {fault}")


def _fault(found: x509.Certificate, key: ec.EllipticCurvePublicKey) -> str:
    """What is wrong with a certificate's fields; empty if nothing is."""
    subject, id = found.subject.public_bytes(), id_of(key)
    older = subject == _named(f"peerloom {id[:7]}").public_bytes()
    if subject != found.issuer.public_bytes():
        return "its issuer is another than its Subject"
    if subject != _named(id).public_bytes() and not older:
        return "its Subject is not the id of its key"
    form = [(extension.oid, extension.critical) for extension in found.extensions]
    named = x509.SubjectKeyIdentifier.from_public_key(key)
    if not (_of_older_form(found) if older else form == [_IDENTIFIER]):
        return "it has other extensions than the key's identifier"
    if found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value != named:
        return "it names another key"
    return "" if isinstance(found.signature_hash_algorithm, hashes.SHA256) else "no SHA-256"


def id_of(key: ec.EllipticCurvePublicKey) -> str:
    """The id of a key: its SHA-256 in 52 characters."""
    spki = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b32encode(hashlib.sha256(spki).digest()).decode().rstrip("=")


def purposed(purpose: str, data: bytes) -> bytes:
    """What is signed, so that a signature is valid for one purpose only."""
    return b"peerloom " + purpose.encode() + b"\0" + data


def self_signed(key: ec.EllipticCurvePrivateKey, since: datetime.datetime | None = None) -> bytes:
    """A self-signed certificate of this key, named by the id.

    It serves both ends of TLS and is valid for ten years from `since`, or from now.
    """
    now = since or datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    name = _named(id_of(public))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(int.from_bytes(os.urandom(19), "big"))
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of peers differ
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


_IDENTIFIER = (ExtensionOID.SUBJECT_KEY_IDENTIFIER, False)
_OLDER = [
    (ExtensionOID.BASIC_CONSTRAINTS, True),
    (ExtensionOID.KEY_USAGE, True),
    (ExtensionOID.EXTENDED_KEY_USAGE, False),
    _IDENTIFIER,
]


def _of_older_form(found: x509.Certificate) -> bool:
    """Whether the extensions are those of the older form: a leaf for both ends of TLS."""
    form = [(extension.oid, extension.critical) for extension in found.extensions]
    if form != _OLDER:
        return False
    leaf = x509.BasicConstraints(ca=False, path_length=None)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    use = found.extensions.get_extension_for_class(x509.KeyUsage).value
    return (
        found.extensions.get_extension_for_class(x509.BasicConstraints).value == leaf
        and list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == both
        and use.digital_signature
        and not (use.key_cert_sign or use.crl_sign or use.key_agreement or use.key_encipherment)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _read(certificate: bytes) -> x509.Certificate:
    try:
        if certificate.startswith(b"-----"):
            return x509.load_pem_x509_certificate(certificate)
        return x509.load_der_x509_certificate(certificate)
    except _UNREADABLE:
        raise PeerError(
            "This is no readable certificate. Ask its owner for the file identity.crt again."
        ) from None


def _public(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    try:
        key = certificate.public_key()
    except _UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PeerError("A peer's certificate must hold a P-256 key, and this one does not.")
    return key
