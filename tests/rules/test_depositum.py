"""DEPOSITUM, DSMT and ProxGT (1.4, 2.2): equations, invariants, reductions, fixed points."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import Caution, ConfigError
from peerloom.problems import L1, MCP, SCAD, Box, Quadratic, Zero
from peerloom.rules import DSGT, DSMT, Depositum, ProxGT
from peerloom.runtime import iterate
from peerloom.schedules import Always, Bernoulli, Every
from peerloom.testing import random_quadratic
from tests.builders import (
    check_refuses_unequal_links,
    checkpoint_at,
    experiment,
    final,
    paths,
    quadratic,
    trajectory,
    undirected_graphs,
)
from tests.oracles import (
    check_close,
    check_runs_agree,
    check_states,
    composite_solution,
    gradient,
    gradients,
    mixing_matrices,
    prox_mcp,
    prox_scad,
    proximal,
    soft,
)

GRAPH = graphs.geometric(6, radius=0.5, seed=1)
moments = pytest.mark.parametrize("nesterov", [False, True], ids=["polyak", "nesterov"])

# Each regulariser with its scalar proximal step as the paper writes it.
PROXES = {
    "zero": (None, lambda x, step: x),
    "l1": (L1(0.7), lambda x, step: soft(x, 0.7 * step)),
    "mcp": (MCP(0.8, 1.5), lambda x, step: prox_mcp(x, step, 0.8, 1.5)),
    "scad": (SCAD(0.6, 2.5), lambda x, step: prox_scad(x, step, 0.6, 2.5)),
    "box": (Box(-0.5, 1.2), lambda x, step: min(max(x, -0.5), 1.2)),
}
regularisers = pytest.mark.parametrize("name", PROXES)


def starts(rows, n=3, seed=0):
    """Wide enough that every piece of every proximal step is met."""
    return 2 * np.random.default_rng(seed).normal(size=(rows, n))


def make(graph, rule, T0=1, h=None, problem=None, **options):
    """An experiment under Every(T0); what the rule says about beta and h is tested on its own."""
    problem = replace(problem or quadratic(graph.rows), h=h)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        return experiment(graph, rule, problem=problem, **{"schedule": Every(T0), **options})


def depositum(exp, T0, prox):
    """Steps 1 to 5 of section 1.4, client by client; round t + 1 is the step t -> t + 1."""
    rule, m, n = exp.algorithm, exp.graph.rows, exp.problem.n
    A, b, W = exp.problem.A.tolist(), exp.problem.b.tolist(), mixing_matrices(exp.graph)[0]
    x = exp.start(range(m)).numpy()
    y, g, mu, nu = (np.zeros((m, n)) for _ in range(4))
    for t in itertools.count():
        yield {"x": x, "y": y, "mu": (mu if rule.nesterov else nu).copy()}
        talks = t >= 1 and t % T0 == 0
        z = np.zeros((m, n))
        for i in range(m):
            if rule.nesterov:
                mu[i] = rule.gamma * mu[i] + (1 - rule.gamma) * y[i]
                nu[i] = rule.gamma * mu[i] + (1 - rule.gamma) * y[i]
            else:
                nu[i] = rule.gamma * nu[i] + (1 - rule.gamma) * y[i]
            # With h_scale the regulariser is beta h; its proximal step is that of h with a step
            # beta times as long.
            step = rule.alpha * (rule.beta if rule.h_scale == "beta" else 1)
            z[i] = [prox(float(c), step) for c in x[i] - rule.alpha * nu[i]]
        x = W @ z if talks else z
        new = np.array([gradient(A[i], b[i], x[i]) for i in range(m)])
        tracked = y + rule.beta * new - rule.beta * g
        y, g = W @ tracked if talks else tracked, new


@paths
@regularisers
@moments
@pytest.mark.parametrize("T0", [1, 3])
@given(
    graph=undirected_graphs(most=7),
    seed=st.integers(0, 99),
    alpha=st.floats(0.02, 0.3),
    beta=st.floats(0.2, 1.5),
    gamma=st.floats(0, 0.9),
    h_scale=st.sampled_from([None, "beta"]),
)
@settings(max_examples=4)
def test_depositum_is_its_equation(
    path, name, nesterov, T0, graph, seed, alpha, beta, gamma, h_scale
):
    h, prox = PROXES[name]
    rule = Depositum(alpha, beta, gamma, nesterov=nesterov, h_scale=h_scale)
    exp = make(graph, rule, T0, h, x0=starts(graph.rows, seed=seed), rounds=8)
    check_states(exp, path, depositum(exp, T0, prox))


def test_its_parameters_have_the_papers_order_and_defaults():
    assert Depositum(0.1) == Depositum(alpha=0.1, beta=1.0, gamma=0.0, nesterov=False, h_scale=None)
    assert Depositum(0.1, 0.2, 0.3) == Depositum(alpha=0.1, beta=0.2, gamma=0.3)


def dsmt(x, G, alpha, gamma, W):
    """DSMT in plain loops, with a past of zeros.

    X+ = W (X - alpha Y); nu+ = gamma nu + (1 - gamma) G+; Y+ = W (Y + nu+ - nu).
    """
    nu = (1 - gamma) * G(x)
    y = nu
    while True:
        yield {"x": x, "y": y}
        x = W @ (x - alpha * y)
        new = gamma * nu + (1 - gamma) * G(x)
        y, nu = W @ (y + new - nu), new


@paths
@given(
    graph=undirected_graphs(),
    seed=st.integers(0, 99),
    alpha=st.floats(0.02, 0.3),
    gamma=st.floats(0, 0.95),
)
@settings(max_examples=10)
def test_dsmt_is_its_equation(path, graph, seed, alpha, gamma):
    exp = experiment(graph, DSMT(alpha, gamma), x0=starts(graph.rows, seed=seed), rounds=8)
    W, x = mixing_matrices(graph)[0], starts(graph.rows, seed=seed)
    check_states(exp, path, dsmt(x, lambda X: gradients(exp.problem, X), alpha, gamma, W))


def proxgt(x, G, alpha, W, prox):
    """ProxGT in plain loops; W stands for W^K.

    y[t+1] = W^K (y[t] + v[t] - v[t-1]); x[t+1] = W^K prox(x[t] - alpha y[t+1]); y[0] = v[-1] = 0.
    """
    y, v = np.zeros_like(x), np.zeros_like(x)
    while True:
        yield {"x": x, "y": y}
        y, v = W @ (y + G(x) - v), G(x)
        x = W @ proximal(prox, x - alpha * y, alpha)


@paths
@regularisers
@pytest.mark.parametrize("K", [1, 3])
@given(graph=undirected_graphs(), seed=st.integers(0, 99), alpha=st.floats(0.02, 0.3))
@settings(max_examples=6)
def test_proxgt_is_its_equation(path, name, K, graph, seed, alpha):
    h, prox = PROXES[name]
    exp = make(
        graph,
        ProxGT(alpha, K=K),
        h=h,
        x0=starts(graph.rows, seed=seed),
        rounds=6,
        schedule=Always(),
    )
    W = np.linalg.matrix_power(mixing_matrices(graph)[0], K)
    x = starts(graph.rows, seed=seed)
    check_states(exp, path, proxgt(x, lambda X: gradients(exp.problem, X), alpha, W, prox))


@pytest.mark.parametrize("rule", [DSMT(0.1, 0.5), ProxGT(0.1, K=2)])
def test_where_clients_and_links_are_sporadic_everybody_is_waited_for(rule):
    sporadic, steady = (
        trajectory(
            experiment(GRAPH, rule, schedule=schedule, problem=quadratic(6, noise=0.3), rounds=12)
        )
        for schedule in (Bernoulli(nodes=0.4, links=0.3), Always())
    )
    assert all(torch.equal(x, y) for x, y in zip(sporadic, steady, strict=True))
    assert not torch.equal(steady[0], steady[-1])


# --- Invariants.


@paths
@moments
@pytest.mark.parametrize("T0", [1, 3])
@given(graph=undirected_graphs(), beta=st.floats(0.1, 2), gamma=st.floats(0, 0.9))
@settings(max_examples=6)
def test_invariant_1_the_mean_tracker_is_beta_times_the_mean_gradient(
    path, nesterov, T0, graph, beta, gamma
):
    rule = Depositum(0.1, beta, gamma, nesterov=nesterov)
    for snapshot in iterate(make(graph, rule, T0, L1(0.3), x0=starts(graph.rows)), path=path):
        g = gradients(quadratic(graph.rows), snapshot.x).mean(axis=0) if snapshot.t else np.zeros(3)
        check_close(snapshot.state.y.mean(dim=0).numpy(), beta * g)


def momenta(exp, path="auto"):
    """(x, y, nu) of t = 0, 1, ... as arrays [t, m, n]; nu as the paper has it of y and mu."""
    states = [snapshot.state for snapshot in iterate(exp, path=path)]
    x, y, mu = (np.array([getattr(s, name).numpy() for s in states]) for name in ("x", "y", "mu"))
    gamma = exp.algorithm.gamma
    if not exp.algorithm.nesterov:
        return x, y, mu
    return x, y, np.concatenate([0 * mu[:1], gamma * mu[1:] + (1 - gamma) * y[:-1]])


@paths
@moments
@pytest.mark.parametrize("T0", [1, 3])
def test_invariants_3_and_4_means_move_as_one_client_would(path, nesterov, T0):
    """Without h the mean x steps along the mean nu, momentum of beta times the mean gradient."""
    alpha, beta, gamma = 0.1, 0.6, 0.7
    exp = make(GRAPH, Depositum(alpha, beta, gamma, nesterov=nesterov), T0, x0=starts(6), rounds=12)
    x, _, _ = momenta(exp, path)
    mu = np.zeros(3)
    for t in range(12):
        g = gradients(exp.problem, x[t]).mean(axis=0) if t else np.zeros(3)
        mu = gamma * mu + (1 - gamma) * beta * g
        nu = gamma * mu + (1 - gamma) * beta * g if nesterov else mu
        check_close(x[t + 1].mean(axis=0), x[t].mean(axis=0) - alpha * nu)


@moments
def test_invariant_5_without_talking_clients_run_alone(nesterov):
    rule, problem = Depositum(0.1, 0.6, 0.7, nesterov=nesterov), quadratic(6)
    together = trajectory(make(GRAPH, rule, 100, SCAD(0.6, 2.5), problem, x0=starts(6), rounds=15))
    for i in range(6):
        own = Quadratic(problem.A[i : i + 1], problem.b[i : i + 1])
        alone = trajectory(
            make(
                graphs.from_edges(1, []), rule, 100, SCAD(0.6, 2.5), own, x0=starts(6)[i], rounds=15
            )
        )
        for ours, theirs in zip(together, alone, strict=True):
            check_close(ours[i].numpy(), theirs[0].numpy())


def spread(rows):
    """The sum over t of |J r - r|^2."""
    return float(((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum())


def delta_1(lam, T0, shrink):
    """Section 3.4, `shrink` = 1 - alpha rho."""
    if lam < 1e-12:
        return T0**T0 * shrink ** (2 * T0 + 2) / (1 + T0) ** (T0 + 1)
    return lam * (1 - lam) * (shrink**2 - lam ** (1 / T0))


@moments
@pytest.mark.parametrize("graph", [graphs.complete(6), graphs.star(6)])
@pytest.mark.parametrize("T0", [1, 3])
@pytest.mark.parametrize(
    ("h", "rho"),
    [
        (None, 0.0),
        (L1(0.2), 0.0),
        (Box(-0.5, 1.2), 0.0),
        (MCP(0.3, 20.0), 1 / 20),
        (SCAD(0.3, 21.0), 1 / 20),
    ],
)
def test_5b_disagreement_is_bounded_along_every_path(nesterov, graph, T0, h, rho):
    """Disagreement of x is bounded by that of nu (14), and nu's by y's (16), (17).

    After 80 rounds from one common start.
    """
    alpha, gamma = 0.1, 0.6
    x, y, nu = momenta(
        make(
            graph,
            Depositum(alpha, 0.5, gamma, nesterov=nesterov),
            T0,
            h,
            x0=starts(6)[0],
            rounds=80,
        )
    )
    lam = np.linalg.norm(mixing_matrices(graph)[0] - 1 / 6, 2)
    delta = delta_1(lam, T0, 1 - alpha * rho)
    assert delta > 0
    assert 0 < spread(x) <= T0 * alpha**2 / delta * spread(nu)
    omega = (1 + 3 * gamma) / (1 - gamma) if nesterov else 1
    assert 0 < spread(nu) <= omega * spread(y)


@paths
@regularisers
@pytest.mark.parametrize("T0", [1, 3])
def test_the_first_round_never_talks_and_is_a_pure_proximal_step(path, name, T0):
    h, prox = PROXES[name]
    exp = make(GRAPH, Depositum(0.3, 0.5, 0.4), T0, h, x0=starts(6))
    run = iterate(exp, path=path)
    next(run)
    first = next(run)
    assert first.ledger.messages == 0
    check_close(first.x.numpy(), proximal(prox, starts(6), 0.3))
    check_close(first.state.y.numpy(), 0.5 * gradients(exp.problem, first.x))


@pytest.mark.parametrize(("T0", "talks"), [(1, 12), (3, 4), (5, 2), (20, 0)])
def test_models_and_trackers_are_sent_in_every_t0_th_step_and_nothing_else(T0, talks):
    ledger = final(make(GRAPH, Depositum(0.1, 1.0, 0.5), T0, rounds=13)).ledger
    assert ledger.bytes == talks * 2 * 3 * 8 * len(GRAPH.peers)
    assert ledger.gradients == 13 * 6


def test_what_crosses_a_link_in_a_round_of_the_others():
    assert final(experiment(GRAPH, DSMT(0.1), rounds=5)).ledger.bytes == 5 * 2 * 3 * 8 * len(
        GRAPH.peers
    )
    for K in (1, 3):
        assert final(
            experiment(GRAPH, ProxGT(0.1, K=K), rounds=5)
        ).ledger.bytes == 5 * K * 2 * 3 * 8 * len(GRAPH.peers)


@paths
def test_dsmts_mean_tracker_is_the_mean_momentum(path):
    exp = experiment(GRAPH, DSMT(0.1, 0.8), x0=starts(6))
    nu = 0.0
    for snapshot in iterate(exp, path=path):
        nu = 0.8 * nu + 0.2 * gradients(exp.problem, snapshot.x).mean(axis=0)
        check_close(snapshot.state.y.mean(dim=0).numpy(), nu)


@paths
def test_proxgts_mean_tracker_is_the_mean_gradient_one_round_earlier(path):
    exp = make(GRAPH, ProxGT(0.1, K=2), h=L1(0.3), x0=starts(6), schedule=Always())
    g = np.zeros(3)
    for snapshot in iterate(exp, path=path):
        check_close(snapshot.state.y.mean(dim=0).numpy(), g)
        g = gradients(exp.problem, snapshot.x).mean(axis=0)


# --- Reductions.


@paths
@pytest.mark.parametrize("graph", [GRAPH, graphs.ring(6), graphs.star(6)])
def test_without_momentum_scale_and_h_it_is_dsgt_8_one_round_later(path, graph):
    theirs = experiment(graph, DSGT(0.1, form=8), x0=starts(6), rounds=15)
    check_runs_agree(
        theirs, make(graph, Depositum(0.1), x0=starts(6), rounds=16), ("x", "y"), path, later=1
    )


@paths
@regularisers
@moments
def test_on_the_complete_graph_all_models_are_equal_from_the_second_round_on(path, name, nesterov):
    rule = Depositum(0.1, 0.5, 0.6, nesterov=nesterov)
    xs = trajectory(make(graphs.complete(6), rule, 1, PROXES[name][0], x0=starts(6)), path=path)
    assert (xs[1] - xs[1][0]).abs().max() > 0.1  # the first round does not talk
    for x in xs[2:]:
        check_close(x.numpy(), x[:1].expand_as(x).numpy(), 1e-14)


@paths
@regularisers
def test_without_momentum_and_scale_it_is_proxgt_with_one_mixing(path, name):
    """Started from ProxGT's y[t+1], DEPOSITUM's round t + 1 has ProxGT's models of round t."""
    h, x0 = PROXES[name][0], starts(6)
    problem = quadratic(6)
    g = gradients(problem, x0)
    state = Depositum(0.1).init(torch.from_numpy(x0), None)
    state = state._replace(y=torch.from_numpy(mixing_matrices(GRAPH)[0] @ g), g=torch.from_numpy(g))
    ours = make(GRAPH, Depositum(0.1), 1, h, problem, rounds=16)
    ours = [
        snapshot.state
        for snapshot in iterate(ours, path=path, resume=checkpoint_at(ours, 1, state))
    ]
    theirs = make(GRAPH, ProxGT(0.1), 1, h, problem, rounds=15, schedule=Always(), x0=x0)
    theirs = [snapshot.state for snapshot in iterate(theirs, path=path)]
    for t in range(16):
        check_close(ours[t].x.numpy(), theirs[t].x.numpy())
        if t < 15:
            check_close(ours[t].y.numpy(), theirs[t + 1].y.numpy())


@paths
def test_without_momentum_dsmt_is_dsgt_8(path):
    runs = (
        experiment(GRAPH, rule, x0=starts(6), rounds=15)
        for rule in (DSMT(0.1, gamma=0.0), DSGT(0.1, form=8))
    )
    check_runs_agree(*runs, ("x", "y"), path)


@paths
def test_where_all_models_are_equal_dsmt_is_depositum_one_round_earlier(path):
    """Averaged, both are Polyak's heavy ball on the mean gradient.

    On the complete graph the mean is all there is.
    """
    dsmt = experiment(graphs.complete(6), DSMT(0.1, gamma=0.7), x0=starts(6)[0], rounds=15)
    later = make(graphs.complete(6), Depositum(0.1, 1.0, 0.7), x0=starts(6)[0], rounds=16)
    check_runs_agree(dsmt, later, ("x",), path, later=1)


# --- Limits.

PROBLEM = random_quadratic(6, 4, seed=1)
OPTIMUM = np.linalg.solve(PROBLEM.A.sum(axis=0), PROBLEM.b.sum(axis=0))


def l1(x, step):
    return soft(x, 0.25 * step)


def mcp(x, step):
    return prox_mcp(x, step, 0.4, 6.0)


def box(x, step):
    return min(max(x, -0.3), 0.2)


@pytest.mark.parametrize(
    ("rule", "T0", "h", "prox", "weight"),
    [
        (Depositum(0.1), 1, L1(0.25), l1, 1),
        (Depositum(0.1, gamma=0.6), 1, L1(0.25), l1, 1),
        (Depositum(0.1, gamma=0.6, nesterov=True), 3, L1(0.25), l1, 1),
        (Depositum(0.1, beta=0.5), 1, L1(0.25), l1, 2),
        (Depositum(0.1, beta=0.5, gamma=0.5), 3, L1(0.25), l1, 2),
        (Depositum(0.1, beta=0.5, gamma=0.5, nesterov=True), 1, L1(0.25), l1, 2),
        (Depositum(0.1, beta=0.5, gamma=0.5, h_scale="beta"), 1, L1(0.25), l1, 1),
        (Depositum(0.05, beta=1.6, h_scale="beta"), 1, L1(0.25), l1, 1),
        (Depositum(0.1, beta=0.5, gamma=0.5), 1, MCP(0.4, 6.0), mcp, 2),
        (Depositum(0.1, beta=0.5, gamma=0.5, h_scale="beta"), 1, MCP(0.4, 6.0), mcp, 1),
        (Depositum(0.1, beta=0.5), 1, Box(-0.3, 0.2), box, 2),
        (ProxGT(0.1), None, L1(0.25), l1, 1),
        (ProxGT(0.1, K=3), None, L1(0.25), l1, 1),
        (ProxGT(0.1), None, MCP(0.4, 6.0), mcp, 1),
    ],
)
def test_models_end_at_the_minimiser_of_f_and_h_over_beta_or_of_f_and_h(rule, T0, h, prox, weight):
    """0 in beta grad f + dh: the objective is f + h / beta unless h_scale="beta"."""
    exp = make(
        graphs.ring(6),
        rule,
        T0 or 1,
        h,
        PROBLEM,
        rounds=700,
        schedule=Every(T0) if T0 else Always(),
    )
    x = final(exp).x.numpy()
    wanted = composite_solution(PROBLEM, prox, weight)
    assert np.abs(x - wanted).max() < 1e-8
    others = (
        [OPTIMUM]
        if h == Box(-0.3, 0.2)
        else [OPTIMUM, composite_solution(PROBLEM, prox, 3 - weight)]
    )
    # The point says which objective it is.
    assert all(np.abs(wanted - other).max() > 0.05 for other in others)


@pytest.mark.parametrize("graph", [graphs.path(6), GRAPH])
@pytest.mark.parametrize(
    ("rule", "schedule", "rounds"),
    [
        (DSMT(0.1, gamma=0.5), Always(), 700),
        (ProxGT(0.1), Always(), 700),
        (ProxGT(0.1, K=2), Always(), 700),
        (Depositum(0.15, beta=0.5, gamma=0.4), Every(1), 700),
        (Depositum(0.05, beta=0.5, gamma=0.4, nesterov=True), Every(3), 1700),
    ],
)
def test_without_h_every_client_reaches_the_optimum(rule, schedule, rounds, graph):
    x = final(make(graph, rule, schedule=schedule, problem=PROBLEM, rounds=rounds)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


# --- Cautions, and what is refused.


def test_a_scaled_tracker_with_a_regulariser_is_pointed_out():
    problem = replace(PROBLEM, h=L1(0.25))
    with pytest.warns(
        Caution, match=r"Depositum with beta = 0\.5 minimises f \+ h / 0\.5, not f \+ h\."
    ):
        experiment(GRAPH, Depositum(0.1, beta=0.5), problem=problem)
    # Warnings are errors, so these say nothing:
    experiment(GRAPH, Depositum(0.1, beta=1.0), problem=problem)
    experiment(GRAPH, Depositum(0.1, beta=0.5, h_scale="beta"), problem=problem)
    experiment(GRAPH, Depositum(0.1, beta=0.5), problem=PROBLEM)
    experiment(GRAPH, Depositum(0.1, beta=0.5), problem=replace(PROBLEM, h=Zero()))


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.0},
        {"alpha": -0.1},
        {"alpha": math.nan},
        {"alpha": math.inf},
        {"beta": 0.0},
        {"beta": -1.0},
        {"beta": math.nan},
        {"beta": math.inf},
        {"gamma": 1.0},
        {"gamma": -0.1},
        {"gamma": math.nan},
    ],
)
def test_impossible_parameters_are_refused(options):
    with pytest.raises(ConfigError, match="Depositum needs alpha > 0, beta > 0 and 0 <= gamma < 1"):
        Depositum(**{"alpha": 0.1, **options})


def test_other_scales_of_h_are_refused():
    with pytest.raises(
        ConfigError, match=r"Depositum\.h_scale must be 'beta' or left out, found 'alpha'"
    ):
        Depositum(0.1, h_scale="alpha")


@pytest.mark.parametrize("lr", [0.0, -0.1, math.nan, math.inf])
def test_impossible_step_sizes_are_refused(lr):
    with pytest.raises(ConfigError, match="DSMT needs lr > 0"):
        DSMT(lr)
    with pytest.raises(ConfigError, match="ProxGT needs lr > 0"):
        ProxGT(lr)


def test_impossible_momenta_and_mixings_are_refused():
    for gamma in (1.0, -0.1, math.nan):
        with pytest.raises(ConfigError, match=r"DSMT needs .* 0 <= gamma < 1"):
            DSMT(0.1, gamma=gamma)
    for K in (0, -1):
        with pytest.raises(ConfigError, match=r"ProxGT needs .* K >= 1"):
            ProxGT(0.1, K=K)


@pytest.mark.parametrize("rule", [Depositum(0.1), DSMT(0.1), ProxGT(0.1)])
def test_directed_graphs_and_unequal_weights_are_refused(rule):
    check_refuses_unequal_links(rule)


@pytest.mark.parametrize(
    "rule", [Depositum(2.0), ProxGT(2.0), Depositum(1.0, beta=2.0, h_scale="beta")]
)
def test_a_step_too_long_for_the_regulariser_is_refused(rule):
    with pytest.raises(ConfigError, match=r"MCP: the step 2 must be below theta = 1\.5"):
        final(make(GRAPH, rule, h=MCP(0.8, 1.5)))
