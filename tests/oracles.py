"""What spec.md says, in plain loops over floats: the slow truth that the fast code is held to.

Nothing here calls the code under test for its arithmetic. The check functions raise AssertionError;
test_planted_faults.py shows that they do when the code is wrong.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from peerloom.core import Draws
from peerloom.runtime import iterate


def neighbours(network):
    """The senders that each row hears, as a list of sorted lists."""
    links = network.peers
    heard = [[] for _ in range(network.rows)]
    for source, target in zip(links.src.tolist(), links.dst.tolist(), strict=True):
        heard[target].append(source)
    return [sorted(those) for those in heard]


def metropolis(network):
    """r_ij = 1 / (1 + max(|N_i|, |N_j|)) on links, 0 elsewhere; no diagonal (section 1.1)."""
    N, m = neighbours(network), network.rows
    return [
        [1 / (1 + max(len(N[i]), len(N[j]))) if j in N[i] else 0.0 for j in range(m)]
        for i in range(m)
    ]


def realise(W, fired, side):
    """Keep weights of links that fired; the diagonal takes the rest, by rows or columns (6.2)."""
    m = len(W)
    P = [[W[i][j] if i != j and fired[i][j] else 0.0 for j in range(m)] for i in range(m)]
    for i in range(m):
        used = (
            [P[i][j] for j in range(m) if j != i]
            if side == "row"
            else [P[j][i] for j in range(m) if j != i]
        )
        P[i][i] = 1.0 - sum(used)
    return P


def multiply(P, X):
    """P X, entry by entry."""
    m, n = len(X), len(X[0])
    return [
        [math.fsum(P[i][j] * X[j][k] for j in range(m)) for k in range(n)] for i in range(len(P))
    ]


def gradient(A, b, x):
    """A x - b."""
    n = len(x)
    return [math.fsum(A[k][j] * x[j] for j in range(n)) - b[k] for k in range(n)]


def dspodfl_step(X, R, fired, computes, A, b, alpha):
    """theta_i + sum_j r_ij vhat_ij (theta_j - theta_i) - alpha v_i g_i(theta_i).

    Every theta on the right is that of the round before.
    """
    m, n = len(X), len(X[0])
    new = []
    for i in range(m):
        g = gradient(A[i], b[i], X[i])
        row = []
        for k in range(n):
            pull = math.fsum(
                R[i][j] * (X[j][k] - X[i][k]) for j in range(m) if j != i and fired[i][j]
            )
            row.append(X[i][k] + pull - (alpha * g[k] if computes[i] else 0.0))
        new.append(row)
    return new


def fired_matrix(network, live):
    """Which links fired as a table [receiver][sender]."""
    table = [[False] * network.rows for _ in range(network.rows)]
    for source, target, on in zip(
        network.peers.src.tolist(), network.peers.dst.tolist(), live.tolist(), strict=True
    ):
        table[target][source] = on
    return table


def delays(d, b, N, v, fired, normalised):
    """(processing, transmission) of one round, by the formulas of section 4.0."""
    m = len(d)
    processing = sum(v[i] / d[i] for i in range(m))
    sending = sum(sum(fired[i][j] / b[i][j] for j in N[i]) / len(N[i]) for i in range(m))
    if not normalised:
        return processing / m, sending / m
    full = sum(sum(1 / b[i][j] for j in N[i]) / len(N[i]) for i in range(m))
    return processing / sum(1 / d[i] for i in range(m)), sending / full


def check_close(found, wanted, tolerance=1e-12):
    """Every entry agrees, relative to the largest one."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    worst = np.abs(found - wanted).max(initial=0)
    assert worst <= tolerance * max(1.0, np.abs(wanted).max(initial=0)), f"off by {worst:.3g}"


def check_metropolis(network):
    """Both weights of every link are the plain-loop ones; the matrix is doubly stochastic."""
    R, links = metropolis(network), network.peers
    for e in range(len(links)):
        wanted = R[links.dst[e]][links.src[e]]
        assert abs(links.a[e] - wanted) < 1e-15
        assert abs(links.b[e] - wanted) < 1e-15
    check_doubly_stochastic(links.matrix("a"))
    check_close(links.matrix("a"), realise(R, np.array(R) > 0, "row"), 1e-14)


def check_doubly_stochastic(P):
    """P = P', rows and columns sum to one, entries in [0, 1]."""
    P = np.asarray(P)
    check_close(P, P.T, 1e-15)
    check_row_stochastic(P)
    check_row_stochastic(P.T)


def check_row_stochastic(P):
    """Rows sum to one, entries in [0, 1]."""
    P = np.asarray(P)
    check_close(P.sum(axis=1), np.ones(len(P)), 1e-14)
    assert P.min() >= -1e-15
    assert P.max() <= 1 + 1e-15


def check_dspodfl(exp, path, alpha):
    """Every round on quadratics is the equation's, with Metropolis weights and steps alpha(t)."""
    activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
    A, b, R = exp.problem.A.tolist(), exp.problem.b.tolist(), metropolis(exp.graph)
    X = exp.start(range(exp.graph.rows)).tolist()
    for snapshot in iterate(exp, path=path):
        t = snapshot.t
        if t:
            fired, v = (
                fired_matrix(exp.graph, activity.links(t, "peers")),
                activity.nodes(t).tolist(),
            )
            X = dspodfl_step(X, R, fired, v, A, b, alpha(t))
        check_close(snapshot.x.numpy(), X)


def check_offers(graph, fires, x, pulled, pushed, averaged):
    """The three offers against their matrices (6.2) and the mean of what arrived (1.5)."""
    m = graph.rows
    linked = np.zeros((m, m), bool)
    linked[graph.peers.dst, graph.peers.src] = True
    fired = linked & fires
    a, b = np.zeros((m, m)), np.zeros((m, m))
    a[graph.peers.dst, graph.peers.src], b[graph.peers.dst, graph.peers.src] = (
        graph.peers.a,
        graph.peers.b,
    )
    X = x.tolist()
    check_close(pulled.numpy(), multiply(realise(a.tolist(), fired, "row"), X))
    check_close(pushed.numpy(), multiply(realise(b.tolist(), fired, "column"), X))
    means = []
    for i in range(m):
        came = [X[j] for j in range(m) if fired[i][j]]
        means.append(
            [sum(column) / len(came) for column in zip(*came, strict=True)] if came else X[i]
        )
    check_close(averaged.numpy(), means)


def check_keeps_consensus(pulled, common):
    """What all rows agree on is what all rows still have."""
    check_close(pulled.numpy(), common.expand_as(pulled).numpy(), 1e-14)


def check_conserves_mass(pushed, x):
    """Column sums do not change."""
    check_close(pushed.sum(dim=0).numpy(), x.sum(dim=0).numpy(), 1e-13)


def check_coins(fell, p):
    """Coins [rounds, k] fall with frequency p and without memory (4.5 to 5 sigma)."""
    fell, p = np.asarray(fell, float), np.asarray(p, float)
    rounds = len(fell)
    spread = np.sqrt(p * (1 - p))
    off = np.abs(fell.mean(axis=0) - p) * math.sqrt(rounds)
    assert (off <= 5 * spread + 1e-12).all(), (
        f"frequencies {fell.mean(axis=0)} for probabilities {p}"
    )
    centred = fell - p
    lag = np.abs((centred[1:] * centred[:-1]).mean(axis=0)) * math.sqrt(rounds - 1)
    assert (lag <= 5 * spread**2 + 5 / math.sqrt(rounds)).all(), "a coin remembers the round before"


def check_pure(activity, rounds):
    """Who acts is a function of the round, in whatever order rounds are asked for."""
    first = [(activity.nodes(t).copy(), activity.links(t, "peers").copy()) for t in rounds]
    for t, (nodes, links) in reversed(list(zip(rounds, first, strict=True))):
        assert np.array_equal(activity.nodes(t), nodes)
        assert np.array_equal(activity.links(t, "peers"), links)


def same_bits(one, other):
    """Equal to the last bit, signs of zeros included."""
    assert one.dtype == other.dtype == torch.float64
    return torch.equal(one.contiguous().view(torch.int64), other.contiguous().view(torch.int64))


def degree_weights(network):
    """(a, b) as tables [receiver][sender] without diagonals.

    Metropolis where links go both ways; elsewhere a_ij = 1 / (1 + in-degree of i) and
    b_ij = 1 / (1 + out-degree of j) (section 1.2).
    """
    if not network.directed:
        return metropolis(network), metropolis(network)
    heard, m = neighbours(network), network.rows
    listeners = [sum(j in heard[i] for i in range(m)) for j in range(m)]
    a = [[1 / (1 + len(heard[i])) if j in heard[i] else 0.0 for j in range(m)] for i in range(m)]
    b = [[1 / (1 + listeners[j]) if j in heard[i] else 0.0 for j in range(m)] for i in range(m)]
    return a, b


def random_weights(rng, m):
    """A ring with random chords: A with unit row sums, B with unit column sums, same zeros."""
    linked = (
        (rng.random((m, m)) < 0.4)
        | np.eye(m, dtype=bool)
        | np.roll(np.eye(m, dtype=bool), 1, axis=0)
    )
    A, B = (linked * rng.uniform(0.1, 1.0, (m, m)) for _ in range(2))
    return A / A.sum(axis=1, keepdims=True), B / B.sum(axis=0)


def mixing_matrices(network, weights=None):
    """A and B when every link fires, diagonals included; `weights` replaces those by degree."""
    a, b = degree_weights(network) if weights is None else weights
    every = np.ones((network.rows, network.rows), bool)
    return np.array(realise(a, every, "row")), np.array(realise(b, every, "column"))


def gradients(problem, X):
    """A_i x_i - b_i of every client."""
    return np.array(
        [
            gradient(A, b, x)
            for A, b, x in zip(problem.A.tolist(), problem.b.tolist(), X.tolist(), strict=True)
        ]
    )


def check_states(exp, path, wanted):
    """Every round's state has the named rows that `wanted` yields, round 0 first."""
    rounds = 0
    for snapshot, named in zip(iterate(exp, path=path), wanted, strict=False):
        for name, rows in named.items():
            check_close(getattr(snapshot.state, name).numpy(), rows)
        rounds += 1
    assert rounds == exp.rounds + 1


def check_runs_agree(one, other, fields=("x",), path="auto", later=0, tolerance=1e-12):
    """Round t of one run is round t + later of the other."""
    first, second = (
        [snapshot.state for snapshot in iterate(exp, path=path)] for exp in (one, other)
    )
    assert len(first) == len(second) - later
    for ours, theirs in zip(first, second[later:], strict=True):
        for name in fields:
            check_close(getattr(ours, name).numpy(), getattr(theirs, name).numpy(), tolerance)


def local_steps_fixed_point(problem, W, step, count):
    """The models X with X = W (K X + c): `count` local gradient steps, then one mixing by W.

    On quadratics the local steps are a linear map of each client's model.
    """
    m, n = problem.b.shape
    K, c = np.zeros((m * n, m * n)), np.zeros(m * n)
    for i in range(m):
        here, once = slice(i * n, i * n + n), np.eye(n) - step * problem.A[i]
        K[here, here] = np.linalg.matrix_power(once, count)
        c[here] = sum(np.linalg.matrix_power(once, k) @ (step * problem.b[i]) for k in range(count))
    wide = np.kron(W, np.eye(n))
    return np.linalg.solve(np.eye(m * n) - wide @ K, wide @ c).reshape(m, n)


def soft(x, level):
    """Nearer to zero by `level`, and zero when that close."""
    return math.copysign(max(abs(x) - level, 0.0), x)


def prox_mcp(x, step, lam, theta):
    """Section 1.4."""
    if abs(x) <= step * lam:
        return 0.0
    if abs(x) <= theta * lam:
        return math.copysign(abs(x) - step * lam, x) / (1 - step / theta)
    return x


def prox_scad(x, step, lam, theta):
    """Section 1.4."""
    if abs(x) <= (1 + step) * lam:
        return soft(x, step * lam)
    if abs(x) <= theta * lam:
        return ((theta - 1) * x - math.copysign(step * theta * lam, x)) / (theta - 1 - step)
    return x


def proximal(prox, X, step):
    """A scalar prox(x, step) on every coordinate of every client."""
    return np.array([[prox(float(x), step) for x in row] for row in X])


def composite_solution(problem, prox, weight=1.0, rounds=3000):
    """argmin of the mean of the f_i plus weight * h, by proximal descent on one model."""
    A, b = problem.A.mean(axis=0), problem.b.mean(axis=0)
    step, x = 1 / np.linalg.eigvalsh(A).max(), np.zeros(len(b))
    for _ in range(rounds):
        new = np.array([prox(float(z), step * weight) for z in x - step * (A @ x - b)])
        if np.array_equal(new, x):
            break
        x = new
    return x
