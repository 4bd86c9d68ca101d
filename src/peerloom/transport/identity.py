"""A peer's identity: a P-256 key made on its own machine, and a self-signed certificate.

The id is the hash of the public key, so no authority is needed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ..errors import PeerError
from .certificate import certificate_id, id_of, purposed, self_signed
from .files import refuse_loose_permissions, write_whole

__all__ = [
    "LENGTH",
    "Identity",
    "finish_replacement",
    "plain_id",
    "read_id",
    "replace_identity",
    "short_id",
    "spelled_id",
]

LENGTH = 52
"""Characters of an id without check characters."""
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_KEY, _CERTIFICATE = "identity.key", "identity.crt"


@dataclass(frozen=True)
class Identity:
    """A peer's key and certificate in its folder, which the private key never leaves."""

    folder: Path
    id: str
    certificate: bytes
    """PEM, public."""

    @classmethod
    def create(cls, folder: Path) -> Identity:
        """Make a new key and its self-signed certificate. Refuses to replace a key.

        The key comes last: a folder without it has no identity yet, and `create` may be repeated.
        """
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
        write_whole(folder / _CERTIFICATE, self_signed(key))
        write_whole(folder / _KEY, secret, mode=0o600)
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Identity:
        """Read the identity of a folder.

        Refuses missing files, a key that others may read, and a certificate of another key.
        """
        if not (folder / _KEY).is_file():
            raise PeerError(
                f"{folder / _KEY} is missing. "
                f"Make an identity first: peerloom peer init NAME --folder {folder}"
            )
        if not (folder / _CERTIFICATE).is_file():
            raise PeerError(
                f"{folder / _CERTIFICATE} is missing, and the key alone is no identity. Restore it "
                "from a backup, or take it from the roster of another site."
            )
        refuse_loose_permissions(folder / _KEY)
        certificate = (folder / _CERTIFICATE).read_bytes()
        identity = cls(folder, certificate_id(certificate), certificate)
        if id_of(identity._private().public_key()) != identity.id:
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
        return self._private().sign(purposed(purpose, data), ec.ECDSA(hashes.SHA256()))

    def _private(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise PeerError(
                f"{self.key_file} holds no readable key. Restore it, or make a new identity."
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise PeerError(f"{self.key_file} holds no P-256 key. Make a new identity.")
        return key


def replace_identity(folder: Path) -> None:
    """Let the key in the folder `next` take the place of the folder's own, which is lost.

    A crash in between is made good by `finish_replacement`.
    """
    (folder / "next" / _KEY).replace(folder / _KEY)
    finish_replacement(folder)


def finish_replacement(folder: Path) -> None:
    """Move the certificate after its key, if a crash came between the two.

    One of another key stays where it is: the folder's own would be lost.
    """
    waiting = folder / "next"
    if (waiting / _KEY).exists() or not (waiting / _CERTIFICATE).is_file():
        return
    with suppress(PeerError, FileNotFoundError):  # another process may have done it meanwhile
        certificate = (waiting / _CERTIFICATE).read_bytes()
        moved = Identity(folder, certificate_id(certificate), certificate)
        if id_of(moved._private().public_key()) == moved.id:
            (waiting / _CERTIFICATE).replace(folder / _CERTIFICATE)
            with suppress(OSError):  # somebody put more into it
                waiting.rmdir()


def spelled_id(id: str) -> str:
    """An id as people compare it: eight groups of seven characters.

    Each quarter of the id, 13 characters, is followed by a check character.
    """
    quarters = [id[start : start + 13] for start in range(0, 52, 13)]
    text = "".join(quarter + _check(quarter) for quarter in quarters)
    return "-".join(text[start : start + 7] for start in range(0, 56, 7))


def read_id(text: str) -> str:
    """The id that a person typed, with or without check characters. Refuses typing errors."""
    plain = plain_id(text)
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


def plain_id(text: str) -> str:
    """What a person typed as an id, without groups and in capital letters."""
    return text.upper().replace("-", "").replace(" ", "")


def short_id(id: str) -> str:
    """The first group of an id as people compare it, enough to tell members apart in a log."""
    return id[:7]


def _check(quarter: str) -> str:
    """The Luhn check character over 32 characters.

    It finds every single wrong character and almost every swap of neighbours.
    """
    total = 0
    for index, letter in enumerate(quarter):
        value = _ALPHABET.index(letter) * (1 + index % 2)
        total += value // 32 + value % 32
    return _ALPHABET[-total % 32]
