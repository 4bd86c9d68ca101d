"""A blind relay: peers that can only dial out meet here.

It joins two streams of bytes and can read neither: the peers' own TLS 1.3 with pinned keys runs
end to end through it. Whom it serves stands in the roster: members, and only pairs that have a
link. It needs no list of its own, and nobody's key.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable

from ...errors import PeerError
from ..buckets import Bucket
from ..certificate import certificate_id
from ..frames import FrameError
from ..identity import Identity
from ..roster import Roster, RosterForkError
from ..rosterfile import LARGEST_ROSTER, bears_certificate
from ..tls import HandshakeError, pinned_context, reason_of
from ..tls_stream import TlsStream
from ..unfinished import Unfinished
from .accepting import Acceptor, Visitor
from .control import Control
from .former import Former
from .joined import End, PlainEnd, TlsEnd
from .limits import Limits
from .messages import CONTROL_ALPN, SMALL, STREAM_ALPN, VERSION, Message, Word
from .streams import Streams

__all__ = ["RelayServer"]

_log = logging.getLogger("peerloom.relay")
_EVERY = 1.0  # seconds between two looks for what is over
_ROSTERS = (0.5, 8.0)  # that one member may bring: a second, at once
_CONTROLS = 4  # control connections of one member: a new one comes before the old one is gone
_COMES = (1.0, 16.0)  # how often one member may come: a second, at once; its neighbours are told
_EXPECTED = 8  # invitations of one founder at a time
_GUESTS = 2  # who may bring the first roster, of several MB, at a time
_DISMISSAL = 0.1  # seconds in which an open connection shows a removed member the roster

Tell = Callable[[str, str, str], None]  # kind, about whom, text


class RelayServer:
    """Serves the members of one federation. Everything runs in the thread that calls `serve`.

    `keep` writes a newer roster down; it is in use before, so that a full disk lets nobody stay
    who was removed. `former` are those whom earlier rosters removed.
    """

    def __init__(
        self,
        identity: Identity,
        founder: str,
        roster: Roster | None = None,
        limits: Limits | None = None,
        keep: Callable[[Roster], object] = lambda roster: None,
        tell: Tell = lambda kind, about, text: None,
        former: Former | None = None,
    ) -> None:
        self._identity, self._founder, self.limits = identity, founder, limits or Limits()
        self._keep, self._tell = keep, tell
        self.roster: Roster | None = None
        self.former = former or Former()
        self.present: dict[str, Control] = {}
        self.streams = Streams(self.limits)
        self.refusals: Counter[str] = Counter()
        self._controls: set[Control] = set()
        self._expected: dict[bytes, Control] = {}
        self._neighbours: dict[str, set[str]] = {}
        self._roster_size = 0
        self._dials: dict[str, Bucket] = {}
        self._rosters: dict[str, Bucket] = {}
        self._comes: dict[str, Bucket] = {}
        self._for_guests = _context(identity, [])
        self._context = self._for_guests  # until there is a roster
        self._guests = Unfinished[asyncio.Task[None]](_GUESTS, _GUESTS, self.limits.handshake / 10)
        self._acceptor: Acceptor | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: set[tuple[str, str]] = set()
        if roster is not None:
            roster.verify(founder)
            self._use(roster)

    # -- life

    async def serve(self, listeners: list[socket.socket]) -> None:
        """Serve until `stop`; the listening sockets are closed at the end."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._acceptor = Acceptor(listeners, self.limits, self._greet, self._known, self._refuse)
        self._acceptor.open()
        try:
            while not self._stop.is_set():
                self.streams.sweep(time.monotonic())
                try:
                    await asyncio.wait_for(self._stop.wait(), _EVERY)
                except TimeoutError:
                    continue
        finally:
            self.streams.close("stopped")
            for control in list(self._controls):
                control.cut()
            await self._acceptor.close()

    def stop(self) -> None:
        """Let `serve` return; any thread may call this."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _known(self) -> set[str]:
        return {control.address for control in self._controls}

    def _refuse(self, why: str, about: str = "", detail: str = "") -> None:
        """Count a refusal; the first of each kind and member is told."""
        self.refusals[why] += 1
        if (about, why) not in self._told:
            self._told.add((about, why))
            name = self._name(about) if about else "a stranger"
            self._tell("refused", about, f"refused {name}: {why}{f' ({detail})' if detail else ''}")

    def _name(self, who: str) -> str:
        return who[:7] if self.roster is None else self.roster.name(who)

    # -- rosters

    def take(self, document: bytes) -> bool:
        """Use a newer roster, judged as a peer judges it; whether it was newer.

        Whom it removes is cut off at once. Refuses a fork and a wrong signature.
        """
        roster = Roster.from_bytes(document, self._founder)
        if self.roster is not None and not roster.succeeds(self.roster):
            return False
        self._use(roster)
        self._tell("roster", "", f"using roster version {roster.version}")
        self._keep(roster)
        return True

    def _use(self, roster: Roster) -> None:
        self.former.follow(self.roster, roster)
        self.roster, self._roster_size = roster, len(roster.to_bytes())
        believed = [member.certificate for member in roster.members] + self.former.certificates
        self._context = _context(self._identity, believed)
        self._neighbours = {member.id: set() for member in roster.members}
        for link in roster.links:
            self._neighbours[link.source].add(link.target)
            self._neighbours[link.target].add(link.source)
        for control in list(self._controls):
            if not roster.has(control.who):
                self._tell("removed", control.who, f"{control.who[:7]} is no member any more")
                control.dismiss(self.former.message(control.who), _DISMISSAL)
                self._gone(control)
        for token in [t for t, c in self._expected.items() if c.who not in roster.founders]:
            del self._expected[token]
        self.streams.restrict(self._may_meet, roster.has, "removed")
        for held in (self._dials, self._rosters, self._comes):
            for who in [who for who in held if not roster.has(who)]:
                del held[who]

    def _may_meet(self, one: str, other: str) -> bool:
        """Whether two may be joined; a newcomer (an empty id) only with a founder."""
        if not one:
            return self.roster is not None and other in self.roster.founders
        return other in self._neighbours.get(one, ())

    # -- connections

    async def _greet(self, visitor: Visitor) -> None:
        """Serve a connection until it is a control connection, half a stream, or refused."""
        assert self._acceptor is not None
        kept, counted = False, True
        who = ""
        try:
            async with asyncio.timeout(self.limits.handshake):
                if await visitor.speaks_tls():
                    stream, who = await self._proved(visitor)
                else:
                    stream = None
                if stream is None or stream.protocol == STREAM_ALPN:
                    token = await visitor.token()
                elif not who:
                    await self._first_roster(Control(stream, "", visitor.address, self.limits))
                    return
                elif who in self.former:
                    await self._turn_away(Control(stream, who, visitor.address, self.limits))
                    return
            self._acceptor.finished(visitor)
            counted = False
            if stream is None or stream.protocol == STREAM_ALPN:
                self._arrived(token, PlainEnd(visitor.sock) if stream is None else TlsEnd(stream))
                kept = True
            else:
                near = len(self._neighbours[who])
                await self._attend(Control(stream, who, visitor.address, self.limits, near))
        except FrameError as error:
            self._refuse(error.reason, who)
        except RosterForkError as error:
            self._refuse("roster_fork", who, str(error))
        except PeerError as error:
            self._refuse("roster", who, str(error))
        except TimeoutError:
            self._refuse("timeout" if who else "handshake_timeout", who)
        except OSError as error:
            # A member may come and go as it likes.
            if not who or reason_of(error) != "closed":
                self._refuse(reason_of(error), who)
        except Exception:  # noqa: BLE001  (logged: no visitor may end the relay)
            self._refuse("other", who)
            _log.exception("a connection was ended by an error of this program")
        finally:
            if counted:
                self._acceptor.finished(visitor)
            if not kept:
                visitor.sock.close()

    async def _proved(self, visitor: Visitor) -> tuple[TlsStream, str]:
        """A visitor after the handshake, and its id; empty if it is a guest, who proves none.

        A former member may open a control connection, to be shown why.
        """
        stream = await visitor.wrap(self._for_guests if await visitor.is_guest() else self._context)
        if stream.protocol not in (CONTROL_ALPN, STREAM_ALPN):
            raise HandshakeError("wrong_protocol")
        if stream.certificate is None:
            return stream, ""
        who = certificate_id(stream.certificate)
        was_member = who in self.former and stream.protocol == CONTROL_ALPN
        if self.roster is None or not (self.roster.has(who) or was_member):
            raise HandshakeError("not_a_member")
        return stream, who

    async def _first_roster(self, guest: Control) -> None:
        """Take the first roster from anybody: the founder's signature says that it is one.

        From two at a time, since each may bring several MB.
        """
        if self.roster is not None:
            raise FrameError("no_certificate", "members bring newer rosters")
        task = asyncio.current_task()
        assert task is not None
        out = self._guests.enter(task, guest.address, time.monotonic())
        if out is task:
            raise FrameError("too_many", "rosters at a time")
        if out is not None:
            self._refuse("too_many")
            out.cancel()
        try:
            hello = await guest.next(SMALL)
            guest.send(Word.WANT_ROSTER)
            message = await guest.next(LARGEST_ROSTER + SMALL)
            if (hello.word, message.word) != (Word.HELLO, Word.ROSTER):
                raise FrameError("out_of_turn", message.word.name)
            document = message.fields["document"]
            if not bears_certificate(document, self._founder):
                raise PeerError("The founder signed nothing of it.")
            self.take(document)  # its members come again, and prove their keys
        finally:
            self._guests.leave(task)

    async def _turn_away(self, control: Control) -> None:
        """Show a former member the roster that removed it, until it closes the connection."""
        who = control.who
        budget = self._rosters.setdefault(who, Bucket(*_ROSTERS))
        if not budget.spare(1, time.monotonic()):
            raise FrameError("too_fast", "a former member")
        try:
            await control.next(SMALL)
            self._refuse("not_a_member", who)
            control.dismiss(self.former.message(who), self.limits.handshake)
            await control.next(SMALL)  # until the other side has it
        finally:
            control.close()

    # -- members

    async def _attend(self, control: Control) -> None:
        """Serve a member's control connection until it ends."""
        who = control.who
        if sum(other.who == who for other in self._controls) >= _CONTROLS:
            raise FrameError("too_many", "control connections")
        if not self._comes.setdefault(who, Bucket(*_COMES)).spare(1, time.monotonic()):
            raise FrameError("too_fast", "control connections")
        self._controls.add(control)
        try:
            hello = await control.next(self._longest())
            if hello.word is not Word.HELLO:
                raise FrameError("out_of_turn", hello.word.name)
            low, high = hello.fields["versions"]
            if not low <= VERSION <= high:
                raise FrameError("protocol_version")
            self._welcome(control, hello)
            while True:
                self._hear(control, await control.next(self._longest()))
        finally:
            self._gone(control)
            control.close()
            if who not in self.present:
                self._tell("down", who, f"{self._name(who)} is gone")

    def _longest(self) -> int:
        """The longest roster that a member may bring: not much longer than the one in use."""
        return min(LARGEST_ROSTER, (1 << 18) + 2 * self._roster_size)

    def _welcome(self, control: Control, hello: Message) -> None:
        who, version = control.who, self.roster.version if self.roster else 0
        if hello.fields["roster_version"] > version:
            control.send(Word.WANT_ROSTER)
        control.send(Word.READY, roster_version=version)
        if not hello.fields["takes_calls"]:
            return
        old = self.present.get(who)
        self.present[who] = control
        if old is not None:
            old.cut()  # the newest counts: a NAT may have forgotten the one before
        self._tell("up", who, f"{self._name(who)} is here")
        for peer in self._neighbours.get(who, ()):
            if peer in self.present:
                control.send(Word.PRESENT, peer=peer)
                self.present[peer].send(Word.PRESENT, peer=who)

    def _gone(self, control: Control) -> None:
        self._controls.discard(control)
        if self.present.get(control.who) is control:
            del self.present[control.who]
        for token in [t for t, host in self._expected.items() if host is control]:
            del self._expected[token]

    def _hear(self, control: Control, message: Message) -> None:
        fields = message.fields
        if message.word is Word.PING:
            control.send(Word.PONG, n=fields["n"])
        elif message.word is Word.DIAL:
            self._dial(control, fields["ref"], fields["to"])
        elif message.word is Word.ROSTER:
            budget = self._rosters.setdefault(control.who, Bucket(*_ROSTERS))
            if not budget.spare(1, time.monotonic()):
                raise FrameError("too_fast", "rosters")
            self.take(fields["document"])
        elif message.word is Word.EXPECT:
            if self.roster is None or control.who not in self.roster.founders:
                raise FrameError("out_of_turn", "an invitation of no founder")
            if sum(host is control for host in self._expected.values()) >= _EXPECTED:
                raise FrameError("too_fast", "invitations")
            self._expected[fields["token"]] = control
        else:
            raise FrameError("out_of_turn", message.word.name)

    def _dial(self, control: Control, ref: int, to: str) -> None:
        who = control.who
        near = self._neighbours.get(who, set())
        budget = self._dials.setdefault(
            who, Bucket(self.limits.dials + len(near), 30 + 4 * len(near))
        )
        why = ""
        if to not in near:
            why = "not_a_neighbour"
        elif to not in self.present:  # costs nothing: neighbours that are down are dialled for days
            why = "absent"
        elif not budget.spare(1, time.monotonic()):
            why = "too_often"
        elif self.streams.between(who, to) >= self.limits.streams_per_pair:
            why = "too_many"
        if why:
            if why != "absent":
                self._refuse(why, who)
            control.send(Word.DENY, ref=ref, why=why)
            return
        ours, theirs = self.streams.announce(who, to)
        self.present[to].send(Word.CALL, caller=who, token=theirs)
        control.send(Word.GRANT, ref=ref, token=ours)

    def _arrived(self, token: bytes, end: End) -> None:
        """Take half a stream: a member's, or that of a newcomer whom a founder expects."""
        host = self._expected.get(token)
        if host is None:
            self.streams.arrived(token, end)
        else:
            host.send(Word.CALL, caller="", token=self.streams.visit(end, host.who))


def _context(identity: Identity, certificates: list[str]) -> ssl.SSLContext:
    """A context that believes these certificates; without any, the other side proves no key."""
    context = pinned_context(ssl.PROTOCOL_TLS_SERVER, identity, certificates)
    context.set_alpn_protocols([CONTROL_ALPN, STREAM_ALPN])
    context.num_tickets = 0  # no resumption: every connection proves its key anew
    return context
