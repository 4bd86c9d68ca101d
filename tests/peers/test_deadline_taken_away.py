"""Rows that are rounds apart go on without the deadline that let them be."""

import pytest

from peerloom.config import spec_hash
from peerloom.peers.folder import PeerFolder
from peerloom.peers.sync_wire import SyncWire
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import StopRequested
from tests.memory_runs import check_replay, experiment, run_in_memory

pytestmark = pytest.mark.slow  # runs for long

ROUNDS, DEADLINE, STOP = 90, 0.05, 12.0


def run_apart(exp, identities, folder, pace):
    """Run under a deadline until all are stopped; a round of row 0 takes `pace` seconds."""

    def stop(row, now):
        if now >= STOP:
            raise StopRequested

    paces = [pace] + [0.2] * (exp.graph.rows - 1)
    run_in_memory(exp, identities, folder, deadline=DEADLINE, pace=paces, timed=stop)
    newest = [
        PeerFolder(folder / str(row), spec_hash(exp)).newest().t for row in range(exp.graph.rows)
    ]
    assert min(newest[1:]) - newest[0] > 2 * WirePlan.of(exp).ahead


CRASHES = ((0.3, 1, 0.2), (0.6, 0, 0.2), (0.9, 2, 0.1))


@pytest.mark.parametrize(
    ("name", "pace", "crashes"),
    [
        ("SpodGT", 0.5, ()),
        ("SpodGT", 1.5, CRASHES),
        ("Depositum", 0.5, CRASHES),
        ("Depositum", 1.5, ()),
        ("DSpodFL", 1.5, CRASHES),
    ],
)
def test_a_row_far_behind_is_waited_for(name, pace, crashes, identities, tmp_path):
    """It sends again all that was given up, and waits for what was held back."""
    exp = experiment(name, rounds=ROUNDS)
    run_apart(exp, identities, tmp_path, pace)
    check_replay(exp, tmp_path, run_in_memory(exp, identities, tmp_path, crashes=crashes))


def test_what_makes_room_is_saved_before(identities, tmp_path, monkeypatch):
    """Late mass that was taken in the midst of a round is in both checkpoints, and not owed."""
    exp, held, make_room = experiment("SpodGT", rounds=ROUNDS), [], SyncWire._make_room
    run_apart(exp, identities, tmp_path, 0.5)

    def make_and_look(wire, tag):
        crowded = wire._transport.crowded()
        make_room(wire, tag)
        if crowded:
            keep = PeerFolder(tmp_path / str(wire._row), spec_hash(exp))
            held.append([len(at.memory()["late-about"]) for at in keep.checkpoints()])

    monkeypatch.setattr(SyncWire, "_make_room", make_and_look)
    check_replay(exp, tmp_path, run_in_memory(exp, identities, tmp_path))
    assert held
    assert all(newest == older > 0 for newest, older in held)
