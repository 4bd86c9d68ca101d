"""Optimizers that neighbours mix: local SGD with momentum, local AdamW, and DAdam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..core import ConfigError, Port, Rates, Requirements, check_rates, rule
from .torch_steps import (
    Moments,
    adamw_steps,
    check_adamw,
    check_fraction,
    check_moments,
    check_steps,
    column,
    momentum_step,
    own_rates,
)

__all__ = ["DAdam", "LocalAdamW", "LocalSGDM"]

_SYMMETRIC = Requirements(
    symmetric=True,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)


class Buffered(NamedTuple):
    """The models and their momentum buffers."""

    x: Tensor
    b: Tensor


class Bounded(NamedTuple):
    """The models, Adam's two moments, the bound of the second, and each row's number of steps."""

    x: Tensor
    m: Tensor
    v: Tensor
    u: Tensor
    k: Tensor


@rule("Yu, Jin and Yang 2019", "x, or x and b", "local steps with a momentum that lasts")
@dataclass(frozen=True)
class LocalSGDM:
    """Local SGD with momentum: K steps of torch.optim.SGD, then mixing.

        g = g_i(x_i) + weight_decay x_i     b_i <- momentum b_i + g
        x_i <- x_i - lr b_i,   or with `nesterov`   x_i <- x_i - lr (g + momentum b_i)
        K times for clients that compute, each on a batch of its own;   then   x <- W x

    The buffers b start at zero and last from round to round; `DFedAvgM` forgets them after each.
    buffers="mixed" mixes them with the models, as Yu et al. have it, for two rows in a message.
    Clients and links may act by chance: one that does not compute keeps its buffer. Needs symmetric
    links. Where no link fires, models are torch.optim.SGD's bit for bit, without dampening.

    For a program that trains by itself, whose move x - fit(x) stands for the gradient, K = 1 with
    nesterov is an outer step by Nesterov's momentum, such as that of `DiLoCo`.

    Reference: Yu, Jin and Yang, "On the Linear Speedup Analysis of Communication Efficient Momentum
    SGD for Distributed Non-Convex Optimization", 2019, where all clients average. Written without
    their text: the local step is that of torch.optim.SGD.
    """

    lr: Rates
    K: int = 1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    buffers: Literal["own", "mixed"] = "own"
    needs: ClassVar[Requirements] = _SYMMETRIC
    per_client: ClassVar[tuple[str, ...]] = ("lr",)

    def __post_init__(self) -> None:
        check_steps(self)
        check_fraction("LocalSGDM.momentum", self.momentum)
        for said, given in (
            ("nesterov = True", self.nesterov),
            ("buffers = 'mixed'", self.buffers == "mixed"),
        ):
            if given and self.momentum == 0:
                raise ConfigError(
                    f"LocalSGDM.{said} would have no effect without momentum. Leave it out, or "
                    "give a momentum."
                )

    def init(self, x: Tensor, port: Port) -> Buffered:
        """At rest."""
        return Buffered(x, 0 * x)

    def step(self, s: Buffered, port: Port) -> Buffered:
        """Local steps, then mixing."""
        (x, b), on, lr = s, port.active(), own_rates(self.lr, port, len(s.x))
        for batch in range(self.K):
            g = torch.add(port.grad(x, on, batch=batch), x, alpha=self.weight_decay)
            x, b = momentum_step(x, b, g, lr, self.momentum, self.nesterov)
        x, b = torch.where(on > 0, x, s.x), torch.where(on > 0, b, s.b)
        if self.buffers == "mixed":
            return Buffered(*port.mix(x, b))
        return Buffered(port.mix(x), b)


@rule("Loshchilov and Hutter 2019", "x, or x and v", "models that want AdamW, such as transformers")
@dataclass(frozen=True)
class LocalAdamW:
    """Local AdamW: K steps of torch.optim.AdamW, then mixing.

        m_i <- b1 m_i + (1 - b1) g_i(x_i)     v_i <- b2 v_i + (1 - b2) g_i(x_i)^2     k_i <- k_i + 1
        x_i <- (1 - lr wd) x_i - lr (m_i / (1 - b1^k_i)) / (sqrt(v_i / (1 - b2^k_i)) + eps)
        K times for clients that compute, each on a batch of its own;   then   x <- W x

    b1, b2   `betas`                     wd    `weight_decay`, which is AdamW's, and not a gradient
    k_i      steps that client i took, so that one that computes seldom corrects its bias rightly
    clip     gradients longer than this are shortened to it, each client's by its own length

    K = 1 is decentralized AdamW, adapt then combine. Moments stay where they are; moments="mixed"
    sends the second ones along, so that all scale their coordinates alike: clients whose data
    differ otherwise settle where their scaled gradients cancel, which is not the optimum. They must
    not be rounded, and double the message.

    Clients and links may act by chance. Needs symmetric links. All local steps of a round have the
    step size of that round. Where no link fires, models and moments are torch.optim.AdamW's bit for
    bit, but for `clip`, whose norm torch takes parameter by parameter first.

    Reference: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, Algorithm 2, in
    torch's form, whose decay is times lr; mixing as in `DSGD`.

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]], [[1.0]]], b=[[0.0], [2.0]])
    >>> lr = pl.rates.Warmup(rounds=10, then=pl.rates.Cosine(start=0.1, rounds=190))
    >>> for moments in "own", "mixed":  # the optimum is 1
    ...     rule = pl.rules.LocalAdamW(lr, weight_decay=0.0, moments=moments)
    ...     exp = pl.Experiment(pl.graphs.complete(2), problem, rule, rounds=200, dtype="float64")
    ...     print(f"{pl.simulate(exp).x.mean():.2f}")
    0.01
    1.00
    """

    lr: Rates
    K: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float | None = None
    moments: Literal["own", "mixed"] = "own"
    needs: ClassVar[Requirements] = _SYMMETRIC
    per_client: ClassVar[tuple[str, ...]] = ("lr",)

    def __post_init__(self) -> None:
        check_adamw(self)
        if self.moments == "mixed":
            # Rounded to zero or below, a second moment makes a step of any length.
            needs = replace(self.needs, accepts=("whole", "paired", "part"))
            object.__setattr__(self, "needs", needs)

    def init(self, x: Tensor, port: Port) -> Moments:
        """Nothing seen yet."""
        return Moments(x, 0 * x, 0 * x, 0 * x[:, :1])

    def step(self, s: Moments, port: Port) -> Moments:
        """Local steps, then mixing."""
        s = adamw_steps(self, s, port)
        if self.moments == "mixed":
            x, v = port.mix(s.x, s.v)
            return s._replace(x=x, v=v)
        return s._replace(x=port.mix(s.x))


@rule("Nazari, Tarzanagh and Michailidis 2019", "x", "online learning with adaptive steps")
@dataclass(frozen=True)
class DAdam:
    """DAdam: mix, then a step of Adam whose second moment hardly falls.

        m_i <- b1 m_i + (1 - b1) g_i(x_i)     v_i <- b2 v_i + (1 - b2) g_i(x_i)^2     k_i <- k_i + 1
        u_i <- b3 u_i + (1 - b3) max(u_i, v_i / (1 - b2^k_i))
        x_i <- sum_j w_ij x_j - lr (m_i / (1 - b1^k_i)) / (sqrt(u_i) + eps)

    b1, b2, b3 are `betas`, with b3 = 0 u_i is the largest so far; k_i counts client i's steps. A
    client that does not compute only mixes. Each scales by its own moments, so that clients whose
    data differ settle where their scaled gradients cancel, which is not the optimum. Needs
    symmetric links.

    Reference: Nazari, Tarzanagh and Michailidis, "DADAM: A Consensus-based Distributed Adaptive
    Gradient Method for Online Optimization", 2019. Written from the authors' code (dadam.m), which
    corrects both moments' bias; the paper's text was not at hand. Its projection on a set of
    feasible models is left out.
    """

    lr: Rates
    betas: tuple[float, float, float] = (0.9, 0.999, 0.9)
    eps: float = 1e-4
    needs: ClassVar[Requirements] = _SYMMETRIC
    per_client: ClassVar[tuple[str, ...]] = ("lr",)

    def __post_init__(self) -> None:
        check_rates(self)
        check_moments("DAdam", self.betas, self.eps)

    def init(self, x: Tensor, port: Port) -> Bounded:
        """Nothing seen yet."""
        return Bounded(x, 0 * x, 0 * x, 0 * x, 0 * x[:, :1])

    def step(self, s: Bounded, port: Port) -> Bounded:
        """Combine, then adapt."""
        (b1, b2, b3), on = self.betas, port.active()
        g, k = port.grad(s.x, on), s.k + on
        m, v = b1 * s.m + (1 - b1) * g, b2 * s.v + (1 - b2) * g * g
        taken = [max(count, 1.0) for count in k[:, 0].tolist()]
        hat = v / column(s.x, [1 - b2**count for count in taken])
        u = b3 * s.u + (1 - b3) * torch.maximum(s.u, hat)
        lr = zip(own_rates(self.lr, port, len(s.x)), taken, strict=True)
        step = column(s.x, [each / (1 - b1**count) for each, count in lr])
        x = port.mix(s.x) - on * step * m / (u.sqrt() + self.eps)
        m, v, u = (torch.where(on > 0, *both) for both in ((m, s.m), (v, s.v), (u, s.u)))
        return Bounded(x, m, v, u, k)
