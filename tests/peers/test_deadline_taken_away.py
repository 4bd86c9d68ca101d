"""Rows that are rounds apart go on without the deadline that let them be."""

import pytest

from peerloom.config import spec_hash
from peerloom.core.events import each_round
from peerloom.errors import PeerError
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import RunIdentity, Settings, StopRequested
from tests.doubles.memory import MemoryNetwork
from tests.memory_runs import check_replay, experiment, roster_for

pytestmark = pytest.mark.slow  # runs for long

ROUNDS, DEADLINE, STOP = 90, 0.05, 12.0


class Rows:
    """The rows of an experiment; `run` starts them all, again and again."""

    def __init__(self, exp, identities, folder):
        self.exp, self.folder = exp, folder
        self.roster = roster_for(exp.graph, identities)

    def run(self, deadline=None, paces=None, stop=None, crashes=(), seen=None):
        """Run all rows to their end, or until they are stopped at a time; row 0's last round.

        `paces` are the seconds that a round of each row takes.
        """
        plan = WirePlan.of(self.exp, deadline)
        run = RunIdentity("test", spec_hash(self.exp), plan.channels)
        network = MemoryNetwork(self.roster, run, 0, None, plan.settings(Settings(wait=30.0)))

        def program(row):
            def go(post):
                def after(t):
                    if paces and paces[row]:
                        post.wait_for_arrivals(10**12, paces[row])
                    if stop is not None and network.now >= stop:
                        raise StopRequested

                keep = PeerFolder(self.folder / str(row), spec_hash(self.exp))
                watch = [each_round(after)]
                work = PeerRun(self.exp, row, post, keep, plan, observers=watch)
                if seen is not None:
                    seen(row, work)
                try:
                    return work.run()
                except PeerError as error:
                    if stop is None or "is down" not in str(error):
                        raise
                    return None  # it waited for one that had stopped before

            return go

        ids = [member.id for member in self.roster.members]
        found = network.run(
            {id: program(row) for row, id in enumerate(ids)},
            [(at, ids[row], rest) for at, row, rest in crashes],
        )
        return [found[id] for id in ids]

    def newest(self, row):
        return PeerFolder(self.folder / str(row), spec_hash(self.exp)).newest()


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
    rows, others = Rows(exp, identities, tmp_path), exp.graph.rows - 1
    rows.run(DEADLINE, [pace] + [0.2] * others, STOP)
    behind = min(rows.newest(row).t for row in range(1, others + 1)) - rows.newest(0).t
    assert behind > 2 * WirePlan.of(exp).ahead
    check_replay(exp, tmp_path, rows.run(crashes=crashes))


def test_what_makes_room_is_saved_before(identities, tmp_path):
    """Late mass that was taken in the midst of a round is in both checkpoints, and not owed."""
    exp = experiment("SpodGT", rounds=ROUNDS)
    rows, held = Rows(exp, identities, tmp_path), []
    rows.run(DEADLINE, [0.5] + [0.2] * (exp.graph.rows - 1), STOP)

    def watch(row, work):
        save = work._wire.checkpoint_now

        def note():
            save()
            keep = PeerFolder(tmp_path / str(row), spec_hash(exp))
            held.append([len(at.memory()["late-about"]) for at in keep.checkpoints()])

        work._wire.checkpoint_now = note

    check_replay(exp, tmp_path, rows.run(seen=watch))
    once, twice = held[::2], held[1::2]
    assert all(each[0] for each in once)
    assert all(newest == older > 0 for newest, older in twice)
