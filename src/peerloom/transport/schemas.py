"""Kinds of frames: the fields of each in every version of the protocol, and when it may come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Literal

from .roster import LARGEST_ROSTER

__all__ = [
    "GREETING", "GREETINGS", "LARGEST_BODY", "MAY_COME", "OLDEST", "SCHEMAS", "SEGMENT", "VERSION",
    "Kind", "State",
]  # fmt: skip

VERSION = 7  # the newest version of the protocol that is spoken here
OLDEST = 6  # the oldest; with it sites are upgraded one by one
GREETING = 7  # the version in the prefix of greetings, in this version and in all later ones
SEGMENT = 1 << 18  # bytes of a body in one frame; answers pass between the frames of a long body
_LARGEST_COUNT = 2**63 - 1


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    HELLO_OK = 2
    DATA = 3
    SKIP = 4
    ACK = 5
    REFUSE = 6
    PING = 7
    PONG = 8
    MORE = 9
    BYE = 10
    ROSTER = 11
    JOIN = 12
    CARDS = 13


State = Literal["greeting", "expecting", "up", "leaving", "closed"]
_WHILE_UP = (
    Kind.DATA, Kind.MORE, Kind.SKIP, Kind.ACK, Kind.REFUSE,
    Kind.PING, Kind.PONG, Kind.ROSTER, Kind.CARDS, Kind.BYE,
)  # fmt: skip
MAY_COME: dict[State, tuple[Kind, ...]] = {
    "greeting": (Kind.HELLO_OK, Kind.REFUSE),
    "expecting": (Kind.HELLO,),
    "up": _WHILE_UP,
    "leaving": _WHILE_UP,
    "closed": (),
}
"""What the other side may send in each state of a conversation; anything else ends it."""


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_COUNT


def _word(value: Any) -> bool:
    return type(value) is str and len(value) <= 128 and value.isascii() and value.isprintable()


def _pair(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _count(value[0]) and _count(value[1])


def _pairs(value: Any) -> bool:
    return type(value) is list and len(value) <= 8 and all(map(_pair, value))


def _part(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and all(map(_count, value))


def _flag(value: Any) -> bool:
    return type(value) is bool


def _mode(value: Any) -> bool:
    return value in ("ordered", "latest")


_ORDER = {"epoch": _count, "incarnation": _count, "seq": _count}
# Of either side: its process, its dialling attempts, what it has of the other and wants.
_OLD_SIDE = {
    "incarnation": _count,
    "process_nonce": _count,
    "attempt": _count,
    "last": _pair,
    "want": _count,
    "room": _count,
}
_SIDE = {  # and lives of its folder before this process, what has come of a parcel
    **_OLD_SIDE,
    "parents": _pairs,
    "part": _part,
}
# fmt: off
_Schema = Mapping[str, Callable[[Any], bool]]
_LATEST: Mapping[Kind, _Schema] = {
    # Greetings may be longer: what a later version adds at their end is not looked at.
    Kind.HELLO: {
        "versions": _pair, "run": _word, "agreement": _word, "roster": _word,
        "roster_version": _count, **_SIDE,
    },
    Kind.HELLO_OK: {"version": _count, "roster_version": _count, **_SIDE},
    Kind.DATA: {
        "channel": _count, "round": _count, "mix_index": _count, "mode": _mode, "ask": _flag,
        "length": _count, **_ORDER,
    },
    Kind.MORE: {"seq": _count, "at": _count},
    Kind.SKIP: {"round": _count, **_ORDER},
    Kind.ACK: {"seq": _count, "result": _word, "room": _count},
    Kind.REFUSE: {"seq": _count, "why": _word, "room": _count},
    Kind.PING: {"stamp": _count},
    Kind.PONG: {"stamp": _count, "room": _count},
    Kind.BYE: {"why": _word},
    Kind.ROSTER: {},
    Kind.JOIN: {},
    Kind.CARDS: {},
}
SCHEMAS: Mapping[int, Mapping[Kind, _Schema]] = {
    7: _LATEST,
    6: {
        **{kind: fields for kind, fields in _LATEST.items() if kind is not Kind.CARDS},
        Kind.HELLO: {
            "versions": _pair, "run": _word, "agreement": _word, "roster": _word,
            "roster_version": _count, **_OLD_SIDE,
        },
        Kind.HELLO_OK: {"roster_version": _count, **_OLD_SIDE},
    },
}
"""The fields of every kind of frame, by version. A kind that a version lacks is unknown to it."""

GREETINGS = (Kind.HELLO, Kind.HELLO_OK)
"""Kinds that may have more fields than are known here."""

# fmt: on
LARGEST_BODY = {
    Kind.DATA: SEGMENT,
    Kind.MORE: SEGMENT,
    Kind.ROSTER: LARGEST_ROSTER,
    Kind.JOIN: 65536,
    Kind.CARDS: 131072,
}
