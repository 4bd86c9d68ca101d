"""Proxies between peers that count bytes, and cut one connection half-way."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Self

__all__ = ["CuttingProxy"]

_BUFFER = 1 << 18  # bytes on their way, so that few are lost with a connection


class CuttingProxy:
    """Passes connections on from each address to a port of this machine.

    With `half`, the first connection that has carried so many bytes one way is cut, once.
    """

    def __init__(self, ways: Sequence[tuple[tuple[str, int], int]], half: int | None) -> None:
        self.received = self.cuts = 0
        self._half, self._lock = half, threading.Lock()
        self._sockets = list[socket.socket]()
        self._ways = ways

    def __enter__(self) -> Self:
        for address, port in self._ways:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            listener.bind(address)
            listener.listen()
            self._sockets.append(listener)
            self._start(self._accept, listener, port)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            _close(each)

    def _start(self, target: object, *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            other = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            try:
                other.connect(("127.0.0.1", port))
            except OSError:  # the peer does not listen yet
                _close(one)
                _close(other)
                continue
            with self._lock:
                self._sockets += [one, other]
            self._start(self._pass_on, one, other)
            self._start(self._pass_on, other, one)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        buffer, carried = memoryview(bytearray(_BUFFER)), 0
        with contextlib.suppress(OSError):
            while count := source.recv_into(buffer):
                carried += count
                with self._lock:
                    self.received += count
                    cut = self._half is not None and not self.cuts and carried >= self._half
                    self.cuts += cut
                if cut:
                    break
                target.sendall(buffer[:count])
        _close(source)
        _close(target)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
