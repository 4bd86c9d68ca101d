"""Chebyshev-accelerated mixing: any rule with a polynomial of W in the place of W."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from ..core import (
    WHOLE,
    Compressed,
    ConfigError,
    Offer,
    Plan,
    Port,
    Requirements,
    Rule,
    rule,
)

__all__ = ["Chebyshev", "chebyshev", "check_modulus"]


def chebyshev(
    mix: Callable[[list[Any]], list[Any]], rows: list[Any], K: int, modulus: float
) -> list[Any]:
    """P_K(W) of every entry of `rows`, tensors or arrays, where `mix` multiplies them by W.

    P_K(z) = T_K(z / modulus) / T_K(1 / modulus) is, of all polynomials of degree K with P(1) = 1,
    the smallest on [-modulus, modulus]. One call of `mix` for each degree.
    """
    before, now = rows, mix(rows)
    for omega in _weights(K, modulus):
        after = zip(mix(now), before, strict=True)
        before, now = now, [omega * new - (omega - 1) * old for new, old in after]
    return now


def _weights(K: int, modulus: float) -> Iterator[float]:
    """omega_2 ... omega_K: T's own recurrence, divided through so that nothing grows large."""
    omega = 2.0
    for _ in range(K - 1):
        omega = 1 / (1 - modulus**2 * omega / 4)
        yield omega


def check_modulus(name: str, modulus: float) -> None:
    """Refuse a number that cannot be the second largest modulus of an eigenvalue of W."""
    if not 0 <= modulus < 1:
        raise ConfigError(
            f"{name}.modulus must be from 0 to below 1, the second largest |eigenvalue| of the "
            f"mixing matrix (theory.matrices.second_modulus finds it); found {modulus}."
        )


@rule("Scaman et al. 2017", "what the rule sends, K times", "another rule on a poor graph")
@dataclass(frozen=True)
class Chebyshev:
    """Another rule, each of whose mixings is K accelerated ones: P_K(W) in the place of W.

        y_1 = W x     y_k <- omega_k W y_{k-1} - (omega_k - 1) y_{k-2},  y_0 = x     mix(x) = y_K
        omega_2 = 1 / (1 - modulus^2 / 2)     omega_k = 1 / (1 - modulus^2 omega_{k-1} / 4)

    so P_K(W) = T_K(W / modulus) / T_K(1 / modulus). `rule` is the other rule, `modulus` the second
    largest |eigenvalue| of W (`theory.matrices.second_modulus`). With it a mixing leaves at most
    1 / T_K(1 / modulus) of the disagreement, where K plain ones leave modulus^K. A larger or
    smaller number is safe, if not the best; 0 is plain W^K.

    The mean is kept. Each of the K mixings is a message on every link, and is charged. Needs
    symmetric links that fire together, and rows that arrive whole: under another W in each of the
    K mixings their polynomial is not small. What pushes, averages or sends differences is refused.

    Reference: Scaman, Bach, Bubeck, Lee and Massoulie, "Optimal Algorithms for Smooth and Strongly
    Convex Distributed Optimization in Networks", 2017, Algorithm 2. ProxGT's own acceleration is
    `Chebyshev(ProxGT(lr), K, modulus)`.

    >>> import numpy as np, peerloom as pl
    >>> graph, rule = pl.graphs.ring(8), pl.rules.DGD(lr=0.1)
    >>> modulus = pl.theory.matrices.second_modulus(graph.peers.matrix())
    >>> nothing = pl.problems.Quadratic(A=np.zeros((8, 1, 1)), b=np.zeros((8, 1)))
    >>> for each in rule, pl.rules.Chebyshev(rule, K=3, modulus=modulus):
    ...     exp = pl.Experiment(graph, nothing, each, rounds=4, x0=np.eye(8)[:, :1])
    ...     print(f"{pl.simulate(exp).x.std():.5f}")
    0.07931
    0.00112
    """

    rule: Rule
    K: int
    modulus: float
    needs: ClassVar[Requirements] = Requirements(
        symmetric=True,
        accepts=WHOLE,
        links="together",
        prox=True,
        instead="Use a graph such as 'ring' or 'geometric', or the rule without Chebyshev.",
    )

    def __post_init__(self) -> None:
        if self.K < 2:
            raise ConfigError(
                f"Chebyshev.K must be at least 2, found {self.K}: with 1 it is the rule itself."
            )
        check_modulus("Chebyshev", self.modulus)
        own, name = self.rule.needs, type(self.rule).__name__
        plain = own.symmetric and own.layers == ("peers",) and own.combines == "pull"
        if not plain or "differences" in own.accepts:
            raise ConfigError(
                f"Chebyshev accelerates rules that mix whole models over symmetric links, and "
                f"{name} does not. Use a rule such as DGD, DSGT, ProxGT or EXTRA, or {name} alone."
            )
        # What it needs depends on the other rule. The class's own is what every rule gets at least.
        links = own.links if own.links == "all" else "together"
        needs = replace(own, accepts=WHOLE, links=links, instead=self.needs.instead)
        object.__setattr__(self, "needs", needs)

    @property
    def plan(self) -> Plan:
        """That of the other rule."""
        return getattr(self.rule, "plan", Plan())

    @property
    def descent(self) -> Any:
        """That of the other rule, to be measured; None where it has none."""
        return getattr(self.rule, "descent", None)

    def caution(self, regularised: bool) -> str | None:
        """What a user should know of the other rule."""
        said = getattr(self.rule, "caution", None)
        return None if said is None else str(said(regularised) or "") or None

    def init(self, x: Tensor, port: Port) -> Any:
        """The other rule's start."""
        return self.rule.init(x, port)

    def step(self, s: Any, port: Port) -> Any:
        """The other rule's step, over a port that mixes K times."""
        return self.rule.step(s, _AcceleratedPort(port, self.K, self.modulus))


class _AcceleratedPort:
    """A port whose mixings are P_K(W); all else is the port's own."""

    def __init__(self, port: Port, K: int, modulus: float) -> None:
        self._port, self._K, self._modulus = port, K, modulus
        self.active, self.grad, self.prox = port.active, port.grad, port.prox
        self.constant, self.uniform = port.constant, port.uniform
        self.received, self.fires = port.received, port.fires

    @property
    def t(self) -> int:
        """The round."""
        return self._port.t

    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> Any:
        """K messages per live link, each with all offers."""
        rows = [_plain(offer) for offer in offers]

        def once(rows: list[Tensor]) -> list[Tensor]:
            found: Any = self._port.mix(*rows, over=over)
            return [found] if len(rows) == 1 else found

        found = chebyshev(once, rows, self._K, self._modulus)
        return found[0] if len(found) == 1 else found

    def compress(self, x: Tensor, send: Tensor | None = None) -> Compressed:
        """Refused: differences are from copies that know nothing of P_K(W)."""
        raise _unfit("compressed differences")


def _plain(offer: Offer | Compressed | Tensor) -> Tensor:
    """The rows of an offer that is pulled and whole."""
    if isinstance(offer, Tensor):
        return offer
    if isinstance(offer, Offer) and offer.compressed is None and offer.weight == "a":
        return offer.value
    raise _unfit("pushed, averaged or compressed rows")


def _unfit(what: str) -> ConfigError:
    return ConfigError(
        f"Chebyshev accelerates the mixing of whole rows that are pulled, not of {what}. "
        "Use the rule without it."
    )
