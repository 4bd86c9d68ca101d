"""Addresses from which members may come: those of the roster, with its names resolved."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable

from .roster import Roster, parse_address

__all__ = ["KnownAddresses", "same_form"]

_EVERY = 300.0  # seconds between two times that names are resolved


def same_form(address: str) -> str:
    """One text per machine: IPv4 that is mapped into IPv6 unfolded, without a zone.

    >>> same_form("::ffff:192.0.2.1"), same_form("fe80::1%eth0"), same_form("2001:DB8:0::1")
    ('192.0.2.1', 'fe80::1', '2001:db8::1')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


class KnownAddresses:
    """The addresses of the newest roster, in the form of `same_form`.

    A thread resolves names every five minutes and when the roster changes; the last answer stays
    while there is no new one. Until a name is resolved its member has the room of a stranger.
    """

    def __init__(self, roster: Callable[[], Roster]) -> None:
        self._roster = roster
        self._version = -1
        self._literal: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._resolved: dict[str, frozenset[str]] = {}
        self._wake, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="resolver", daemon=True)

    def start(self) -> None:
        """Resolve names from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End at the next opportunity; a name server that does not answer is not waited for."""
        self._over = True
        self._wake.set()

    def __contains__(self, address: str) -> bool:
        """Whether a member may come from this address, which is in the form of `same_form`."""
        if self._roster().version != self._version:
            self._look()
            self._wake.set()
        return address in self._literal or any(
            address in self._resolved.get(name, ()) for name in self._names
        )

    def _look(self) -> None:
        roster = self._roster()
        hosts = {parse_address(where)[0] for each in roster.members for where in each.addresses}
        forms = {host: same_form(host) for host in hosts}
        self._literal = frozenset(form for form in forms.values() if _is_literal(form))
        self._names = frozenset(host for host, form in forms.items() if not _is_literal(form))
        self._version = roster.version

    def _run(self) -> None:
        while not self._over:
            self._look()
            for name in self._names:
                self._resolve(name)
            self._wake.wait(_EVERY)
            self._wake.clear()

    def _resolve(self, name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # a label that no name can have
            return
        found = frozenset(same_form(str(where[0])) for *_, where in answers)
        self._resolved = {**self._resolved, name: found}


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
