"""Stopped or cut off, together or apart, any number of times: the bits stay the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from peerloom.config import spec_hash
from peerloom.core.events import RoundDone
from peerloom.errors import PeerError
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import RunIdentity, Settings, StopRequested
from peerloom.transport.outbox import Outbox, OutboxFullError
from peerloom.transport.types import Parcel
from tests.doubles.memory import CrashedError, MemoryNetwork
from tests.memory_runs import check_replay, check_same, experiment, roster_for

pytestmark = pytest.mark.slow  # starts processes, or runs for long

BODY = np.zeros(8, np.uint8)
LONG = 500.0  # seconds of the network's own clock: a deadline that nobody who runs ever misses


class Rows:
    """The rows of an experiment, whose folders outlive the processes that work in them."""

    def __init__(self, exp, identities, folder):
        self.exp, self.folder, self.roster = exp, folder, roster_for(exp.graph, identities)

    def run(self, until=None, deadline=None, how="stop", seed=0, killed=()):
        """Run all rows to their end, or until a stop or a power cut after their round `until`.

        `until` may be a list with a round for every row: those who stop first are missed.
        `killed` are pairs (row, round): the row crashes right after the round, and is started again
        a little later.
        """
        plan = WirePlan.of(self.exp, deadline)
        run = RunIdentity("test", spec_hash(self.exp), plan.channels)
        network = MemoryNetwork(self.roster, run, seed, None, plan.settings(Settings(wait=30.0)))
        left = set(killed)
        ends = until if isinstance(until, list) else [until] * self.exp.graph.rows

        def program(row):
            def go(post):
                end = ends[row]

                def after(event):
                    t = event.t
                    if not isinstance(event, RoundDone):
                        return
                    if (row, t) in left:
                        left.remove((row, t))
                        raise CrashedError("killed")
                    if end is not None and t >= end:
                        raise StopRequested

                keep = PeerFolder(self.folder / str(row), spec_hash(self.exp))
                if how == "cut":  # without a last checkpoint
                    keep.save, whole = lambda at: None if at.t == end else whole(at), keep.save
                try:
                    return PeerRun(self.exp, row, post, keep, plan, observers=[after]).run()
                except PeerError as error:
                    if until is None or "is down" not in str(error):
                        raise
                    return None  # it waited for one that had stopped before

            return go

        ids = [member.id for member in self.roster.members]
        found = network.run({id: program(row) for row, id in enumerate(ids)})
        return [found[id] for id in ids]

    def longest_log(self):
        """The most parcels that any row's checkpoint holds for one neighbour."""
        longest = 0
        for row in range(self.exp.graph.rows):
            about = (
                PeerFolder(self.folder / str(row), spec_hash(self.exp))
                .newest()
                .memory()["sent-about"]
            )
            longest = max(
                longest,
                *(int((about[:, 0] == other).sum()) for other in range(self.exp.graph.rows)),
            )
        return longest


@pytest.mark.parametrize("how", ["stop", "cut"])
def test_stops_a_hundred_rounds_apart_change_no_bit(how, identities, tmp_path):
    """Restarts do not send again what the start before sent again.

    They once did: after two restarts all peers ended with exit code 5 for ever.
    """
    exp = experiment("SpodGT", rounds=560)
    rows = Rows(exp, identities, tmp_path)
    kept = WirePlan.of(exp).kept
    for until in (105, 210, 315, 420, 525):
        found = [result for result in rows.run(until, how=how) if result is not None]
        assert all(result.finished == "asked" for result in found)
        assert rows.longest_log() <= kept + 8 + 1
    check_same(exp, rows.run())


def test_a_deadline_may_be_added_and_taken_away(identities, tmp_path):
    exp = experiment("SpodGT", rounds=260)
    rows = Rows(exp, identities, tmp_path)
    for until, deadline in ((118, None), (120, LONG), (170, LONG), (175, None), (250, LONG)):
        rows.run(until, deadline)
    check_replay(exp, tmp_path, rows.run(deadline=LONG))


stops = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([None, LONG]), st.sampled_from(["stop", "cut"])),
    min_size=1,
    max_size=4,
)
kills = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 100)), max_size=3)


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[
        Phase.explicit,
        Phase.generate,
    ],  # every example runs for seconds: shrinking takes minutes
)
@given(
    name=st.sampled_from(["DSpodFL", "SpodGT", "Depositum"]),
    stops=stops,
    kills=kills,
    seed=st.integers(0, 2**32),
)
@example(name="DSpodFL", stops=[(50, None, "stop"), (1, LONG, "stop")], kills=[(0, 49)], seed=0)
def test_any_number_of_stops_at_any_distance_can_be_replayed_to_the_bit(
    name, stops, kills, seed, identities, tmp_path_factory
):
    exp = experiment(name, rounds=100)
    rows = Rows(exp, identities, tmp_path_factory.mktemp("stops"))
    t = 0
    for distance, deadline, how in stops:
        t += distance
        if t < exp.rounds:
            rows.run(t, deadline, how, seed, [kill for kill in kills if t - distance < kill[1] < t])
    found = rows.run(seed=seed)
    if all(deadline is None for _, deadline, _ in stops):
        check_same(exp, found)
    # With a deadline, rounds went on without those who had stopped first.
    check_replay(exp, rows.folder, found)


@pytest.mark.parametrize("deadline", [0.02, LONG])
def test_rows_that_stop_far_apart_can_be_replayed_to_the_bit(deadline, identities, tmp_path):
    """Every row stops at a round of its own, also under a deadline that is really missed."""
    exp = experiment("SpodGT", rounds=30)
    rows = Rows(exp, identities, tmp_path)
    for ends in ([8, 1, 8, 4, 8, 8, 2], [9, 16, 16, 12, 9, 16, 16]):
        rows.run(ends, deadline)
    check_replay(exp, tmp_path, rows.run(deadline=deadline))


def test_many_starts_while_a_neighbour_is_away_do_not_fill_the_outbox():
    """With a deadline every start adds a parcel for a peer that is away; the outbox bears it."""
    box = Outbox("b", limit=3, retain=3)
    for t in range(200):
        box.put(Parcel(0, t, 1, BODY), "ordered", 0, 0.0, repeat=True)
    for t in range(200, 203):
        box.put(Parcel(0, t, 1, BODY), "ordered", 0, 0.0)
    with pytest.raises(OutboxFullError, match="3 parcels wait"):
        box.put(Parcel(0, 203, 1, BODY), "ordered", 0, 0.0)
    assert box.tally.balanced
