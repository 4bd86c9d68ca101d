"""What happens in a run, as values; an observer is called with each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Diverged", "Evaluated", "Event", "Finished", "Observer", "RoundDone", "Saved", "Started", "each_round"]


@dataclass(frozen=True)
class Event:
    """Something that happened after round t."""

    t: int


@dataclass(frozen=True)
class Started(Event):
    """A session begins, or goes on, after round t."""


@dataclass(frozen=True)
class RoundDone(Event):
    """Round t is done."""

    seconds: float
    """Wall time of the round."""


@dataclass(frozen=True)
class Evaluated(Event):
    """The models after round t were evaluated."""

    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint of round t is on disk."""

    seconds: float
    """Time it took to write."""


@dataclass(frozen=True)
class Diverged(Event):
    """In round t a model stopped being finite."""

    row: int
    text: str


@dataclass(frozen=True)
class Finished(Event):
    """The session ended after round t: rounds, delay, settled or asked."""

    why: str


Observer = Callable[[Event], None]
"""Called in the session's thread; must return at once. One that raises is logged and dropped."""


def each_round(call: Callable[[int], object]) -> Observer:
    """An observer that calls with the round, at the start and after every round."""

    def observer(event: Event) -> None:
        if isinstance(event, Started | RoundDone):
            call(event.t)

    return observer
