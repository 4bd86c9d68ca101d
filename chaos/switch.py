"""A bad network on one machine: a switch that delays, drops and throttles packets.

Every side gets a network namespace of its own with one TUN device. One thread in user space reads
the packets of all sides and forwards each as the line of its direction says. So partitions (also of
one direction), loss, delay and rate need only namespaces and TUN of the kernel. The namespaces have
no names: they vanish with the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .figures import SkippedError

__all__ = ["Line", "Switch"]

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_LARGEST_PACKET = 65536
_QUEUE = 0.5  # seconds of traffic that a throttled line may queue; routers drop the rest, too


@dataclass
class Line:
    """One direction between two sides; change it while packets flow."""

    loss: float = 0.0
    delay: float = 0.0  # seconds
    rate: float = 0.0  # bytes per second; 0 is no limit
    down: bool = False
    free_at: float = 0.0  # when what was sent so far has passed a throttled line
    passed: int = 0
    dropped: int = 0


class Switch:
    """`sides` namespaces, each with the address `address(side)`, and a line from each to each."""

    def __init__(self, sides: int, seed: int = 1, mtu: int = 1500) -> None:
        _refuse_if_not_permitted()
        self._draws, self._mtu = random.Random(seed), mtu
        self.lines = {pair: Line() for pair in itertools.permutations(range(sides), 2)}
        self._spaces, self._devices = list[int](), list[int]()
        self._over = threading.Event()
        try:
            for side in range(sides):
                self._add(side)
        except OSError as error:
            self._close()
            raise SkippedError(
                f"no network namespaces or TUN devices here ({error.strerror})"
            ) from None
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._close()

    @staticmethod
    def address(side: int) -> str:
        """Where a side can be reached by the others."""
        return f"10.88.0.{side + 1}"

    @contextlib.contextmanager
    def inside(self, side: int) -> Iterator[None]:
        """Here sockets are of that side, and so are all threads that are started, with theirs."""
        with _open("/proc/thread-self/ns/net") as home:
            _enter(self._spaces[side])
            try:
                yield
            finally:
                _enter(home)

    def _add(self, side: int) -> None:
        with _open("/proc/thread-self/ns/net") as home:
            _check(_libc.unshare(_CLONE_NEWNET))
            try:
                self._spaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
                self._devices.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
                fcntl.ioctl(
                    self._devices[-1],
                    _TUNSETIFF,
                    struct.pack("16sH14x", b"side", _IFF_TUN | _IFF_NO_PI),
                )
                for words in (
                    "link set lo up",  # or nobody there reaches its own address
                    f"address add {self.address(side)}/24 dev side",
                    f"link set side mtu {self._mtu} txqueuelen 5000 up",
                ):
                    subprocess.run(["ip", *words.split()], check=True, capture_output=True)
            finally:
                _enter(home)

    def _close(self) -> None:
        for handle in (*self._devices, *self._spaces):
            os.close(handle)

    # -- the packets

    def _run(self) -> None:
        poll, numbers = select.epoll(), itertools.count()
        for device in self._devices:
            poll.register(device, select.EPOLLIN)
        waiting: list[tuple[float, int, int, bytes]] = []
        while not self._over.is_set():
            pause = min(0.1, waiting[0][0] - time.monotonic()) if waiting else 0.1
            for device, _ in poll.poll(max(0.0, pause)):
                for packet in _packets(device):
                    due = self._due(self._devices.index(device), packet)
                    if due is not None:
                        heapq.heappush(waiting, (due, next(numbers), packet[19] - 1, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, side, packet = heapq.heappop(waiting)
                with contextlib.suppress(OSError):  # its queue is full: one more lost packet
                    os.write(self._devices[side], packet)

    def _due(self, source: int, packet: bytes) -> float | None:
        """When a packet arrives; None if it never does."""
        line = (
            self.lines.get((source, packet[19] - 1))
            if len(packet) >= 20 and packet[0] >> 4 == 4
            else None
        )
        if line is None:
            return None
        now = time.monotonic()
        full = line.rate and line.free_at - now > _QUEUE
        if line.down or full or self._draws.random() < line.loss:
            line.dropped += 1
            return None
        line.passed += 1
        if line.rate:
            line.free_at = max(line.free_at, now) + len(packet) / line.rate
            now = line.free_at
        return now + line.delay


def _packets(device: int) -> Iterator[bytes]:
    """Some of what waits there, so that no side starves the others."""
    for _ in range(64):
        try:
            yield os.read(device, _LARGEST_PACKET)
        except BlockingIOError:
            return


# Python has `os.setns` and `os.unshare` from 3.12 on.
_libc = ctypes.CDLL(None, use_errno=True)


def _check(code: int) -> None:
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _enter(space: int) -> None:
    _check(_libc.setns(space, _CLONE_NEWNET))


@contextlib.contextmanager
def _open(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _refuse_if_not_permitted() -> None:
    if not hasattr(select, "epoll") or os.geteuid() != 0:
        raise SkippedError("network namespaces need Linux and root")
    if shutil.which("ip") is None or not os.path.exists("/dev/net/tun"):  # noqa: PTH110
        raise SkippedError("the command ip and the device /dev/net/tun are needed")
