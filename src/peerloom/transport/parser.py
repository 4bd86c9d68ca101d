"""Bytes to frames, without copies of large bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import xxhash

from .frames import PREFIX_LENGTH, Head, check_seal, digest_of, read_header, read_prefix
from .schemas import VERSION, Kind

__all__ = ["Frame", "Parser"]

_RECORD = 16384  # bytes that TLS hands over at a time, at most
_NOTHING = memoryview(b"")

Admit = Callable[[Head, dict[str, Any]], "memoryview | None"]


class Frame(NamedTuple):
    """A whole frame, checked; `body` is empty if it was not admitted."""

    kind: Kind
    header: dict[str, Any]
    body: memoryview
    size: int  # of the body, here or not


class Parser:
    """Put what comes into `buffer()`, call `advance(count)`, then `next()` until it is None.

    When the header of a frame with a body is known, `admit` is asked for memory: exactly as long
    as the body, or None to read past it. It may raise `FrameError`, as `next` does for bytes that
    are no frame. `version` is the one that both sides speak; it may change between two frames.
    """

    def __init__(self, admit: Admit, version: int = VERSION) -> None:
        self._admit, self.version = admit, version
        self._ahead, self._from, self._upto = memoryview(bytearray(2 * _RECORD)), 0, 0
        self._direct = False
        self._begin()

    def _begin(self) -> None:
        self._head: Head | None = None
        self._header: dict[str, Any] | None = None
        self._digest: xxhash.xxh3_64 | None = None  # None: the body is read past
        self._body, self._missing = _NOTHING, 0  # and how many bytes of it are still to come

    def buffer(self) -> memoryview:
        """Where to put what comes next; within a large body, directly there."""
        self._direct = self._from == self._upto and bool(self._body) and self._missing >= _RECORD
        if self._direct:
            return self._body[len(self._body) - self._missing :]
        if self._from == self._upto:
            self._from = self._upto = 0
        elif len(self._ahead) - self._upto < _RECORD:
            kept = bytes(self._ahead[self._from : self._upto])
            self._ahead[: len(kept)] = kept
            self._from, self._upto = 0, len(kept)
        return self._ahead[self._upto :]

    def advance(self, count: int) -> None:
        """Note that `count` bytes were put into the buffer."""
        if self._direct:
            self._missing -= count
        else:
            self._upto += count

    def next(self) -> Frame | None:
        """The next whole frame, if any; its effect may decide whether the next is admitted."""
        if self._head is None:
            prefix = self._taken(PREFIX_LENGTH)
            if prefix is None:
                return None
            self._head = read_prefix(prefix, self.version)
        if self._header is None:
            packed = self._taken(self._head.header_length)
            if packed is None:
                return None
            self._header = read_header(self._head, packed)
            self._expect_body(self._head, self._header, packed)
        self._fill()
        if self._missing:
            return None
        if self._head.seal_length:
            mark = self._taken(self._head.seal_length)
            if mark is None:
                return None
            if self._digest is not None:
                self._digest.update(self._body)
                check_seal(self._digest, mark)
        frame = Frame(self._head.kind, self._header, self._body, self._head.body_length)
        self._begin()
        return frame

    def read_past(self) -> None:
        """Let go of the memory for the body that is coming; what is left of it is read past."""
        self._body, self._digest = _NOTHING, None

    def _expect_body(self, head: Head, header: dict[str, Any], packed: bytes) -> None:
        self._missing = head.body_length
        if head.body_length:
            into = self._admit(head, header)
            if into is not None:
                assert len(into) == head.body_length
                self._body, self._digest = into, digest_of(packed, head.body_length)

    def _fill(self) -> None:
        """Move what was read ahead into the body."""
        here = min(self._missing, self._upto - self._from)
        if here and self._body:
            start = len(self._body) - self._missing
            self._body[start : start + here] = self._ahead[self._from : self._from + here]
        self._from, self._missing = self._from + here, self._missing - here

    def _taken(self, count: int) -> bytes | None:
        if self._upto - self._from < count:
            return None
        self._from += count
        return bytes(self._ahead[self._from - count : self._from])
