"""Symmetric rules with a deadline: what was late at one end of a link is moved there later, so the mean stays."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_peers import SLOW, check_replay, crashes, decisions_of, experiment, identities, run_in_memory  # noqa: F401

import peerloom as pl
from peerloom.core import Delivery, Late
from peerloom.engines import build_net
from peerloom.messages import Coordinates, Dense
from peerloom.peers.replay import DecisionsWire
from peerloom.peers.sent import Sent, SentLog
from peerloom.transport import Receipt

MESSAGES = [Dense(), Coordinates(0.5, per_pair=True)]
RULES = ["Depositum", "DSGT", "DSMT", "ProxGT", "KGT"]


# -- the equation


class OneLate:
    """All rows here. In round 1 row 0 misses what row 1 sends; in round 2 it comes, beside what round 2 brings."""

    def __init__(self):
        self.sent = {}

    def swap(self, tag, links, out, payload, into, cargo):
        ends = list(zip(links.src[out].tolist(), links.dst[out].tolist(), strict=True))
        self.sent[tag] = {pair: payload[k].clone() for k, pair in enumerate(ends)}
        arrived, late = np.array([tag[0] != 1 or pair != (1, 0) for pair in ends]), ()
        if tag[0] == 2:
            first = self.sent[1, 1]
            late = (Late((1, 1), int(out[ends.index((1, 0))]), first[1, 0], first[0, 1]),)
        return Delivery(payload, arrived, np.ones(len(out), bool), late)


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_a_late_row_moves_its_receiver_by_the_difference_of_that_time(message):
    """Plain loops: x_i + sum_j m_ij a_ij (x_j - x_i) over what came, and the same of round 1 for what came in round 2."""
    graph = pl.graphs.path(3)
    rule = pl.algorithms.DSGT(lr=0.1)
    exp = pl.Experiment(graph, pl.testing.random_quadratic(3, 6), rule, message=message, rounds=2, dtype="float64")
    net, a = build_net(exp, wire=OneLate()), graph.peers.matrix()
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
    assert not torch.allclose(x[1].sum(dim=0), x[0].sum(dim=0))  # for a round one end had moved and the other had not
    torch.testing.assert_close(x[2].sum(dim=0), x[0].sum(dim=0), rtol=0, atol=1e-14)


def mask_of(exp, t):
    """Which coordinates each link carries in round t: rows of ones, sent by themselves."""
    net = build_net(exp, wire=pl.core.MemoryWire())
    net.t = t
    found = {}
    for j in range(3):
        ones = torch.zeros(3, 6, dtype=torch.float64)
        ones[j] = 1.0
        moved = net.mix(ones) if j == 0 else build_and_mix(exp, t, ones)
        for i in range(3):
            if i != j:
                found[i, j] = (moved[i] != 0).to(torch.float64)
    return found


def build_and_mix(exp, t, x):
    net = build_net(exp, wire=pl.core.MemoryWire())
    net.t = t
    return net.mix(x)


# -- what is under way is never forgotten


def test_what_is_under_way_is_remembered_and_what_arrived_for_some_rounds_only():
    log, body = SentLog(rounds=3), np.zeros(1)
    slow, quick = Receipt("a"), Receipt("b")
    log.add(Sent(0, 1, 1, body), slow, 1)
    log.add(Sent(1, 1, 1, body), quick, 1)
    quick.outcome = "acked"
    log.forget(3)
    assert [sent.row for sent in log.until(3)] == [0, 1]
    log.forget(4)
    assert [sent.row for sent in log.until(4)] == [0]
    log.forget(90)
    slow.outcome = "acked"  # only now: its receiver may go back to a checkpoint of these days
    log.forget(92)
    assert [sent.row for sent in log.until(92)] == [0]
    log.forget(93)
    assert not log.until(93)
    log.add(Sent(0, 95, 1, body), slow, 95)
    assert not log.until(94)


# -- between peers


def owed(exp, decisions):
    """By mixing of a round: the sum of a (x_j - x_i) that receivers who missed a row are still to move."""
    wire = DecisionsWire(decisions, keeps_mean=True)
    net = build_net(exp, wire=wire)
    state = exp.algorithm.init(exp.start(range(exp.graph.rows)).to(net.place.dtype), net)
    for net.t in range(1, exp.rounds + 1):
        state = exp.algorithm.step(state, net)
    held = {((d.round, d.turn), row, d.row) for row, made in decisions.items() for d in made if d.kind == "held"}
    a, found = exp.graph.peers.matrix(), {}
    for (tag, source, target), theirs in wire._owed.items():
        if (tag, source, target) not in held and (tag, target, source) not in held:
            flow = a[target, source] * (theirs - wire._own[tag, source, target])
            found[tag[1]] = found.get(tag[1], 0.0) + flow
    return found


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), crashes=crashes, deadline=st.floats(0.02, 0.3))
def test_trackers_keep_their_mean_whatever_is_late_and_whoever_crashes(
    seed, crashes, deadline, identities, tmp_path_factory  # noqa: F811
):  # fmt: skip
    """DEPOSITUM's trackers, with what is still to be moved, sum to beta times the gradients: to 1e-12, and bit for bit."""
    exp, folder = experiment("Depositum", rounds=30), tmp_path_factory.mktemp("late")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, deadline)
    check_replay(exp, folder, results)
    y, g = (torch.cat([getattr(result.state, name) for result in results]).sum(dim=0) for name in ("y", "g"))
    still = owed(exp, decisions_of(exp, folder)).get(2, torch.zeros(exp.problem.n, dtype=torch.float64))
    assert (y + still - exp.algorithm.beta * g).abs().max() < 1e-12


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("message", MESSAGES, ids=["whole", "paired"])
def test_every_symmetric_tracker_can_be_repeated(name, message, identities, tmp_path):  # noqa: F811
    exp = experiment(name, rounds=25, message=message, schedule=pl.schedules.Always())
    made = check_replay(exp, tmp_path, run_in_memory(exp, identities, tmp_path, SLOW, seed=7, deadline=0.05))
    assert {"missed", "late"} <= {decision.kind for decision in made}


def test_who_sends_nothing_is_deaf(identities, tmp_path):  # noqa: F811
    """A neighbour that is away for long is sent nothing more; what it says itself then moves nobody either."""
    exp = experiment("Depositum", rounds=120, schedule=pl.schedules.Always())
    results = run_in_memory(exp, identities, tmp_path, SLOW, seed=1, crashes=[(0.5, 2, 4.0)], deadline=0.02)
    made = check_replay(exp, tmp_path, results)
    assert {"missed", "held", "late"} <= {decision.kind for decision in made}
    y, g = (torch.cat([getattr(result.state, name) for result in results]).sum(dim=0) for name in ("y", "g"))
    still = owed(exp, decisions_of(exp, tmp_path)).get(2, torch.zeros(5, dtype=torch.float64))
    assert (y + still - exp.algorithm.beta * g).abs().max() < 1e-12
