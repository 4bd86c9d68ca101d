"""A rule of your own: gossip with heavy-ball momentum, checked and compared with DGD."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

import peerloom as pl
from peerloom.core import Port, Requirements


class State(NamedTuple):
    """The model always comes first."""

    x: Tensor
    m: Tensor


@dataclass(frozen=True)
class Momentum:
    """m_i <- beta m_i + v_i g_i(x_i);   x_i <- sum_j w_ij (x_j - lr m_j)"""

    lr: float
    beta: float = 0.9
    needs: ClassVar[Requirements] = Requirements(symmetric=True)

    def init(self, x: Tensor, port: Port) -> State:
        """Start without momentum."""
        return State(x, 0 * x)

    def step(self, s: State, port: Port) -> State:
        """One round of the equation above."""
        m = self.beta * s.m + port.grad(s.x, port.active())
        return State(port.mix(s.x - self.lr * m), m)


if __name__ == "__main__":
    pl.testing.check_rule(Momentum(lr=0.05))
    problem = pl.problems.Classification("softmax", batch=16)
    for rule in (Momentum(lr=0.05), pl.rules.DGD(lr=0.05)):
        result = pl.simulate(pl.Experiment(pl.graphs.ring(8), problem, rule, rounds=100, seed=1))
        accuracy = result.metrics["mean_accuracy"][-1]
        print(f"{type(rule).__name__}: accuracy {accuracy:.2f} after 100 rounds")
