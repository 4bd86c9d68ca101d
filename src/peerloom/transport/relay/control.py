"""A member's control connection, as the relay holds it."""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from typing import Any

from ..buckets import Bucket
from ..frames import FrameError
from ..tls_stream import TlsStream
from .accepting import ready
from .limits import Limits
from .messages import Message, MessageReader, Word, encode

__all__ = ["Control"]

_CHUNK = 1 << 14


class Control:
    """Messages with one member. What it does not read is bounded: who does not listen is cut."""

    def __init__(
        self, stream: TlsStream, who: str, address: str, limits: Limits, neighbours: int = 0
    ) -> None:
        self._stream, self.who, self.address, self._limits = stream, who, address, limits
        self._reader, self._buffer = MessageReader(), memoryview(bytearray(_CHUNK))
        self._loop = asyncio.get_running_loop()
        rate = limits.messages + 2 * neighbours
        self._budget = Bucket(rate, 10 * rate)
        self._writing = self._closed = self._dismissed = False
        self._left = memoryview(b"")  # of a long message, not encrypted yet

    async def next(self, longest: int) -> Message:
        """The next message, within the limits of silence and of haste.

        Who is dismissed is not heard: then this only ends with the connection.
        """
        self._reader.longest = longest
        while True:
            async with asyncio.timeout(self._limits.silence):
                message = await self._read()
            if not self._budget.spare(1, time.monotonic()):
                raise FrameError("too_fast", "messages")
            await asyncio.sleep(0)  # a member that says much lets others have their turn
            if not self._dismissed:
                return message

    async def _read(self) -> Message:
        while (message := self._reader.next()) is None:
            count = self._stream.read_into(self._buffer)
            if count:
                self._reader.feed(self._buffer[:count])
            elif not self._stream.pending:
                await ready(self._stream.fileno(), select.POLLIN)
        return message

    def send(self, word: Word, **fields: Any) -> None:
        """Send a message; never waits, and never raises."""
        if self._closed or self._dismissed:
            return
        if self._stream.waiting > self._limits.unread:
            self.cut()
            return
        self._stream.encrypt(memoryview(encode(word, **fields)))
        self._flush()

    def dismiss(self, message: bytes, seconds: float) -> None:
        """Send a last message, of any length, and cut the connection after so many seconds.

        The other side may close it before. What it says meanwhile is not heard.
        """
        if not self._closed and not self._dismissed:
            self._dismissed, self._left = True, memoryview(message)
            self._loop.call_later(seconds, self.cut)
            self._flush()

    def _flush(self) -> None:
        try:
            while (gone := self._stream.flush()) and self._left:
                self._left = self._left[self._stream.encrypt(self._left) :]
        except OSError:
            self.cut()
            return
        if gone == self._writing:
            self._writing = not gone
            if gone:
                self._loop.remove_writer(self._stream.fileno())
            else:
                self._loop.add_writer(self._stream.fileno(), self._flush)

    def cut(self) -> None:
        """End the connection; whoever waits for a message is told so."""
        if not self._closed:
            self._stop_writing()
            self._stream.cut()

    def close(self) -> None:
        """Close the socket, once nobody waits for a message."""
        if not self._closed:
            self._stop_writing()
            self._closed = True
            self._stream.close()

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            with contextlib.suppress(ValueError):
                self._loop.remove_writer(self._stream.fileno())
