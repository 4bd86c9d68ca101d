"""A member with a valid key that lies: what it says is refused, and nobody else notices."""

import json
import threading
import time

import numpy as np
import pytest
import torch

from peerloom.codecs import Quantised
from peerloom.errors import CodecError, PeerError
from peerloom.transport import Channel, Parcel, Roster, RunIdentity
from peerloom.transport.conversation import _MOST_ANSWERS, Conversation
from peerloom.transport.frames import FrameError, Kind, encode
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
        assert until(lambda: wrong.outcome == "refused", 10.0)
        assert wrong.reason == "wrong_shape"
        right = liar.send(identity(1).id, Parcel(1, 1, 1, np.zeros(8, np.uint8)))
        assert until(lambda: right.outcome == "acked", 10.0)
        assert len(other.take(identity(0).id, 1, 1, 1.0).body) == 8


@pytest.mark.parametrize(
    "change",
    [
        {"founder": 0},
        {"founder": None},
        {"run": float("nan")},
        {"spec": float("inf")},
        {"previous": [1]},
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


def test_who_asks_on_without_reading_is_cut_off(tmp_path):
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

        ask(_MOST_ANSWERS // 2)
        with pytest.raises(FrameError, match="more is asked"):
            ask(_MOST_ANSWERS)


def test_a_fault_while_dialling_does_not_end_the_dialling(tmp_path, monkeypatch):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    failures = []

    def fails(self, peer):
        failures.append(threading.current_thread().name)
        raise TypeError("a fault of the program")

    with endpoint(0, roster, tmp_path, ports[0]) as one:
        monkeypatch.setattr("peerloom.transport.connector.Connector._dial", fails)
        assert until(lambda: len(failures) >= 2, 10.0), "it is dialled again after a fault"
        monkeypatch.undo()
        with endpoint(1, roster, tmp_path, ports[1]):
            assert until(lambda: all(link.up for link in one.links()), 10.0)


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
