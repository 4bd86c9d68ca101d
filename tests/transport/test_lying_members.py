"""A member with a valid key that lies: what it says is refused, and nobody else notices."""

import contextlib
import json
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from peerloom.codecs import Quantised
from peerloom.errors import CodecError, PeerError
from peerloom.transport import Channel, Parcel, Roster, RunIdentity
from peerloom.transport.connection import Connection
from peerloom.transport.conversation import _MOST_OLD_ROSTERS, Conversation
from peerloom.transport.frames import FrameError, encode
from peerloom.transport.framesocket import FrameSocket
from peerloom.transport.schemas import Kind
from peerloom.transport.tls import client_context, server_context
from peerloom.transport.tls_stream import TlsStream
from tests.federation import QUICK, endpoint, federation, free_ports, identity, until


def test_a_parcel_of_one_channel_is_not_taken_as_that_of_another(tmp_path):
    """Each channel has its own check: what one has judged must not reach the mixing of another."""
    run = RunIdentity(
        "run", "spec", {1: Channel(8, None, "rows", 1), 9: Channel(64, None, "gossip", -1)}
    )
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with (
        endpoint(0, roster, tmp_path, ports[0], run) as liar,
        endpoint(1, roster, tmp_path, ports[1], run) as other,
    ):
        wrong = liar.send(identity(1).id, Parcel(9, 1, 1, np.zeros(64, np.uint8)))
        assert until(lambda: wrong.outcome == "refused")
        assert wrong.reason == "wrong_shape"
        right = liar.send(identity(1).id, Parcel(1, 1, 1, np.zeros(8, np.uint8)))
        assert until(lambda: right.outcome == "acked")
        assert len(other.take(identity(0).id, 1, 1, 1.0).body) == 8


@pytest.mark.parametrize(
    "change",
    [
        {"founder": 0},
        {"founder": None},
        {"run": float("nan")},
        {"spec": float("inf")},
        {"log": [1]},
        {"threshold": 0},
        {"founders": []},
        {"expires": 2**53},
        {"relays": [None]},
        {"epoch": -1},
    ],
)
def test_rosters_of_any_form_are_refused_as_rosters(change):
    roster = federation(2, [(0, 1)])
    document = json.loads(roster.to_bytes())
    document["roster"].update(change)
    with pytest.raises(PeerError):
        Roster.from_bytes(json.dumps(document).encode(), roster.founder)


def test_a_weight_beyond_all_floats_is_no_roster():
    roster = federation(2, [(0, 1)])
    data = roster.to_bytes().replace(b'"a": 0.25', b'"a": 1' + b"0" * 400)
    assert data != roster.to_bytes()
    with pytest.raises(PeerError):
        Roster.from_bytes(data, roster.founder)


def test_a_member_that_pings_without_reading_the_answers_is_cut_off(tmp_path):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as one:
        talk = Conversation(one._table, identity(1).id, dialled=True, now=0.0)
        talk.state = "up"
        frame = encode(Kind.PING, {"stamp": 1})

        def ask(times):
            for _ in range(times):
                view = talk.buffer()
                view[: len(frame)] = frame
                talk.received(len(frame), 0.0)

        ask(1)
        with pytest.raises(FrameError, match="before the last was answered"):
            ask(1)


def test_a_fault_while_dialling_does_not_end_the_dialling(tmp_path, monkeypatch):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    failures = []

    def fails(self, peer):
        failures.append(threading.current_thread().name)
        raise TypeError("a fault of the program")

    with endpoint(0, roster, tmp_path, ports[0]) as one:
        monkeypatch.setattr("peerloom.transport.connector.Connector._dial", fails)
        assert until(lambda: len(failures) >= 2), "it is dialled again after a fault"
        monkeypatch.undo()
        with endpoint(1, roster, tmp_path, ports[1]):
            assert until(lambda: all(link.up for link in one.links()))


def test_a_norm_whose_levels_overflow_is_refused():
    body = np.frombuffer(np.float32(3.4e38).tobytes() + b"\0", np.uint8)
    with pytest.raises(CodecError, match="not_finite"):
        Quantised(5).check(body, 1, torch.float32)


def test_one_late_answer_does_not_stretch_patience(tmp_path):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as one:
        talk = Conversation(one._table, identity(1).id, dialled=True, now=time.monotonic())
        talk._time(1e6)
        assert talk._patience <= 10 * QUICK.dead


SIDE = {
    "process_nonce": 5, "attempt": 0, "last": [0, 0], "want": 0, "room": 16, "parents": [],
    "part": [0, 0, 0],
}  # fmt: skip


def hear(talk, frame):
    """Let a conversation read a whole frame."""
    view = talk.buffer()
    view[: len(frame)] = frame
    talk.received(len(frame), time.monotonic())


def test_a_member_that_greets_and_hangs_up_is_dialled_with_growing_pauses(tmp_path):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    settings = replace(QUICK, backoff=(0.02, 1.0))
    dials, stop = [], threading.Event()
    listener = socket.create_server(("127.0.0.1", ports[1]))
    listener.settimeout(0.1)

    def hang_up():
        while not stop.is_set():
            try:
                raw, _ = listener.accept()
            except TimeoutError:
                continue
            dials.append(time.monotonic())
            with server_context(identity(1), roster).wrap_socket(raw, server_side=True) as sock:
                frames = FrameSocket(sock)
                frames.read(Kind.HELLO)
                frames.send(
                    Kind.HELLO_OK, {"version": 7, "roster_version": 1, "incarnation": 5, **SIDE}
                )
                frames.send(Kind.BYE, {"why": "stopped"})

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    with endpoint(0, roster, tmp_path, ports[0], settings=settings):
        time.sleep(3.0)
    stop.set()
    thread.join(5.0)
    listener.close()
    assert 3 <= len(dials) <= 15, "0.02 + 0.04 + ... + 1 + 1 seconds, each at least half"


def test_records_of_tls_without_content_end_a_connection():
    """Key updates and tickets cost the reader more than the sender: they must not hold a thread."""
    roster = federation(2, [(0, 1)], free_ports(2))
    context = server_context(identity(1), roster)
    context.num_tickets = 500
    ours, theirs = socket.socketpair()

    def flood():
        with (
            contextlib.suppress(OSError),  # cut by the other side
            context.wrap_socket(theirs, server_side=True) as sock,
        ):
            sock.recv(1)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    stream = TlsStream(ours, client_context(identity(0), roster), server_side=False)
    stream.handshake(time.monotonic() + 10.0)
    room, until_cut = memoryview(bytearray(32768)), time.monotonic() + 10.0

    def read():
        while time.monotonic() < until_cut:
            assert stream.read_into(room) == 0
            time.sleep(0.001)

    with pytest.raises(FrameError, match="too_fast"):
        read()
    stream.close()
    thread.join(5.0)


def test_a_connection_brings_few_rosters_that_are_known(tmp_path):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as one:
        talk = Conversation(one._table, identity(1).id, dialled=True, now=time.monotonic())
        talk.state = "up"
        frame = encode(Kind.ROSTER, {}, roster.to_bytes())
        for _ in range(_MOST_OLD_ROSTERS):
            hear(talk, frame)
        with pytest.raises(FrameError, match="rosters that are known"):
            hear(talk, frame)


def test_a_greeting_across_a_change_of_links_comes_to_nothing(tmp_path):
    """What was greeted for the links of one roster must not carry those of another."""
    ports = free_ports(2)
    roster = federation(2, [(0, 1)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as one:
        peer = identity(1).id
        talk = Conversation(one._table, peer, dialled=True, now=time.monotonic())
        both = federation(2, [(0, 1), (1, 0)], ports)
        one.adopt(replace(both, version=2, epoch=1, log=(roster.hash,)).signed(identity(0)))
        answer = {"version": 7, "roster_version": 2, "incarnation": 5, **SIDE, "attempt": 1}
        with pytest.raises(ConnectionError, match="roster changed during the greeting"):
            hear(talk, encode(Kind.HELLO_OK, answer))
        assert one._table.greetings.current(peer) is None
        assert not any(link.up for link in one.links())


def test_a_peer_whose_greeting_breaks_off_is_dialled_again(tmp_path, monkeypatch):
    """It was connected for a moment, so that our own dialling had ended."""
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    greet, broken = Connection.greet, threading.Event()

    def breaks_off(self, late):
        greet(self, late)
        if not self.conversation.attempt and not broken.is_set():  # the one that was dialled
            time.sleep(0.5)  # our own dialling sees that there is a connection, and ends
            broken.set()
            raise ConnectionResetError("broke off")

    monkeypatch.setattr(Connection, "greet", breaks_off)
    with endpoint(1, roster, tmp_path, ports[1]):
        with endpoint(0, roster, tmp_path, free_ports(1)[0]):  # where nobody can dial it
            assert broken.wait(10.0)
        with socket.create_server(("127.0.0.1", ports[0])) as listener:
            listener.settimeout(5.0)
            listener.accept()[0].close()
