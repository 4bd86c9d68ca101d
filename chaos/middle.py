"""A man in the middle of a TCP connection: relays, records, flips, cuts or falls silent."""

from __future__ import annotations

import random
import socket
import threading
import time

__all__ = ["Middle"]

_GREETING = 2000  # bytes that pass unharmed, so that most connections come about


class Middle:
    """Listens on a free port and relays to `target`, with faults in the forward direction."""

    def __init__(self, target: int, flip: float = 0.0, cut: float = 0.0, seed: int = 0) -> None:
        self.target, self.flip, self.cut, self._draws = target, flip, cut, random.Random(seed)
        self.flips = self.cuts = 0
        self.blocked = False
        self.recorded: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        self._listener.close()
        for sock in self._open:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self._open += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, forward: bool) -> None:
        passed = 0
        try:
            while data := bytearray(source.recv(65536)):
                while self.blocked:
                    time.sleep(0.01)
                if forward:
                    self.recorded.append(bytes(data))
                if forward and passed > _GREETING and self._draws.random() < self.cut:
                    self.cuts += 1
                    sink.sendall(data[: len(data) // 2])
                    break
                if forward and passed > _GREETING and self._draws.random() < self.flip:
                    self.flips += 1
                    data[self._draws.randrange(len(data))] ^= 1 << self._draws.randrange(8)
                passed += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            sock.close()
