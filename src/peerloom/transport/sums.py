r"""Running sums, which keep mass exact although messages are lost, doubled or overtaken.

A sender cannot know whether an increment arrived. So it sends the sum of all increments so far. Per
directed link i -> j, with the sender's sigma and the receiver's rho:

    sender      sigma <- sigma + amount            (and the amount leaves the sender's own value)
    receiver    value <- value + (sigma - rho);  rho <- sigma
    invariant   sum_i value_i + sum_links (sigma_ij - rho_ij)  stays what it was

Only the newest sigma need arrive. A sender restored from a checkpoint sends a smaller sigma, and
the receiver returns the difference. A receiver restored from a checkpoint gets what it lacks with
the next sigma. The sums are float64, because in float32 the invariant drifts. What a sum rounds
away is pushed with the next amount, so that rounding errors do not add up: a large sum would
otherwise lose a little of every small amount.

References: running sums over links that drop packets, Dominguez-Garcia, Hadjicostis, Vaidya, arXiv
1109.6392; their use for gradient tracking (ASY-SONATA), Tian, Sun, Scutari, arXiv 1803.10359.

>>> import numpy as np
>>> out, into = Outflow(1), Inflow(1)
>>> first, second = out.push(np.array([3.0])), out.push(np.array([4.0]))
>>> into.receive(second, (0, 1, 2)), into.receive(first, (0, 1, 1))
(array([7.]), None)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flow", "Inflow", "Outflow"]

Floats = NDArray[np.float64]
Order = tuple[int, int, int]


class Outflow:
    """The sender's end of one link: sigma, the sum of all that was ever pushed into it."""

    def __init__(self, length: int) -> None:
        self._sigma: Floats
        self._lost: Floats  # what the last sum rounded away
        self.restore(np.zeros(length))

    @property
    def sigma(self) -> Floats:
        """What to send. Read-only and replaced at every push, so it may be sent without a copy."""
        return self._sigma

    def push(self, amount: NDArray[np.floating]) -> Floats:
        """Add an amount to sigma and return it; the caller subtracts the amount from its value."""
        before, due = self._sigma, np.asarray(amount, np.float64) + self._lost
        sigma = before + due
        added = sigma - before
        # TwoSum: the exact rounding error, whichever of the two was larger.
        self._lost = (before - (sigma - added)) + (due - added)
        sigma.flags.writeable = False
        self._sigma = sigma
        return sigma

    def reset(self) -> None:
        """Empty the link, as each epoch begins."""
        self.restore(np.zeros_like(self._sigma))

    def restore(self, sigma: Floats) -> None:
        """Go back to a checkpoint."""
        self._sigma = np.array(sigma, np.float64)
        self._sigma.flags.writeable = False
        self._lost = np.zeros_like(self._sigma)


class Inflow:
    """The receiver's end of one link: rho, the last sigma that was added."""

    def __init__(self, length: int) -> None:
        self._rho: Floats = np.zeros(length)
        self.order: Order = (0, 0, 0)

    @property
    def rho(self) -> Floats:
        """What was added so far, in sum."""
        return self._rho

    def receive(self, sigma: NDArray[np.floating], order: Order) -> Floats | None:
        """What to add to the receiver's value, sigma - rho; None if a newer sigma came before.

        `order` is `Parcel.order`.
        """
        if order <= self.order:
            return None
        difference: Floats = np.asarray(sigma, np.float64) - self._rho
        self._rho, self.order = np.array(sigma, np.float64), order
        return difference

    def reset(self) -> None:
        """Empty the link, as each epoch begins."""
        self.restore(np.zeros_like(self._rho), (0, 0, 0))

    def restore(self, rho: Floats, order: Order) -> None:
        """Go back to a checkpoint."""
        self._rho, self.order = np.array(rho, np.float64), order


class Flow:
    """Symmetric mixing over one undirected link that preserves the mean of its two ends.

    One end, the lower id of the two, owns the link. It receives the other's value theta_j as plain
    state, and for each one it computes

        f = r (theta_j - theta_i)      theta_i <- theta_i + f      and pushes -f into the link,

    so what one end gains the other loses, whenever that arrives. A value is used once: receiving it
    twice moves nothing.
    """

    def __init__(self, length: int) -> None:
        self.out = Outflow(length)
        self._met: Order = (0, 0, 0)

    @property
    def met(self) -> Order:
        """The order of the value that was used last."""
        return self._met

    def meet(
        self, mine: NDArray[np.floating], theirs: NDArray[np.floating], rate: float, order: Order
    ) -> Floats | None:
        """The flow to add to the owner's value; None if this value of the other was used before."""
        if order <= self._met:
            return None
        flow: Floats = rate * (np.asarray(theirs, np.float64) - np.asarray(mine, np.float64))
        self.out.push(-flow)
        self._met = order
        return flow

    def reset(self) -> None:
        """Empty the link, as each epoch begins."""
        self.out.reset()
        self._met = (0, 0, 0)

    def restore(self, sigma: Floats, met: Order) -> None:
        """Go back to a checkpoint."""
        self.out.restore(sigma)
        self._met = met
