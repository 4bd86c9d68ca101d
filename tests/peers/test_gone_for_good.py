"""A peer repeats the round in which it died, and a neighbour that it heard there never returns."""

import pytest

from peerloom.config import spec_hash
from peerloom.core.events import each_round
from peerloom.peers.decisions import Journal
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.schedules import Always
from peerloom.transport import RunIdentity, Settings
from tests.doubles.memory import Faults, MemoryNetwork
from tests.memory_runs import check_replay, experiment, roster_for

WAIT = 5.0


@pytest.mark.parametrize(("away", "rounds"), [(2000.0, 80), (WAIT + 2.0, 300)])
def test_what_came_late_and_does_not_come_again_is_not_waited_for_without_end(
    away, rounds, identities, tmp_path, monkeypatch
):
    """Row 1 takes what row 2 sent late, and both die; row 2 returns when all is over, or before."""
    exp = experiment("SpodGT", rounds=rounds, schedule=Always())
    roster = roster_for(exp.graph, identities)
    ids, plan = [member.id for member in roster.members], WirePlan.of(exp, deadline=0.05)
    network = MemoryNetwork(
        roster, RunIdentity("test", spec_hash(exp), plan.channels), 3, Faults(delay=(0.001, 0.06)),
        plan.settings(Settings(wait=WAIT)),
    )  # fmt: skip
    killed, ends, posts, add = [], {}, {}, Journal.add

    def add_and_die(journal, decisions):
        made = list(decisions)
        add(journal, made)
        if journal._path.parent.name != "1" or killed:
            return
        if found := [d for d in made if d.kind == "late" and d.row == 2]:
            killed.extend(found)
            network.at(network.now, lambda: network._kill(ids[2], away))
            network.at(network.now, lambda: network._kill(ids[1], 0.5))
            posts[1].wait_for_arrivals(10**12, 1.0)  # and there it dies

    def program(row):
        def go(post):
            run = PeerRun(
                exp, row, post, PeerFolder(tmp_path / str(row), spec_hash(exp)), plan,
                observers=[each_round(lambda t: ends.update({row: network.now}))],
            )  # fmt: skip
            posts[row] = post
            return run.run()

        return go

    monkeypatch.setattr(Journal, "add", add_and_die)
    results = network.run({id: program(row) for row, id in enumerate(ids)})
    assert killed
    if away < 1000:
        check_replay(exp, tmp_path, [results[id] for id in ids])
    assert all(ends[row] < 10 * WAIT for row in range(len(ids)) if row != 2)
