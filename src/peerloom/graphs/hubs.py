"""Two levels: workers that know only their hub, and hubs that know each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import ConfigError, Links, Network
from .weights import check_column_stochastic, uniform

__all__ = ["diffusion", "hubs", "in_place"]

Floats = NDArray[np.float64]


def hubs(
    hub_graph: Network,
    workers: Sequence[int],
    weights: Sequence[float] | None = None,
    H: ArrayLike | None = None,
    compat: bool = False,
) -> Network:
    """A network of hubs, the d-th with workers[d] workers of its own (MLL-SGD).

    Rows are the workers, hub by hub, then the hubs. Three layers, each with the receiver's weights:

        up      hub d    <- sum of v_i x_i over its workers, v_i = w_i / (sum of w over the hub)
        across  hub d    <- sum_j H[j, d] z_j over its neighbours and itself
        down    worker i <- its hub's model

    `weights` are the w_i, one per worker, such as data sizes; equal where they are left out. H[j,
    d] is hub j's weight in hub d's new model: columns sum to one, and H[i, j] b_j = H[j, i] b_i
    with b the hubs' shares of all weight. By default it is `diffusion` on hub_graph, of which only
    the shape is used: where all hubs know each other they average exactly, H[j, d] = b_j. `compat`
    averages as the authors' code does: `in_place`. It is for several hubs.
    """
    count, total = len(workers), sum(workers)
    if hub_graph.rows != count or min(workers, default=0) < 1:
        raise ConfigError(
            f"hubs: give one number of workers, at least 1, for each of {hub_graph.rows} hubs; "
            f"found {workers}."
        )
    w = np.ones(total) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (total,) or (w <= 0).any():
        raise ConfigError(
            f"hubs: give one weight above 0 for each of {total} workers, found {weights}."
        )
    home = np.repeat(np.arange(count), workers)
    heft = np.bincount(home, w)
    b = heft / w.sum()
    matrix = _between(hub_graph, b, H, compat)
    everyone, rows = np.arange(total), total + count
    j, d = np.nonzero(matrix * (1 - np.eye(count)))
    layers = {
        "up": Links.make(rows, everyone, total + home, w / heft[home], np.ones(total)),
        "across": Links.make(
            rows, total + j, total + d, matrix[j, d], uniform(rows, total + j, total + d)[1]
        ),
        "down": Links.make(
            rows, total + home, everyone, np.ones(total), uniform(rows, total + home, everyone)[1]
        ),
    }
    recipe = {
        "name": "hubs",
        "hub_graph": hub_graph,
        "workers": list(workers),
        "weights": weights,
        "H": H,
        "compat": compat,
    }
    where = None if hub_graph.positions is None else _around(hub_graph.positions, home)
    mean_one = w / w.mean()
    return Network(rows, layers, "hubs", True, where, recipe, hubs=count, weights=mean_one)


def _between(hub_graph: Network, b: Floats, H: ArrayLike | None, compat: bool) -> Floats:
    """The weights between hubs: those given, or those made from the graph."""
    if compat and H is not None:
        raise ConfigError("hubs: compat has its own weights between hubs. Leave H out.")
    if compat and len(b) == 1:
        raise ConfigError(
            "hubs: compat says in which order hubs average with each other, but there is one hub. "
            "Leave it out."
        )
    if H is None:
        return in_place(hub_graph, b) if compat else diffusion(hub_graph, b)
    return _checked(np.asarray(H, np.float64), b)


def diffusion(hub_graph: Network, b: Floats) -> Floats:
    """Hub weights with H b = b.

    H_ij = b_i                                           where every hub knows every other
    H_ij = min(1, b_i / b_j) / (1 + max(deg_i, deg_j))   on links elsewhere; the rest is H_jj

    The first is the exact average: zeta = 0. The second needs only neighbours' degrees and shares.
    """
    links = hub_graph.peers
    if len(links) == links.rows * (links.rows - 1):
        return np.tile(b[:, None], links.rows)
    degree = np.maximum(links.in_degree, links.out_degree)
    H = np.zeros((links.rows, links.rows))
    i, j = links.src, links.dst
    H[i, j] = np.minimum(1, b[i] / b[j]) / (1 + np.maximum(degree[i], degree[j]))
    H[np.diag_indices(links.rows)] = 1 - H.sum(axis=0)
    return H


def in_place(hub_graph: Network, b: Floats) -> Floats:
    """Hub weights when hubs average in turn, each with the new models of those before it.

    Hub d averages its neighbours and itself by their shares b. The result is one H whose columns
    sum to one; H b = b does not hold, and a hub's model reaches hubs beyond its neighbours.
    """
    links = hub_graph.peers
    H = np.eye(links.rows)
    for d in range(links.rows):
        near = np.append(links.src[links.dst == d], d)
        H[:, d] = H[:, near] @ (b[near] / b[near].sum())
    return H


def _checked(H: Floats, b: Floats) -> Floats:
    check_column_stochastic(H, "H")
    if H.shape != (len(b), len(b)):
        raise ConfigError(f"hubs: H has shape {H.shape} for {len(b)} hubs.")
    uneven = np.argwhere(~np.isclose(H * b, (H * b).T, rtol=0, atol=1e-9))
    if len(uneven):
        i, j = uneven[0]
        raise ConfigError(
            f"hubs: H[{i}, {j}] b[{j}] is {H[i, j] * b[j]:.6g}, "
            f"but H[{j}, {i}] b[{i}] is {H[j, i] * b[i]:.6g}. "
            "They must be equal, or the weighted mean drifts; leave H out to have it made."
        )
    return H


def _around(hub_positions: Floats, home: NDArray[np.int64]) -> Floats:
    """Workers in a small circle round their hub, for drawing."""
    span = max(float(np.ptp(hub_positions)), 1.0)
    place = np.concatenate([np.arange(n) / n for n in np.bincount(home)]) * 2 * np.pi
    circle = 0.18 * span * np.stack([np.sin(place), np.cos(place)], axis=1)
    return np.concatenate([hub_positions[home] + circle, hub_positions])
