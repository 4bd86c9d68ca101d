"""Who may talk to whom, and with what weight: directed links, gathered in named layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ConfigError

__all__ = ["Links", "Network"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# Weights are sums of a few reciprocals; anything beyond this is a mistake, not rounding.
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links j -> i among `rows` rows, sorted by receiver, then by sender.

    The weight a row gives to itself is never stored: it is what the links that fired leave over.
    That is why a sporadic link, a lost message and a dead neighbour are one and the same thing.
    """

    rows: int
    src: Ids  # sender j
    dst: Ids  # receiver i
    a: Floats  # a_ij, chosen by the receiver; sum over j of a_ij <= 1
    b: Floats  # b_ij, chosen by the sender; sum over i of b_ij <= 1
    coin: Ids  # what the link's coin is keyed by; both directions of a symmetric link share it

    @classmethod
    def make(
        cls,
        rows: int,
        src: ArrayLike,
        dst: ArrayLike,
        a: ArrayLike,
        b: ArrayLike,
        *,
        one_coin: bool = False,
    ) -> Links:
        """Sort and check links given in any order.

        With `one_coin` both directions of a pair fire together.
        """
        src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        order = np.lexsort((src, dst))
        src, dst = src[order], dst[order]
        a, b = np.asarray(a, np.float64)[order], np.asarray(b, np.float64)[order]
        coin = np.minimum(src, dst) * rows + np.maximum(src, dst) if one_coin else dst * rows + src
        links = cls(rows, src, dst, a, b, coin)
        links._check()
        return links

    def _check(self) -> None:
        ends = np.concatenate([self.src, self.dst])
        if len(strangers := ends[(ends < 0) | (ends >= self.rows)]):
            raise ConfigError(
                f"A link names row {strangers[0]}, but rows are numbered 0 to {self.rows - 1}."
            )
        if (loops := self.src == self.dst).any():
            raise ConfigError(
                f"Row {self.src[loops][0]} has a link to itself. Leave self-links out: "
                "the weight a row keeps is what its links leave over."
            )
        if (twice := np.diff(self.dst * self.rows + self.src) == 0).any():
            e = int(np.flatnonzero(twice)[0])
            raise ConfigError(
                f"The link {self.src[e]} -> {self.dst[e]} is given twice. Give each link once."
            )
        for name, weight, at, side in (
            ("a", self.a, self.dst, "receives"),
            ("b", self.b, self.src, "sends"),
        ):
            if not np.isfinite(weight).all() or (weight < 0).any():
                e = int(np.flatnonzero(~np.isfinite(weight) | (weight < 0))[0])
                raise ConfigError(
                    f"Weight {name} of link {self.src[e]} -> {self.dst[e]} is {weight[e]:.6g}. "
                    "Weights must be finite and not negative."
                )
            total = np.bincount(at, weight, self.rows)
            if (total > 1 + _SLACK).any():
                i = int(np.argmax(total))
                raise ConfigError(
                    f"The weights {name} of what row {i} {side} sum to {total[i]:.6g}; they may "
                    "sum to 1 at most. Use graphs.weights.metropolis or uniform, or scale them "
                    "down."
                )

    def __len__(self) -> int:
        return len(self.src)

    def weight(self, kind: str) -> Floats:
        """The weights an offer asks for: 'a', 'b', or 'one' for plain counting."""
        return np.ones(len(self)) if kind == "one" else {"a": self.a, "b": self.b}[kind]

    @cached_property
    def in_degree(self) -> Ids:
        """How many links lead to each row."""
        return np.bincount(self.dst, minlength=self.rows).astype(np.int64)

    @cached_property
    def inverse_in_degree(self) -> Floats:
        """What each link is of all that lead to its receiver: 1 / in-degree."""
        return 1 / self.in_degree[self.dst]

    @cached_property
    def out_degree(self) -> Ids:
        """How many links leave each row."""
        return np.bincount(self.src, minlength=self.rows).astype(np.int64)

    @cached_property
    def symmetric(self) -> bool:
        """Every link has its reverse, with the same weight and the same coin."""
        forth = np.lexsort((self.src, self.dst))
        back = np.lexsort((self.dst, self.src))
        return bool(
            np.array_equal(self.src[forth], self.dst[back])
            and np.array_equal(self.dst[forth], self.src[back])
            and np.array_equal(self.coin[forth], self.coin[back])
            and np.allclose(self.a[forth], self.a[back], rtol=0, atol=_SLACK)
            and np.allclose(self.a, self.b, rtol=0, atol=_SLACK)
        )

    def matrix(self, kind: str = "a") -> Floats:
        """The dense mixing matrix when every link fires, self-weights included.

        Rows sum to one for a, columns for b.
        """
        full = np.zeros((self.rows, self.rows))
        full[self.dst, self.src] = self.weight(kind)
        full[np.diag_indices(self.rows)] = 1 - full.sum(axis=1 if kind == "a" else 0)
        return full


@dataclass(frozen=True, eq=False)
class Network:
    """Rows and the layers of links between them. A plain graph has one layer, "peers".

    The first rows are the clients, which hold data and compute; the last `hubs` rows only mix.
    """

    rows: int
    layers: Mapping[str, Links]
    name: str = "network"
    directed: bool = False
    positions: Floats | None = None  # for drawing only
    # How it was made, so that a file can make it again.
    recipe: Mapping[str, Any] = field(default_factory=dict)
    hubs: int = 0
    # How much each client counts in the averaged model, 1 in the mean; None where all count alike.
    weights: Floats | None = None

    @property
    def clients(self) -> int:
        """How many rows hold data: those that problems and node schedules speak of."""
        return self.rows - self.hubs

    @property
    def workers(self) -> Ids:
        """The rows that hold data."""
        return np.arange(self.clients)

    @property
    def hubs_agree(self) -> bool:
        """Whether hubs have one and the same model after they averaged with each other once."""
        if self.hubs < 2:
            return True
        across = self.layer("across").matrix("a")[-self.hubs :, -self.hubs :]
        return bool(np.ptp(across, axis=0).max() <= _SLACK)

    @property
    def peers(self) -> Links:
        """The layer of a plain graph."""
        return self.layers["peers"]

    def layer(self, name: str) -> Links:
        """One layer, or an error that says which there are."""
        if name not in self.layers:
            raise ConfigError(
                f"Graph '{self.name}' has no layer '{name}'; "
                f"it has {', '.join(sorted(self.layers))}. "
                "Mix over one of those, or use a graph that has the layer."
            )
        return self.layers[name]
