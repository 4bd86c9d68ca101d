"""The format of frames: a fixed prefix, a small header of known fields, and raw bytes.

    prefix  "PLM1" | u8 version | u8 kind | u16 zero | u32 header length | u64 body length
            | u64 digest
    header  a msgpack array: the fields of the kind in this version, in order, each of its form
    body    what a channel carries (DATA, and MORE of it) or JSON (ROSTER, JOIN); no other kind
    seal    u64 digest after a body: computed while it is sent, so the first byte need not wait

Digests are xxh3 with the body's length as the seed. The prefix holds the digest of the header,
the seal that of header and body. Nothing in a frame names a type. What does not fit is refused
before memory is allocated for it.

A connection speaks one version, on which the greeting agrees. Greetings themselves are of the form
of version 7 for good: their prefix, and the fields they begin with.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack
import xxhash

from ..errors import PeerError
from .schemas import GREETING, GREETINGS, LARGEST_BODY, SCHEMAS, VERSION, Kind

__all__ = [
    "PREFIX_LENGTH", "FrameError", "Head",
    "begin", "check_seal", "decode", "digest_of", "encode", "read_header", "read_prefix", "seal",
]  # fmt: skip

_PREFIX = struct.Struct("!4sBBHIQQ")
_SEAL = struct.Struct("!Q")
_MAGIC = b"PLM1"
PREFIX_LENGTH = _PREFIX.size
_LONGEST_HEADER = 4096
_KINDS = {version: {kind.value: kind for kind in schema} for version, schema in SCHEMAS.items()}


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
    version: int

    @property
    def seal_length(self) -> int:
        """Bytes of the seal: none without a body."""
        return _SEAL.size if self.body_length else 0


def digest_of(packed: bytes, body_length: int) -> xxhash.xxh3_64:
    """The digest of a packed header; the caller adds the body."""
    return xxhash.xxh3_64(packed, seed=body_length)


def begin(
    kind: Kind, header: Mapping[str, Any], body_length: int = 0, version: int = VERSION
) -> tuple[bytes, xxhash.xxh3_64]:
    """Prefix and header of a frame, and the digest to which the body is added before `seal`."""
    packed: bytes = msgpack.packb([header[name] for name in SCHEMAS[version][kind]])
    digest = digest_of(packed, body_length)
    size, checksum = len(packed), digest.intdigest()
    return _PREFIX.pack(_MAGIC, version, kind, 0, size, body_length, checksum) + packed, digest


def seal(digest: xxhash.xxh3_64) -> bytes:
    """The bytes that follow a body."""
    return _SEAL.pack(digest.intdigest())


def encode(
    kind: Kind,
    header: Mapping[str, Any],
    body: bytes | memoryview = b"",
    version: int = VERSION,
) -> bytes:
    """A whole frame; fields that its version does not have are left out."""
    start, digest = begin(kind, header, len(body), version)
    if not len(body):
        return start
    digest.update(body)
    return b"".join((start, body, seal(digest)))


def read_prefix(data: bytes | bytearray, version: int = VERSION) -> Head:
    """Check the first 28 bytes; lengths are checked before anything is allocated for them."""
    magic, found, kind, zero, header_length, body_length, checksum = _PREFIX.unpack(data)
    if magic != _MAGIC:
        raise FrameError("not_a_frame")
    if found != version:
        raise FrameError("protocol_version", f"{found}, this side speaks {version}")
    known = _KINDS[version].get(kind)
    if zero or known is None:
        raise FrameError("unknown_kind")
    if header_length > _LONGEST_HEADER:
        raise FrameError("oversized", f"a header of {header_length} bytes")
    if body_length > LARGEST_BODY.get(known, 0):
        raise FrameError("oversized", f"a body of {body_length} bytes on {known.name}")
    return Head(known, header_length, body_length, checksum, version)


def read_header(head: Head, data: bytes) -> dict[str, Any]:
    """The fields of a header: those of its kind, each of its form; greetings may have more."""
    kind = head.kind
    if digest_of(data, head.body_length).intdigest() != head.checksum:
        raise FrameError("checksum")
    try:
        values = msgpack.unpackb(
            data, raw=False,
            max_str_len=128, max_bin_len=0, max_array_len=64, max_map_len=0, max_ext_len=0,
        )  # fmt: skip
    except (ValueError, msgpack.exceptions.UnpackException):
        raise FrameError("bad_header", kind.name) from None
    schema = SCHEMAS[head.version][kind]
    if type(values) is not list or len(values) < len(schema):
        raise FrameError("bad_header", f"{kind.name} has other fields")
    if len(values) > len(schema) and (kind not in GREETINGS or head.version < GREETING):
        raise FrameError("bad_header", f"{kind.name} has more fields")
    header = dict(zip(schema, values, strict=False))
    for name, fits in schema.items():
        if not fits(header[name]):
            raise FrameError("bad_header", f"{kind.name}.{name}")
    return header


def check_seal(digest: xxhash.xxh3_64, found: bytes) -> None:
    """Compare the bytes that followed a body with its digest."""
    if seal(digest) != found:
        raise FrameError("checksum")


def decode(data: bytes, version: int = VERSION) -> tuple[Kind, dict[str, Any], bytes]:
    """Decode a whole frame held in memory, with the checks of one from the network."""
    if len(data) < PREFIX_LENGTH:
        raise FrameError("cut_short")
    head = read_prefix(data[:PREFIX_LENGTH], version)
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
