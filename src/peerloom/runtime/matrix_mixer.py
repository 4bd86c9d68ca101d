"""Mixing as a matrix product: the fast path where all rows are here and arrive whole."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Links, Offer

__all__ = ["MatrixMixer"]

Bools = NDArray[np.bool_]


class MatrixMixer:
    """Applies offers over one layer as W @ x, with W built from the links that fired.

    Dense for few rows or many links, compressed sparse rows otherwise. The sparsity pattern is that
    of all links and the diagonal; a link that did not fire is a zero in it, so only the values
    change from round to round.
    """

    # Where a sparse product wins: docs/decisions/008-two-mixers.md.
    SPARSE_FROM, SPARSE_BELOW = 48, 1 / 6
    COLUMNS = 4096  # of a sparse product at a time, so that the rows it reads stay in cache

    def __init__(self, links: Links, dtype: torch.dtype, device: torch.device) -> None:
        self.links, self.dtype, self.device = links, dtype, device
        diagonal = np.arange(links.rows)
        row, column = np.concatenate([links.dst, diagonal]), np.concatenate([links.src, diagonal])
        self._sparse = (
            links.rows >= self.SPARSE_FROM and len(row) < self.SPARSE_BELOW * links.rows**2
        )
        if self._sparse:
            order = np.lexsort((column, row))
            self._place = np.argsort(order)
            start = np.searchsorted(row[order], np.arange(links.rows + 1)).astype(np.int32)
            self._start = torch.from_numpy(start).to(device)
            self._column = torch.from_numpy(column[order].astype(np.int32)).to(device)
        else:
            self._place = row * links.rows + column
        self._memo: dict[object, tuple[Bools, Tensor]] = {}

    def __call__(self, offer: Offer, live: Bools) -> Tensor:
        """The offer, combined over the links that are live."""
        if not live.any():
            return offer.value if offer.keeps else torch.zeros_like(offer.value)
        known = self._memo.get((offer.weigh, offer.weight))
        if known is None or not np.array_equal(known[0], live):
            known = self._memo[offer.weigh, offer.weight] = (live.copy(), self._matrix(offer, live))
        matrix = known[1]
        out = torch.empty_like(offer.value)
        if not self._sparse:
            return torch.mm(matrix, offer.value, out=out)
        parts, results = (torch.split(rows, self.COLUMNS, dim=1) for rows in (offer.value, out))
        for part, into in zip(parts, results, strict=True):
            torch.addmm(into, matrix, part, beta=0, out=into)
        return out

    def _matrix(self, offer: Offer, live: Bools) -> Tensor:
        links, weight = self.links, self.links.weight(offer.weight) * live
        mass = np.bincount(links.dst, weight, links.rows)
        sent = np.bincount(links.src, weight, links.rows)
        scale, self_weight = offer.weigh(mass, sent)
        scale = np.broadcast_to(scale, links.rows)[links.dst]
        values = np.zeros(len(self._place) if self._sparse else links.rows**2)
        values[self._place] = np.concatenate([scale * weight, self_weight])
        ready = torch.from_numpy(values).to(self.device, self.dtype)
        size = (links.rows, links.rows)
        if not self._sparse:
            return ready.view(size)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(
                self._start, self._column, ready, size=size, check_invariants=False
            )
