"""Connections that have proved nothing yet: how many there may be, and who makes room for whom."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Unfinished", "network_of", "oldest_of_most"]

V = TypeVar("V", bound=Hashable)


def network_of(address: str) -> str:
    """What one machine may choose addresses from: an IPv4 address, or a /64 of IPv6.

    >>> network_of("192.0.2.1"), network_of("2001:db8::1:2:3:4"), network_of("relay")
    ('192.0.2.1', '2001:db8::/64', 'relay')
    """
    if ":" not in address:
        return address
    return str(ipaddress.ip_network(f"{address}/64", strict=False))


def oldest_of_most(visitors: Mapping[V, str]) -> V:
    """The oldest of those visitors of whom most have come from one place; oldest come first.

    >>> oldest_of_most({1: "a", 2: "b", 3: "b", 4: "c"})
    2
    """
    counts = Counter(visitors.values())
    return max(visitors, key=lambda visitor: counts[visitors[visitor]])


class _Place(NamedTuple):
    came_from: str
    network: str
    known: bool
    since: float


class Unfinished(Generic[V]):
    """Visitors who have proved nothing yet: up to `most` strangers, and `most_of_one` of a network.

    One more takes the place of the oldest from the network that has most: at once if that one has
    more than its own will have, so that many from few addresses only displace each other; else
    once the oldest has had `turn` seconds, and before that it is refused, so that many who come
    at once from everywhere are served one after the other.

    Addresses that are `known` have room that strangers cannot take.
    """

    def __init__(
        self,
        most: int,
        most_of_one: int,
        turn: float,
        known: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._most, self._most_of_one, self._turn, self._known = most, most_of_one, turn, known
        self._places: dict[V, _Place] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, visitor: V) -> bool:
        return visitor in self._places

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._places))

    def enter(self, visitor: V, address: str, now: float) -> V | None:
        """Give a visitor a place; who has to go for that: nobody, an older one, or the visitor."""
        known = self._known(address)
        network = address if known else network_of(address)
        own = self._of(lambda place: place.network == network)
        strangers = self._of(lambda place: not place.known)
        out: V | None = None
        if len(own) >= self._most_of_one:
            out = next(iter(own))
        elif not known and len(strangers) >= self._most:
            out = oldest_of_most(strangers)
        if out is not None:
            place = self._places[out]
            has_more = list(strangers.values()).count(place.network) > len(own) + 1
            if not (has_more or now >= place.since + self._turn):
                return visitor
            del self._places[out]
        self._places[visitor] = _Place(address, network, known, now)
        return out

    def leave(self, visitor: V) -> str | None:
        """Give back a visitor's place; from which address it came, None if it had none."""
        place = self._places.pop(visitor, None)
        return None if place is None else place.came_from

    def older(self, than: float) -> Iterable[V]:
        """Visitors who came before this moment."""
        return [visitor for visitor, place in self._places.items() if place.since < than]

    def _of(self, wanted: Callable[[_Place], bool]) -> dict[V, str]:
        return {visitor: place.network for visitor, place in self._places.items() if wanted(place)}
