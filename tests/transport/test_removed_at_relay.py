"""A removed member that can only dial out learns it from a relay: once, signed, and no more."""

import contextlib
import json
import threading
import time
from functools import partial

import pytest

from peerloom.errors import ExcludedError, PeerError
from peerloom.transport.blocking_stream import BlockingStream
from peerloom.transport.outbound import Outbound
from peerloom.transport.relay import former as former_module
from peerloom.transport.relay.client import RelayClient
from peerloom.transport.relay.dialling import client_context, connect_tls
from peerloom.transport.relay.former import Former
from peerloom.transport.relay.limits import Limits
from peerloom.transport.relay.messages import (
    CONTROL_ALPN,
    SMALL,
    STREAM_ALPN,
    MessageReader,
    Word,
    encode,
)  # fmt: skip
from peerloom.transport.relay.service import RelayService
from peerloom.transport.rosterfile import LARGEST_ROSTER
from tests.federation import free_ports, identity, until
from tests.relays import RelayThread, relayed, roster_with, without_port

BOTH = ((0, 1), (1, 0))
HELLO = encode(Word.HELLO, versions=[1, 1], roster_version=1, takes_calls=True)


@pytest.fixture(autouse=True)
def nothing_left():
    before = threading.active_count()
    yield
    assert until(lambda: threading.active_count() <= before + 2)


class Caller:
    """One connection with a relay, with any key, that says and hears what a test wants."""

    def __init__(self, relay, number, protocol=CONTROL_ALPN):
        self._late = time.monotonic() + 10
        context = client_context(identity(number), relay.entry, protocol)
        self._stream = connect_tls(Outbound(), relay.entry, context, self._late)
        self._talk = BlockingStream(self._stream, self._late)
        self._reader = MessageReader(LARGEST_ROSTER + SMALL)
        self.close, self.say = self._stream.close, self._talk.sendall

    def hear(self):
        """The next message; None if the connection ends first."""
        buffer = memoryview(bytearray(1 << 16))
        while (message := self._reader.next()) is None:
            try:
                self._reader.feed(buffer[: self._talk.recv_into(buffer)])
            except TimeoutError:
                raise
            except OSError:
                return None
        return message


def calling(relay, number, protocol=CONTROL_ALPN):
    return contextlib.closing(Caller(relay, number, protocol))


def in_relay(relay, action, *arguments):
    """Do something in the relay's thread, and wait for it."""
    done = threading.Event()

    def run():
        action(*arguments)
        done.set()

    assert until(lambda: relay.server._loop is not None)
    relay.server._loop.call_soon_threadsafe(run)
    assert done.wait(10)


def history(relay):
    """Three rosters: two members, then one without the second, then a later one."""
    first = roster_with(2, BOTH, [relay.entry])
    second = first.without_member(identity(0), "peer-1")
    return first, second, second.amended(identity(0), run="later")


def test_an_open_connection_shows_it(tmp_path):
    """No neighbour is left that could tell. A forged roster changes nothing."""
    with RelayThread() as relay, relayed(tmp_path, relay) as (a, b):
        assert until(lambda: len(relay.server.present) == 2)
        left = a.roster.without_member(identity(0), "peer-1")
        a.close()
        before = relay.server.present[b.me]
        forged = left.to_bytes().replace(b'"peer-0"', b'"peer-x"')
        in_relay(relay, before.dismiss, encode(Word.ROSTER, document=forged), 0.1)
        again = until(lambda: relay.server.present.get(b.me, before) is not before, 15.0)
        assert again, "it ends the connection over which it was lied to, and comes back"
        assert b.roster.version == 1
        assert b.refusals()["roster"] == 1
        in_relay(relay, relay.server.take, left.to_bytes())
        assert b.me not in relay.server.present, "not heard from that moment on"
        with pytest.raises(ExcludedError, match="removed this peer"):
            b.take(a.me, 99, 0, 20.0)
        assert until(lambda: not relay.server._controls)


def test_who_comes_later_is_shown_the_roster_that_removed_it_also_by_the_next_process(tmp_path):
    """And none after that one: what became of the federation is not for its eyes."""
    with RelayThread() as relay:
        for roster in history(relay):
            in_relay(relay, relay.server.take, roster.to_bytes())
        (tmp_path / "former.json").write_bytes(relay.server.former.to_bytes())
    first, second, third = history(relay)
    former = Former.read(tmp_path / "former.json", identity(0).id)
    with (
        RelayThread(port=relay.port, roster=third, former=former) as relay,
        without_port(1, first, tmp_path) as b,
    ):
        with pytest.raises(ExcludedError, match="removed this peer"):
            b.take(identity(0).id, 1, 0, 20.0)
        assert b._table.newest.hash == second.hash
        assert relay.server.refusals["not_a_member"]
        assert not relay.server.present


def test_a_former_key_gets_nothing_else_and_a_stranger_s_nothing(tmp_path):
    with RelayThread() as relay:
        first, second, third = history(relay)
        for roster in (first, second, third):
            in_relay(relay, relay.server.take, roster.to_bytes())
        with calling(relay, 1) as former:
            former.say(HELLO)
            word, fields = former.hear()
            assert (word, fields["document"]) == (Word.ROSTER, second.to_bytes())
            former.say(encode(Word.EXPECT, token=bytes(32)) + encode(Word.PING, n=1))
            former.say(encode(Word.ROSTER, document=third.amended(identity(0)).to_bytes()))
            assert not until(lambda: relay.server._expected or relay.server.roster.version > 3, 0.3)
            assert not relay.server._controls
        with calling(relay, 1, STREAM_ALPN) as stream:
            with contextlib.suppress(OSError):
                stream.say(b"PLR1" + bytes(32))
            assert stream.hear() is None, "wrapped streams are for members"
        assert until(lambda: relay.server.refusals["not_a_member"] == 2)
        with calling(relay, 9) as stranger:
            with contextlib.suppress(OSError):
                stranger.say(HELLO)
            assert stranger.hear() is None
        assert relay.server.refusals["unknown_certificate"]
        for _ in range(100):  # who comes again and again is not served for ever
            with calling(relay, 1) as former:
                with contextlib.suppress(OSError):
                    former.say(HELLO)
                if former.hear() is None:
                    break
        assert until(lambda: relay.server.refusals["too_fast"])


def test_a_dismissed_member_is_not_heard_and_a_long_roster_arrives_whole():
    """It is far longer than what a socket takes at once."""
    document = bytes(3 << 20)
    with RelayThread() as relay:
        first, second, _ = history(relay)
        in_relay(relay, relay.server.take, first.to_bytes())
        with calling(relay, 1) as member:
            member.say(HELLO)
            assert member.hear().word is Word.READY
            assert until(lambda: relay.server.present)
            control = relay.server.present[identity(1).id]
            in_relay(relay, control.dismiss, encode(Word.ROSTER, document=document), 20.0)
            member.say(encode(Word.EXPECT, token=bytes(32)))
            assert member.hear().fields["document"] == document
            assert not relay.server._expected
        with calling(relay, 1) as member:
            member.say(HELLO)
            assert member.hear().word is Word.READY
            assert until(lambda: identity(1).id in relay.server.present)
            begin, control = time.monotonic(), relay.server.present[identity(1).id]
            in_relay(relay, control.dismiss, encode(Word.ROSTER, document=document), 0.1)
            assert until(lambda: control not in relay.server._controls)
            assert time.monotonic() - begin >= 0.1, "who does not read is cut off all the same"
        with calling(relay, 1) as member:
            member.say(HELLO)
            assert member.hear().word is Word.READY
            in_relay(relay, relay.server.take, second.to_bytes())
            assert member.hear().fields["document"] == second.to_bytes(), "by a removal, too"
            assert member.hear() is None


def test_who_is_a_member_again_is_served_again():
    with RelayThread() as relay:
        first, second, _ = history(relay)
        back = second.with_member(identity(0), first.members[1])
        for roster in (first, second, back):
            in_relay(relay, relay.server.take, roster.to_bytes())
        with calling(relay, 1) as member:
            member.say(HELLO)
            assert member.hear().word is Word.READY


class Listening:
    """A client of a relay without a peer behind it."""

    def __init__(self, roster):
        self._roster, self.documents = roster, []

    def roster(self):
        return self._roster

    def shown(self, document, relay):
        self.documents.append(document)

    def tell(self, text):
        pass


def test_a_relay_that_shows_rosters_without_end_is_left_for_ever_longer():
    with RelayThread() as relay:
        for roster in history(relay):
            in_relay(relay, relay.server.take, roster.to_bytes())
        service = Listening(roster)
        client = RelayClient(relay.entry, identity(1), Outbound(), service)
        client.start()
        assert until(lambda: service.documents)
        time.sleep(1.0)
        client.stop()
        assert 1 <= len(service.documents) <= 6
        assert client.why in ("removed", "closed")


def test_few_are_remembered_the_latest_and_every_roster_once(monkeypatch):
    monkeypatch.setattr(former_module, "_MOST", 3)
    former, roster = Former(), roster_with(7, [], [])
    every = [roster]
    for number in (6, 5):
        every.append(every[-1].without_member(identity(0), f"peer-{number}"))
    kept = every[-1].members[:2]
    every.append(every[-1].amended(identity(0), members=kept))  # three at once: 2, 3 and 4
    for before, after in zip([None, *every], every, strict=False):
        former.follow(before, after)
    assert [identity(n).id in former for n in range(7)] == [False, False, *[True] * 3, False, False]
    assert former.message(identity(6).id) == b""
    assert len(json.loads(former.to_bytes())["rosters"]) == 1
    monkeypatch.setattr(former_module, "_MOST_BYTES", 10)
    former.follow(None, every[-1])
    assert not former.certificates


def test_the_file_of_a_relay_holds_them_and_is_refused_if_spoilt(tmp_path):
    (port,) = free_ports(1)
    make = partial(
        RelayService, tmp_path / "relay", (f"127.0.0.1:{port}",), identity(0).id, Limits(), print
    )

    def closed(service):
        service._lock.close()
        for listener in service._listeners:
            listener.close()

    service = make()
    first = roster_with(3, [], [])
    for roster in (first, first.without_member(identity(0), "peer-1")):
        service.server.take(roster.to_bytes())
    closed(service)
    service = make()
    assert service.server.former.certificates == [first.members[1].certificate]
    closed(service)
    path = tmp_path / "relay" / "former.json"
    whole = path.read_bytes()
    other = whole.replace(json.dumps(first.members[1].certificate).encode(), b'"nobody"')
    member = whole.replace(
        json.dumps(first.members[1].certificate).encode(),
        json.dumps(first.members[0].certificate).encode(),
    )
    for spoilt in (
        whole[:-1],
        b"",
        b"[]",
        b"\xff",
        other,
        member,
        whole.replace(b"peer-0", b"peer-x"),
    ):
        path.write_bytes(spoilt)
        with pytest.raises(PeerError, match=r"former\.json is spoilt .* Remove it"):
            make()
