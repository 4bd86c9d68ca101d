"""A TLS stream whose calls wait: for the few exchanges that have a thread of their own."""

from __future__ import annotations

import select
import time

from .tls_stream import TlsStream

__all__ = ["BlockingStream"]


class BlockingStream:
    """Sends and receives over a TLS stream, with the calls of a socket; all of it until `late`."""

    def __init__(self, stream: TlsStream, late: float) -> None:
        self.stream, self._late = stream, late

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        left = memoryview(data)
        while left:
            left = left[self.stream.encrypt(left) :]
            while not self.stream.flush():
                self._wait(select.POLLOUT)

    def recv_into(self, into: memoryview) -> int:
        """Receive something."""
        while not (count := self.stream.read_into(into)):
            if not self.stream.pending:
                self._wait(select.POLLIN)
        return count

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self.stream.fileno(), event)
        if not poll.poll(1000 * max(0.0, self._late - time.monotonic())):
            raise TimeoutError("the other side takes too long")
