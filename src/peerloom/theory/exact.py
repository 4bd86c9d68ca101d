"""Exact means and variances of DSpodFL's rule on quadratics, and of mixing alone.

    x_i <- x_i + sum_j a_ij vhat_ij (x_j - x_i) - alpha v_i (A_i x_i - b_i + noise)

is linear in x, and its coins are independent, so with S = E[x x'] over all rows

    S <- M S M' + (what each coin's variance adds) + (noise)

is exact, and a coin touches the blocks of two rows only. Without gradients it is the law of mixing
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, gmres

from ..core import Links
from .matrices import expected

__all__ = ["Floor", "Linear", "mixing_rate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Floor:
    """Where a run settles, in the mean over all draws."""

    error: float  # E |mean model - optimum|^2
    # the part of it that no averaging over draws removes: |mean of the mean model - optimum|^2
    bias: float
    consensus: float  # E (1/m) sum_i |x_i - mean|^2
    excess: float  # E F(mean model) - F*


@dataclass(frozen=True, eq=False)
class Linear:
    """DSpodFL's rule on quadratics A [m, n, n], b [m, n].

    Links fire with chances p, clients compute with d, fixed step.
    """

    links: Links
    p: Floats
    A: Floats
    b: Floats
    d: Floats
    alpha: float
    noise: float = 0.0  # standard deviation of every coordinate of every gradient

    @property
    def m(self) -> int:
        """The number of clients."""
        return len(self.A)

    @property
    def n(self) -> int:
        """The number of coordinates."""
        return int(self.A.shape[1])

    @cached_property
    def mean_map(self) -> Floats:
        """M: E[x+] = M x + alpha D b, rows one after the other."""
        M = np.kron(expected(self.links, self.p).toarray(), np.eye(self.n))
        for i in range(self.m):
            at = slice(i * self.n, (i + 1) * self.n)
            M[at, at] -= self.alpha * self.d[i] * self.A[i]
        return np.asarray(M)

    @cached_property
    def mean_fixed(self) -> Floats:
        """The stationary mean of every client's model [m, n]."""
        pull = self.alpha * (self.d[:, None] * self.b).ravel()
        return np.asarray(
            np.linalg.solve(np.eye(self.m * self.n) - self.mean_map, pull).reshape(self.m, self.n)
        )

    @cached_property
    def optimum(self) -> Floats:
        """The minimiser of the mean of all f_i, each client counted once."""
        return np.linalg.solve(self.A.mean(axis=0), self.b.mean(axis=0))

    def radius(self) -> float:
        """How much E|x - fixed point|^2 is left after a round, in the long run.

        Below 1, and only then, it stays bounded.
        """
        N = self.m * self.n
        C, value = np.eye(N) / N, 0.0
        for k in range(20_000):
            C = self._spread(C)
            before, value = value, float(np.trace(C))
            C = C / value if value > 0 else C
            if value == 0 or (k > 20 and abs(value - before) < 1e-10 * value):
                break
        return value

    def settles(self) -> bool:
        """Whether the radius is below 1.

        The map keeps covariances positive: the radius is below 1 once some power takes I below I,
        and not below 1 once one application makes something positive larger throughout.
        """
        C = np.eye(self.m * self.n)
        for _ in range(200):
            before, C = C, self._spread(C)
            if np.linalg.eigvalsh(C)[-1] < 1:
                return True
            if np.linalg.eigvalsh(C - before)[0] >= 0:
                return False
        return self.radius() < 1

    def floor(self) -> Floor | None:
        """The stationary second moments; None where the step is too large for there to be any."""
        N = self.m * self.n
        if not self.settles():
            return None
        fixed = self.mean_fixed.ravel()
        constant = self._spread(np.zeros((N, N)), np.outer(fixed, fixed)) + self._added()
        operator = LinearOperator(
            (N * N, N * N),
            matvec=lambda c: c - self._spread(c.reshape(N, N)).ravel(),
            dtype=np.float64,
        )
        solved, failed = gmres(
            operator, constant.ravel(), rtol=1e-10, atol=0, restart=60, maxiter=200
        )
        if failed:
            return None
        return self._judge(solved.reshape(N, N), fixed)

    def after(self, start: Floats, rounds: int) -> Iterator[Floor]:
        """The moments after rounds 0 to `rounds`, from one first model or one per client."""
        x = np.broadcast_to(start, (self.m, self.n)).ravel()
        C = np.zeros((len(x), len(x)))
        push = self.alpha * (self.d[:, None] * self.b).ravel()
        yield self._judge(C, x)
        for _ in range(rounds):
            C = self._spread(C, np.outer(x, x)) + self._added(x)
            x = self.mean_map @ x + push
            yield self._judge(C, x)

    def _spread(self, C: Floats, mean: Floats | None = None) -> Floats:
        """The covariance after a round.

        M C M', and what links and clients that act by chance add to it from C and from the mean.
        """
        S = C if mean is None else C + mean
        out = self.mean_map @ C @ self.mean_map.T
        blocks = S.reshape(self.m, self.n, self.m, self.n)
        result = out.reshape(self.m, self.n, self.m, self.n)
        i, j = self.links.dst, self.links.src
        variance = self.p * (1 - self.p)
        # of x_j - x_i, [E, n, n]
        apart = blocks[j, :, j, :] - blocks[j, :, i, :] - blocks[i, :, j, :] + blocks[i, :, i, :]
        np.add.at(
            result.transpose(0, 2, 1, 3),
            (i, i),
            (variance * self.links.a**2)[:, None, None] * apart,
        )
        if len(self._shared[0]):
            e, back = self._shared
            cross = (variance * self.links.a)[e] * self.links.a[back]
            np.add.at(result.transpose(0, 2, 1, 3), (i[e], j[e]), -cross[:, None, None] * apart[e])
        idle = self.alpha**2 * self.d * (1 - self.d)
        for k in np.flatnonzero(idle):
            result[k, :, k, :] += (
                idle[k]
                * self.A[k]
                @ C.reshape(self.m, self.n, self.m, self.n)[k, :, k, :]
                @ self.A[k]
            )
        return np.asarray(out)

    def _added(self, x: Floats | None = None) -> Floats:
        """What clients that compute by chance, and noise, add to the covariance.

        alpha^2 d (1 - d) g g' at the mean, and alpha^2 d noise^2.
        """
        mean = self.mean_fixed if x is None else x.reshape(self.m, self.n)
        out = np.zeros((self.m, self.n, self.m, self.n))
        for k in range(self.m):
            g = self.A[k] @ mean[k] - self.b[k]
            out[k, :, k, :] = (
                self.alpha**2
                * self.d[k]
                * ((1 - self.d[k]) * np.outer(g, g) + self.noise**2 * np.eye(self.n))
            )
        return out.reshape(self.m * self.n, self.m * self.n)

    @cached_property
    def _shared(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Links that share a coin with their reverse, and the reverse."""
        links = self.links
        number = {
            (int(s), int(d)): e for e, (s, d) in enumerate(zip(links.src, links.dst, strict=True))
        }
        pairs = [
            (e, back)
            for (s, d), e in number.items()
            if (back := number.get((d, s))) is not None and links.coin[back] == links.coin[e]
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _judge(self, C: Floats, mean: Floats) -> Floor:
        m, n = self.m, self.n
        blocks = C.reshape(m, n, m, n)
        middle = blocks.mean(axis=(0, 2))  # the covariance of the mean model
        x = mean.reshape(m, n)
        off = x.mean(axis=0) - self.optimum
        total = sum(float(np.trace(blocks[i, :, i, :])) for i in range(m)) / m
        apart = (
            total - float(np.trace(middle)) + float(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean())
        )
        H = self.A.mean(axis=0)
        return Floor(
            error=float(off @ off + np.trace(middle)),
            bias=float(off @ off),
            consensus=max(apart, 0.0),
            excess=float(off @ H @ off + np.trace(H @ middle)) / 2,
        )


def mixing_rate(links: Links, p: Floats, rounds: int = 400) -> float:
    """What a round leaves of the expected squared disagreement in the long run.

    By power iteration on the covariance. At most the contraction of `pull_contraction`, which is
    the worst of a single round. O(m^3) a step.
    """
    m = links.rows
    if m < 2 or not len(links):
        return 1.0 if m > 1 else 0.0
    lazy = Linear(links, p, np.zeros((m, 1, 1)), np.zeros((m, 1)), np.ones(m), 0.0)
    C = np.eye(m) - 1 / m
    value = 0.0
    logs: list[float] = []
    for _ in range(rounds):
        C = lazy._spread(C)
        # what all rows share is no disagreement
        C = C - C.mean(axis=0) - C.mean(axis=1)[:, None] + C.mean()
        size = float(np.trace(C))
        if size < 1e-25:
            return 0.0
        C /= size
        logs.append(math.log(size if len(logs) else size / (m - 1)))
        if len(logs) > 20 and abs(logs[-1] - value) < 1e-11:
            break
        value = logs[-1]
    return math.exp(logs[-1])
