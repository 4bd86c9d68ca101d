"""The sending end of a directed link: one thread that dials, greets, and sends until all is answered for."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from secrets import SystemRandom

from ..errors import PeerError
from .board import Board
from .failpoints import hit
from .frames import VERSION, FrameError, Kind
from .identity import Identity
from .outbox import Entry
from .reasons import ALARMS
from .roster import Roster, parse_address
from .stream import Stream, tune
from .tls import client_context, peer_of, reason_of, server_context
from .turns import Carry, Talk, Turn, Wait, carried_alone

__all__ = ["Credentials", "OutLink"]

_jitter = SystemRandom()


class Credentials:
    """The identity with the TLS contexts of the roster in use; they are made anew only when the roster changes."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._lock = threading.Lock()
        self._made: tuple[str, ssl.SSLContext, ssl.SSLContext] | None = None

    def client(self, roster: Roster) -> ssl.SSLContext:
        """For dialling."""
        return self._contexts(roster)[1]

    def server(self, roster: Roster) -> ssl.SSLContext:
        """For answering."""
        return self._contexts(roster)[2]

    def _contexts(self, roster: Roster) -> tuple[str, ssl.SSLContext, ssl.SSLContext]:
        with self._lock:
            if self._made is None or self._made[0] != roster.hash:
                self._made = (roster.hash, client_context(self.identity, roster), server_context(self.identity, roster))
            return self._made


class _RefusedLinkError(PeerError):
    """The other side does not want this link."""


class OutLink(threading.Thread):
    """Delivers what the outbox holds, in order and once, over as many connections as it takes."""

    def __init__(self, board: Board, credentials: Credentials, carry: Carry, peer: str) -> None:
        super().__init__(name=f"to-{board.name(peer)}", daemon=True)
        self._board, self._credentials, self._carry, self._peer = board, credentials, carry, peer
        self._edge = board.edges["out", peer]
        self._work = threading.Condition(board.lock)
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._turn: Turn | None = None
        self._pause = Wait(0, board.settings.heartbeat)
        self._theirs = 0  # the newest version of the roster that the other side is known to have

    def wake(self) -> None:
        """There is something to send."""
        with self._board.lock:
            self._work.notify()
            if self._turn is not None:
                self._turn.wake()

    def stop(self) -> None:
        """Ask the thread to say goodbye and end; what is not acknowledged stays in the outbox."""
        with self._board.lock:
            self._stopping.set()
            self.wake()

    def cut(self) -> None:
        """Close the connection, whatever is going on."""
        with self._board.lock:
            if self._stream is not None:
                self._stream.close()

    def end(self, patience: float) -> None:
        """Wait for the thread; cut the connection if it does not come to its end by itself."""
        self.join(patience)
        self.cut()
        self.join(self._board.settings.dead)

    def run(self) -> None:
        """Dial, send, and dial again, until told to stop."""
        first, longest = self._board.settings.backoff
        pause = first
        while not self._stopping.is_set():
            try:
                with self._connected() as stream:
                    self._greet(stream)
                    pause = first
                    self._board.went_up(self._edge)
                    with self._board.lock:
                        self._turn = Turn(self._pumping(stream), stream)
                    self._carry(self._turn)
                    return
            except _RefusedLinkError as refusal:
                why, pause = str(refusal), longest
                self._board.refuse(self._peer, f"by_peer_{why}")
            except FrameError as error:
                why = error.reason
                self._board.refuse(self._peer, why, str(error) if why in ALARMS else "")
            except PeerError:
                why = "removed"  # from the roster, just now
            except OSError as error:
                why = reason_of(error)
                if why == "not_admitted":
                    self._board.refuse(self._peer, f"by_peer_{why}")
            if self._stopping.is_set():
                why = "stopped"
            self._board.went_down(self._edge, why)
            with self._board.lock:
                if not self._stopping.is_set():
                    self._work.wait(pause * _jitter.uniform(0.5, 1.0))
            pause = min(2 * pause, longest)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Stream]:
        board, settings = self._board, self._board.settings
        roster = board.roster
        raw = _dial(roster.member(self._peer).addresses, settings.dead)
        with raw:
            self._edge.congestion = tune(raw, settings.dead, settings.congestion)
            raw.settimeout(settings.dead)
            with self._credentials.client(roster).wrap_socket(raw, server_hostname="peer") as sock:
                peer_of(sock, roster, self._peer)
                stream = Stream(sock, settings.dead)
                with board.lock:
                    self._stream = stream
                    if self._stopping.is_set():
                        raise ConnectionError("stopped")
                try:
                    yield stream
                finally:
                    with board.lock:
                        self._stream = self._turn = None

    def _greet(self, stream: Stream) -> None:
        """A TLS client believes in its success before the server has judged it: a link is up after HELLO_OK only."""
        board = self._board
        roster, run = board.newest, board.run
        before = time.monotonic()
        hello = {"run": run.run_id, "agreement": run.agreement, "roster": roster.hash, "roster_version": roster.version}
        stream.send(
            Kind.HELLO, {"versions": [VERSION, VERSION], "incarnation": board.incarnation, "life": board.life, **hello}
        )
        answer = stream.reply(Kind.HELLO_OK, Kind.REFUSE)
        self._time(time.monotonic() - before, stream)
        if answer.kind is Kind.REFUSE:
            raise _RefusedLinkError(answer.header["why"])
        theirs = answer.header
        self._theirs = theirs["roster_version"]
        carried_alone(self._evening_rosters(stream), stream)
        with board.lock:
            if self._stopping.is_set():
                raise ConnectionError("stopped")
            inc, seq = theirs["last"]
            outbox = board.outboxes[self._peer]
            outbox.resume(board.incarnation, (inc, seq), theirs["incarnation"], theirs["want"], board.roster.epoch)
            board.touch()

    def _evening_rosters(self, stream: Stream) -> Talk[None]:
        """Whichever side has the older roster gets the newer one."""
        board, mine = self._board, self._board.newest
        if self._theirs < mine.version:
            yield from stream.sending(Kind.ROSTER, {"want": False}, mine.to_bytes())
            yield from stream.replying(Kind.ROSTER)
            self._theirs = mine.version
        elif self._theirs > mine.version:
            yield from stream.sending(Kind.ROSTER, {"want": True})
            frame = yield from stream.replying(Kind.ROSTER)
            data = bytearray(frame.head.body_length)
            yield from stream.filling(frame, memoryview(data))
            board.brought(bytes(data))
            self._theirs = board.newest.version

    def _pumping(self, stream: Stream) -> Talk[None]:
        board = self._board
        while not self._stopping.is_set():
            if self._theirs != board.newest.version:
                yield from self._evening_rosters(stream)
            with board.lock:
                entry, pressed = self._next()
            if entry is not None:
                yield from self._transmitting(stream, entry)
            elif pressed or (yield self._pause):  # or nobody ended it
                yield from self._asking(stream)
        why = "removed" if board.closed("out", self._peer) else board.farewell
        with contextlib.suppress(OSError, FrameError):
            if board.barred(self._peer):  # whom the founder removed may see it signed, and needs not guess
                yield from self._evening_rosters(stream)
            last = self._last()
            if last:
                yield from stream.sending(Kind.PING, {"stamp": time.monotonic_ns()})
            yield from stream.sending(Kind.BYE, {"why": why})
            if last:  # what has arrived is to be known
                yield from stream.replying(Kind.PONG)
                self._acked(last)
        board.went_down(self._edge, why)

    def _next(self) -> tuple[Entry | None, bool]:
        """What to send now, and, if that is nothing, whether somebody waits for an answer."""
        outbox = self._board.outboxes.get(self._peer)
        if self._stopping.is_set() or outbox is None:
            return None, False
        return outbox.next(), outbox.pressed

    def _last(self) -> int:
        with self._board.lock:
            outbox = self._board.outboxes.get(self._peer)
            return 0 if outbox is None else outbox.last

    def _asking(self, stream: Stream) -> Talk[None]:
        """Hear that the other side is there: it answers in order, so it has settled all that was sent before."""
        last, before = self._last(), time.monotonic()
        yield from stream.sending(Kind.PING, {"stamp": time.monotonic_ns()})
        self._theirs = (yield from stream.replying(Kind.PONG)).header["roster_version"]
        if not last:  # the answer had no parcels to wait for
            self._time(time.monotonic() - before, stream)
        self._acked(last)

    def _transmitting(self, stream: Stream, entry: Entry) -> Talk[None]:
        order = {"epoch": entry.epoch, "incarnation": self._board.incarnation, "seq": entry.seq}
        hit("before_send")
        if entry.parcel is None:
            yield from stream.sending(Kind.SKIP, {"round": entry.round, **order})
        else:
            parcel = entry.parcel
            place = {"channel": parcel.channel, "round": parcel.round, "turn": parcel.turn}
            how = {"keep": entry.keep, "ask": entry.asks}
            yield from stream.sending(Kind.DATA, {**place, **how, **order}, parcel.body.data)
        hit("after_send_before_ack")
        if not entry.asks:
            return
        answer = yield from stream.replying(Kind.ACK, Kind.REFUSE)
        if answer.header["seq"] != entry.seq:
            raise FrameError("out_of_turn", "an answer to another frame")
        if answer.kind is Kind.ACK:
            self._theirs = answer.header["roster_version"]
            self._acked(entry.seq)
        elif self._refused(entry, answer.header["why"]) == "epoch_ahead":
            yield self._pause  # the other side adopts the roster in its own time; the entry waits

    def _acked(self, seq: int) -> None:
        board, edge = self._board, self._edge
        with board.lock:
            outbox = board.outboxes.get(self._peer)
            for entry in outbox.acked(seq) if outbox is not None else ():
                for what in ("sent", "acked"):
                    edge.frames[what] += 1
                    edge.bytes[what] += entry.size
            board.arrived()

    def _refused(self, entry: Entry, why: str) -> str:
        """What was sent before has arrived: otherwise the other side would have closed the connection."""
        board, edge = self._board, self._edge
        self._acked(entry.seq - 1)
        with board.lock:
            edge.frames["sent"] += 1
            edge.bytes["sent"] += entry.size
            edge.frames[f"refused_{why}"] += 1
            outbox = board.outboxes.get(self._peer)
            if outbox is not None and why == "epoch_ahead":
                outbox.again()
            elif outbox is not None:
                outbox.refused(entry.seq, why)
            board.arrived()
        return why

    def _time(self, seconds: float, stream: Stream) -> None:
        edge, dead = self._edge, self._board.settings.dead
        edge.rtt = seconds if edge.rtt is None else 0.875 * edge.rtt + 0.125 * seconds
        stream.set_patience(max(dead, 10 * edge.rtt))


def _dial(addresses: tuple[str, ...], patience: float) -> socket.socket:
    """The first address that answers."""
    failure: OSError = ConnectionRefusedError("the roster has no address for this peer")
    for address in addresses:
        try:
            return socket.create_connection(parse_address(address), timeout=patience)
        except OSError as error:
            failure = error
    raise failure
