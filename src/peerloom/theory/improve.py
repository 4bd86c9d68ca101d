"""What would make a network agree faster: surer links, new links, better weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Links, Network
from ..graphs import from_edges
from ..graphs.hubs import diffusion
from ..graphs.weights import metropolis, uniform
from .contraction import pull_rate
from .matrices import expected, hub_modulus, left_perron

__all__ = [
    "WEIGHTS_UP_TO",
    "Improvement",
    "better_weights",
    "new_hub_links",
    "new_links",
    "slopes",
    "surer_links",
]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

WEIGHTS_UP_TO = 120  # clients for whom weights are optimised
_ALL_PAIRS_UP_TO = 24  # clients for whom every new link is tried
_WORTH = 1e-3  # of the gap to 1: less is not worth a line


@dataclass(frozen=True)
class Improvement:
    """A change to one link, and the contraction per mixing that it would give."""

    source: int
    target: int
    both_ways: bool
    before: float  # the link's probability now; 0 for a new one
    after: float
    contraction: float


def surer_links(
    links: Links, p: Floats, worst: Floats, now: float, most: int = 3
) -> list[Improvement]:
    """The links that would help most if they always fired, best first.

    Chosen by the slope; each of them is then tried exactly.
    """
    phi = np.ones(links.rows) if links.symmetric else left_perron(expected(links, p))
    coins, at = np.unique(links.coin, return_inverse=True)
    gain = -np.bincount(at, slopes(links, p, worst, phi) * (1 - p), len(coins))
    found = []
    for c in np.argsort(-gain, kind="stable")[: most + 2].tolist():
        chosen = at == c
        if gain[c] <= 0 or p[chosen][0] >= 1:
            continue
        rate, _ = pull_rate(links, np.where(chosen, 1.0, p))
        e, both_ways = int(np.flatnonzero(chosen)[0]), bool(chosen.sum() > 1)
        ends = int(links.src[e]), int(links.dst[e])
        found.append(Improvement(*ends, both_ways, float(p[e]), 1.0, rate))
    return _best(found, now, most)


def slopes(links: Links, p: Floats, x: Floats, phi: Floats) -> Floats:
    """The derivative of E|P x|^2, weighted by phi, by the probability of each link.

    2 phi_i (Pbar x)_i a (x_j - x_i) + phi_i a^2 (1 - 2 p) (x_j - x_i)^2.
    """
    step = x[links.src] - x[links.dst]
    mixed = expected(links, p) @ x
    return np.asarray(
        phi[links.dst]
        * (2 * mixed[links.dst] * links.a * step + links.a**2 * (1 - 2 * p) * step**2)
    )


def new_links(
    links: Links, p: Floats, worst: Floats, now: float, most: int = 3
) -> list[Improvement] | None:
    """The missing links that would help most, with weights made anew.

    A new link gets the median probability of the present ones. None where the weights are your own:
    there is no rule by which a new link would change them.
    """
    two_way = links.symmetric
    weigh = metropolis if two_way else uniform
    if not all(
        np.allclose(given, made)
        for given, made in zip(
            (links.a, links.b), weigh(links.rows, links.src, links.dst), strict=True
        )
    ):
        return None
    there = set(zip(links.src.tolist(), links.dst.tolist(), strict=True))
    chance = float(np.median(p)) if len(p) else 1.0
    found = []
    for i, j in _candidates(links.rows, worst, there, two_way):
        wider, q = _with(links, p, i, j, chance, two_way)
        rate, _ = pull_rate(wider, q)
        found.append(Improvement(i, j, two_way, 0.0, chance, rate))
    return _best(found, now, most)


def new_hub_links(hub_graph: Network, b: Floats, now: float, most: int = 3) -> list[Improvement]:
    """The missing links between hubs that would help most, with H made anew by `diffusion`."""
    links, hubs = hub_graph.peers, hub_graph.rows
    there = set(zip(links.src.tolist(), links.dst.tolist(), strict=True))
    found = []
    for i, j in _candidates(hubs, np.arange(hubs, dtype=np.float64), there, True):
        wider = from_edges(hubs, [*there, (i, j)])
        found.append(Improvement(i, j, True, 0.0, 1.0, hub_modulus(diffusion(wider, b), b) ** 2))
    return _best(found, now, most)


def better_weights(links: Links, p: Floats, now: float, rounds: int = 300) -> tuple[float, Floats]:
    """The symmetric weights, not negative, for which E[P^2] contracts most, and how much.

    Found by projected subgradient descent. E|P(w) x|^2 is convex in w for every x, so its largest
    value over disagreements x is too: any local minimum is the best. The slope is taken over the
    largest eigenvalues together, weighted by how close they are to the top, since at the best
    weights several are equal.
    """
    coins, first, at = np.unique(links.coin, return_index=True, return_inverse=True)
    i, j, b, m = links.dst[first], links.src[first], p[first], links.rows
    w = links.a[first].copy()
    best, best_w = now, w.copy()
    for k in range(rounds):
        mean = np.eye(m)
        _add_edges(mean, i, j, b * w)
        moment = mean @ mean
        _add_edges(moment, i, j, -2 * b * (1 - b) * w**2)
        values, vectors = np.linalg.eigh(moment - 1 / m)
        if values[-1] < best:
            best, best_w = float(values[-1]), w.copy()
        sharp = 0.02 / np.sqrt(k + 1) * max(1 - values[-1], 1e-9)
        share = np.exp((values - values[-1]) / sharp)
        share /= share.sum()
        step = vectors[i] - vectors[j]
        slope = (
            -2 * b[:, None] * step * (mean @ vectors)[i]
            + 2 * b[:, None] * step * (mean @ vectors)[j]
        ) @ share
        slope += 4 * b * (1 - b) * w * (step**2 @ share)
        size = np.linalg.norm(slope)
        if size == 0:
            break
        w = _feasible(
            w - 0.3 * np.linalg.norm(w) / np.sqrt(k + 1) * slope / size / np.sqrt(len(coins)) * 2,
            i,
            j,
            m,
        )
    return best, best_w[at]


def _add_edges(matrix: Floats, i: Ids, j: Ids, weight: Floats) -> None:
    """Add edges: subtract weight (e_i - e_j)(e_i - e_j)' for every pair."""
    np.add.at(matrix, (i, j), weight)
    np.add.at(matrix, (j, i), weight)
    np.add.at(matrix, (i, i), -weight)
    np.add.at(matrix, (j, j), -weight)


def _feasible(w: Floats, i: Ids, j: Ids, m: int) -> Floats:
    """Weights that are not negative and sum to at most 1 at every client.

    What is over is scaled down on the client's links.
    """
    w = np.maximum(w, 0)
    total = np.bincount(i, w, m) + np.bincount(j, w, m)
    over = np.maximum(total, 1)
    return np.asarray(w / np.maximum(over[i], over[j]))


def _candidates(
    m: int, worst: Floats, there: set[tuple[int, int]], two_way: bool
) -> list[tuple[int, int]]:
    """The links to try: all missing ones of a small graph.

    Of a large one, those between clients that disagree most in the worst case.
    """
    if m <= _ALL_PAIRS_UP_TO:
        return [
            (i, j)
            for i in range(m)
            for j in range(m)
            if i != j and (i, j) not in there and (i < j or not two_way)
        ]
    order = np.argsort(worst, kind="stable").tolist()
    reach = 4 if m <= 400 else 2
    ends = order[:reach], order[-reach:]
    pairs = [(i, j) for i in ends[0] for j in ends[1]] + (
        [] if two_way else [(j, i) for i in ends[0] for j in ends[1]]
    )
    return [pair for pair in pairs if pair not in there and pair[0] != pair[1]]


def _with(
    links: Links, p: Floats, i: int, j: int, chance: float, two_way: bool
) -> tuple[Links, Floats]:
    pairs = [(i, j), (j, i)] if two_way else [(i, j)]
    src = np.concatenate([links.src, [s for s, _ in pairs]])
    dst = np.concatenate([links.dst, [d for _, d in pairs]])
    q = np.concatenate([p, np.full(len(pairs), chance)])
    a, b = (metropolis if two_way else uniform)(links.rows, src, dst)
    order = np.lexsort((src, dst))  # as Links.make sorts them
    return Links.make(links.rows, src, dst, a, b, one_coin=two_way), q[order]


def _best(found: list[Improvement], now: float, most: int) -> list[Improvement]:
    worth = [one for one in found if one.contraction < now - _WORTH * (1 - now) - 1e-12]
    return sorted(worth, key=lambda one: (one.contraction, one.source, one.target))[:most]
