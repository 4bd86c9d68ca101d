"""Graphs by name: shapes from networkx, with weights, coins, a recipe and clear errors."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import ConfigError, Links, Network
from ..core import uniform as draw_uniform
from . import weights as weighing

__all__ = [
    "complete",
    "directed_ring",
    "erdos_renyi",
    "exponential",
    "from_edges",
    "from_matrix",
    "from_networkx",
    "geometric",
    "grid",
    "path",
    "random_digraph",
    "regular",
    "ring",
    "small_world",
    "star",
    "two_way",
]

_TRIES = 10_000  # draws before a random graph is given up
_POINTS = 1_000_000  # or so many points: ten within 0.2 of each other connect once in 6,000 draws


def ring(clients: int) -> Network:
    """Every client has two neighbours, in a circle."""
    _at_least(2, clients)
    return _network(nx.cycle_graph(clients), "ring", clients=clients)


def path(clients: int) -> Network:
    """A line: the slowest connected graph to mix."""
    _at_least(2, clients)
    return _network(nx.path_graph(clients), "path", clients=clients)


def grid(height: int, width: int) -> Network:
    """A rectangle in which each client knows those above, below, left and right."""
    if min(height, width) < 1:
        raise ConfigError(f"grid: height and width must be at least 1, found {height} and {width}.")
    _at_least(2, height * width)
    shape = nx.convert_node_labels_to_integers(nx.grid_2d_graph(height, width), ordering="sorted")
    where = np.array([[i % width, -(i // width)] for i in range(height * width)], np.float64)
    return _network(shape, "grid", positions=where, height=height, width=width)


def star(clients: int) -> Network:
    """Client 0 knows everybody, the others know only client 0."""
    _at_least(2, clients)
    return _network(nx.star_graph(clients - 1), "star", clients=clients)


def complete(clients: int) -> Network:
    """Everybody knows everybody."""
    _at_least(2, clients)
    return _network(nx.complete_graph(clients), "complete", clients=clients)


def geometric(clients: int, radius: float, seed: int = 0) -> Network:
    """Random points on the unit square, linked when at most `radius` apart.

    Redrawn until connected.

    >>> geometric(10, radius=0.4, seed=1).peers.in_degree.tolist()
    [1, 3, 3, 3, 4, 2, 2, 5, 2, 3]
    """
    _at_least(2, clients)
    if radius <= 0:
        raise ConfigError(f"geometric: radius must be above 0, found {radius}.")

    def attempt(k: int) -> tuple[nx.Graph[int], NDArray[np.float64]]:
        where = draw_uniform(seed, "graph/geometric", k, np.arange(clients), lanes=2)
        shape: nx.Graph[int] = nx.empty_graph(clients)
        shape.add_nodes_from((i, {"pos": where[i]}) for i in range(clients))
        shape.add_edges_from(nx.geometric_edges(shape, radius))
        return shape, where

    tries = max(_TRIES, _POINTS // clients)
    for k in range(tries):
        shape, where = attempt(k)
        if nx.is_connected(shape):
            return _network(
                shape, "geometric", positions=where, clients=clients, radius=radius, seed=seed
            )
    raise ConfigError(
        f"geometric: none of {tries:,} graphs of {clients} clients with radius {radius} "
        "was connected. Use a larger radius or more clients."
    )


def erdos_renyi(clients: int, p: float, seed: int = 0) -> Network:
    """Each pair is linked with probability p; redrawn until connected."""
    _at_least(2, clients)
    _probability("erdos_renyi: p", p)
    return _until_connected(
        lambda s: nx.gnp_random_graph(clients, p, seed=s),
        "erdos_renyi", "a larger p", clients=clients, p=p, seed=seed,
    )  # fmt: skip


def regular(clients: int, degree: int, seed: int = 0) -> Network:
    """A random graph in which all clients have one degree; redrawn until connected."""
    _at_least(2, clients)
    if not 1 <= degree < clients or clients * degree % 2:
        raise ConfigError(
            f"regular: no graph of {clients} clients has degree {degree} everywhere. "
            "The degree must be below the number of clients and their product even."
        )
    return _until_connected(
        lambda s: nx.random_regular_graph(degree, clients, seed=s),
        "regular", "a larger degree", clients=clients, degree=degree, seed=seed,
    )  # fmt: skip


def small_world(clients: int, degree: int = 4, rewire: float = 0.1, seed: int = 0) -> Network:
    """Watts and Strogatz: a ring of `degree` neighbours, some links rewired at random.

    Redrawn until connected.
    """
    _at_least(3, clients)
    _probability("small_world: rewire", rewire)
    if not 2 <= degree < clients or degree % 2:
        raise ConfigError(
            f"small_world: degree must be even and from 2 to {clients - 1}, found {degree}."
        )
    return _until_connected(
        lambda s: nx.watts_strogatz_graph(clients, degree, rewire, seed=s),
        "small_world", "a larger degree", clients=clients, degree=degree, rewire=rewire, seed=seed,
    )  # fmt: skip


def exponential(clients: int) -> Network:
    """Directed: client i sends to i + 1, i + 2, i + 4, ... (modulo the number of clients)."""
    _at_least(2, clients)
    hops = [2**k for k in range((clients - 1).bit_length())]
    shape = nx.DiGraph([(i, (i + hop) % clients) for i in range(clients) for hop in hops])
    return _network(shape, "exponential", clients=clients)


def directed_ring(clients: int) -> Network:
    """Client i sends to client i + 1 only."""
    _at_least(2, clients)
    return _network(
        nx.cycle_graph(clients, create_using=nx.DiGraph), "directed_ring", clients=clients
    )


def random_digraph(clients: int, p: float, seed: int = 0) -> Network:
    """Each ordered pair is linked with probability p; redrawn until strongly connected."""
    _at_least(2, clients)
    _probability("random_digraph: p", p)
    return _until_connected(
        lambda s: nx.gnp_random_graph(clients, p, seed=s, directed=True),
        "random_digraph", "a larger p", clients=clients, p=p, seed=seed,
    )  # fmt: skip


def from_edges(n: int, edges: Iterable[Sequence[int]], directed: bool = False) -> Network:
    """A graph of your own: `edges` are pairs (source, target) of clients 0 to n - 1."""
    _at_least(1, n)
    try:
        pairs = [(operator.index(source), operator.index(target)) for source, target in edges]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"from_edges: edges must be pairs (source, target) of whole numbers: {error}."
        ) from error
    for source, target in pairs:
        if not (0 <= source < n and 0 <= target < n):
            raise ConfigError(
                f"from_edges: ({source}, {target}) names a client outside 0 to {n - 1}."
            )
    shape: nx.Graph[int] = nx.DiGraph() if directed else nx.Graph()
    shape.add_nodes_from(range(n))
    shape.add_edges_from(pair for pair in pairs if pair[0] != pair[1])
    return _network(
        shape, "from_edges", n=n, edges=sorted(map(list, shape.edges)), directed=directed
    )


def two_way(graph: Network) -> Network:
    """The same links, each direction with a coin and weights of its own (Spod-GT)."""
    links = graph.peers
    a, b = weighing.uniform(graph.rows, links.src, links.dst)
    split = Links.make(graph.rows, links.src, links.dst, a, b)
    return Network(
        graph.rows,
        {"peers": split},
        "two_way",
        True,
        graph.positions,
        {"name": "two_way", "graph": graph},
    )


def from_networkx(graph: nx.Graph[Any]) -> Network:
    """A networkx graph, directed or not; clients are numbered in its order of nodes."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = [
        (number[source], number[target]) for source, target in graph.edges() if source != target
    ]
    return from_edges(len(number), edges, directed=graph.is_directed())


def from_matrix(W: ArrayLike, B: ArrayLike | None = None) -> Network:
    """A graph from your own weights.

    W[i, j] is what receiver i gives sender j; rows sum to one, and the diagonal is left over. A
    symmetric W alone gives an undirected graph. B[i, j] is the share sender j gives receiver i,
    columns sum to one; where it is left out, B = W, which must then have unit column sums too.
    """
    A = weighing.check_row_stochastic(W)
    pushed = weighing.check_column_stochastic(A if B is None else B, "W" if B is None else "B")
    if pushed.shape != A.shape:
        raise ConfigError(
            f"from_matrix: W has shape {A.shape}, B {pushed.shape}. They must be equal."
        )
    linked = (A != 0) | (pushed != 0)
    np.fill_diagonal(linked, False)
    dst, src = np.nonzero(linked)
    both_ways = B is None and bool(np.allclose(A, A.T, rtol=0, atol=1e-9))
    links = Links.make(len(A), src, dst, A[dst, src], pushed[dst, src], one_coin=both_ways)
    recipe = {"name": "from_matrix", "W": A.tolist()} | (
        {} if B is None else {"B": pushed.tolist()}
    )
    return Network(len(A), {"peers": links}, "from_matrix", not both_ways, _circle(len(A)), recipe)


def _network(
    shape: nx.Graph[int], name: str, positions: NDArray[np.float64] | None = None, **recipe: Any
) -> Network:
    rows, directed = shape.number_of_nodes(), shape.is_directed()
    pairs = np.array(list(shape.edges), np.int64).reshape(-1, 2)
    if not directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    src, dst = pairs.T
    a, b = (weighing.uniform if directed else weighing.metropolis)(rows, src, dst)
    links = Links.make(rows, src, dst, a, b, one_coin=not directed)
    where = _circle(rows) if positions is None else positions
    return Network(rows, {"peers": links}, name, directed, where, {"name": name, **recipe})


def _until_connected(shape_of: Any, name: str, advice: str, *, seed: int, **recipe: Any) -> Network:
    connected = nx.is_strongly_connected if name == "random_digraph" else nx.is_connected
    # networkx wants a seed per attempt: 32 bits of our own draws, so that neighbouring seeds share
    # no attempt.
    for k in range(_TRIES):
        word = int(draw_uniform(seed, f"graph/{name}", k, np.zeros(1, np.int64))[0, 0] * 2**32)
        shape = shape_of(word)
        if connected(shape):
            return _network(shape, name, **recipe, seed=seed)
    given = ", ".join(f"{k}={v}" for k, v in recipe.items())
    raise ConfigError(
        f"{name}: none of {_TRIES:,} graphs with {given} was connected. Use {advice}."
    )


def _circle(rows: int) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(rows) / rows
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _at_least(least: int, clients: int) -> None:
    if clients < least:
        raise ConfigError(f"A graph of {clients} clients was asked for; it needs at least {least}.")


def _probability(what: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ConfigError(f"{what} must be a probability from 0 to 1, found {p}.")
