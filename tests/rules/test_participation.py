"""FedDR and FedADMM where some clients take part, in plain loops from their papers."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.codecs import Dense
from peerloom.core import ConfigError, Draws
from peerloom.peers.experiments import check_deadline, check_free
from peerloom.problems import L1
from peerloom.rules import FedADMM, FedDR, FedMiD
from peerloom.runtime import iterate
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Always, Explicit, Participation
from tests.builders import experiment, final, quadratic
from tests.oracles import gradient, soft

M, K, LAM = 6, 3, 0.3
SERVER = pl.graphs.hubs(pl.graphs.from_edges(1, []), [M])
X0 = np.random.default_rng(3).normal(size=3)
PROBLEM = quadratic(M)
HALF = Participation(0.5)


def taking_part(schedule, t):
    return schedule.bind(SERVER, Draws(0)).nodes(t)


def prox(x, step):
    return np.array([soft(float(c), step * LAM) for c in x])


def local(own, centre, weight, shift):
    """K gradient steps on f_i(w) + <shift, w> + weight/2 |w - centre|^2 from `own`, client i's."""

    def solve(i):
        A, b, w = np.asarray(PROBLEM.A).tolist(), np.asarray(PROBLEM.b).tolist(), own
        for _ in range(K):
            w = w - 0.1 * (np.array(gradient(A[i], b[i], w)) + shift + weight * (w - centre))
        return w

    return solve


def feddr(alpha, eta, schedule, rounds):
    """Tran-Dinh et al., Algorithm 1: S_k updates; xtilde += (1/n) sum of what changed."""
    server, total = X0.copy(), X0.copy()
    y, own, hat = ([X0.copy() for _ in range(M)] for _ in range(3))
    for t in range(1, rounds + 1):
        for i in np.flatnonzero(taking_part(schedule, t)):
            y[i] = y[i] + alpha * (server - own[i])
            own[i] = local(own[i], y[i], 1 / eta, 0)(i)
            total = total + (2 * own[i] - y[i] - hat[i]) / M
            hat[i] = 2 * own[i] - y[i]
        server = prox(total, eta)
        yield server


def fedadmm(eta, schedule, rounds):
    """Wang et al., Algorithm 1: S_k solves, updates multipliers and sends what changed."""
    server, total = X0.copy(), X0.copy()
    own, hat = ([X0.copy() for _ in range(M)] for _ in range(2))
    z = [np.zeros(3) for _ in range(M)]
    for t in range(1, rounds + 1):
        for i in np.flatnonzero(taking_part(schedule, t)):
            own[i] = local(own[i], server, eta, z[i])(i)
            z[i] = z[i] + eta * (own[i] - server)
            total = total + (own[i] + z[i] / eta - hat[i]) / M
            hat[i] = own[i] + z[i] / eta
        server = prox(total, 1 / eta)
        yield server


def run(rule, schedule, rounds=12, path="matrix", **changes):
    problem = pl.problems.Quadratic(PROBLEM.A, PROBLEM.b, h=L1(LAM))
    exp = experiment(
        SERVER, rule, problem=problem, schedule=schedule, x0=X0, rounds=rounds, **changes
    )
    return exp, [snapshot.state for snapshot in iterate(exp, path=path)]


CASES = [
    (FedDR(0.1, eta=0.7, alpha=1.5, K=K), lambda s, r: feddr(1.5, 0.7, s, r)),
    (FedADMM(0.1, eta=1.3, K=K), lambda s, r: fedadmm(1.3, s, r)),
]
cases = pytest.mark.parametrize(("rule", "loops"), CASES, ids=["FedDR", "FedADMM"])


@cases
@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize("schedule", [HALF, Participation(0.1), Participation(1.0)])
def test_the_server_has_the_papers_models(rule, loops, path, schedule):
    _, states = run(rule, schedule, path=path)
    for t, (state, wanted) in enumerate(zip(states[1:], loops(schedule, 12), strict=True), start=1):
        np.testing.assert_allclose(state.x[-1].numpy(), wanted, atol=1e-11)
        for i in np.flatnonzero(taking_part(schedule, t + 1)):
            np.testing.assert_allclose(state.x[i].numpy(), wanted, atol=1e-11)


@cases
def test_who_takes_no_part_keeps_what_it_has(rule, loops):
    _, states = run(rule, HALF)
    for t in range(1, 13):
        idle = np.flatnonzero(~taking_part(HALF, t))
        for field in ("own", "y"):
            before, after = getattr(states[t - 1], field), getattr(states[t], field)
            assert torch.equal(before[idle], after[idle])
        unreached = np.flatnonzero(~taking_part(HALF, t + 1))
        assert torch.equal(states[t - 1].mean[unreached], states[t].mean[unreached])


@cases
def test_the_servers_mean_is_that_of_what_all_workers_have(rule, loops):
    _, states = run(rule, HALF)
    for s in states:
        hat = 2 * s.own - s.y if isinstance(rule, FedDR) else s.own + s.y / rule.eta
        torch.testing.assert_close(s.mean[-1], hat[:M].mean(dim=0), rtol=0, atol=1e-12)


@cases
def test_only_who_takes_part_computes_and_talks(rule, loops):
    exp, _ = run(rule, HALF, rounds=10)
    ledger = final(exp).ledger
    assert ledger.gradients == 10 * 3 * K
    up, down = (ledger.layers[name].messages for name in ("up", "down"))
    assert up.sum() == down.sum() == 10 * 3
    rounds = range(1, 11)
    assert up.tolist() == sum(taking_part(HALF, t).astype(int) for t in rounds).tolist()
    assert down.tolist() == sum(taking_part(HALF, t + 1).astype(int) for t in rounds).tolist()


@cases
def test_shards_give_the_simulators_bits(rule, loops):
    exp, states = run(rule, HALF, rounds=6, path="links")
    found = run_sharded(exp, [[0, 4], [1, 2, 6], [3, 5]])
    assert torch.equal(found.path, torch.stack([s.x for s in states]))


@cases
def test_weighted_workers_have_a_weighted_mean(rule, loops):
    graph = pl.graphs.hubs(pl.graphs.from_edges(1, []), [M], weights=[1, 2, 3, 4, 5, 6])
    exp = experiment(graph, rule, problem=PROBLEM, schedule=HALF, x0=X0)
    s = final(exp).state
    hat = 2 * s.own - s.y if isinstance(rule, FedDR) else s.own + s.y / rule.eta
    wanted = np.average(hat[:M].numpy(), axis=0, weights=[1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(s.mean[-1].numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize(
    "rule", [FedDR(0.2, eta=1.0, alpha=1.0, K=40), FedADMM(0.2, eta=1.0, K=40)]
)
def test_with_some_at_a_time_they_still_reach_the_optimum_of_f_plus_h(rule):
    _, states = run(rule, HALF, rounds=600)
    x = states[-1].x[-1].numpy()
    A, b = np.asarray(PROBLEM.A), np.asarray(PROBLEM.b)
    g = np.mean([A[i] @ x - b[i] for i in range(M)], axis=0)
    assert (np.abs(g[x == 0]) <= LAM + 1e-7).all()
    np.testing.assert_allclose(g[x != 0], -LAM * np.sign(x[x != 0]), atol=1e-7)


def test_every_client_takes_part_equally_often():
    seen = np.mean([taking_part(Participation(0.3), t) for t in range(1, 4001)], axis=0)
    assert Participation(0.3).count(M) == 2
    np.testing.assert_allclose(seen, 2 / 6, atol=0.03)


@cases
def test_what_they_cannot_bear_is_refused(rule, loops):
    name = type(rule).__name__
    exp, _ = run(rule, HALF, rounds=1)
    with pytest.raises(ConfigError, match=f"{name} needs every message"):
        check_deadline(exp, 1.0)
    with pytest.raises(ConfigError, match=f"{name} needs every message"):
        check_free(exp)
    with pytest.raises(ConfigError, match=f"{name} cannot use"):
        run(rule, HALF, message=Dense("float16"))
    with pytest.raises(ConfigError, match="one common first model"):
        experiment(SERVER, rule, problem=PROBLEM, x0=np.arange(M * 3.0).reshape(M, 3))
    with pytest.raises(ConfigError, match="FedMiD needs every link in every round"):
        final(experiment(SERVER, FedMiD(0.1), problem=PROBLEM, schedule=HALF))


def test_participation_needs_a_server_and_a_share():
    with pytest.raises(ConfigError, match="for graphs with a server, but 'ring' has none"):
        HALF.bind(pl.graphs.ring(4), Draws(0))
    for share in (0.0, -0.1, 1.1):
        with pytest.raises(ConfigError, match=r"Participation\.share must be above 0"):
            Participation(share)


@cases
def test_a_schedule_that_rests_all_links_lets_nobody_take_part(rule, loops):
    silent = Explicit(links=np.zeros((4, M + 1, M + 1), bool))
    _, states = run(rule, silent, rounds=3)
    for s in states:
        np.testing.assert_array_equal(s.own.numpy(), np.tile(X0, (M + 1, 1)))
    _, always = run(rule, Always(), rounds=3)
    _, whole = run(rule, Participation(1.0), rounds=3)
    assert all(torch.equal(one.x, two.x) for one, two in zip(always, whole, strict=True))
