"""Relays that flood, hang up or pass nothing on, and members that do so to a relay."""

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from peerloom.transport.blocking_stream import BlockingStream
from peerloom.transport.outbound import Outbound, Proxy, WayError
from peerloom.transport.relay import client as client_module
from peerloom.transport.relay.dialling import client_context, connect_tls
from peerloom.transport.relay.messages import CONTROL_ALPN, GO, Word, encode
from peerloom.transport.relay.server import RelayServer
from tests.federation import identity, until
from tests.relays import PATIENT, RelayThread, roster_with, without_port

BOTH = ((0, 1), (1, 0))


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    """No thread stays behind, and none ends with a traceback."""
    before, broken = threading.active_count(), []
    monkeypatch.setattr(threading, "excepthook", lambda failed: broken.append(failed.exc_value))
    yield
    assert until(lambda: threading.active_count() <= before + 2)
    assert not broken


class Shouting(RelayServer):
    """Says more than it was asked for, to whoever comes."""

    words = (b"",)
    comes = 0

    def _welcome(self, control, hello):
        super()._welcome(control, hello)
        type(self).comes += 1
        for data in self.words:
            control._stream.encrypt(memoryview(data))
            control._flush()

    def _arrived(self, token, end):  # joined with nobody
        self.held = [*getattr(self, "held", ()), end]

    async def serve(self, listeners):
        try:
            await super().serve(listeners)
        finally:
            for end in getattr(self, "held", ()):
                end.close()


def shouting(*words):
    return type("Shouting", (Shouting,), {"words": words, "comes": 0})


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def calls(count):
    return b"".join(
        encode(Word.CALL, caller=secrets.token_hex(20), token=secrets.token_bytes(32))
        for _ in range(count)
    )


def test_calls_of_anybody_take_few_threads_and_descriptors(tmp_path):
    """A relay that names ever new callers could take every descriptor of a peer otherwise."""
    with RelayThread(kind=shouting(calls(200))) as relay:
        roster, before = roster_with(2, BOTH, [relay.entry]), descriptors()
        with without_port(0, roster, tmp_path) as a:
            held = lambda: len(getattr(relay.server, "held", ()))  # noqa: E731
            assert until(lambda: held() == client_module._CALLS)
            time.sleep(0.2)
            assert held() == client_module._CALLS
            opening = [each for each in threading.enumerate() if each.name == "from-relay"]
            assert len(opening) == client_module._CALLS
            assert descriptors() < before + 40
            assert not a._table._told


class Garbling(Shouting):
    def _arrived(self, token, end):
        end.write(memoryview(GO + b"no TLS" * 5))
        end.close()


def test_callers_that_a_relay_makes_up_are_strangers(tmp_path):
    kind = type("Many", (Garbling,), {"words": tuple(calls(4) for _ in range(10))})
    lines = []
    with RelayThread(kind=kind) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with without_port(0, roster, tmp_path, on_event=lines.append) as a:
            assert until(lambda: a._table.refusals["plain_text"] >= 8)
            assert {peer for peer, _ in a._table._told} == {""}
            assert len([line for line in lines if line.kind == "refused"]) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([encode(Word.WANT_ROSTER) * 2500], "out_of_turn"),
        ([encode(Word.READY, roster_version=1) * 1500], "out_of_turn"),
        ([encode(Word.PONG, n=5) * 1500] * 2, "too_fast"),
        ([encode(Word.PRESENT, peer=identity(1).id) * 150] * 20, "too_fast"),
    ],
    ids=["rosters", "ready", "pong", "present"],
)
def test_a_relay_that_floods_is_left_for_ever_longer(tmp_path, words, why):
    """It is answered once, is left when it says too much, and fills no log."""
    kind, lines = shouting(*words), []
    with RelayThread(kind=kind) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with without_port(0, roster, tmp_path, on_event=lines.append) as a:
            (client,) = a._driver._ways._clients.values()
            assert until(lambda: client.why == why)
            time.sleep(0.5)
            assert kind.comes <= 5  # of 0.1, 0.2, 0.4 s, ..., at least half of each
            assert len(lines) <= 2 * kind.comes + 3
            assert len(client._outgoing) <= 2


def test_nothing_is_kept_of_neighbours_that_a_relay_makes_up(tmp_path):
    invented = [encode(Word.PRESENT, peer=secrets.token_hex(20)) for _ in range(500)]
    kind = shouting(b"".join(invented), calls(1))
    with RelayThread(kind=kind) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with without_port(0, roster, tmp_path) as a:
            assert until(lambda: getattr(relay.server, "held", ())), "all before was read"
            assert a._driver._connector._hurries.keys() <= {identity(1).id}


class Leaving(RelayServer):
    comes = 0

    def _welcome(self, control, hello):
        super()._welcome(control, hello)
        type(self).comes += 1
        raise ConnectionError("closed")


def test_a_relay_that_lets_in_and_hangs_up_is_dialled_with_growing_pauses(tmp_path):
    Leaving.comes, lines = 0, []
    with RelayThread(kind=Leaving) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with without_port(0, roster, tmp_path, on_event=lines.append):
            assert until(lambda: Leaving.comes >= 2)
            time.sleep(1.0)
            assert Leaving.comes <= 6
            assert len(lines) <= 2 * Leaving.comes + 2


class Silent(Shouting):
    """Joins two, and passes nothing on."""

    words = ()

    def _arrived(self, token, end):
        super()._arrived(token, end)
        end.write(memoryview(GO))


class Mute(RelayServer):
    """Does not answer a dial."""

    def _dial(self, control, ref, to):
        pass


@pytest.mark.parametrize("kind", [Silent, Mute])
def test_a_relay_that_passes_nothing_on_keeps_nobody_from_the_next(tmp_path, kind):
    with RelayThread(0, kind=kind) as one, RelayThread(1) as two:
        roster = roster_with(2, BOTH, [one.entry, two.entry])
        with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
            assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
            assert {link.way for link in a.links()} == {"relay:relay-1"}


class Inventive(Silent):
    """Calls everybody in the name of everybody else, without end, and passes nothing on."""

    held = ()

    def _dial(self, control, ref, to):
        control.send(Word.DENY, ref=ref, why="absent")

    async def serve(self, listeners):
        going = asyncio.create_task(self._call())
        try:
            await super().serve(listeners)
        finally:
            going.cancel()

    async def _call(self):
        while True:
            await asyncio.sleep(0.02)
            for who, control in list(self.present.items()):
                for other in (identity(0).id, identity(1).id):
                    if other != who and len(self.held) < 400:
                        control.send(Word.CALL, caller=other, token=secrets.token_bytes(32))


def test_calls_that_a_relay_makes_up_take_no_room_at_another(tmp_path):
    """Through it come silent streams in the name of a neighbour, as many as are taken."""
    patient = replace(PATIENT, handshake=60.0)
    with RelayThread(0, kind=Inventive) as liar, RelayThread(1) as honest:
        roster = roster_with(2, BOTH, [liar.entry, honest.entry])
        with without_port(0, roster, tmp_path, settings=patient) as a:
            most = a._table.settings.handshakes_per_address
            with without_port(1, roster, tmp_path, settings=patient) as b:
                for one in (a, b):
                    full = lambda one=one: one.refusals().get("handshake_flood", 0) > most  # noqa: E731
                    assert until(full)
                assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
                lost = lambda: sum(sum(link.reconnects.values()) for link in a.links())  # noqa: E731
                for _ in range(3):
                    before = lost()
                    for pair in list(honest.server.streams.joined):
                        honest.server._loop.call_soon_threadsafe(pair.close, "cut")
                    assert until(lambda before=before: lost() > before)
                    assert until(lambda: all(link.up for link in (*a.links(), *b.links())))


class Forgetful(RelayServer):
    """Passes a greeting on, and nothing after it."""

    def _arrived(self, token, end):
        super()._arrived(token, Greeted(end))


class Greeted:
    def __init__(self, end):
        self.fileno, self.close, self.write, self.flush = (
            end.fileno,
            end.close,
            end.write,
            end.flush,
        )
        self._end, self._since = end, 0.0
        self.pending = False

    def read_into(self, view):
        count, now = self._end.read_into(view), time.monotonic()
        self._since = self._since or now
        return count if now < self._since + 0.5 else 0


def test_a_relay_that_passes_greetings_on_and_nothing_else_is_left_for_the_next(tmp_path):
    with RelayThread(0, kind=Forgetful) as one, RelayThread(1) as two:
        first = roster_with(2, BOTH, [one.entry, two.entry])
        with without_port(0, first, tmp_path) as a, without_port(1, first, tmp_path) as b:
            both = lambda: [link.up for link in (*a.links(), *b.links())]  # noqa: E731
            assert until(lambda: all(both()))
            ways = lambda: {link.way for link in a.links()}  # noqa: E731
            assert until(lambda: ways() == {"relay:relay-1"})
            time.sleep(2.5)  # longer than a link lives over the first
            assert all(both())
            assert ways() == {"relay:relay-1"}


def test_a_fault_of_this_program_does_not_end_the_dialling_of_a_relay(tmp_path, monkeypatch):
    real, left = client_module.connect_tls, [KeyError("planted"), IndexError("planted")]

    def broken(*args, **more):
        if left:
            raise left.pop()
        return real(*args, **more)

    monkeypatch.setattr(client_module, "connect_tls", broken)
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
            assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
    assert not left


@pytest.mark.parametrize(
    "answer", [b"\r\n\r\n", b"   \r\n\r\n", b"HTTP/1.1\r\n\r\n", b"x \xb2\r\n\r\n"]
)
def test_a_proxy_that_answers_nothing_is_named_as_such(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            talk, _ = server.accept()
            with talk:
                talk.recv(4096)
                talk.sendall(answer + b"\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        outbound = Outbound(Proxy("127.0.0.1", server.getsockname()[1]))
        with pytest.raises(WayError, match="does not speak HTTP"):
            outbound.connect(("relay.example:443",), time.monotonic() + 5)
        thread.join()


# -- members, beside others that are honest


def test_neighbours_that_are_down_do_not_use_up_the_dials_to_those_that_are_there(tmp_path):
    """Most sites of a federation may be off for days; each is dialled every second or two."""
    count = 12
    pairs = [pair for number in range(1, count) for pair in ((0, number), (number, 0))]
    with RelayThread() as relay:
        roster = roster_with(count, pairs, [relay.entry])
        with without_port(0, roster, tmp_path) as a:  # 11 neighbours, each about 15 times a second
            assert until(lambda: relay.server.present)
            time.sleep(2.5)
            assert not relay.server.refusals
            before = time.monotonic()
            with without_port(1, roster, tmp_path) as b:
                assert until(lambda: all(link.up for link in b.links()))
                assert time.monotonic() < before + 5
            assert a.me in relay.server.present


def test_a_member_that_comes_and_goes_is_refused_and_disturbs_no_neighbour(tmp_path):
    told = []
    with RelayThread() as relay:
        roster = roster_with(3, (*BOTH, (0, 2), (2, 0)), [relay.entry])
        with (
            without_port(0, roster, tmp_path, on_event=told.append) as a,
            without_port(1, roster, tmp_path) as b,
        ):
            assert until(lambda: all(link.up for link in b.links()))
            context = client_context(identity(2), relay.entry, CONTROL_ALPN)
            hello = encode(Word.HELLO, versions=[1, 1], roster_version=1, takes_calls=True)
            for _ in range(60):
                late = time.monotonic() + 5
                stream = connect_tls(Outbound(), relay.entry, context, late)
                talk = BlockingStream(stream, late)
                with contextlib.closing(stream), contextlib.suppress(OSError):
                    talk.sendall(hello)
                    talk.recv_into(memoryview(bytearray(4)))
            assert relay.server.refusals["too_fast"] >= 20
            assert all(link.up for link in b.links())
            assert not [event for event in told if "not reached: too_fast" in event.text]
            assert relay.server.present.keys() >= {a.me, b.me}
