"""Facts about a graph that theorems ask for: connected, bipartite, regular, diameter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

from ..core import Links

__all__ = [
    "ALL_PAIRS",
    "GraphFacts",
    "diameter",
    "distances",
    "edge_utility",
    "graph_facts",
    "strong_parts",
]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

ALL_PAIRS = 1500  # rows up to which all distances are computed (1500 take a second)


@dataclass(frozen=True)
class GraphFacts:
    """A layer of links as a graph."""

    rows: int
    links: int  # directed links
    two_way: bool  # every link has its reverse
    parts: int  # weakly connected parts
    strong_parts: int  # parts in which everyone reaches everyone
    bipartite: bool  # two camps with no link inside either: averaging neighbours only swaps them
    regular: bool  # all in- and out-degrees are equal
    degree_low: int
    degree_mean: float
    degree_high: int
    diameter: int | None  # the longest of all shortest paths; None where some do not exist
    diameter_low: int | None  # what is known of it where not all paths were looked at
    diameter_high: int | None

    @property
    def connected(self) -> bool:
        """Whether everyone reaches everyone."""
        return self.strong_parts == 1


def graph_facts(links: Links, live: NDArray[np.bool_] | None = None) -> GraphFacts:
    """The facts of a layer, of the links in `live` only where it is given."""
    live = np.ones(len(links), bool) if live is None else live
    m, src, dst = links.rows, links.src[live], links.dst[live]
    graph = _graph(m, src, dst)
    parts, _ = connected_components(graph, directed=True, connection="weak")
    strong, _ = connected_components(graph, directed=True, connection="strong")
    into, out = np.bincount(dst, minlength=m), np.bincount(src, minlength=m)
    exact = diameter(distances(links, live)) if strong == 1 and m <= ALL_PAIRS else None
    low, high = (exact, exact) if exact is not None or strong > 1 else _diameter_between(graph)
    pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
    return GraphFacts(
        rows=m,
        links=len(src),
        two_way=all((j, i) in pairs for i, j in pairs),
        parts=int(parts),
        strong_parts=int(strong),
        bipartite=_bipartite(m, src, dst, int(parts)),
        regular=bool(len(set(into.tolist()) | set(out.tolist())) == 1),
        degree_low=int(into.min(initial=m)),
        degree_mean=float(into.mean()) if m else 0.0,
        degree_high=int(into.max(initial=0)),
        diameter=exact,
        diameter_low=low,
        diameter_high=high,
    )


def strong_parts(links: Links, live: NDArray[np.bool_]) -> int:
    """How many strongly connected parts the live links leave."""
    return int(
        connected_components(
            _graph(links.rows, links.src[live], links.dst[live]), connection="strong"
        )[0]
    )


def distances(links: Links, live: NDArray[np.bool_] | None = None) -> Floats:
    """distances[s, t]: the number of links on a shortest path from s to t.

    Infinite where there is none.
    """
    live = np.ones(len(links), bool) if live is None else live
    return np.asarray(
        shortest_path(_graph(links.rows, links.src[live], links.dst[live]), unweighted=True)
    )


def diameter(dist: Floats) -> int | None:
    """The longest shortest path, D(G); None if somebody cannot be reached."""
    longest = float(dist.max(initial=0.0))
    return int(longest) if np.isfinite(longest) else None


def edge_utility(links: Links, dist: Floats) -> int:
    """K(G), the maximal edge utility: most pairs whose shortest paths may share a link.

    Pairs choose their paths independently, so it is the largest count of pairs (s, t) with
    dist(s, u) + 1 + dist(v, t) = dist(s, t), over links u -> v. O(m^2) per link.
    """
    if not len(links):
        return 0
    reached = np.where(np.isfinite(dist), dist, -1)
    return max(
        int((dist[:, u, None] + 1 + dist[v] == reached).sum())
        for u, v in zip(links.src.tolist(), links.dst.tolist(), strict=True)
    )


def _graph(m: int, src: Ids, dst: Ids) -> sp.csr_array:
    return sp.csr_array((np.ones(len(src)), (src, dst)), shape=(m, m))


def _bipartite(m: int, src: Ids, dst: Ids, parts: int) -> bool:
    """Whether two colours suffice, directions aside.

    Then the double cover falls into two copies of every part.
    """
    if not len(src):
        return True
    ends = np.concatenate([src, dst]), np.concatenate([dst + m, src + m])
    double, _ = connected_components(_graph(2 * m, *ends), directed=False)
    return int(double) == 2 * parts


def _diameter_between(graph: sp.csr_array) -> tuple[int, int]:
    """Bounds of the diameter, from a few searches in place of one per row.

    From one row to all and back, then again from the farthest. The diameter is at least the longest
    path found, and at most the way there plus the way back.
    """
    longest, least, row = 0, graph.shape[0], 0
    for _ in range(3):
        ahead, far = _eccentricity(graph, row)
        back, _ = _eccentricity(graph.T.tocsr(), row)
        longest, least, row = max(longest, ahead, back), min(least, ahead + back), far
    return longest, max(longest, least)


def _eccentricity(graph: sp.csr_array, row: int) -> tuple[int, int]:
    order, before = breadth_first_order(graph, row, directed=True)
    depth = np.zeros(graph.shape[0], np.int64)
    for i in order[1:].tolist():
        depth[i] = depth[before[i]] + 1
    return int(depth.max()), int(order[-1])
