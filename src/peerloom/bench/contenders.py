"""The contenders: the simulator, a loop in the papers' style, and a plain NumPy loop."""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import Network
from ..experiment import Experiment
from ..problems import Classification
from ..problems.local import LocalClassification
from ..runtime import iterate
from .cases import BATCH, LR, data

__all__ = ["Contender", "NumpyLoop", "PapersLoop", "Simulator"]

Ids = NDArray[np.int64]


class Contender(Protocol):
    """Anything that can do a round of the same computation."""

    def round(self) -> None:
        """Draw a batch per client, take gradients, mix, update."""


class Simulator:
    """Peerloom, as a user runs it."""

    def __init__(self, exp: Experiment) -> None:
        self._snapshots = iterate(exp)
        self.now = next(self._snapshots)

    def round(self) -> None:
        """One step of the engine."""
        self.now = next(self._snapshots)

    @property
    def parts(self) -> list[Ids]:
        """The samples of each client."""
        problem = self.now.port.problem
        assert isinstance(problem, LocalClassification)
        return problem.parts

    def picks(self, t: int) -> Ids:
        """The samples of round t, [clients, batch], worked out here from the draws alone."""
        u = self.now.port.draws("batch", t, self.now.port.place.rows, BATCH)
        return np.stack(
            [
                part[(row * len(part)).astype(np.int64)]
                for part, row in zip(self.parts, u, strict=True)
            ]
        )


class PapersLoop:
    """The style of the papers' code: a module per client, autograd, parameters mixed singly."""

    def __init__(
        self, problem: Classification, graph: Network, parts: list[Ids], x0: Tensor
    ) -> None:
        module = problem.module(seed=0)
        self._models = [copy.deepcopy(module) for _ in range(graph.rows)]
        for model, row in zip(self._models, x0, strict=True):
            nn.utils.vector_to_parameters(row.clone(), model.parameters())
        self._parts = [torch.from_numpy(part) for part in parts]
        self._x, self._y = torch.from_numpy(data().x), torch.from_numpy(data().y)
        self._weights = _metropolis(graph)
        self._dice = torch.Generator().manual_seed(0)

    def round(self, picks: Ids | None = None) -> None:
        """Run one round: gradients at the old models, then mixing of the old models.

        `picks` fixes the batches, so that contenders can be compared; otherwise they are drawn.
        """
        for i, model in enumerate(self._models):
            if picks is None:
                part = self._parts[i]
                batch = part[torch.randint(len(part), (BATCH,), generator=self._dice)]
            else:
                batch = torch.from_numpy(picks[i])
            model.zero_grad()
            nn.functional.cross_entropy(model(self._x[batch]), self._y[batch]).backward()  # type: ignore[no-untyped-call]
        old = [list(copy.deepcopy(model).parameters()) for model in self._models]
        with torch.no_grad():
            for i, model in enumerate(self._models):
                for k, parameter in enumerate(model.parameters()):
                    assert parameter.grad is not None
                    mixed = old[i][k].clone()
                    for j, weight in self._weights[i].items():
                        mixed += weight * (old[j][k] - old[i][k])
                    parameter.copy_(mixed - LR * parameter.grad)

    @property
    def rows(self) -> Tensor:
        """The models as rows."""
        return torch.stack(
            [nn.utils.parameters_to_vector(model.parameters()).detach() for model in self._models]
        )


class NumpyLoop:
    """Softmax regression without torch: a closed-form gradient per client, and W @ X."""

    _SPARSE_FROM = 128  # above it, W is kept in compressed rows, as anyone who measures would do

    def __init__(self, graph: Network, parts: list[Ids], x0: Tensor) -> None:
        self._X = x0.numpy().copy()
        self._parts = parts
        W = np.zeros((graph.rows, graph.rows), np.float32)
        for i, weights in enumerate(_metropolis(graph)):
            for j, weight in weights.items():
                W[i, j] = weight
            W[i, i] = 1 - sum(weights.values())
        self._W = scipy.sparse.csr_array(W) if graph.rows >= self._SPARSE_FROM else W
        self._dice = np.random.default_rng(0)

    def round(self, picks: Ids | None = None) -> None:
        """Gradients at the old rows, then one product for all."""
        X, x, y = self._X, data().x, data().y
        G = np.empty_like(X)
        each = np.arange(BATCH)
        for i, part in enumerate(self._parts):
            batch = part[self._dice.integers(len(part), size=BATCH)] if picks is None else picks[i]
            inputs, weight, bias = x[batch], X[i, :7840].reshape(10, 784), X[i, 7840:]
            scores = inputs @ weight.T + bias
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[each, y[batch]] -= 1
            p /= BATCH
            G[i, :7840] = (p.T @ inputs).ravel()
            G[i, 7840:] = p.sum(axis=0)
        self._X = np.asarray(self._W @ X) - np.float32(LR) * G

    @property
    def rows(self) -> Tensor:
        """The models as rows."""
        return torch.from_numpy(self._X)


def _metropolis(graph: Network) -> list[dict[int, float]]:
    """Return 1 / (1 + the larger degree) per neighbour; a check of what `graphs` computes."""
    neighbours: list[list[int]] = [[] for _ in range(graph.rows)]
    for source, target in zip(graph.peers.src.tolist(), graph.peers.dst.tolist(), strict=True):
        neighbours[target].append(source)
    return [{j: 1 / (1 + max(len(mine), len(neighbours[j]))) for j in mine} for mine in neighbours]
