"""Two steps of memory make decentralized gradient descent exact: EXTRA, D2, NIDS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..core import STEADY, ConfigError, Plan, Port, Requirements, rule

__all__ = ["D2", "EXTRA", "NIDS"]

_SYMMETRIC = Requirements(
    symmetric=True, accepts=STEADY, links="all", instead="Use AB or PushPull on directed graphs."
)
_ALL = Plan(nodes="always", links="always")


class Extra(NamedTuple):
    """The models, (x + W x) / 2 of the round before, the last gradients."""

    x: Tensor
    before: Tensor
    g: Tensor


class TwoSteps(NamedTuple):
    """The models, those of the round before, the last gradients."""

    x: Tensor
    before: Tensor
    g: Tensor


class Nids(NamedTuple):
    """The models x = prox(z), z, the models of the round before, the last gradients."""

    x: Tensor
    z: Tensor
    before: Tensor
    g: Tensor


@rule("Shi et al. 2015", "x", "exact optima with a constant step")
@dataclass(frozen=True)
class EXTRA:
    """EXTRA: DGD plus the running correction that makes it exact with a constant step.

        x1 = W x0 - alpha g0
        x[k+2] = (I + W) x[k+1] - (I + W)/2 x[k] - alpha (g[k+1] - g[k])

    Needs symmetric links, all of them in every round.
    Reference: Shi, Ling, Wu and Yin, "EXTRA: An Exact First-Order Algorithm for Decentralized
    Consensus Optimization", 2015.
    """

    lr: float
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self.lr, "EXTRA")

    def init(self, x: Tensor, port: Port) -> Extra:
        """Start with x for (I + W)/2 x of the round before, and no gradient: x1 as above."""
        return Extra(x, x, 0 * x)

    def step(self, s: Extra, port: Port) -> Extra:
        """One message: x."""
        mixed, g = port.mix(s.x), port.grad(s.x)
        x = s.x + mixed - s.before - self.lr * (g - s.g)
        return Extra(x, (s.x + mixed) / 2, g)


@rule("Tang et al. 2018", "extrapolated x", "unequal data, with one message per link and round")
@dataclass(frozen=True)
class D2:
    """D2: decentralized SGD without the variance between clients' data.

        x1 = W (x0 - gamma g0)
        x[k+1] = W (2 x[k] - x[k-1] - gamma (g[k] - g[k-1]))

    Needs symmetric links with the least eigenvalue of W above -1/3. Public toolkits often
    use (I + W)/2, which is NIDS.
    Reference: Tang et al., "D2: Decentralized Training over Decentralized Data", 2018.
    """

    lr: float
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, eigenvalues_above=-1 / 3)
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self.lr, "D2")

    def init(self, x: Tensor, port: Port) -> TwoSteps:
        """Start with x as the model of the round before, and no gradient: x1 as above."""
        return TwoSteps(x, x, 0 * x)

    def step(self, s: TwoSteps, port: Port) -> TwoSteps:
        """One message: the extrapolated model."""
        g = port.grad(s.x)
        return TwoSteps(port.mix(2 * s.x - s.before - self.lr * (g - s.g)), s.x, g)


@rule(
    "Li, Shi and Yan 2019",
    "extrapolated x",
    "step sizes that do not depend on the graph; regularisers",
)
@dataclass(frozen=True)
class NIDS:
    """NIDS: exact and proximal, with a step size limit that does not depend on the graph.

        z1 = x0 - alpha g0
        z[k+1] = z[k] - x[k] + (I + W)/2 (2 x[k] - x[k-1] - alpha (g[k] - g[k-1]))
        x1 = prox(z1),   x[k+1] = prox(z[k+1])

    Without a regulariser z = x. The first step needs no neighbours and is taken in `init`, so that
    after round t the models are x[t+1]. Needs symmetric links; alpha < 2 / smoothness.
    Reference: Li, Shi and Yan, "A Decentralized Proximal-Gradient Method with Network Independent
    Step-Sizes", 2019.
    """

    lr: float
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, prox=True)
    family: ClassVar[str] = "NIDS"
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self.lr, "NIDS")

    def init(self, x: Tensor, port: Port) -> Nids:
        """The first, local step."""
        g = port.grad(x)
        z = x - self.lr * g
        return Nids(port.prox(z, self.lr), z, x, g)

    def step(self, s: Nids, port: Port) -> Nids:
        """One message: the extrapolated model d."""
        g = port.grad(s.x)
        d = 2 * s.x - s.before - self.lr * (g - s.g)
        z = s.z - s.x + (d + port.mix(d)) / 2
        return Nids(port.prox(z, self.lr), z, s.x, g)


def _check(lr: float, name: str) -> None:
    if not 0 < lr < float("inf"):
        raise ConfigError(
            f"{name}.lr must be a constant above 0: its memory of the last step counts on it; "
            f"found {lr}."
        )
