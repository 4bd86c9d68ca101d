"""Expected mixing matrices: exact second moments, Perron vectors, spectral radii.

With P = Pbar + sum over coins c of (xi_c - p_c) L_c, the coins independent, every second moment is
exact:

    E[P' D P] = Pbar' D Pbar + sum_c p_c (1 - p_c) L_c' D L_c

and a link touches two rows only, so nothing here is larger than the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh, splu

from ..core import Links

__all__ = [
    "DENSE",
    "Moment",
    "UnsettledError",
    "expected",
    "hub_modulus",
    "laplacian",
    "left_perron",
    "pull_contraction",
    "pull_moment",
    "push_contraction",
    "push_moment",
    "second_modulus",
    "spectral_radius_2x2",
    "top_off",
]

Floats = NDArray[np.float64]
Sparse = Any  # scipy's sparse arrays: their stubs do not survive arithmetic


class UnsettledError(ArithmeticError):
    """An eigenvalue of a large graph that could not be found in the time there is."""


_FOLLOWED = 3000  # rounds that a Perron vector of a large graph is followed for
DENSE = 600  # rows up to which all eigenvalues are computed; 600 take 0.1 s


def expected(links: Links, p: Floats, kind: str = "a") -> Sparse:
    """The expected mixing matrix: p_ij w_ij on links, what they leave on the diagonal.

    DSpodFL's Rbar and Spod-GT's Ahat for kind "a", whose rows sum to one; Spod-GT's Bhat for kind
    "b", whose columns do (erratum E-S2).
    """
    weight = p * links.weight(kind)
    off = sp.csr_array((weight, (links.dst, links.src)), shape=(links.rows, links.rows))
    left = 1 - np.bincount(links.dst if kind == "a" else links.src, weight, links.rows)
    return (off + sp.diags_array(left)).tocsr()


@dataclass(frozen=True, eq=False)
class Moment:
    """E[P' diag(weight) P], as Pbar, the weight, and the sparse part that the coins add."""

    mean: Sparse
    weight: Floats
    noise: Sparse

    def __call__(self, x: Floats) -> Floats:
        """The product with a vector."""
        return np.asarray(self.mean.T @ (self.weight * (self.mean @ x)) + self.noise @ x)

    def matrix(self) -> Sparse:
        """The whole matrix, sparse."""
        return (self.mean.T @ sp.diags_array(self.weight) @ self.mean + self.noise).tocsr()


def pull_moment(links: Links, p: Floats, weight: Floats | None = None) -> Moment:
    """E[P' diag(weight) P] of pulling: rows sum to one in every draw.

    With weight 1 and symmetric links, DSpodFL's Rtilde.

    L_c moves row i by a_ij (x_j - x_i), so a coin adds weight_i a_ij^2 (e_i - e_j)(e_i - e_j)',
    whether or not the two directions share it: they move different rows.
    """
    weight = np.ones(links.rows) if weight is None else weight
    q = weight[links.dst] * links.a**2 * p * (1 - p)
    return Moment(expected(links, p, "a"), weight, laplacian(links, q))


def push_moment(links: Links, p: Floats, weight: Floats) -> Moment:
    """E[P' diag(weight) P] of pushing: columns sum to one in every draw.

    A coin moves b_ij y_j from row j to row i, so it adds (weight_i + weight_j) b_ij^2 at (j, j);
    where both directions share a coin, what they move partly cancels, which is the term off the
    diagonal.
    """
    both = weight[links.dst] + weight[links.src]
    variance = p * (1 - p)
    diagonal = np.bincount(links.src, both * links.b**2 * variance, links.rows)
    noise = sp.diags_array(diagonal).tocsr()
    shared = links.coin != links.dst * links.rows + links.src
    shared |= np.isin(links.coin, links.coin[shared])
    if shared.any():
        i, j = links.dst[shared], links.src[shared]
        share = sp.csr_array((links.b[shared], (i, j)), shape=noise.shape)
        back = np.asarray(share[j, i]).ravel()  # b_ji of the link that falls with this one
        cross = -both[shared] * links.b[shared] * back * variance[shared]
        noise = (noise + sp.csr_array((cross, (i, j)), shape=noise.shape)).tocsr()
    return Moment(expected(links, p, "b"), weight, noise)


def pull_contraction(links: Links, p: Floats, phi: Floats | None = None) -> tuple[float, Floats]:
    """The exact expected contraction per round of the squared disagreement.

    The largest E|P x - 1 phi'x|^2 / |x - 1 phi'x|^2, weighted by phi, and the x for which it is
    reached. phi is the left Perron vector of the expected matrix; left out, all 1/m. For a
    symmetric graph this is DSpodFL's rho tilde.
    """
    m = links.rows
    phi = np.full(m, 1 / m) if phi is None else phi
    root = np.sqrt(phi)
    moment = pull_moment(links, p, phi)
    value, vector = top_off(lambda x: moment(x / root) / root, root, moment, 1 / root)
    return value, vector / root


def push_contraction(links: Links, p: Floats, pi: Floats) -> float:
    """The exact expected contraction per round of the trackers' squared error.

    The largest E|B y|^2 / |y|^2 over y that sum to zero, weighted by 1 / pi.
    """
    root = np.sqrt(pi)
    moment = push_moment(links, p, 1 / pi)
    return top_off(lambda y: root * moment(root * y), root, moment, root)[0]


def second_modulus(W: Sparse) -> float:
    """The largest |eigenvalue| of W apart from the 1 of agreement: |W - J|.

    W is symmetric and doubly stochastic.
    """
    m = W.shape[0]
    if m <= DENSE:
        dense = _dense(W)
        return float(np.abs(np.linalg.eigvalsh(dense - 1 / m)).max())
    flat = np.full(m, m**-0.5)
    both = top_off(
        lambda x: np.asarray(W @ (W @ x)),
        flat,
        Moment(sp.csr_array(W), np.ones(m), _nothing(m)),
        np.ones(m),
    )
    return float(np.sqrt(max(both[0], 0.0)))


def hub_modulus(H: ArrayLike, b: ArrayLike | None = None) -> float:
    """The second largest |eigenvalue| of the matrix H between hubs.

    In the b-weighted norm H is symmetric (H_ij b_j = H_ji b_i), so its eigenvalues are real.
    """
    H = np.asarray(H, np.float64)
    root = np.sqrt(np.ones(len(H)) if b is None else np.asarray(b, np.float64))
    alike = H * root / root[:, None]  # similar to H, and symmetric where the condition holds
    if len(H) == 1:
        return 0.0
    symmetric = np.allclose(alike, alike.T, atol=1e-9)
    values = np.linalg.eigvalsh(alike) if symmetric else np.linalg.eigvals(H)
    return float(np.sort(np.abs(values))[-2])


def left_perron(A: Sparse) -> Floats:
    """The positive phi with phi'A = phi' and sum 1.

    It comes from a linear system, which small probabilities do not slow down. The matrix must be
    stochastic by rows and strongly connected; pass B.T for the right vector of a column-stochastic
    B.
    """
    m = A.shape[0]
    if m <= DENSE:
        system = np.eye(m) - _dense(A).T
        system[-1] = 1  # one equation is the sum of the others; this one fixes the scale
        return np.linalg.solve(system, np.eye(m)[-1])
    # Where mixing is fast, following phi through some rounds settles it; where it is slow, the
    # graph is long and thin, and a factorisation cheap: with phi_last = 1 the other equations are a
    # sparse regular system, and the scale comes after.
    turned = A.T.tocsr()
    phi = np.full(m, 1 / m)
    for _ in range(_FOLLOWED):
        before, phi = phi, turned @ phi
        if np.abs(phi - before).sum() < 1e-15 * m**0.5:
            return np.asarray(phi / phi.sum())
    system = (sp.eye_array(m) - A.T).tocsc()
    rest = splu(system[:-1, :-1]).solve(-system[:-1, [m - 1]].toarray().ravel())
    phi = np.append(rest, 1.0)
    return np.asarray(phi / phi.sum())


def spectral_radius_2x2(matrix: Floats) -> float:
    """The larger eigenvalue of a 2 x 2 matrix whose entries are not negative.

    1/2 (a + d + sqrt((a - d)^2 + 4 b c))
    """
    (a, b), (c, d) = matrix
    return float((a + d + np.sqrt((a - d) ** 2 + 4 * b * c)) / 2)


def top_off(
    apply: Callable[[Floats], Floats], q: Floats, moment: Moment, scale: Floats
) -> tuple[float, Floats]:
    """The largest eigenvalue, and its vector, of an operator on what is orthogonal to q.

    The operator is symmetric and positive, q a unit vector; `apply` is
    diag(scale) moment diag(scale). Few rows: all eigenvalues. Many: Lanczos, which is fast where
    the gap is wide; where it is not, the graph is long and thin, so that factorising costs little
    and inverse iteration finds the value.
    """
    m = len(q)
    if m == 1:
        return 0.0, np.zeros(1)
    if m <= DENSE:
        dense = scale[:, None] * moment.matrix().toarray() * scale
        side = dense @ q
        # q now has eigenvalue -1
        dense += (q @ side - 1) * np.outer(q, q) - np.outer(side, q) - np.outer(q, side)
        values, vectors = np.linalg.eigh(dense)
        return float(values[-1]), np.asarray(vectors[:, -1])

    def deflated(x: Floats) -> Floats:
        x = x.ravel() - q * (q @ x.ravel())
        y = apply(x)
        return np.asarray(y - q * (q @ y))

    start = np.sin(np.arange(m) + 1.0)  # no chance: the same answer every time
    operator = LinearOperator((m, m), matvec=deflated, dtype=np.float64)
    try:
        values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-9, maxiter=60, ncv=40)
        return float(values[0]), np.asarray(vectors[:, 0])
    except (ArpackNoConvergence, ArpackError) as error:
        if not np.allclose(apply(q), q, rtol=0, atol=1e-9):
            raise UnsettledError(f"the largest of {m:,} eigenvalues did not settle") from error
        whole = (sp.diags_array(scale) @ moment.matrix() @ sp.diags_array(scale)).tocsc()
        try:
            values, vectors = eigsh(whole, k=2, sigma=1 + 1e-6, which="LM", v0=start, maxiter=50)
        except (ArpackNoConvergence, ArpackError):
            raise UnsettledError(f"the largest of {m:,} eigenvalues did not settle") from error
        # q itself has eigenvalue 1; of the two, the one that is orthogonal to it is meant.
        off = int(np.argmin(np.abs(q @ vectors)))
        return float(values[off]), np.asarray(vectors[:, off])


def _dense(matrix: Sparse) -> Floats:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, np.float64)


def laplacian(links: Links, q: Floats) -> Sparse:
    """Sum over links of q (e_i - e_j)(e_i - e_j)'."""
    m = links.rows
    off: Sparse = sp.csr_array((q, (links.dst, links.src)), shape=(m, m))
    degree = np.bincount(links.dst, q, m) + np.bincount(links.src, q, m)
    return (sp.diags_array(degree) - off - off.T).tocsr()


def _nothing(m: int) -> Sparse:
    return sp.csr_array((m, m))
