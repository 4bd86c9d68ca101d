"""What a roster lists: members, links and relays, with the form of names and addresses."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ..errors import PeerError
from .certificate import certificate_id

__all__ = ["Link", "Member", "Relay", "check_name", "parse_address"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True)
class Member:
    """One peer: its name, the certificate that TLS pins, the addresses where it listens.

    Addresses are of the form 'host:port'. `was` is the id that this member had before its key was
    replaced; empty if it never was.
    """

    name: str
    certificate: str
    addresses: tuple[str, ...] = ()
    was: str = ""

    @property
    def id(self) -> str:
        """The peer's id: the hash of its public key."""
        return certificate_id(self.certificate.encode())


@dataclass(frozen=True)
class Relay:
    """A relay through which members reach each other that cannot be dialled.

    Its certificate is pinned like a member's; addresses are of the form 'host:port'.
    """

    name: str
    certificate: str
    addresses: tuple[str, ...]

    @property
    def id(self) -> str:
        """The relay's id: the hash of its public key."""
        return certificate_id(self.certificate.encode())


@dataclass(frozen=True)
class Link:
    """A directed link between two members, by id.

    `a` is the receiver's weight (pull), `b` the sender's (push).
    """

    source: str
    target: str
    a: float = 0.0
    b: float = 0.0
    layer: str = "peers"


def check_name(name: str) -> None:
    """Refuse a name that is not safe in rosters, logs and file names."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PeerError(
            f"'{name!s:.80}' cannot name a member. Use lower-case letters, digits, dots and "
            "dashes, at most 63."
        )


def parse_address(text: str) -> tuple[str, int]:
    """'host:port' as a pair; IPv6 addresses stand in brackets.

    >>> parse_address("[::1]:7400")
    ('::1', 7400)
    """
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not is_number or not 0 < int(port) < 65536 or not _is_host(host):
        raise PeerError(
            f"'{text!s:.80}' is no address. Write host:port, for example peer.example.org:7400."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_host(text: str) -> bool:
    """Whether a resolver can be asked for it: it fails on labels that are empty or too long."""
    if text.startswith("[") and text.endswith("]"):
        try:
            ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            return False
        return text.isascii()
    return len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split("."))
