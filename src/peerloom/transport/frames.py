"""The format of frames: a fixed prefix, a small header of known fields, and raw bytes.

    prefix  "PLM1" | u8 version | u8 kind | u16 zero | u32 header length | u64 body length
            | u64 digest
    header  a msgpack array: the fields of the kind, in order, each of its form
    body    what a channel carries (DATA, and MORE of it) or JSON (ROSTER, JOIN); no other kind
    seal    u64 digest after a body: computed while it is sent, so the first byte need not wait

Digests are xxh3 with the body's length as the seed. The prefix holds the digest of the header,
the seal that of header and body. Nothing in a frame names a type. What does not fit is refused
before memory is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import msgpack
import xxhash

from ..errors import PeerError
from .roster import LARGEST_ROSTER

__all__ = [
    "MAY_COME", "PREFIX_LENGTH", "SEGMENT", "VERSION", "FrameError", "Head", "Kind", "State",
    "begin", "check_seal", "decode", "digest_of", "encode", "read_header", "read_prefix", "seal",
]  # fmt: skip

_PREFIX = struct.Struct("!4sBBHIQQ")
_SEAL = struct.Struct("!Q")
_MAGIC = b"PLM1"
PREFIX_LENGTH = _PREFIX.size
VERSION = 6
SEGMENT = 1 << 18  # bytes of a body in one frame; answers pass between the frames of a long body
_LONGEST_HEADER = 4096
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


State = Literal["greeting", "expecting", "up", "leaving", "closed"]
_WHILE_UP = (
    Kind.DATA, Kind.MORE, Kind.SKIP, Kind.ACK, Kind.REFUSE,
    Kind.PING, Kind.PONG, Kind.ROSTER, Kind.BYE,
)  # fmt: skip
MAY_COME: dict[State, tuple[Kind, ...]] = {
    "greeting": (Kind.HELLO_OK, Kind.REFUSE),
    "expecting": (Kind.HELLO,),
    "up": _WHILE_UP,
    "leaving": _WHILE_UP,
    "closed": (),
}
"""What the other side may send in each state of a conversation; anything else ends it."""

_KINDS = {kind.value: kind for kind in Kind}


class FrameError(PeerError):
    """Bytes that are no frame of this protocol; `reason` is a fixed word, for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"A frame was refused: {reason}{f' ({detail})' if detail else ''}.")
        self.reason = reason


class Head(NamedTuple):
    """A checked prefix: what follows, and how much of it."""

    kind: Kind
    header_length: int
    body_length: int
    checksum: int  # of the header

    @property
    def seal_length(self) -> int:
        """Bytes of the seal: none without a body."""
        return _SEAL.size if self.body_length else 0


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_COUNT


def _word(value: Any) -> bool:
    return type(value) is str and len(value) <= 128 and value.isascii() and value.isprintable()


def _pair(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _count(value[0]) and _count(value[1])


def _flag(value: Any) -> bool:
    return type(value) is bool


def _mode(value: Any) -> bool:
    return value in ("ordered", "latest")


_ORDER = {"epoch": _count, "incarnation": _count, "seq": _count}
_SIDE = {  # of either side: its process, its dialling attempts, what it has of the other and wants
    "incarnation": _count,
    "process_nonce": _count,
    "attempt": _count,
    "last": _pair,
    "want": _count,
    "room": _count,
}
# fmt: off
_SCHEMA: Mapping[Kind, Mapping[str, Callable[[Any], bool]]] = {
    Kind.HELLO: {
        "versions": _pair, "run": _word, "agreement": _word, "roster": _word,
        "roster_version": _count, **_SIDE,
    },
    Kind.HELLO_OK: {"roster_version": _count, **_SIDE},
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
}
# fmt: on
_LARGEST_BODY = {
    Kind.DATA: SEGMENT,
    Kind.MORE: SEGMENT,
    Kind.ROSTER: LARGEST_ROSTER,
    Kind.JOIN: 65536,
}


def digest_of(packed: bytes, body_length: int) -> xxhash.xxh3_64:
    """The digest of a packed header; the caller adds the body."""
    return xxhash.xxh3_64(packed, seed=body_length)


def begin(
    kind: Kind, header: Mapping[str, Any], body_length: int = 0
) -> tuple[bytes, xxhash.xxh3_64]:
    """Prefix and header of a frame, and the digest to which the body is added before `seal`."""
    packed: bytes = msgpack.packb([header[name] for name in _SCHEMA[kind]])
    digest = digest_of(packed, body_length)
    size, checksum = len(packed), digest.intdigest()
    return _PREFIX.pack(_MAGIC, VERSION, kind, 0, size, body_length, checksum) + packed, digest


def seal(digest: xxhash.xxh3_64) -> bytes:
    """The bytes that follow a body."""
    return _SEAL.pack(digest.intdigest())


def encode(kind: Kind, header: Mapping[str, Any], body: bytes | memoryview = b"") -> bytes:
    """A whole frame."""
    start, digest = begin(kind, header, len(body))
    if not len(body):
        return start
    digest.update(body)
    return b"".join((start, body, seal(digest)))


def read_prefix(data: bytes | bytearray) -> Head:
    """Check the first 28 bytes; lengths are checked before anything is allocated for them."""
    magic, version, kind, zero, header_length, body_length, checksum = _PREFIX.unpack(data)
    if magic != _MAGIC:
        raise FrameError("not_a_frame")
    if version != VERSION:
        raise FrameError("protocol_version", f"{version}, this side speaks {VERSION}")
    known = _KINDS.get(kind)
    if zero or known is None:
        raise FrameError("unknown_kind")
    if header_length > _LONGEST_HEADER:
        raise FrameError("oversized", f"a header of {header_length} bytes")
    if body_length > _LARGEST_BODY.get(known, 0):
        raise FrameError("oversized", f"a body of {body_length} bytes on {known.name}")
    return Head(known, header_length, body_length, checksum)


def read_header(head: Head, data: bytes) -> dict[str, Any]:
    """The fields of a header: exactly those of its kind, each of its form."""
    kind = head.kind
    if digest_of(data, head.body_length).intdigest() != head.checksum:
        raise FrameError("checksum")
    try:
        values = msgpack.unpackb(
            data, raw=False,
            max_str_len=128, max_bin_len=0, max_array_len=16, max_map_len=0, max_ext_len=0,
        )  # fmt: skip
    except (ValueError, msgpack.exceptions.UnpackException):
        raise FrameError("bad_header", kind.name) from None
    schema = _SCHEMA[kind]
    if type(values) is not list or len(values) != len(schema):
        raise FrameError("bad_header", f"{kind.name} has other fields")
    header = dict(zip(schema, values, strict=True))
    for name, fits in schema.items():
        if not fits(header[name]):
            raise FrameError("bad_header", f"{kind.name}.{name}")
    return header


def check_seal(digest: xxhash.xxh3_64, found: bytes) -> None:
    """Compare the bytes that followed a body with its digest."""
    if seal(digest) != found:
        raise FrameError("checksum")


def decode(data: bytes) -> tuple[Kind, dict[str, Any], bytes]:
    """Decode a whole frame held in memory, with the checks of one from the network."""
    if len(data) < PREFIX_LENGTH:
        raise FrameError("cut_short")
    head = read_prefix(data[:PREFIX_LENGTH])
    middle = PREFIX_LENGTH + head.header_length
    end = middle + head.body_length
    if len(data) != end + head.seal_length:
        raise FrameError("cut_short")
    header = read_header(head, data[PREFIX_LENGTH:middle])
    if head.seal_length:
        digest = digest_of(data[PREFIX_LENGTH:middle], head.body_length)
        digest.update(data[middle:end])
        check_seal(digest, data[end:])
    return head.kind, header, data[middle:end]
