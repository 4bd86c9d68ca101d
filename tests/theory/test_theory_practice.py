"""Theory against practice: the simulator does what the exact predictions say."""

from dataclasses import replace

import numpy as np
import pytest

from peerloom import graphs
from peerloom.codecs import (
    ANQ,
    CODECS,
    Coordinates,
    Dense,
    Quantised,
    RandK,
    Sign,
    SignTopK,
    TopK,
)
from peerloom.core import DivergedError
from peerloom.papers.theorems import dspodfl, mll_sgd
from peerloom.papers.theorems import dspodfl_nonconvex as nonconvex
from peerloom.problems import Classification, Quadratic
from peerloom.rules import (
    ANQNIDS,
    BEER,
    CHOCO,
    DCD,
    DGD,
    DSGD,
    MLLSGD,
    DSpodFL,
    PairwiseGossip,
    PaME,
    SpodGT,
    SQuARM,
)
from peerloom.schedules import Bernoulli, Every, HubRounds, OneEdge, Sampled
from peerloom.theory import advise
from peerloom.theory.activity_rates import activity_rates
from peerloom.theory.constants import estimate
from peerloom.theory.contraction import contraction, rounds_to_agree
from peerloom.theory.costs import costs
from peerloom.theory.exact import Linear, mixing_rate
from peerloom.theory.matrices import expected, left_perron, pull_contraction
from tests.builders import experiment, final, quadratic, trajectory

RUNS = 200  # seeds a mean is taken over; tolerances are four of its standard errors


def flat(clients, n=1):
    """No slope anywhere: only mixing moves the models."""
    return Quadratic(np.zeros((clients, n, n)), np.zeros((clients, n)))


def apart(x):
    x = x.numpy()
    return float(((x - x.mean(axis=0)) ** 2).sum())


def within(samples, expected):
    mean, error = np.mean(samples), np.std(samples) / np.sqrt(len(samples))
    assert abs(mean - expected) < 4 * error + 1e-12, (mean, expected, error)


@pytest.mark.parametrize(
    "graph",
    [graphs.path(4), graphs.two_way(graphs.ring(5)), graphs.complete(4)],
    ids=lambda g: g.name,
)
def test_one_round_of_random_mixing_leaves_what_is_predicted(graph):
    """From the worst disagreement, the mean over seeds of what a round leaves is rho itself."""
    rng = np.random.default_rng(3)
    _, at = np.unique(graph.peers.coin, return_inverse=True)
    p = rng.uniform(0.2, 0.9, at.max() + 1)[at]
    table = np.zeros((graph.rows, graph.rows))
    table[graph.peers.dst, graph.peers.src] = p
    phi = left_perron(expected(graph.peers, p))
    rho, worst = pull_contraction(graph.peers, p, phi)
    worst = worst - phi @ worst
    rule, left = (DSpodFL(lr=0.1), []) if graph.peers.symmetric else (SpodGT(lr=0.1), [])
    for seed in range(RUNS):
        exp = experiment(
            graph,
            rule,
            problem=flat(graph.rows),
            schedule=Bernoulli(links=table, clip=0.001),
            x0=worst[:, None],
            rounds=1,
            seed=seed,
        )
        x = trajectory(exp)[-1].numpy()[:, 0]
        left.append(phi @ x**2 / (phi @ worst**2))  # from the old weighted mean, which is 0
    within(left, rho)


def test_many_rounds_of_random_mixing_shrink_at_the_lasting_rate():
    graph, p = graphs.path(5), 0.5
    table = p * (graph.peers.matrix() > 0)
    rate = mixing_rate(graph.peers, np.full(len(graph.peers), p))
    worst, vector = pull_contraction(graph.peers, np.full(len(graph.peers), p))
    assert rate < worst
    sizes = np.zeros((RUNS, 31))
    for seed in range(RUNS):
        exp = experiment(
            graph,
            DSpodFL(lr=0.1),
            problem=flat(5),
            schedule=Bernoulli(links=table),
            x0=vector[:, None],
            rounds=30,
            seed=seed,
        )
        sizes[seed] = [apart(x) for x in trajectory(exp)]
    mean = sizes.mean(axis=0)
    assert (mean[30] / mean[10]) ** (1 / 20) == pytest.approx(rate, abs=0.01)
    # And the whole curve is the exact one, within sampling error.
    exact = Linear(
        graph.peers,
        np.full(len(graph.peers), p),
        np.zeros((5, 1, 1)) + 1e-12,
        np.zeros((5, 1)),
        np.ones(5),
        0.0,
    )
    for t, floor in enumerate(exact.after(vector[:, None], 30)):
        within(sizes[:, t] / 5, floor.consensus)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_dspodfl_on_quadratics_follows_its_exact_moments_and_settles_at_its_floor(noise):
    graph, problem = graphs.ring(4), quadratic(4, n=2, seed=5, noise=noise)
    d, b, alpha, rounds = np.array([0.3, 0.9, 0.6, 1.0]), 0.4, 0.1, 60
    schedule = Bernoulli(nodes=d, links=b)
    model = Linear(
        graph.peers, np.full(len(graph.peers), b), problem._A, problem._b, d, alpha, noise
    )
    best, predicted = problem.solution(), list(model.after(np.zeros(2), rounds))
    errors, spreads = np.zeros((RUNS, rounds + 1)), np.zeros((RUNS, rounds + 1))
    for seed in range(RUNS):
        exp = experiment(
            graph, DSpodFL(lr=alpha), problem=problem, schedule=schedule, rounds=rounds, seed=seed
        )
        for t, x in enumerate(trajectory(exp)):
            errors[seed, t] = ((x.numpy().mean(axis=0) - best) ** 2).sum()
            spreads[seed, t] = apart(x) / 4
    for t in (1, 2, 5, 20, rounds):
        within(errors[:, t], predicted[t].error)
        within(spreads[:, t], predicted[t].consensus)
    floor = model.floor()
    assert predicted[-1].consensus == pytest.approx(floor.consensus, rel=0.05)
    assert floor.bias > 0.005  # a client that computes seldom counts less


def test_the_exact_step_limit_parts_runs_that_settle_from_runs_that_explode():
    problem = quadratic(4, n=2, seed=1)
    limit = advise(experiment(graphs.ring(4), DGD(lr=0.1), problem=problem)).coverage.exact_step
    settles = trajectory(
        experiment(graphs.ring(4), DGD(lr=0.97 * limit), problem=problem, rounds=400)
    )
    assert apart(settles[-1]) < 1e3
    with pytest.raises(DivergedError):
        trajectory(
            experiment(
                graphs.ring(4),
                DGD(lr=1.03 * limit),
                problem=problem,
                rounds=40_000,
                dtype="float32",
            )
        )


def test_the_bounds_lie_above_what_is_measured():
    problem = Quadratic(
        np.tile(np.eye(2), (4, 1, 1)), np.array([[0.0, 1], [1, 0], [0.5, 0.5], [1, 1]]), noise=0.1
    )
    exp = experiment(
        graphs.ring(4),
        DSpodFL(lr=0.02),
        problem=problem,
        schedule=Bernoulli(nodes=0.95, links=0.6),
        rounds=1500,
    )
    found = advise(exp)
    assert found.coverage.holds
    xs = trajectory(exp)[500:]
    error = np.mean([((x.numpy().mean(axis=0) - problem.solution()) ** 2).sum() for x in xs])
    spread = np.mean([apart(x) / 4 for x in xs])
    assert error <= found.coverage.floor["|mean model - optimum|^2"]
    assert spread <= found.coverage.floor["consensus"]
    # One path, 1000 rounds that depend on each other.
    assert error == pytest.approx(found.coverage.exact.error, rel=0.5)
    assert spread == pytest.approx(found.coverage.exact.consensus, rel=0.15)


def mixing_experiment(name):
    rule = {"lr": 0.1}
    if name == "every":
        return experiment(
            graphs.ring(6), DSGD(**rule), problem=flat(6), schedule=Every(4), rounds=101
        )
    if name == "one edge":
        return experiment(
            graphs.ring(5), PairwiseGossip(**rule), problem=flat(5), schedule=OneEdge(), rounds=100
        )
    if name == "hubs":
        graph = graphs.hubs(graphs.path(4), [2, 1, 3, 2])
        return experiment(
            graph, MLLSGD(**rule), problem=flat(8), schedule=HubRounds(tau=2, q=3), rounds=60
        )
    graph, schedule = graphs.regular(10, 4, seed=1), Sampled(kappa=2, fraction=0.5)
    return experiment(
        graph,
        PaME(sigma=1.0),
        problem=flat(10, 40),
        schedule=schedule,
        message=Coordinates(0.5),
        rounds=120,
    )


@pytest.mark.parametrize("name", ["every", "one edge", "hubs", "sampled"])
def test_other_schedules_agree_as_fast_as_predicted(name):
    exp = mixing_experiment(name)
    rates = activity_rates(exp)
    found = contraction(exp, rates)
    rng = np.random.default_rng(0)
    start = rng.normal(size=(exp.graph.clients, exp.problem.n))
    slow = []
    by_chance = name in ("one edge", "sampled")
    for seed in range(20) if by_chance else [exp.seed]:
        sizes = [apart(x) for x in trajectory(replace(exp, x0=start, seed=seed))]
        last = (
            max(t for t, size in enumerate(sizes) if size > 1e-20 * sizes[0])
            // rates.common_period
            * rates.common_period
        )
        half = last // 2 // rates.common_period * rates.common_period
        slow.append((sizes[last] / sizes[half]) ** (1 / (last - half)))
    if name == "one edge":
        # W^2 = W.
        moment = np.mean(
            [np.eye(5) - 0.5 * np.outer(d, d) for d in np.eye(5) - np.roll(np.eye(5), 1, 0)], axis=0
        )
        assert found.per_round == pytest.approx(np.linalg.eigvalsh(moment)[-2])
    typical = np.exp(np.mean(np.log(slow)))
    assert found.best == pytest.approx(typical, rel=0.04 if by_chance else 0.01)
    if found.per_round is not None:
        assert np.mean(slow) <= found.per_round + 0.02
    if name in ("every", "hubs"):  # nothing by chance: the slowest mode is all that is left
        assert found.per_round == pytest.approx(np.mean(slow), abs=0.01)
    assert rounds_to_agree(found.best) is not None


@pytest.mark.parametrize("name", ["every", "one edge", "hubs", "sampled"])
def test_costs_are_those_of_the_ledger(name):
    exp = mixing_experiment(name)
    found, ledger = costs(exp, activity_rates(exp)), final(exp).port.ledger
    tolerance = 1.5 / exp.rounds + (0.02 if name == "sampled" else 0)
    assert found.bytes * exp.rounds == pytest.approx(ledger.bytes, rel=4 * tolerance)
    assert found.messages * exp.rounds == pytest.approx(ledger.messages, rel=4 * tolerance)
    assert found.gradients * exp.rounds == pytest.approx(ledger.gradients, rel=tolerance)
    assert found.delay * exp.rounds == pytest.approx(ledger.delay(), rel=4 * tolerance)


# Every codec with a rule that bears it, and how far its predicted bytes may be from the ledger's:
# on dense quadratics, and on the digits, whose differences are heavy-tailed and partly zero.
# ANQ measures numbers by its eta, which no estimate before the run can relate to what is sent.
MESSAGES = [
    (Dense("float16"), DSpodFL(lr=0.05), 0, 0),
    (Coordinates(0.2), DSpodFL(lr=0.05), 0, 0),
    (Coordinates((0.2, 0.05, 1.0, 0.5, 0.1)), DSpodFL(lr=0.05), 0, 0),
    (Coordinates((0.2, 0.05, 1.0, 0.5, 0.1)), SpodGT(lr=0.05), 0, 0),
    (RandK(0.2), CHOCO(lr=0.05, gamma=0.2), 0, 0),
    (TopK(0.1), CHOCO(lr=0.05, gamma=0.2), 0, 0),
    (Sign(), CHOCO(lr=0.05, gamma=0.2), 0.01, 0.1),
    (SignTopK(0.1), SQuARM(lr=0.02, gamma=0.2), 0.01, 0.01),
    (Quantised(3), CHOCO(lr=0.05, gamma=0.2), 0.02, 0.05),
    (Quantised(5), BEER(lr=0.02, gamma=0.2), 0.02, 0.08),
    (Quantised(8), DCD(lr=0.05), 0.02, 0.25),
    (ANQ(), ANQNIDS(lr=0.05), 0.1, 0.35),
]


def test_every_codec_has_its_bytes_compared():
    assert {type(codec).__name__ for codec, *_ in MESSAGES} == set(CODECS)


@pytest.mark.parametrize("data", ["quadratic", "digits"])
@pytest.mark.parametrize(
    ("codec", "rule", "dense", "sparse"),
    MESSAGES,
    ids=[f"{codec}-{type(rule).__name__}" for codec, rule, *_ in MESSAGES],
)
def test_bytes_are_those_of_the_ledger_with_every_codec(codec, rule, dense, sparse, data):
    from peerloom.problems import Classification
    from tests.builders import final

    digits = data == "digits"
    problem = Classification("softmax", batch=16) if digits else quadratic(5, 200, noise=0.5)
    exp = experiment(graphs.ring(5), rule, problem=problem, message=codec, rounds=40)
    found, ledger = costs(exp, activity_rates(exp)), final(exp).port.ledger
    assert found.messages * exp.rounds == ledger.messages
    tolerance = sparse if digits else dense
    assert found.bytes * exp.rounds == pytest.approx(ledger.bytes, rel=tolerance, abs=1e-6)


def test_bytes_are_a_pure_function_of_the_seed():
    exp = experiment(graphs.ring(5), CHOCO(lr=0.05), message=Quantised(5))
    assert costs(exp, activity_rates(exp)) == costs(exp, activity_rates(exp))


def test_noise_is_what_the_gradients_show():
    exact = estimate(Classification("softmax", batch=4), 3, seed=2).noise
    more = estimate(Classification("softmax", batch=16), 3, seed=2).noise
    assert exact.value / more.value == pytest.approx(2.0, rel=0.35)  # variance goes with 1 / batch


def gradients_along(exp, mean_of):
    """Mean of |grad F|^2 at the (weighted) mean model, over all rounds."""
    A, b = exp.problem._A.mean(axis=0), exp.problem._b.mean(axis=0)
    return float(np.mean([((A @ mean_of(x.numpy()) - b) ** 2).sum() for x in trajectory(exp)]))


def test_theorem_412_lies_above_what_is_measured():
    problem = quadratic(5, n=2, seed=2, noise=0.3)
    k = estimate(problem, 5)
    exp = experiment(
        graphs.complete(5),
        DSpodFL(lr=0.004),
        problem=problem,
        schedule=Bernoulli(nodes=0.95, links=0.8),
        rounds=800,
    )
    rho = contraction(exp, activity_rates(exp)).per_round
    s = dspodfl.Setting(
        5, rho, k.smoothness.value, 0.0, 1.0, _uneven(problem), k.noise.value, 0.95, 0.95
    )
    bound = nonconvex.nonconvex_bound(s, 0.004, 800, k.drop.value)
    assert bound.holds
    assert gradients_along(exp, lambda x: x.mean(axis=0)) <= bound.printed


def _uneven(problem):
    """delta of |grad F_i| <= delta + |grad F|, over the points a run passes."""
    points = np.random.default_rng(0).normal(size=(500, problem.n)) * 3
    g = np.einsum("ijk,pk->pij", problem._A, points) - problem._b
    mean = np.linalg.norm(g.mean(axis=1), axis=1)
    return float((np.linalg.norm(g, axis=2).max(axis=1) - mean).max())


def test_bound_13_of_mll_sgd_lies_above_what_is_measured():
    A, b = np.tile(np.diag([1.0, 0.5]), (6, 1, 1)), np.tile([1.0, -1.0], (6, 1))
    problem = Quadratic(A, b, noise=0.3)
    graph = graphs.hubs(graphs.path(3), [2, 2, 2])
    s = mll_sgd.Setting(
        mll_sgd.zeta(graphs.path(3).peers.matrix()),
        2,
        2,
        np.full(6, 1 / 6),
        np.full(6, 0.9),
        1.0,
        0.3 * 2**0.5,
    )
    eta = 0.9 * mll_sgd.step(s).printed
    exp = experiment(
        graph,
        MLLSGD(lr=eta),
        problem=problem,
        schedule=HubRounds(tau=2, q=2, nodes=0.9),
        rounds=1500,
    )
    bound = mll_sgd.bound(s, eta, 1500, estimate(problem, 6).drop.value)
    assert bound.holds
    assert gradients_along(exp, lambda x: x.mean(axis=0)) <= bound.printed
