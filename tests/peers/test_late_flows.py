"""Symmetric rules with a deadline: late flows are moved later, so the mean stays."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import Coordinates, Dense
from peerloom.config import spec_hash
from peerloom.core import Draws, LateRow, LocalWire
from peerloom.peers import wire_plan
from peerloom.peers.decisions import Absences, Decision, Journal
from peerloom.peers.folder import PeerFolder
from peerloom.peers.replay import DecisionsWire
from peerloom.peers.sent import Sent, SentLog
from peerloom.peers.wire_plan import WirePlan
from peerloom.runtime import build_port
from peerloom.transport import Receipt
from tests.doubles.memory import Faults
from tests.memory_runs import SLOW, check_replay, decisions_of, experiment, run_in_memory

MESSAGES = [Dense(), Coordinates(0.5, per_pair=True)]


# -- the equation


class OneLate:
    """All rows here; in round 1 row 0 misses what row 1 sends, and in round 2 it arrives."""

    def __init__(self, message):
        self.sent, self.local = {}, LocalWire(message, Draws(0))

    def exchange(self, tag, links, out, rows, into, parts):
        ends = list(zip(links.src[out].tolist(), links.dst[out].tolist(), strict=True))
        every = self.local.exchange(tag, links, out, rows, out, parts)
        self.sent[tag] = {
            pair: [every.parts[0][k : k + 1][0][0].clone()] for k, pair in enumerate(ends)
        }
        arrived, late = np.array([tag[0] != 1 or pair != (1, 0) for pair in ends]), ()
        if tag[0] == 2:
            first = self.sent[1, 1]
            late = (LateRow((1, 1), int(out[ends.index((1, 0))]), first[1, 0], first[0, 1]),)
        came = self.local.exchange(tag, links, out, rows, into[arrived], parts)
        return came._replace(arrived=arrived, late=late)


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_a_late_row_moves_its_receiver_by_the_difference_of_that_time(message):
    """x_i + sum_j m_ij a_ij (x_j - x_i) over what came; then the same for what came late."""
    graph = pl.graphs.path(3)
    rule = pl.rules.DSGT(lr=0.1)
    exp = pl.Experiment(
        graph, pl.testing.random_quadratic(3, 6), rule, message=message, rounds=2, dtype="float64"
    )
    net, a = build_port(exp, mixer="links", wire=OneLate(message)), graph.peers.matrix()
    x = [torch.from_numpy(np.random.default_rng(0).normal(size=(3, 6)))]
    for net.t in (1, 2):
        x.append(net.mix(x[-1]))
    masks = [mask_of(exp, t) for t in (1, 2)]
    wanted = [x[0].clone(), x[1].clone()]
    for t in (0, 1):
        for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
            if (t, i, j) != (0, 0, 1):
                wanted[t][i] += a[i, j] * masks[t][i, j] * (x[t][j] - x[t][i])
    wanted[1][0] += a[0, 1] * masks[0][0, 1] * (x[0][1] - x[0][0])
    torch.testing.assert_close(x[1], wanted[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(x[2], wanted[1], rtol=0, atol=1e-14)
    # For a round one end had moved and the other had not.
    assert not torch.allclose(x[1].sum(dim=0), x[0].sum(dim=0))
    torch.testing.assert_close(x[2].sum(dim=0), x[0].sum(dim=0), rtol=0, atol=1e-14)


def mask_of(exp, t):
    """Which coordinates each link carries in round t: those in which a row of ones is heard."""
    found = {}
    for j in range(3):
        net, ones = build_port(exp, mixer="links"), torch.zeros(3, 6, dtype=torch.float64)
        net.t, ones[j] = t, 1.0
        moved = net.mix(ones)
        found |= {(i, j): (moved[i] != 0).to(torch.float64) for i in range(3) if i != j}
    return found


# -- what is under way is never forgotten


def test_what_is_under_way_is_remembered_and_of_what_arrived_the_last_parcels():
    log, body = SentLog(keep=2), np.zeros(1, np.uint8)
    slow, quick = [Receipt("a") for _ in range(4)], [Receipt("b") for _ in range(4)]
    for t in range(1, 5):
        log.add(Sent(0, t, 1, body), slow[t - 1])
        log.add(Sent(1, t, 1, body), quick[t - 1])
    for receipt in quick:
        receipt.outcome = "acked"
    log.forget()
    assert [(sent.row, sent.round) for sent in log.until(9)] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 3),
        (1, 4),
    ]
    assert [(sent.row, sent.round) for sent in log.until(3)] == [(0, 1), (0, 2), (0, 3), (1, 3)]
    for receipt in slow[:3]:
        receipt.outcome = "acked"
    log.forget()
    assert [(sent.row, sent.round) for sent in log.until(9)] == [
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 3),
        (1, 4),
    ]


def test_what_a_round_under_way_had_given_up_is_still_awaited():
    """After a kill in round 5 the journal still awaits what that round gave up."""
    journal = Journal(None)
    journal.add(
        [
            Decision("missed", 3, 1, 7),
            Decision("missed", 4, 1, 8),
            Decision("late", 4, 1, 7, (3, 1)),
        ]
    )
    journal.add([Decision("missed", 5, 1, 9), Decision("late", 5, 1, 8, (4, 1))])
    assert journal.outstanding(5) == {8: [(4, 1)], 9: [(5, 1)]}


# -- between peers


def small(name, rounds, **changes):
    """Four rows are enough, and every round of each is a checkpoint."""
    return replace(
        experiment(name, rounds),
        graph=pl.graphs.ring(4),
        problem=pl.testing.random_quadratic(4, 5),
        **changes,
    )


def check_mean(exp, folder, results):
    """Trackers and late flows sum to beta times the gradients, and the latter are stored."""
    decisions = decisions_of(exp, folder)
    told = DecisionsWire(decisions, exp.message, Draws(exp.seed), keeps_mean=True)
    net = build_port(exp, mixer="links", wire=told)
    state = exp.algorithm.init(exp.start(range(exp.graph.rows)).to(net.place.dtype), net)
    for net.t in range(1, exp.rounds + 1):
        state = exp.algorithm.step(state, net)
    held = places(decisions, "held")  # by source, target
    absences = {row: Absences(made) for row, made in decisions.items()}

    def unsent(source, target, tag):
        return (source, target, tag) in held or absences[source].contains(target, tag)

    for target, source, tag in places(decisions, "skipped"):
        assert unsent(source, target, tag), "what was sent comes"
    still, a = torch.zeros(exp.problem.n, dtype=torch.float64), exp.graph.peers.matrix()
    for (tag, source, target), theirs in told._owed.items():
        if not unsent(source, target, tag) and not unsent(target, source, tag):
            memory = PeerFolder(folder / str(target), spec_hash(exp)).newest().memory()
            kept = memory["own-about"][:, :3].tolist()
            assert [source, *tag] in kept
            if tag[1] == 2:  # the second mixing of a round is that of the trackers
                still += a[target, source] * (theirs[0] - told._own[tag, source, target][0])
    y, g = (
        torch.cat([getattr(result.state, name) for result in results]).sum(dim=0)
        for name in ("y", "g")
    )
    assert (y + still - exp.algorithm.beta * g).abs().max() < 1e-12


def places(decisions, kind):
    return {
        (row, d.row, (d.round, d.mix_index))
        for row, made in decisions.items()
        for d in made
        if d.kind == kind
    }


crashes = st.lists(
    st.tuples(st.floats(0.01, 3.0), st.integers(0, 3), st.floats(0.0, 1.0)), max_size=4
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), crashes=crashes, deadline=st.floats(0.02, 0.3))
def test_trackers_keep_their_mean_when_flows_are_late_and_peers_crash(
    seed, crashes, deadline, identities, tmp_path_factory
):  # fmt: skip
    """Trackers and late flows sum to beta times the gradients, and a replay has the bits."""
    exp, folder = small("Depositum", 18), tmp_path_factory.mktemp("late")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, deadline)
    check_replay(exp, folder, results)
    check_mean(exp, folder, results)


@pytest.mark.parametrize("name", ["DSGT", "DSMT", "ProxGT", "KGT", "paired"])
def test_every_symmetric_tracker_can_be_replayed(name, identities, tmp_path):
    rule, message = ("Depositum", MESSAGES[1]) if name == "paired" else (name, MESSAGES[0])
    exp = small(rule, 12, message=message, schedule=pl.schedules.Always())
    made = check_replay(
        exp, tmp_path, run_in_memory(exp, identities, tmp_path, SLOW, seed=7, deadline=0.05)
    )
    assert {"missed", "late"} <= {decision.kind for decision in made}


def test_a_row_that_sends_nothing_takes_nothing_back(identities, tmp_path, monkeypatch):
    """A row that sends nothing, since too much is in transit, also takes nothing back."""
    monkeypatch.setattr(wire_plan, "AHEAD", 1)
    exp = small("Depositum", 25, schedule=pl.schedules.Always())
    results = run_in_memory(
        exp, identities, tmp_path, SLOW, seed=1, crashes=[(0.5, 2, 0.2)], deadline=0.1
    )
    made = check_replay(exp, tmp_path, results)
    assert {"missed", "held", "late"} <= {decision.kind for decision in made}
    check_mean(exp, tmp_path, results)


def test_who_takes_everything_and_sends_nothing_costs_a_bounded_memory(identities, tmp_path):
    """A member that acknowledges every row and sends none: its neighbours keep a few rows."""
    exp = small("Depositum", 120, schedule=pl.schedules.Always())

    def takes(post):
        post.expect(10**9)  # whatever comes is taken at once
        for _ in range(3 * exp.rounds):
            post.wait_for_arrivals(10**12, 0.02)

    run_in_memory(exp, identities, tmp_path, Faults(), seed=1, deadline=0.05, instead={2: takes})
    decisions, most = decisions_of(exp, tmp_path), WirePlan.of(exp, 0.05).most_owed
    for row in (1, 3):
        kept = PeerFolder(tmp_path / str(row), spec_hash(exp)).newest().memory()["own-about"]
        assert len(kept) == most == 24
        kinds = Counter(d.kind for d in decisions[row] if d.row == 2 and d.round > 60)
        assert kinds == {"held": 2 * 60}, "nothing more is sent to it"
    assert not places({0: decisions[0]}, "held")


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_hold_back_for_what_they_are_owed_come_together_again(
    seed, identities, tmp_path, monkeypatch
):
    """Two that both hold back must not do so for ever, however few rows may be owed."""
    monkeypatch.setattr(WirePlan, "most_owed", 3)
    exp = small("Depositum", 60, schedule=pl.schedules.Always())
    faults = Faults(delay=(0.001, 0.08))
    results = run_in_memory(exp, identities, tmp_path, faults, seed, deadline=0.05)
    check_replay(exp, tmp_path, results)
    check_mean(exp, tmp_path, results)
    held = places(decisions_of(exp, tmp_path), "held")
    assert held
    for row in range(4):
        other = (row + 1) % 4
        last = [(t, mixing) for t in range(30, 61) for mixing in (1, 2)]
        both = [tag for tag in last if not {(row, other, tag), (other, row, tag)} & held]
        assert both, "to the end there are mixings in which both send"
