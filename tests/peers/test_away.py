"""With a deadline, a neighbour whose link is down costs nothing until it is back."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.peers.decisions import Absences, Decision, Journal
from peerloom.peers.federation import Federation
from peerloom.peers.replay import replay
from peerloom.transport import Gap
from tests.doubles.memory import Faults
from tests.memory_runs import check_replay, decisions_of, experiment, run_in_memory, wait_for


def ring(rule, count, rounds):
    return replace(
        experiment(rule, rounds),
        graph=pl.graphs.ring(count),
        problem=pl.testing.random_quadratic(count, 5),
        schedule=pl.schedules.Always(),
    )


# -- the journal


def test_the_journal_knows_who_is_away_and_what_of_it_has_come(tmp_path):
    journal = Journal(tmp_path / "decisions.jsonl")
    journal.add([Decision("away", 5, 1, 2), Decision("away", 6, 1, 3)])
    journal.add([Decision("back", 9, 1, 2), Decision("late", 10, 1, 2, (6, 1))])
    for known in (journal, Journal(tmp_path / "decisions.jsonl")):
        at = known.absences.at
        assert [at((5, 0)), at((5, 1)), at((8, 2)), at((9, 1))] == [set(), {2}, {2, 3}, {3}]
        assert known.gaps(11) == {
            2: [Gap((5, 1), (9, 1), {1: 6})],
            3: [Gap((6, 1), (11, 0), {})],
        }
        assert known.gaps(10)[2] == [Gap((5, 1), (9, 1), {})], "round 10 is repeated"


# -- in memory, where a deadline that is waited for shows in the network's own clock


@pytest.mark.parametrize("rule", ["DSpodFL", "SpodGT", "Depositum"])
def test_rounds_go_on_without_a_wait_while_a_neighbour_is_down(rule, identities, tmp_path):
    """It is down for 40 s, 8 deadlines: more rounds than deadlines pass, and then it is back."""
    exp = ring(rule, 5, 60)
    crash = (0.3, 2, 40.0)
    results = run_in_memory(exp, identities, tmp_path, Faults(), 3, [crash], deadline=5.0)
    check_replay(exp, tmp_path, results)
    made = decisions_of(exp, tmp_path)
    for row in (1, 3):
        spans = [(first, end) for other, first, end in Absences(made[row]).spans() if other == 2]
        assert spans, "its neighbours say that it is away"
        (first, _), (_, end) = spans[0], spans[-1]
        assert min(end[0], exp.rounds) - first[0] > 20
        assert len([d for d in made[row] if (d.kind, d.row) == ("missed", 2)]) <= 4


@pytest.mark.parametrize("rule", ["DSpodFL", "SpodGT", "Depositum"])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), at=st.floats(0.1, 0.2), links=st.sampled_from([0.5, 1.0]))
def test_a_dead_neighbour_costs_few_deadlines_whenever_it_died(
    rule, seed, at, links, identities, tmp_path_factory
):  # fmt: skip
    """In a round, between two mixings, with links that fire or rest."""
    exp, folder = ring(rule, 5, 12), tmp_path_factory.mktemp("dead")
    exp = replace(exp, schedule=pl.schedules.Bernoulli(nodes=0.9, links=links))
    done = dict[int, float]()
    # When it is back all others have ended, and nobody has what it was sent in the round in which
    # it died. If it had mixed once in that round, this cannot be repeated: there is no replay.
    run_in_memory(
        exp, identities, folder, Faults(), seed, [(at, 2, 500.0)],
        deadline=5.0, timed=done.__setitem__,
    )  # fmt: skip
    assert max(done[row] for row in (0, 1, 3, 4)) < 16, "three deadlines and all rounds"


def test_who_has_nobody_left_waits_for_the_deadline(identities, tmp_path):
    """A site that is cut off must not run through all its rounds alone."""
    exp = replace(ring("DSpodFL", 3, 40), graph=pl.graphs.path(3))
    results = run_in_memory(exp, identities, tmp_path, Faults(), 3, [(0.3, 1, 40.0)], deadline=5.0)
    made = check_replay(exp, tmp_path, results)
    assert not [decision for decision in made if decision.kind == "away"]
    assert len([d for d in decisions_of(exp, tmp_path)[0] if d.kind == "missed"]) >= 5


def lost_on_the_way(made, source, target, rounds):
    """The rounds whose mass was sent, given up, overtaken by later mass, and never handed over."""
    theirs, ours = Absences(made[source]), Absences(made[target])
    held = {d.round for d in made[source] if (d.kind, d.row) == ("held", target)}
    about = [d for d in made[target] if d.row == source]
    late = {d.of[0] for d in about if d.kind == "late"}
    kinds = {kind: {d.round for d in about if d.kind == kind} for kind in ("missed", "skipped")}
    away = {t for t in range(1, rounds + 1) if ours.contains(source, (t, 1))}
    every = set(range(1, rounds + 1))
    sent = {t for t in every - held if not theirs.contains(target, (t, 1))}
    newest = max(late | (every - kinds["missed"] - kinds["skipped"] - away))
    return {t for t in sent & (kinds["missed"] | away) - late if t < newest}


def test_mass_that_came_late_outlives_a_crash_before_the_next_checkpoint(
    identities, tmp_path
):  # fmt: skip
    """A slow peer crashes while a quick one catches up: much has come since its checkpoint."""
    exp = ring("SpodGT", 4, 65)
    pace = [0.3, 0.3, 0.005, 0.3]
    crashes = [(1.0, 2, 15.0), (16.35, 1, 0.1)]
    results = run_in_memory(
        exp, identities, tmp_path, Faults(), 3, crashes, deadline=5.0, pace=pace
    )
    check_replay(exp, tmp_path, results)
    made = decisions_of(exp, tmp_path)
    assert len([d for d in made[1] if (d.kind, d.row) == ("late", 2)]) > 8
    assert not lost_on_the_way(made, 2, 1, exp.rounds)
    assert not lost_on_the_way(made, 2, 3, exp.rounds)


# -- between processes


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["DSpodFL", "SpodGT"])
def test_processes_lose_no_time_with_one_that_is_down(rule, tmp_path, monkeypatch):
    """Many more rounds than deadlines while it is down; afterwards all are done, to the bits."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    exp = ring(rule, 4, 1500)  # so that the others are not done before it is back
    federation = Federation(exp, tmp_path / "run", deadline=1.5)

    def round_of(row):
        return next((s["round"] for s in federation.status() if s["row"] == row), 0)

    with federation.no_orphans():
        for row in range(4):
            federation.start(row)
        wait_for(lambda: all(round_of(row) > 5 for row in range(4)))
        federation.kill(2)
        before, began = round_of(0), time.monotonic()
        wait_for(lambda: round_of(0) > before + 60)
        assert (time.monotonic() - began) / 1.5 < 30, "not a deadline for every round"
        federation.start(2)
        federation.wait()
    decisions = {row: peer.journal().every() for row, peer in enumerate(federation.peer_folders())}
    assert {"away", "back"} <= {decision.kind for decision in decisions[1]}
    state, _ = replay(federation.exp, decisions)
    ends = [peer.newest().state["x"] for peer in federation.peer_folders()]
    assert torch.equal(torch.from_numpy(np.concatenate(ends)), state.x)
