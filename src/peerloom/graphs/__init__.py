"""Who may talk to whom: graphs by name, with weights that fit them."""

from collections.abc import Callable

from ..core import Network
from . import weights
from .build import (
    complete,
    directed_ring,
    erdos_renyi,
    exponential,
    from_edges,
    from_matrix,
    from_networkx,
    geometric,
    grid,
    path,
    random_digraph,
    regular,
    ring,
    small_world,
    star,
    two_way,
)
from .hubs import hubs

__all__ = [
    "GRAPHS",
    "complete",
    "directed_ring",
    "erdos_renyi",
    "exponential",
    "from_edges",
    "from_matrix",
    "from_networkx",
    "geometric",
    "grid",
    "hubs",
    "path",
    "random_digraph",
    "regular",
    "ring",
    "small_world",
    "star",
    "two_way",
    "weights",
]

# What a file may name. `from_networkx` is missing on purpose: it takes an object.
GRAPHS: dict[str, Callable[..., Network]] = {
    "complete": complete,
    "directed_ring": directed_ring,
    "erdos_renyi": erdos_renyi,
    "exponential": exponential,
    "from_edges": from_edges,
    "from_matrix": from_matrix,
    "geometric": geometric,
    "grid": grid,
    "hubs": hubs,
    "path": path,
    "random_digraph": random_digraph,
    "regular": regular,
    "ring": ring,
    "small_world": small_world,
    "star": star,
    "two_way": two_way,
}
