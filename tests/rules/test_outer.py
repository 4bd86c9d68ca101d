"""DiLoCo and NoLoCo: plain loops from the papers, torch's own two loops, and what follows."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import Caution, ConfigError, Draws, rates_at
from peerloom.core.rates import Cosine, Warmup
from peerloom.experiment import Experiment
from peerloom.problems import Classification
from peerloom.rules import DiLoCo, LocalAdamW, LocalSGDM, NoLoCo
from peerloom.runtime import Flat, build_port, iterate
from peerloom.schedules import Bernoulli, Explicit, RandomPairs, Split
from peerloom.testing import check_rule
from tests.builders import check_refuses_unequal_links, experiment, final, paths, quadratic, starts
from tests.oracles import check_close, check_states, fired_matrix, gradient, metropolis

SILENT = Bernoulli(links=0.0)


class AdamW:
    """One model and its moments, number by number."""

    def __init__(self, rule, A, b):
        self.rule, self.A, self.b = rule, A.tolist(), b.tolist()
        self.m, self.v, self.k = [0.0] * len(b), [0.0] * len(b), 0

    def moved(self, x, lr):
        """Where K steps from x lead."""
        rule, (b1, b2) = self.rule, self.rule.betas
        for _ in range(rule.K):
            g = gradient(self.A, self.b, x)
            if rule.clip is not None:
                g = [each * min(1.0, rule.clip / (math.hypot(*g) + 1e-6)) for each in g]
            self.k += 1
            self.m = [b1 * a + (1 - b1) * each for a, each in zip(self.m, g, strict=True)]
            self.v = [b2 * a + (1 - b2) * each**2 for a, each in zip(self.v, g, strict=True)]
            x = [
                (1 - lr * rule.weight_decay) * old
                - lr * (a / (1 - b1**self.k)) / (math.sqrt(c / (1 - b2**self.k)) + rule.eps)
                for old, a, c in zip(x, self.m, self.v, strict=True)
            ]
        return x


def inner(exp):
    return [AdamW(exp.algorithm, *both) for both in zip(exp.problem.A, exp.problem.b, strict=True)]


def rates(exp, t):
    lr = rates_at(exp.algorithm.lr, t)
    return lr if isinstance(lr, list) else [lr] * exp.graph.rows


def diloco_in_loops(exp):
    """Algorithm 1: one shared model, the mean of all outer gradients, Nesterov's step on it."""
    rule, workers, n = exp.algorithm, inner(exp), exp.problem.n
    shared, b = exp.start([0])[0].tolist(), [0.0] * n
    for t in itertools.count(1):
        yield {"x": [shared] * len(workers)}
        ends = [w.moved(shared, lr) for w, lr in zip(workers, rates(exp, t), strict=True)]
        for c in range(n):
            outer = sum(shared[c] - end[c] for end in ends) / len(ends)
            b[c] = rule.momentum * b[c] + outer
            shared = [*shared[:c], shared[c] - rule.outer_lr * (outer + rule.momentum * b[c]),
                      *shared[c + 1 :]]  # fmt: skip


@paths
@pytest.mark.parametrize(
    "rule",
    [
        DiLoCo(0.05, K=4),
        DiLoCo(Warmup(3, Cosine(0.2, 9)), K=3, outer_lr=0.4, momentum=0.5, clip=1.0),
        DiLoCo((0.05, 0.1, 0.02, 0.05, 0.1), K=2, momentum=0.0, betas=(0.5, 0.8), eps=1e-3),
    ],
)
def test_where_all_know_each_other_diloco_is_algorithm_1(rule, path):
    exp = experiment(graphs.complete(5), rule, problem=quadratic(5), rounds=12)
    check_states(exp, path, diloco_in_loops(exp))


@paths
def test_on_any_graph_diloco_mixes_what_outer_steps_lead_to(path):
    """x_i <- W (x_i - eta (p_i + mu b_i)), where a client that does not compute only mixes."""
    rule = DiLoCo(0.05, K=2, momentum=0.6)
    graph, coins = graphs.geometric(6, radius=0.5, seed=1), Bernoulli(nodes=0.6, links=0.5)
    exp = experiment(graph, rule, schedule=coins, problem=quadratic(6), x0=starts(6), rounds=12)
    activity, R = coins.bind(graph, Draws(exp.seed)), np.array(metropolis(graph))

    def loops():
        workers, x = inner(exp), exp.start(range(6)).numpy()
        b = np.zeros_like(x)
        for t in itertools.count(1):
            yield {"x": x, "b": b}
            ahead, b = x.copy(), b.copy()
            for i in np.flatnonzero(activity.nodes(t)):
                p = x[i] - np.array(workers[i].moved(x[i].tolist(), 0.05))
                b[i] = 0.6 * b[i] + p
                ahead[i] = x[i] - 0.7 * (p + 0.6 * b[i])
            W = R * fired_matrix(graph, activity.links(t, "peers"))
            x = ahead + W @ ahead - W.sum(axis=1, keepdims=True) * ahead

    check_states(exp, path, loops())


def noloco_in_loops(exp):
    """Eqs. (1) to (3) over each client's group: delta, then phi <- phi + delta.

    (2) as its own eq. (32) and the authors' code have it, with + beta.
    """
    rule, workers, m = exp.algorithm, inner(exp), exp.graph.rows
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    phi, delta = exp.start(range(m)).tolist(), [[0.0] * exp.problem.n for _ in range(m)]
    for t in itertools.count(1):
        yield {"x": phi, "delta": delta}
        computes, fired = activity.nodes(t), fired_matrix(exp.graph, activity.links(t, "peers"))
        lr = rates(exp, t)
        theta = [workers[i].moved(phi[i], lr[i]) if computes[i] else phi[i] for i in range(m)]
        after = []
        for i in range(m):
            group = [i] + [j for j in range(m) if j != i and fired[i][j]]
            assert len(group) <= 2
            after.append([])
            for c, own in enumerate(phi[i]):
                Delta = sum(theta[j][c] - phi[j][c] for j in group) / len(group)
                mean = sum(phi[j][c] for j in group) / len(group)
                after[i].append(
                    rule.momentum * delta[i][c] + rule.outer_lr * Delta - rule.gamma * (own - mean)
                )
        delta = after
        phi = [[a + b for a, b in zip(*both, strict=True)] for both in zip(phi, delta, strict=True)]


@paths
@pytest.mark.parametrize("clients", [6, 7])
@pytest.mark.parametrize(
    "rule",
    [
        NoLoCo(0.05, K=4),
        NoLoCo(Cosine(0.2, 9), K=2, outer_lr=0.9, momentum=0.3, gamma=1.1, clip=1.0),
        NoLoCo(0.05, K=1, momentum=0.0, gamma=0.4, betas=(0.5, 0.8), weight_decay=0.2),
    ],
)
def test_noloco_is_the_papers_equations_with_random_pairs(rule, clients, path):
    """Of seven clients one stays alone in every round."""
    exp = experiment(
        graphs.complete(clients), rule, schedule=RandomPairs(), problem=quadratic(clients),
        x0=starts(clients), rounds=12,
    )  # fmt: skip
    check_states(exp, path, noloco_in_loops(exp))


def test_a_client_that_does_not_compute_offers_its_pair_no_move():
    schedule = Split(nodes=Bernoulli(nodes=0.5), links=RandomPairs())
    exp = experiment(
        graphs.complete(6), NoLoCo(0.05, K=2), schedule=schedule, problem=quadratic(6), rounds=12
    )
    check_states(exp, "links", noloco_in_loops(exp))


def test_pairs_keep_the_mean_of_the_models_that_one_group_of_all_has():
    """Without momentum and with one K-step move each, the mean moves by beta times their mean."""
    rule = NoLoCo(0.05, K=3, momentum=0.0)
    every = experiment(graphs.complete(6), rule, problem=quadratic(6), rounds=1, x0=starts(6))
    pairs = replace(every, schedule=RandomPairs())
    check_close(
        final(every).x.mean(dim=0, keepdim=True).numpy(),
        final(pairs).x.mean(dim=0, keepdim=True).numpy(),
    )


def left_of_gaps(alpha, gamma):
    """What a round leaves of E|e|^2, E e delta and E|delta|^2, e a model's distance to the mean.

    delta' = alpha delta - gamma / 2 (e - e_j) and e' = e + delta', where a partner's e_j is
    independent of e and delta, as it nearly is among many clients.
    """
    after = np.array([gamma**2 / 2, -alpha * gamma, alpha**2])  # E|delta'|^2
    across = np.array([-gamma / 2, alpha, 0.0])  # E e delta'
    return np.array([[1, 0, 0] + 2 * across + after, across + after, after])


@given(alpha=st.floats(0, 0.95), gamma=st.floats(0.01, 2.5))
def test_a_caution_says_where_pairs_do_not_come_together(alpha, gamma):
    """The largest eigenvalue of the moments' map is 1 at gamma = 2 (1 - alpha^2)."""
    high = 2 * (1 - alpha**2)
    edge = np.abs(np.linalg.eigvals(left_of_gaps(alpha, high))).max()
    assert edge == pytest.approx(1.0, abs=1e-7)
    assume(abs(gamma - high) > 1e-3)
    together = np.abs(np.linalg.eigvals(left_of_gaps(alpha, gamma))).max() < 1
    said = NoLoCo(0.05, momentum=alpha, gamma=gamma).caution(regularised=False)
    assert (said is None) == together


def test_the_moments_are_those_of_a_mean_over_runs():
    rule, gaps = NoLoCo(0.05, K=1, momentum=0.5, gamma=0.7), np.zeros((20, 6))
    for seed in range(20):
        exp = experiment(
            graphs.complete(40), rule, schedule=RandomPairs(), problem=Flat(30),
            x0=starts(40, 30), rounds=5, seed=seed,
        )  # fmt: skip
        gaps[seed] = [snapshot.x.var(dim=0).mean() for snapshot in iterate(exp)]
    state = np.array([1.0, 0.0, 0.0])
    for seen in gaps.mean(axis=0):
        assert seen / gaps[0, 0] == pytest.approx(state[0], rel=0.1)
        state = left_of_gaps(0.5, 0.7) @ state


@pytest.mark.parametrize(
    ("alpha", "gamma", "together"), [(0.5, 0.7, True), (0.9, 0.2, True), (0.9, 1.0, False)]
)
def test_the_papers_bound_of_gamma_is_neither_needed_nor_enough(alpha, gamma, together):
    """(74), alpha < gamma < sqrt(2 + alpha^2), holds for the first and the last of these."""
    rule = NoLoCo(0.05, K=1, momentum=alpha, gamma=gamma)
    options = {"schedule": RandomPairs(), "problem": Flat(4), "x0": starts(12, 4), "rounds": 200}
    if together:
        exp = experiment(graphs.complete(12), rule, **options)
    else:
        with pytest.warns(Caution, match=r"NoLoCo\.gamma = 1 is not between 0 and .* = 0\.38"):
            exp = experiment(graphs.complete(12), rule, **options)
    first, *_, last = (snapshot.x.var(dim=0).sum() for snapshot in iterate(exp))
    assert last < 1e-2 * first if together else last > 1e2 * first


# -- torch.optim, where no link fires


@settings(max_examples=12)
@given(
    lr=st.sampled_from([0.03, Warmup(2, Cosine(0.1, rounds=4)), (0.1, Cosine(0.2, 9), 0.05)]),
    dtype=st.sampled_from(["float32", "float64"]), momentum=st.sampled_from([0.0, 0.9]),
)  # fmt: skip
def test_without_links_diloco_is_torchs_adamw_within_torchs_nesterov(lr, dtype, momentum):
    """The two loops of a single worker, with torch's optimizers, bit for bit."""
    rule = DiLoCo(lr, K=3, momentum=momentum)
    problem = Classification("mlp", batch=4)
    exp = Experiment(graphs.ring(3), problem, rule, schedule=SILENT, rounds=6, dtype=dtype, seed=7)
    port = build_port(exp, mixer="links")
    slow = [x.clone() for x in exp.start(range(3)).to(exp.torch_dtype).unbind()]
    fast = [x.clone() for x in slow]
    outer = [torch.optim.SGD([x], lr=0.7, momentum=momentum, nesterov=momentum > 0) for x in slow]
    made = [torch.optim.AdamW([x]) for x in fast]
    for t in range(1, 7):
        port.t = t
        for batch in range(3):
            found = port.grad(torch.stack(fast), batch=batch)
            for i, optimizer in enumerate(made):
                fast[i].grad = found[i].clone()
                optimizer.param_groups[0]["lr"] = rates_at(lr, t)[i] if isinstance(
                    lr, tuple) else rates_at(lr, t)  # fmt: skip
                optimizer.step()
        for i, optimizer in enumerate(outer):
            slow[i].grad = slow[i] - fast[i]
            optimizer.step()
            fast[i].copy_(slow[i])
    *_, last = iterate(exp, path="links")
    assert torch.equal(last.x, torch.stack(slow))


def test_alone_noloco_is_torchs_heavy_ball_on_the_same_moves():
    """Its first move is AdamW's bit for bit; its outer step is another order of the same sum."""
    rule = NoLoCo(0.05, K=3, momentum=0.5)
    exp = experiment(graphs.ring(3), rule, schedule=SILENT, problem=quadratic(3), rounds=8)
    local = experiment(
        graphs.ring(3), LocalAdamW(0.05, K=3, weight_decay=0.0), schedule=SILENT,
        problem=quadratic(3), rounds=1,
    )  # fmt: skip
    one = final(replace(exp, rounds=1)).state
    for ours, theirs in ((one.m, "m"), (one.v, "v"), (one.k, "k")):
        assert torch.equal(ours, getattr(final(local).state, theirs))
    models = [snapshot.x for snapshot in iterate(exp, path="links")]
    x = models[0].clone()
    outer = torch.optim.SGD([x], lr=0.7, momentum=0.5)
    workers = inner(exp)
    for after in models[1:]:
        moved = [w.moved(row, 0.05) for w, row in zip(workers, x.tolist(), strict=True)]
        x.grad = x - torch.tensor(moved, dtype=x.dtype)
        outer.step()
        np.testing.assert_allclose(x, after, rtol=0, atol=1e-13)


# -- reductions, messages, refusals


def test_an_outer_step_of_one_is_local_adamw():
    """eta = 1, mu = 0: x <- W (x - (x - AdamW^K(x)))."""
    graph = graphs.geometric(6, radius=0.5, seed=1)
    one, other = (
        experiment(graph, rule, problem=quadratic(6), x0=starts(6), rounds=15)
        for rule in (
            DiLoCo(0.05, K=3, outer_lr=1.0, momentum=0.0), LocalAdamW(0.05, K=3)
        )
    )  # fmt: skip
    for first, second in zip(iterate(one), iterate(other), strict=True):
        np.testing.assert_allclose(first.x, second.x, rtol=0, atol=1e-13)


def test_for_a_program_the_outer_step_is_local_sgdm():
    """A gradient that is the move of K steps of AdamW: DiLoCo from outside."""

    class Moves:
        """Answers with x - AdamW^K(x), as a program that trains by itself would."""

        def __init__(self, exp):
            self.workers = inner(exp)

        def grad(self, x, v, batch=0):
            moved = [w.moved(row, 0.05) for w, row in zip(self.workers, x.tolist(), strict=True)]
            return x - torch.tensor(moved, dtype=x.dtype)

    exp = experiment(graphs.complete(4), DiLoCo(0.05, K=4), problem=quadratic(4), rounds=8)
    rule, port = LocalSGDM(0.7, momentum=0.9, nesterov=True), build_port(exp, mixer="links")
    port.grad = Moves(exp).grad
    s = rule.init(exp.start(range(4)), port)
    for t, snapshot in enumerate(iterate(exp, path="links")):
        np.testing.assert_allclose(s.x, snapshot.x, rtol=0, atol=1e-13)
        port.t = t + 1
        s = rule.step(s, port)


@pytest.mark.parametrize("rule", [DiLoCo(0.05, K=2), NoLoCo(0.05, K=2)])
def test_a_message_is_one_row(rule):
    problem = quadratic(6, n=40)
    exp = experiment(graphs.complete(6), rule, schedule=RandomPairs(), problem=problem, rounds=4)
    ledger = final(exp).ledger
    assert ledger.messages == 4 * 6
    assert ledger.bytes == 4 * 6 * 40 * 8  # the run's type, float64


def test_noloco_keeps_the_contract_in_pairs_too():
    exp = experiment(
        graphs.complete(6), NoLoCo(0.05, K=2), schedule=RandomPairs(), problem=quadratic(6)
    )
    by_matrix, by_links = final(exp, path="matrix"), final(exp, path="links")
    check_close(by_matrix.x.numpy(), by_links.x.numpy())
    check_rule(NoLoCo(0.05, K=2), graph=graphs.complete(5))


@pytest.mark.parametrize("rule", [DiLoCo(0.1, K=2), NoLoCo(0.1, K=2)])
def test_links_must_be_symmetric(rule):
    check_refuses_unequal_links(rule)


def test_all_links_of_a_table_may_rest():
    """A worker whose link is down goes on from its own model."""
    none = Explicit(links=np.zeros((9, 4, 4), bool))
    exp = experiment(graphs.complete(4), DiLoCo(0.05, K=2), schedule=none, rounds=8)
    assert len({tuple(row) for row in final(exp).x.tolist()}) == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DiLoCo(0.0), r"DiLoCo\.lr must be a number above 0"),
        (lambda: DiLoCo(0.1, K=0), r"DiLoCo\.K must be at least 1 local step"),
        (lambda: DiLoCo(0.1, outer_lr=0.0), r"DiLoCo\.outer_lr must be above 0"),
        (lambda: DiLoCo(0.1, outer_lr=math.inf), r"DiLoCo\.outer_lr must be above 0"),
        (lambda: DiLoCo(0.1, momentum=1.0), r"DiLoCo\.momentum must be from 0 to below 1"),
        (lambda: DiLoCo(0.1, betas=(1.0, 0.9)), r"DiLoCo\.betas must be"),
        (lambda: NoLoCo(0.1, outer_lr=-1.0), r"NoLoCo\.outer_lr must be above 0"),
        (lambda: NoLoCo(0.1, momentum=-0.1), r"NoLoCo\.momentum must be from 0 to below 1"),
        (lambda: NoLoCo(0.1, gamma=-0.1), r"NoLoCo\.gamma must be at least 0"),
        (lambda: NoLoCo(0.1, gamma=math.nan), r"NoLoCo\.gamma must be at least 0"),
        (lambda: NoLoCo(0.1, clip=-1.0), r"NoLoCo\.clip must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
