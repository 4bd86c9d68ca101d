"""Rounds that go on with the neighbours that come first (PaME, section III-E)."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import Coordinates, Dense
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.peers.experiments import check_enough
from peerloom.peers.wire_plan import WirePlan
from peerloom.schedules import Always, Sampled
from peerloom.transport import Parcel
from tests.doubles.memory import Faults
from tests.memory_runs import (
    SLOW,
    check_replay,
    check_same,
    crashes,
    decisions_of,
    experiment,
    run_in_memory,
)

pytestmark = pytest.mark.slow  # runs for long

DEADLINE = 20.0  # far beyond what any message takes


def pame(rounds=25, schedule=None, **changes):
    return experiment("PaME", rounds=rounds, schedule=schedule or Sampled(2), **changes)


def heard_by(exp, folder):
    """How many each row heard in each round: those that its schedule lets fire, less the missed."""
    activity, links = exp.schedule.bind(exp.graph, Draws(exp.seed)), exp.graph.peers
    missed = Counter(
        (d.round, row)
        for row, made in decisions_of(exp, folder).items()
        for d in made
        if d.kind == "missed"
    )
    for t in range(1, exp.rounds + 1):
        due = np.bincount(links.dst[activity.links(t, "peers")], minlength=exp.graph.rows)
        for row in range(exp.graph.rows):
            yield t, row, int(due[row]), int(due[row]) - missed[t, row]


@pytest.mark.parametrize("share", [0.1, 0.4, 0.5])
def test_every_round_goes_on_with_exactly_as_many_as_are_enough(share, identities, tmp_path):
    exp = pame()
    results = run_in_memory(
        exp, identities, tmp_path, Faults(delay=(0.001, 0.2)), seed=5, deadline=DEADLINE,
        enough=share,
    )  # fmt: skip
    made = check_replay(exp, tmp_path, results)
    kinds = {d.kind for d in made}
    assert {"missed"} <= kinds <= {"missed", "held"}  # who is far ahead holds back
    for t, row, due, heard in heard_by(exp, tmp_path):
        needed = math.ceil(share * due - 1e-9) if t > 1 else due  # all are waited for at the start
        assert heard == needed, (t, row)
    used = torch.cat([result.state.m for result in results])[:, 0].tolist()
    assert used == [math.ceil(share * d - 1e-9) for d in exp.graph.peers.in_degree]


def test_all_neighbours_are_enough_gives_the_simulators_bits(identities, tmp_path):
    exp = pame()
    check_same(
        exp, run_in_memory(exp, identities, tmp_path, SLOW, 3, deadline=DEADLINE, enough=1.0)
    )


def test_those_that_are_slow_are_not_waited_for(identities, tmp_path):
    """One row takes a second for a round, the others a tenth: only their first message is late."""
    exp, ends = pame(rounds=20, schedule=Sampled(1)), {}
    graph = pl.graphs.complete(7)
    exp = replace(exp, graph=graph)

    def timed(row, now):
        ends[row] = now

    pace = [1.0 if row == 3 else 0.1 for row in range(7)]
    results = run_in_memory(
        exp, identities, tmp_path, Faults(), 1, deadline=DEADLINE, enough=0.5, pace=pace,
        timed=timed,
    )  # fmt: skip
    made = check_replay(exp, tmp_path, results)
    fast = max(ends[row] for row in range(7) if row != 3)
    assert fast < 6.0 < ends[3], "in the time of 20 fast rounds, and not of slow ones"
    missed = Counter(d.row for d in made if d.kind == "missed")
    assert missed[3] >= 0.9 * 6 * 18, "the slow one is not among the first"


@pytest.mark.parametrize("name", ["SpodGT", "DSpodFL", "Depositum"])
def test_mass_and_flows_of_those_that_were_not_needed_come_later(name, identities, tmp_path):
    exp = experiment(name, rounds=30, schedule=Always(), message=Dense())
    results = run_in_memory(exp, identities, tmp_path, SLOW, seed=5, deadline=DEADLINE, enough=0.5)
    made = check_replay(exp, tmp_path, results)
    assert {"missed"} <= {d.kind for d in made}
    assert ("late" in {d.kind for d in made}) == (name != "DSpodFL")


def test_who_takes_nothing_is_not_enough(identities, tmp_path):
    """A member that sends its rows ahead and takes none: what is not used shuts nobody out."""
    rounds, exp = 60, experiment("Depositum", schedule=Always(), message=Dense())
    exp = replace(
        exp, graph=pl.graphs.complete(3), problem=pl.testing.random_quadratic(3, 5), rounds=rounds
    )
    mixings = range(1, WirePlan.of(exp).mixings + 1)

    def sends_ahead(post):
        ahead = {
            peer: [(t, mixing) for t in range(1, rounds + 1) for mixing in mixings]
            for peer in post.roster.targets(post.me)
        }
        row = np.zeros(8 * exp.problem.n, np.uint8)
        while any(ahead.values()):
            for peer, places in ahead.items():
                under_way = next(
                    link.tally.pending
                    for link in post.links()
                    if (link.peer, link.direction) == (peer, "out")
                )
                for _ in range(min(len(places), 4 - under_way)):
                    t, mixing = places.pop(0)
                    post.send(peer, Parcel(mixing, t, mixing, row))
            post.wait_for_arrivals(10**12, 0.002)
        post.wait_for_arrivals(10**12, 2 * DEADLINE)

    run_in_memory(
        exp, identities, tmp_path, Faults(delay=(0.005, 0.01)), 1, deadline=DEADLINE, enough=0.5,
        pace=[0.05] * 3, instead={2: sends_ahead},
    )  # fmt: skip
    decisions = decisions_of(exp, tmp_path)
    for row, other in ((0, 1), (1, 0)):
        made = [(d.kind, d.row) for d in decisions[row] if d.round > rounds // 2]
        assert made.count(("held", 2)) > rounds - 10
        assert made.count(("missed", other)) < 10, "the other one is waited for"


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    crashes=crashes,
    share=st.floats(0.1, 1.0),
    deadline=st.sampled_from([0.05, DEADLINE]),
    name=st.sampled_from(["PaME", "SpodGT"]),
)
def test_crashes_change_nothing_of_what_was_decided(
    seed, crashes, share, deadline, name, identities, tmp_path_factory
):
    exp = experiment(name, rounds=20, message=Coordinates(0.5))
    folder = tmp_path_factory.mktemp("enough")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, deadline, enough=share)
    check_replay(exp, folder, results)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0.5, None, False), "Give --deadline SECONDS, too"),
        ((0.5, None, True), "Leave one of the two out"),
        ((0.5, 1.0, True), "Leave one of the two out"),
        ((0.0, 1.0, False), "above 0 and at most 1"),
        ((1.5, 1.0, False), "above 0 and at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        check_enough(*given)
    check_enough(None, None, True)
    check_enough(0.5, 1.0, False)
