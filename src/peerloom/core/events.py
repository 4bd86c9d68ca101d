"""What happens in a run, as values; an observer is called with each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "Alarm",
    "Diverged",
    "Evaluated",
    "Event",
    "Finished",
    "Late",
    "LinkDown",
    "LinkUp",
    "LinksOpened",
    "Measured",
    "Observer",
    "Observers",
    "PeerEvent",
    "Refused",
    "RelayChanged",
    "RosterChanged",
    "RoundDone",
    "RoundEvent",
    "Saved",
    "Started",
    "each_round",
]

_log = logging.getLogger("peerloom.events")


@dataclass(frozen=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True)
class RoundEvent(Event):
    """Something that happened after round t."""

    t: int


@dataclass(frozen=True)
class Started(RoundEvent):
    """A session begins, or goes on, after round t."""


@dataclass(frozen=True)
class RoundDone(RoundEvent):
    """Round t is done."""

    seconds: float
    """Wall time of the round."""


@dataclass(frozen=True)
class Evaluated(RoundEvent):
    """The models after round t were evaluated."""

    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Saved(RoundEvent):
    """A checkpoint of round t is on disk."""

    seconds: float
    """Time it took to write."""


@dataclass(frozen=True)
class Diverged(RoundEvent):
    """In round t a model stopped being finite."""

    row: int
    text: str


@dataclass(frozen=True)
class Finished(RoundEvent):
    """The session ended after round t: rounds, delay, settled, paused or asked."""

    why: str


@dataclass(frozen=True)
class LinksOpened(Event):
    """A peer has opened its links for a run of so many rounds; `incarnation` counts its starts."""

    run: str
    incarnation: int
    rounds: int


@dataclass(frozen=True)
class PeerEvent(Event):
    """Something that a peer notes between rounds, about the peer with this id or about nobody."""

    kind: ClassVar[str] = ""
    """One word for machines, as the log has it."""
    peer: str
    text: str
    """One line for people."""
    way: str = ""
    """How its connection goes, where that is news."""


@dataclass(frozen=True)
class LinkUp(PeerEvent):
    """A link works."""

    kind = "up"


@dataclass(frozen=True)
class LinkDown(PeerEvent):
    """A link stopped working."""

    kind = "down"


@dataclass(frozen=True)
class Late(PeerEvent):
    """A neighbour did not send in time."""

    kind = "late"


@dataclass(frozen=True)
class Refused(PeerEvent):
    """A connection or a message was refused."""

    kind = "refused"


@dataclass(frozen=True)
class Alarm(PeerEvent):
    """Something that an operator should look at, such as a second process with one identity."""

    kind = "alarm"


@dataclass(frozen=True)
class RosterChanged(PeerEvent):
    """A newer roster is known."""

    kind = "roster"


@dataclass(frozen=True)
class RelayChanged(PeerEvent):
    """A relay was reached, or lost."""

    kind = "relay"


@dataclass(frozen=True)
class DiskNeed(PeerEvent):
    """How much disk the run may need, told before it begins."""

    kind = "disk"


@dataclass(frozen=True)
class Measured(PeerEvent):
    """Resources were measured before the first round."""

    kind = "measured"


Observer = Callable[[Event], None]
"""Called in the session's thread; must return at once. One that raises is logged and dropped."""


class Observers:
    """Several observers as one; one that raises is logged and told nothing more."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def __call__(self, event: Event) -> None:
        """Tell all of them."""
        for observer in list(self._observers):
            try:
                observer(event)
            except Exception:  # noqa: BLE001  (whatever it raises, the run goes on)
                _log.exception("An observer failed at %s and is told nothing more.", event)
                self._observers.remove(observer)


def each_round(call: Callable[[int], object]) -> Observer:
    """An observer that calls with the round, at the start and after every round."""

    def observer(event: Event) -> None:
        if isinstance(event, Started | RoundDone):
            call(event.t)

    return observer
