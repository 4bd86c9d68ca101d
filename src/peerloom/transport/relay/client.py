"""A member's connection with one relay: it dials through it, and is called through it."""

from __future__ import annotations

import contextlib
import itertools
import logging
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import SystemRandom
from typing import Protocol

from ...errors import PeerError
from ..blocking_stream import BlockingStream
from ..buckets import Bucket
from ..frames import FrameError
from ..identity import Identity
from ..members import Relay
from ..outbound import Outbound, WayError
from ..reasons import bounded
from ..roster import Roster
from ..rosterfile import LARGEST_ROSTER
from ..tls import reason_of
from ..tls_stream import Carrier, TlsStream, cut
from .dialling import client_context, connect_tls, open_stream
from .messages import (
    CONTROL_ALPN,
    KEEPALIVE,
    SMALL,
    STREAM_ALPN,
    VERSION,
    Message,
    MessageReader,
    Word,
    encode,
)  # fmt: skip

__all__ = ["RelayClient", "Service"]

_jitter = SystemRandom()
_log = logging.getLogger("peerloom.transport")
_PAUSES = 0.05, 0.7  # seconds before a relay is dialled again: the first, the longest
_STEADY = 5.0  # seconds after which a relay that is lost is dialled again at once
_LONGEST_PAUSE = 10.0  # before one that lets us in and hangs up is dialled again
_ANSWER = 5.0  # seconds in which a relay answers
_CALLS = 8  # streams being opened at one time, of one neighbour, and of all others
_MESSAGES = 200.0, 2000.0  # of a relay: a second, at once
_CHUNK = 1 << 14


class Service(Protocol):
    """What a client of a relay asks of its peer."""

    def roster(self) -> Roster:
        """The newest roster known."""

    def shown(self, document: bytes, relay: Relay) -> None:
        """Judge a roster which, as a relay says, this peer is not in."""

    def knows(self, caller: str) -> bool:
        """Whether this is a neighbour, which has room of its own for its calls."""

    def called(self, carrier: Carrier, caller: str, relay: Relay) -> None:
        """Take a stream that another member opened through a relay."""

    def present(self, peer: str) -> None:
        """Note that a neighbour has come to a relay."""

    def tell(self, text: str) -> None:
        """Report that a relay was reached or lost."""


@dataclass
class _Asked:
    """A dial that the relay has not answered yet."""

    answer: Message | None = None
    over: bool = False


class RelayClient:
    """Keeps a control connection with one relay, in a thread of its own."""

    def __init__(
        self,
        relay: Relay,
        identity: Identity,
        outbound: Outbound,
        service: Service,
        *,
        takes_calls: bool = True,
        patience: float = 10.0,
    ) -> None:
        self.relay, self._identity, self._outbound, self._service = (
            relay, identity, outbound, service,
        )  # fmt: skip
        self._takes_calls, self._patience = takes_calls, patience
        self._control = client_context(identity, relay, CONTROL_ALPN)
        self._wrapping = client_context(identity, relay, STREAM_ALPN) if outbound.wrapped else None
        self._change = threading.Condition()
        self._outgoing: list[bytes] = []
        self._asked: dict[int, _Asked] = {}
        self._refs = itertools.count(1)
        self._calls: Counter[str] = Counter()
        self._open: set[Carrier] = set()  # being opened
        self._expected: list[bytes] = []
        self._stopping = self.up = self._judged = False
        self._brought = self._broken = False  # the roster, over this connection; a fault was logged
        self._since = 0.0  # when the relay was reached
        self.why = "not_tried"  # the relay is down
        self._roster_there = 0
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._threads: set[threading.Thread] = set()
        self._thread = threading.Thread(target=self._run, name=f"relay-{relay.name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the connection and every thread."""
        with self._change:
            self._stopping = True
            for carrier in self._open:
                cut(carrier)
            self._change.notify_all()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        for thread in list(self._threads):
            thread.join(self._patience)
        self._wake_reader.close()
        self._wake_writer.close()

    # -- for the peer

    def dial(self, peer: str, late: float) -> Carrier:
        """A stream joined with another member's. Refuses with `WayError`."""
        asked, ref = _Asked(), next(self._refs)
        with self._change:
            if not self.up:
                raise WayError("no_relay", self.why)
            self._asked[ref] = asked
            self._outgoing.append(encode(Word.DIAL, ref=ref, to=peer))
            end = min(late, time.monotonic() + _ANSWER)
            self._wake()
            while not asked.over and (left := end - time.monotonic()) > 0:
                self._change.wait(left)
            self._asked.pop(ref, None)
        answer = asked.answer
        if answer is None:
            raise WayError("no_relay", "it does not answer")
        if answer.word is Word.DENY:
            raise WayError(bounded(answer.fields["why"]))
        return self._stream(answer.fields["token"], late)

    def follow(self) -> None:
        """Bring the relay a newer roster, if it has an older one."""
        roster = self._service.roster()
        with self._change:
            if self.up and roster.version > self._roster_there:
                self._roster_there = roster.version
                self._outgoing.append(encode(Word.ROSTER, document=roster.to_bytes()))
                self._wake()

    def brought(self, late: float) -> bool:
        """Bring the newest roster, and wait until the relay has judged it; whether it did."""
        self.follow()
        with self._change:
            self._outgoing.append(encode(Word.PING, n=0))
            self._judged = False
            self._wake()
            while self.up and not self._judged and (left := late - time.monotonic()) > 0:
                self._change.wait(left)
            return self._judged

    def reached(self, late: float) -> bool:
        """Wait until the relay is reached; whether it is."""
        with self._change:
            while not self.up and (left := late - time.monotonic()) > 0:
                self._change.wait(left)
            return self.up

    def expect(self, token: bytes) -> None:
        """Let the relay pass on whoever shows this token."""
        with self._change:
            self._expected.append(token)
            if self.up:
                self._outgoing.append(encode(Word.EXPECT, token=token))
                self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"!")

    # -- the control connection

    def _run(self) -> None:
        pause = _PAUSES[0]
        while not self._stopping:
            stream: TlsStream | None = None
            try:
                stream = self._connect()
                self._talk(stream)
            except Exception as error:  # noqa: BLE001  (logged: no word of a relay ends this thread)
                was_up = self._down(self._why(error))
                steady = was_up and time.monotonic() > self._since + _STEADY
                longest = _LONGEST_PAUSE if was_up else _PAUSES[1]
                pause = _PAUSES[0] if steady else min(2 * pause, longest)
            finally:
                if stream is not None:
                    stream.close()
            with self._change:
                if not self._stopping:
                    self._change.wait(pause * _jitter.uniform(0.5, 1.0))

    def _why(self, error: Exception) -> str:
        """The reason for which a connection ended; the first fault of this program is logged."""
        if isinstance(error, FrameError):
            return error.reason
        if isinstance(error, OSError):
            return reason_of(error)
        if isinstance(error, PeerError):
            return "roster"
        if not self._broken:
            self._broken = True
            _log.error("A connection with a relay was ended by a fault.", exc_info=error)
        return "internal"

    def _connect(self) -> TlsStream:
        late = time.monotonic() + self._patience
        with self._openings() as opening:
            return connect_tls(self._outbound, self.relay, self._control, late, opening)

    @contextlib.contextmanager
    def _openings(self) -> Iterator[Callable[[Carrier], None]]:
        """Remember connections while they are opened, so that `stop` need not wait for them."""
        carriers: list[Carrier] = []

        def opening(carrier: Carrier) -> None:
            with self._change:
                if self._stopping:
                    raise WayError("closed", "stopped")
                carriers.append(carrier)
                self._open.add(carrier)

        try:
            yield opening
        finally:
            with self._change:
                self._open.difference_update(carriers)

    def _talk(self, stream: TlsStream) -> None:
        roster = self._service.roster()
        hello = {"versions": [VERSION, VERSION], "takes_calls": self._takes_calls}
        late = time.monotonic() + self._patience
        BlockingStream(stream, late).sendall(
            encode(Word.HELLO, roster_version=roster.version, **hello)
        )
        reader, buffer = MessageReader(LARGEST_ROSTER + SMALL), memoryview(bytearray(_CHUNK))
        budget, self._brought = Bucket(*_MESSAGES), False
        heard = spoke = time.monotonic()
        number = 0
        while not self._stopping:
            now = time.monotonic()
            if now > heard + 2.5 * KEEPALIVE:
                raise TimeoutError("the relay is silent")
            if now >= spoke + KEEPALIVE:
                number += 1
                self._outgoing.append(encode(Word.PING, n=number))
            if self._send(stream):
                spoke = now
            if count := self._receive(stream, buffer, spoke + KEEPALIVE - now):
                heard = time.monotonic()
                reader.feed(buffer[:count])
                while (message := reader.next()) is not None:
                    if not budget.spare(1, heard):
                        raise FrameError("too_fast", "messages of a relay")
                    self._hear(message)

    def _send(self, stream: TlsStream) -> bool:
        with self._change:
            waiting, self._outgoing = self._outgoing, []
        for data in waiting:
            BlockingStream(stream, time.monotonic() + self._patience).sendall(data)
        return bool(waiting)

    def _receive(self, stream: TlsStream, into: memoryview, seconds: float) -> int:
        """What has come, or 0 after some time, or when there is something to send."""
        count = stream.read_into(into)
        if count or stream.pending:
            return count
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        for fileno, _ in poll.poll(1000 * max(0.0, seconds)):
            if fileno == self._wake_reader.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_reader.recv(64)
        return stream.read_into(into)

    def _hear(self, message: Message) -> None:
        word, fields = message
        if word is Word.READY and not self.up:
            self._ready(fields["roster_version"])
        elif word is Word.WANT_ROSTER and not self._brought:
            self._brought = True
            self._outgoing.append(encode(Word.ROSTER, document=self._service.roster().to_bytes()))
        elif word in (Word.GRANT, Word.DENY):
            with self._change:
                asked = self._asked.get(fields["ref"])
                if asked is not None:
                    asked.answer, asked.over = message, True
                    self._change.notify_all()
        elif word is Word.ROSTER:
            self._service.shown(fields["document"], self.relay)
            raise FrameError("removed", "as the relay says")
        elif word is Word.CALL:
            self._answer(fields["caller"], fields["token"])
        elif word is Word.PRESENT:
            self._service.present(fields["peer"])
        elif word is Word.PONG:
            with self._change:
                self._judged = self._judged or not fields["n"]
                self._change.notify_all()
        else:
            raise FrameError("out_of_turn", word.name)

    def _ready(self, version: int) -> None:
        with self._change:
            self.up, self._roster_there = True, max(version, self._service.roster().version)
            self._since = time.monotonic()
            self._outgoing += [encode(Word.EXPECT, token=token) for token in self._expected]
            self._change.notify_all()
        self._service.tell(f"relay {self.relay.name} is reached")

    def _down(self, why: str) -> bool:
        """Note that the relay is lost; whether it was there."""
        with self._change:
            was_up, self.up = self.up, False
            changed, self.why = self.why != why, why
            self._outgoing.clear()
            for asked in self._asked.values():
                asked.over = True
            self._change.notify_all()
        if (was_up or changed) and not self._stopping:
            self._service.tell(f"relay {self.relay.name} is not reached: {why}")
        return was_up

    # -- streams

    def _answer(self, caller: str, token: bytes) -> None:
        """Open our half of a stream that another member asked for, in a thread of its own."""
        # A relay may name anybody: those that we do not know share their room.
        place = caller if self._service.knows(caller) else ""
        with self._change:
            if self._stopping or self._calls[place] >= _CALLS:
                return
            self._calls[place] += 1
        thread = threading.Thread(
            target=self._open_half, args=(caller, place, token), name="from-relay", daemon=True
        )
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread is free: the caller tries again
            self._over(place, thread)

    def _open_half(self, caller: str, place: str, token: bytes) -> None:
        try:
            carrier = self._stream(token, time.monotonic() + self._patience)
            self._service.called(carrier, caller, self.relay)
        except (OSError, PeerError):
            pass  # the caller tries again
        finally:
            self._over(place, threading.current_thread())

    def _over(self, place: str, thread: threading.Thread) -> None:
        """Give the room of a call back."""
        with self._change:
            self._calls[place] -= 1
            if self._calls[place] <= 0:
                del self._calls[place]
            self._threads.discard(thread)

    def _stream(self, token: bytes, late: float) -> Carrier:
        with self._openings() as opening:
            return open_stream(self._outbound, self.relay, self._wrapping, token, late, opening)
