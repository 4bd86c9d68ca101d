"""Where mixing link by link adds things up: index work that is kept from mixing to mixing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .network import Links
from .protocols import Placement
from .wire import Carried, runs_of

__all__ = ["LinkPlan", "LinkPlans"]

Ids = NDArray[np.int64]
Run = tuple[slice, Tensor, Tensor]  # some links, which touched rows they end in, their weights
Weight = Literal["a", "b", "one"]
_KEPT = 16  # answers: for each layer and combination rule, both ways


@dataclass(frozen=True)
class LinkPlan:
    """How rows that links carried are summed, in link order, over the rows they touch."""

    weight: Weight
    touched: Tensor  # hosted rows that receive something, or give
    into: list[Run]
    out: list[Run]
    late: list[Run]
    mass: Tensor  # the sums of the weights, by which rows that were carried whole are weighed
    sent: Tensor

    def sum_by_receiver(self, carried: Carried) -> tuple[Tensor, Tensor]:
        """Return sum_j w_ij x_j and sum_j w_ij over what was carried."""
        total, mass = _Sum(self.touched.shape[0]), _Sum(self.touched.shape[0])
        for run, to, weight in self.into:
            values, mask = carried[run]
            total.add(to, self._weighed(weight, values))
            if mask is not None:
                mass.add(to, self._weighed(weight, mask))
        return total.value(self.mass), self.mass if mass.empty else mass.value(self.mass)

    def sum_by_sender(self, carried: Carried) -> Tensor:
        """Return sum_j w_ji over what was carried."""
        sent = _Sum(self.touched.shape[0])
        for run, by, weight in self.out:
            _, mask = carried[run]
            if mask is None:
                return self.sent
            sent.add(by, weight * mask)
        return sent.value(self.sent)

    def add_late(self, total: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """Add rows that came late to the sums, each with the weight of its link."""
        found = total.expand(-1, rows[0].shape[0]).clone() if rows else total
        for (_, to, weight), row in zip(self.late, rows, strict=True):
            found.index_add_(0, to, weight * row[None])
        return found

    def _weighed(self, weight: Tensor, terms: Tensor) -> Tensor:
        return terms.to(weight.dtype) if self.weight == "one" else weight * terms


class LinkPlans:
    """Makes plans for the rows that live here, and keeps the last few.

    Which rows the links join changes seldom from mixing to mixing, and working it out costs a peer,
    with its one row, more than the sums themselves.
    """

    def __init__(self, place: Placement, here: Ids) -> None:
        self._place, self._here = place, here
        self._plan = lru_cache(maxsize=_KEPT)(self._made)

    def __call__(
        self, links: Links, weight: Weight, width: int, into: Ids, out: Ids, late: Ids
    ) -> LinkPlan:
        """Return the plan of what arrived, was sent and came late, for rows of this width."""
        return self._plan(links, weight, width, into.tobytes(), out.tobytes(), late.tobytes())

    def _made(
        self, links: Links, weight: Weight, width: int, into: bytes, out: bytes, late: bytes
    ) -> LinkPlan:
        got, given, overdue = (np.frombuffer(ids, np.int64) for ids in (into, out, late))
        ends = np.concatenate([links.dst[got], links.src[given], links.dst[overdue]])
        touched = np.unique(self._here[ends])
        position = np.full(len(self._place.rows), -1)
        position[touched] = np.arange(len(touched))

        def runs(ids: Ids, rows: Ids, cut: Iterable[slice]) -> list[Run]:
            at, weights = position[self._here[rows]], links.weight(weight)[ids][:, None]
            return [
                (run, self._tensor(at[run]), self._tensor(weights[run]).to(self._place.dtype))
                for run in cut
            ]

        receiving = runs(got, links.dst[got], runs_of(len(got), width))
        giving = runs(given, links.src[given], runs_of(len(given), width))
        one_by_one = (slice(k, k + 1) for k in range(len(overdue)))
        waiting = runs(overdue, links.dst[overdue], one_by_one)
        mass, sent = (self._weights(len(touched), part) for part in (receiving, giving))
        every = self._tensor(touched)
        return LinkPlan(weight, every, receiving, giving, waiting, mass, sent)

    def _weights(self, rows: int, runs: list[Run]) -> Tensor:
        total = _Sum(rows)
        for _, to, weight in runs:
            total.add(to, weight)
        return total.value(torch.empty(0, 1, dtype=self._place.dtype, device=self._place.device))

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._place.device)


class _Sum:
    """Sums by row, of whatever width the terms have; a column where there are none."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._found: Tensor | None = None

    @property
    def empty(self) -> bool:
        return self._found is None

    def add(self, rows: Tensor, terms: Tensor) -> None:
        if self._found is None:
            self._found = self._nothing(terms)
        self._found.index_add_(0, rows, terms)

    def value(self, like: Tensor) -> Tensor:
        return self._nothing(like[:, :1]) if self._found is None else self._found

    def _nothing(self, like: Tensor) -> Tensor:
        # -0.0 is the true neutral element: a sum of nothing must not turn a row's -0.0 into 0.0.
        return like.new_full((self._rows, like.shape[1]), -0.0)
