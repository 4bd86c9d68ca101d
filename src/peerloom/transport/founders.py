"""Who may sign a roster: founders, how many of them, and how one set hands over to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..errors import PeerError
from .certificate import certificate_id, certificate_verifies, check_certificate
from .documents import canonical, digest, pem, sealed, text, texts, unsealed, whole
from .identity import Identity, short_id

__all__ = ["MOST_CHANGES", "MOST_FOUNDERS", "Head", "Signature", "believe", "follow"]

MOST_FOUNDERS = 16
MOST_CHANGES = 64
_FIELDS = {"format", "founder", "version", "founders", "threshold", "content"}


@dataclass(frozen=True)
class Signature:
    """A signature with the certificate of its key, since an id is only the key's hash."""

    certificate: str
    value: bytes

    @property
    def id(self) -> str:
        """Who signed."""
        return certificate_id(self.certificate.encode())

    @classmethod
    def of(cls, identity: Identity, purpose: str, data: bytes) -> Signature:
        """Sign data for one purpose."""
        return cls(identity.certificate.decode(), identity.sign(purpose, data))

    def holds(self, purpose: str, data: bytes) -> bool:
        """Whether this key signed this data for this purpose."""
        check_certificate(self.certificate)
        return certificate_verifies(self.certificate.encode(), purpose, data, self.value)

    def document(self) -> dict[str, str]:
        """The signature for a file."""
        return {"certificate": self.certificate, "signature": sealed(self.value)}

    @classmethod
    def read_all(cls, found: Any) -> tuple[Signature, ...]:
        """Signatures of a file. Nothing is verified yet; a fault raises one of `MALFORMED`."""
        if type(found) is not list or len(found) > 2 * MOST_FOUNDERS:
            raise ValueError("signatures are missing, or too many")
        read = []
        for each in found:
            if set(each) != {"certificate", "signature"}:
                raise ValueError("a signature has unknown fields")
            read.append(cls(pem(each["certificate"], 2000), unsealed(each["signature"])))
        return tuple(read)


@dataclass(frozen=True)
class Head:
    """What founders sign of a roster: its version, who may sign, and the hash of all of it.

    It is small, so that the heads at which the founders changed can travel with every later
    roster: whoever was away finds out step by step whom to believe now.
    """

    founder: str
    version: int
    founders: tuple[str, ...]
    threshold: int
    content: str
    signatures: tuple[Signature, ...] = ()
    older_form: bytes = field(default=b"", repr=False)
    """The signed bytes of a roster of format 1, which was signed whole."""

    @cached_property
    def signed_bytes(self) -> bytes:
        """What a founder puts its signature under."""
        return self.older_form or canonical(self._content())

    @cached_property
    def signers(self) -> frozenset[str]:
        """Who signed. Refuses a signature that does not hold, and two by one key."""
        ids = [signature.id for signature in self.signatures]
        if len(set(ids)) < len(ids):
            raise PeerError(
                f"Version {self.version} of the roster bears two signatures by one key. Do not "
                "use it."
            )
        for signature in self.signatures:
            self._check(signature)
        return frozenset(ids)

    def signed_by(self, id: str) -> bool:
        """Whether this key signed; the other signatures are not looked at."""
        found = [signature for signature in self.signatures if signature.id == id]
        for signature in found:
            self._check(signature)
        return bool(found)

    def _check(self, signature: Signature) -> None:
        if not signature.holds("roster", self.signed_bytes):
            raise PeerError(
                f"The signature of {short_id(signature.id)} on version {self.version} of the "
                "roster is wrong: it was changed on its way."
            )

    def lacks(self, by: Head) -> str:
        """What is missing until enough founders of `by` have signed this head; empty if nothing."""
        have = len(self.signers & set(by.founders))
        if have >= by.threshold:
            return ""
        names = ", ".join(short_id(id) for id in by.founders)
        return f"{have} of the {by.threshold} signatures that it needs of the founders {names}"

    def document(self) -> dict[str, Any]:
        """The head for a file."""
        return {
            "head": self._content(),
            "signatures": [signature.document() for signature in self.signatures],
        }

    @classmethod
    def read(cls, found: Any) -> Head:
        """A head of a file. Nothing is verified yet; a fault raises one of `MALFORMED`."""
        head = found["head"]
        if set(found) != {"head", "signatures"} or set(head) != _FIELDS or head["format"] != 2:
            raise ValueError("a change of founders has unknown fields or another format")
        return cls(
            text(head["founder"]),
            whole(head["version"]),
            texts(head["founders"]),
            whole(head["threshold"]),
            digest(head["content"]),
            Signature.read_all(found["signatures"]),
        )

    def _content(self) -> dict[str, Any]:
        return {
            "format": 2,
            "founder": self.founder,
            "version": self.version,
            "founders": list(self.founders),
            "threshold": self.threshold,
            "content": self.content,
        }


def follow(trusted: Head, steps: Iterable[Head]) -> None:
    """Refuse steps that do not lead on from founders that are trusted.

    Each step needs enough signatures of the founders before it and of those that it names: both
    sides agree to a change, and the new ones prove that they hold their keys.
    """
    for step in steps:
        for side in (trusted, step):
            lack = step.lacks(side)
            if lack:
                raise PeerError(
                    f"Version {step.version} of the roster bears {lack}. Founders sign it with: "
                    "peerloom peer roster sign FILE"
                )
        trusted = step


def believe(founder: str, steps: Sequence[Head]) -> None:
    """Refuse heads, oldest first, unless this founder signed one of them and all are in order.

    All of them must lead on from the federation's first founder, not only those since this one's
    signature: they are in no signed content, so whoever passes a roster on could put in others.
    """
    if any(step.signed_by(founder) for step in reversed(steps)):
        first = steps[0].founder
        return follow(Head(first, 0, (first,), 1, ""), steps)
    last = steps[-1]
    signers = ", ".join(short_id(signature.id) for signature in last.signatures) or "nobody"
    raise PeerError(
        f"Version {last.version} of this roster is signed by {signers}, not by "
        f"{short_id(founder)} who was expected."
    )
