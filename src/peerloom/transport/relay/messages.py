"""What a relay and a member say to each other, and how a connection to a relay begins.

    control   TLS 1.3 with both keys proved: messages of u32 length | msgpack array
    stream    "PLR1" | 32-byte token, bare or inside TLS; one byte comes back when the other half
              is there, and from then on the relay only copies
A newcomer proves no key yet, and asks for that with the name "guest" in TLS: its stream begins with
a token of its invitation. To a relay that has no roster, whoever comes first brings it.

A message is an array: its kind, then the fields of that kind, each of its form. Nothing names a
type, and what does not fit is refused before memory is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import msgpack

from ..frames import FrameError
from ..rosterfile import LARGEST_ROSTER

__all__ = [
    "CONTROL_ALPN", "GO", "GUEST", "KEEPALIVE", "SMALL", "STREAM_ALPN",
    "STREAM_MAGIC", "TOKEN", "VERSION", "Message", "MessageReader", "Word", "encode",
]  # fmt: skip

VERSION = 1
CONTROL_ALPN, STREAM_ALPN = "peerloom-relay/1", "peerloom-relay-stream/1"
STREAM_MAGIC = b"PLR1"
GUEST = "guest"
TOKEN = 32  # bytes, drawn at random, good once
GO = b"\x01"  # both halves are there
_LENGTH = struct.Struct("!I")
SMALL = 512  # bytes of any message but a roster
KEEPALIVE = 20.0  # seconds between two pings: a site's NAT must not forget the connection


class Word(IntEnum):
    """The kinds of messages."""

    HELLO = 1  # member: I speak these versions, and have this version of the roster
    READY = 2  # relay: you may dial
    WANT_ROSTER = 3  # relay: bring me yours
    ROSTER = 4  # member: here it is; relay: you are no member any more, as this says
    PING = 5
    PONG = 6
    DIAL = 7  # member: join me with this one
    GRANT = 8  # relay: open a stream with this token
    DENY = 9
    CALL = 10  # relay: this member wants to be joined with you; open a stream with this token
    PRESENT = 11  # relay: this neighbour of yours has come
    EXPECT = 12  # founder: whoever shows this token is a visitor with an invitation of mine


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _versions(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and all(map(_count, value))


def _word(value: Any) -> bool:
    return type(value) is str and len(value) <= 64 and value.isascii() and value.isprintable()


def _flag(value: Any) -> bool:
    return type(value) is bool


def _token(value: Any) -> bool:
    return type(value) is bytes and len(value) == TOKEN


def _document(value: Any) -> bool:
    return type(value) is bytes


_SCHEMA: Mapping[Word, Mapping[str, Callable[[Any], bool]]] = {
    Word.HELLO: {"versions": _versions, "roster_version": _count, "takes_calls": _flag},
    Word.READY: {"roster_version": _count},
    Word.WANT_ROSTER: {},
    Word.ROSTER: {"document": _document},
    Word.PING: {"n": _count},
    Word.PONG: {"n": _count},
    Word.DIAL: {"ref": _count, "to": _word},
    Word.GRANT: {"ref": _count, "token": _token},
    Word.DENY: {"ref": _count, "why": _word},
    Word.CALL: {"caller": _word, "token": _token},
    Word.PRESENT: {"peer": _word},
    Word.EXPECT: {"token": _token},
}
_WORDS = {word.value: word for word in Word}


class Message(NamedTuple):
    """One message that came: its kind and its fields."""

    word: Word
    fields: dict[str, Any]


def encode(word: Word, **fields: Any) -> bytes:
    """A message as bytes."""
    packed: bytes = msgpack.packb([int(word), *(fields[name] for name in _SCHEMA[word])])
    return _LENGTH.pack(len(packed)) + packed


class MessageReader:
    """Bytes to messages. A longer message than `longest` is refused before it is gathered."""

    def __init__(self, longest: int = SMALL) -> None:
        self.longest = longest
        self._held = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        """Take bytes that came."""
        self._held += data

    def next(self) -> Message | None:
        """The next whole message; None if more bytes are needed."""
        if len(self._held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._held)
        if length > self.longest:
            raise FrameError("oversized", f"a message of {length} bytes")
        end = _LENGTH.size + length
        if len(self._held) < end:
            return None
        packed = bytes(self._held[_LENGTH.size : end])
        del self._held[:end]
        return _decode(packed)


def _decode(packed: bytes) -> Message:
    try:
        values = msgpack.unpackb(
            packed, raw=False,
            max_str_len=64, max_bin_len=LARGEST_ROSTER, max_array_len=8, max_map_len=0,
            max_ext_len=0,
        )  # fmt: skip
    except (ValueError, msgpack.exceptions.UnpackException):
        raise FrameError("bad_header", "a relay's message") from None
    word = _WORDS.get(values[0]) if type(values) is list and values and _count(values[0]) else None
    if word is None:
        raise FrameError("unknown_kind", "a relay's message")
    schema = _SCHEMA[word]
    if len(values) != 1 + len(schema):
        raise FrameError("bad_header", f"{word.name} has other fields")
    fields = dict(zip(schema, values[1:], strict=True))
    for name, fits in schema.items():
        if not fits(fields[name]):
            raise FrameError("bad_header", f"{word.name}.{name}")
    if word is not Word.ROSTER and len(packed) > SMALL:
        raise FrameError("oversized", word.name)
    return Message(word, fields)
