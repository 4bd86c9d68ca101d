"""Connections that come to a relay: how many may be unfinished, and how each begins."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ..frames import FrameError
from ..known_addresses import same_form
from ..tls_stream import TlsStream
from ..unfinished import Unfinished
from .limits import Limits
from .messages import GUEST, STREAM_MAGIC, TOKEN

__all__ = ["Acceptor", "Visitor", "ready"]

_BURST = 32  # connections accepted in a row
_TLS = 0x16  # the first byte of a TLS connection
_LONGEST_HELLO = 4096
# As the extension with the server's name has it: its type, its length, the name.
_GUEST_NAME = b"\x00" + len(GUEST).to_bytes(2, "big") + GUEST.encode()


@dataclass(eq=False)
class Visitor:
    """A connection that has been accepted: plain at first, or TLS."""

    sock: socket.socket
    address: str
    stream: TlsStream | None = None

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        data = bytearray(count)
        done = 0
        while done < count:
            got = self._read_into(memoryview(data)[done:])
            if not got:
                await ready(self.sock.fileno(), select.POLLIN)
            done += got
        return bytes(data)

    def _read_into(self, view: memoryview) -> int:
        if self.stream is not None:
            return self.stream.read_into(view)
        try:
            count = self.sock.recv_into(view)
        except BlockingIOError:
            return 0
        if not count:
            raise ConnectionError("the other side closed the connection")
        return count

    async def wrap(self, context: ssl.SSLContext) -> TlsStream:
        """Begin TLS, and prove both keys."""
        self.stream = stream = TlsStream(self.sock, context, server_side=True)
        for event in stream.handshake_steps():
            await ready(self.sock.fileno(), event)
        return stream

    async def speaks_tls(self) -> bool:
        """Whether its first byte begins TLS."""
        await ready(self.sock.fileno(), select.POLLIN)
        return self.sock.recv(1, socket.MSG_PEEK)[:1] == bytes([_TLS])

    async def is_guest(self) -> bool:
        """Whether its first record of TLS asks for the name of guests.

        OpenSSL can choose another certificate by that name, but not whether the other side must
        show one; so the record is looked at before it is read.
        """
        while len(start := self.sock.recv(_LONGEST_HELLO, socket.MSG_PEEK)) < _LONGEST_HELLO:
            if len(start) >= 5 and len(start) >= 5 + int.from_bytes(start[3:5], "big"):
                break
            await asyncio.sleep(0.02)  # the rest is under way
        return _GUEST_NAME in start

    async def token(self) -> bytes:
        """The token with which a stream begins. Refuses anything else."""
        if await self.read(len(STREAM_MAGIC)) != STREAM_MAGIC:
            raise FrameError("not_a_frame")
        return await self.read(TOKEN)


async def ready(fileno: int, event: int) -> None:
    """Wait until a socket can be read (POLLIN) or written (POLLOUT)."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    add, remove = (
        (loop.add_reader, loop.remove_reader)
        if event == select.POLLIN
        else (loop.add_writer, loop.remove_writer)
    )
    add(fileno, done)
    try:
        await future
    finally:
        remove(fileno)


class Acceptor:
    """Accepts connections, and limits how many may be unfinished.

    `greet` serves one until it has proved what it is. `known` gives the addresses of members that
    are here: strangers cannot take their room.
    """

    def __init__(
        self,
        listeners: list[socket.socket],
        limits: Limits,
        greet: Callable[[Visitor], Coroutine[Any, Any, None]],
        known: Callable[[], set[str]],
        refuse: Callable[[str], None],
    ) -> None:
        self._listeners, self._greet, self._refuse = listeners, greet, refuse
        self.unfinished = Unfinished[Visitor](
            limits.unfinished, limits.per_address, limits.handshake / 10,
            lambda address: address in known(),
        )  # fmt: skip
        self._tasks: dict[Visitor, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()

    def open(self) -> None:
        """Begin to accept."""
        for listener in self._listeners:
            listener.setblocking(False)
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    async def close(self) -> None:
        """Stop accepting, and end everything unfinished."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def finished(self, visitor: Visitor) -> None:
        """Give back the room of a visitor that has proved what it is."""
        self.unfinished.leave(visitor)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_BURST):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # for example: no file descriptor free
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(0.25, self._again, listener)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._take_in(Visitor(sock, same_form(address[0])))

    def _take_in(self, visitor: Visitor) -> None:
        """Serve a visitor, in place of another one if there is no room."""
        # Counted here, not when the task first runs: a burst would pass the limit.
        out = self.unfinished.enter(visitor, visitor.address, time.monotonic())
        if out is not None:
            self._refuse("handshake_flood")
        if out is visitor:
            visitor.sock.close()
            return
        if out is not None and out in self._tasks:
            self._tasks[out].cancel()
        task = self._tasks[visitor] = asyncio.create_task(self._greet(visitor))
        task.add_done_callback(lambda task: self._over(visitor, task))

    def _over(self, visitor: Visitor, task: asyncio.Task[None]) -> None:
        self._tasks.pop(visitor, None)
        if task.cancelled():  # perhaps before it began, so that it could close nothing
            visitor.sock.close()

    def _again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener.fileno(), self._accept, listener)
