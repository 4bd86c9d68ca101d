"""Many local steps, then an outer step on what they changed: DiLoCo and NoLoCo."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import ConfigError, Port, Rates, Requirements, equal_average, rule
from .torch_steps import Moments, adamw_steps, check_adamw, check_fraction, momentum_step

__all__ = ["DiLoCo", "NoLoCo"]

_SYMMETRIC = Requirements(
    symmetric=True,
    instead="Use a graph such as 'complete' or 'ring', or a rule for directed graphs.",
)


class Outer(NamedTuple):
    """The models, the outer momentum, and what the local AdamW keeps."""

    x: Tensor
    b: Tensor
    m: Tensor
    v: Tensor
    k: Tensor


class Slow(NamedTuple):
    """The slow models phi, the outer momentum, and what the local AdamW keeps."""

    x: Tensor
    delta: Tensor
    m: Tensor
    v: Tensor
    k: Tensor


@rule("Douillard et al. 2023", "x - eta (p + mu b)", "few messages: hundreds of steps between two")
@dataclass(frozen=True)
class DiLoCo:
    """DiLoCo: K steps of AdamW, then an outer step by Nesterov's momentum on what they changed.

        p_i = x_i - AdamW^K(x_i)          b_i <- mu b_i + p_i
        x_i <- sum_j w_ij (x_j - eta (p_j + mu b_j))

    eta is `outer_lr`, mu `momentum`; AdamW with its settings is that of `LocalAdamW`, which keeps
    its moments from round to round and sends none. The paper has one model and one momentum for
    all, and steps along the mean of all p_i. On a graph where all know each other with equal
    weights, such as `complete`, this is the same: the step is linear in p, so the mean of all steps
    is the step along the mean, one row is all that a message needs, and momenta need not travel. On
    other graphs neighbours mix, which the paper does not have. A worker whose links fail in a round
    goes on from its own model, as the paper's do; one that does not compute only mixes.

    Without links models are those of torch.optim.AdamW within torch.optim.SGD(nesterov=True), bit
    for bit. Needs symmetric links.

    Reference: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language
    Models", 2023, Algorithm 1, with its K = H = 500, eta = 0.7 and mu = 0.9; Nesterov's momentum in
    torch's form.
    """

    lr: Rates
    K: int = 500
    outer_lr: float = 0.7
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float | None = None
    needs: ClassVar[Requirements] = _SYMMETRIC
    per_client: ClassVar[tuple[str, ...]] = ("lr",)

    def __post_init__(self) -> None:
        check_adamw(self)
        _check_outer("DiLoCo", self.outer_lr, self.momentum)

    def init(self, x: Tensor, port: Port) -> Outer:
        """At rest."""
        return Outer(x, 0 * x, 0 * x, 0 * x, 0 * x[:, :1])

    def step(self, s: Outer, port: Port) -> Outer:
        """Local steps, an outer step of each, then mixing."""
        moved = adamw_steps(self, Moments(s.x, s.m, s.v, s.k), port)
        eta, on = [self.outer_lr] * len(s.x), port.active()
        x, b = momentum_step(s.x, s.b, s.x - moved.x, eta, self.momentum, nesterov=True)
        x, b = torch.where(on > 0, x, s.x), torch.where(on > 0, b, s.b)
        return Outer(port.mix(x), b, moved.m, moved.v, moved.k)


@rule("Kolehmainen et al. 2025", "gamma x + beta Delta", "DiLoCo in random pairs")
@dataclass(frozen=True)
class NoLoCo:
    """NoLoCo: K steps of Adam, then an outer step on the mean of a random pair; no group of all.

        Delta_i = AdamW^K(x_i) - x_i
        delta_i <- alpha delta_i + beta mean_j Delta_j - gamma (x_i - mean_j x_j)
        x_i <- x_i + delta_i

    x_i      slow model of client i, phi_i in the paper; AdamW with its settings as in `LocalAdamW`
    mean_j   over client i and those it hears in this round: with the schedule `RandomPairs` on the
             graph `complete`, over a random pair, as the paper has it; a client without a partner
             has itself alone. Groups that are not the same for all in them do not keep the mean
    alpha    `momentum`     beta  `outer_lr`     gamma  how strongly pairs are drawn together

    A pair shares x and Delta through the mean of gamma x + beta Delta, which is all that is needed:
    one row in a message where the paper sends two. A client that does not compute has Delta = 0.
    With everyone in one group models are one, gamma has no effect, and this is DiLoCo with a plain
    momentum in place of Nesterov's. In pairs they stay apart: their variance goes with the square
    of the local step (Theorem 1), so let it fall, as by `Cosine`.

    The paper's eq. (2) has - beta, which leads uphill; its eq. (32) and the authors' code have +.
    Where there is nothing to learn, the models of many clients in random pairs come together in the
    mean square if 0 < gamma < 2 (1 - alpha^2), and only then: outside there is a caution. That is
    from the moments of x and delta. The paper's eq. (74), alpha < gamma < sqrt(2 + alpha^2), leaves
    out what delta owes to x: alpha = 0.9 and gamma = 1 fulfil it, and the models part.

    The paper gives alpha = 0.5, beta = 0.7, K = 50, Adam without decay and clip = 1, and no number
    for gamma; the authors' code has gamma = beta. Its random routing of batches between the stages
    of a pipeline is no part of this rule.

    Needs symmetric links.
    Reference: Kolehmainen, Blagoev, Donaghy, Ersoy and Nies, "NoLoCo: No-all-reduce Low
    Communication Training Method for Large Models", 2025 (arXiv 2506.10911), eqs. (1) to (3).
    """

    lr: Rates
    K: int = 50
    outer_lr: float = 0.7
    momentum: float = 0.5
    gamma: float = 0.7
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, combines="equal_average")
    per_client: ClassVar[tuple[str, ...]] = ("lr",)

    def __post_init__(self) -> None:
        check_adamw(self)
        _check_outer("NoLoCo", self.outer_lr, self.momentum)
        if not 0 <= self.gamma < math.inf:
            raise ConfigError(f"NoLoCo.gamma must be at least 0 and finite, found {self.gamma}.")

    def caution(self, regularised: bool) -> str | None:
        """What a user should know of gamma."""
        high = 2 * (1 - self.momentum**2)
        if 0 < self.gamma < high:
            return None
        return (
            f"NoLoCo.gamma = {self.gamma:g} is not between 0 and 2 (1 - momentum^2) = {high:.3g}: "
            "in random pairs the models of many clients then part in the mean square."
        )

    def init(self, x: Tensor, port: Port) -> Slow:
        """At rest."""
        return Slow(x, 0 * x, 0 * x, 0 * x, 0 * x[:, :1])

    def step(self, s: Slow, port: Port) -> Slow:
        """Local steps, one message, an outer step."""
        moved = adamw_steps(self, Moments(s.x, s.m, s.v, s.k), port)
        own = self.gamma * s.x
        mean = port.mix(equal_average(own + self.outer_lr * (moved.x - s.x)))
        delta = self.momentum * s.delta + (mean - own)
        return Slow(s.x + delta, delta, moved.m, moved.v, moved.k)


def _check_outer(name: str, outer_lr: float, momentum: float) -> None:
    if not 0 < outer_lr < math.inf:
        raise ConfigError(f"{name}.outer_lr must be above 0 and finite, found {outer_lr}.")
    check_fraction(f"{name}.momentum", momentum)
