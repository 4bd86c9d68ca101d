r"""How far the models are from each other, estimated by gossip: every peer learns it, and nobody sees all models.

The consensus error is (1/m) sum_i |x_i - mean x|^2. Every peer shrinks its model to a short sketch
s_i = S x_i, with one random linear S for all, so that distances stay what they are in the mean:
each coordinate is added to one of k places with a random sign. (A count sketch: |S v|^2 has a
standard deviation of about sqrt(2 / k) |v|^2; for n <= k S is the identity.) What travels are
means. A peer adds to its value what has changed of its own, and pushes equal shares along its
links:

    u_i = (s_i, d_i, 1)      d_i = |s_i - m_i|^2      m_i = the first part of value_i, divided by the last

    value_i <- value_i + u_i - u_i before + what came;      value_i / (1 + links) leaves along each link that is up

Since sums over all peers are kept (`transport.sums`: under loss, doubling, crashes and restarts),
every value divided by its last entry goes to the mean of all: m_i to the mean sketch, and the
second part to the mean of d_i, the consensus error. It lags by some rounds, or a few seconds, while
models move. Nothing of this touches a row, a parcel of the run or its account.

References: push-sum, Kempe, Dobra, Gehrke, FOCS 2003; count sketch, Charikar, Chen, Farach-Colton,
ICALP 2002.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ..core.draw import uniform
from ..errors import PeerError
from ..transport import Channel, Inflow, Outflow, Parcel, Transport
from .background import Background
from .floats import float_channel, from_body, to_body
from .telemetry import Telemetry

__all__ = ["AGREEMENT", "Agreement", "Mean", "Sketch", "agreement_channel"]

Floats = NDArray[np.float64]

AGREEMENT = 65535  # the channel on which these values travel
PLACES = 256
_ROUNDS = 16  # between two exchanges: models mix no faster either;
_SHORTEST, _LONGEST = 0.25, 2.0  # but not more often, nor less often, than once in so many seconds
_TOO_LIGHT = 1e-6  # a value whose weight is smaller says nothing yet


def agreement_channel(n: int) -> Channel:
    """What travels: sketch, deviation, weight, and the version of the roster."""
    return float_channel("float64", [min(n, PLACES) + 3], mix_index=-1)


class Sketch:
    """A model of n numbers as at most `places`: linear, and the same at every peer with the same seed."""

    def __init__(self, n: int, seed: int, places: int = PLACES) -> None:
        self.length = min(n, places)
        self._place, self._sign = None, None  # type: tuple[NDArray[np.int64] | None, Floats | None]
        if n > places:
            u = uniform(seed, "sketch", 0, np.arange(n), 2)
            self._place, self._sign = (
                (u[:, 0] * places).astype(np.int64),
                np.where(u[:, 1] < 0.5, -1.0, 1.0),
            )

    def __call__(self, x: NDArray[np.floating]) -> Floats:
        """The sketch of a model."""
        if self._place is None or self._sign is None:
            return np.array(x, np.float64)
        return np.bincount(self._place, weights=self._sign * x, minlength=self.length).astype(
            np.float64, copy=False
        )


class Mean:
    """One peer's end of a push-sum whose inputs may change: `exchange` says what it knows of the mean of all."""

    def __init__(self, post: Transport, length: int, counts: bool = True) -> None:
        self._post, self._length, self._counts = post, length, counts
        self._version = 0

    def exchange(self, own: Floats) -> Floats | None:
        """Take what came, give what is due; the mean as far as it is known."""
        post = self._post
        if (
            post.roster.version != self._version
        ):  # who has gone must not weigh in for ever: all begin anew
            self._version = post.roster.version
            self._own = self._value = np.zeros(self._length + 1)
            self._out: dict[str, Outflow] = {}
            self._into: dict[str, Inflow] = {}
        mine = np.append(own, 1.0) if self._counts else np.zeros(self._length + 1)
        self._value, self._own = self._value + mine - self._own, mine
        links = post.links()
        for peer in (link.peer for link in links if link.direction == "in"):
            parcel = post.newest(peer, AGREEMENT)
            found = None if parcel is None else from_body(parcel.body, "float64")
            if parcel is not None and found is not None and found[-1] == self._version:
                came = self._into.setdefault(peer, Inflow(self._length + 1)).receive(
                    found[:-1], parcel.order
                )
                self._value = self._value + (0.0 if came is None else came)
        up = [link.peer for link in links if link.direction == "out" and link.up]
        share = self._value / (1 + len(up))
        for peer in up:
            sigma = self._out.setdefault(peer, Outflow(self._length + 1)).push(share)
            post.send(
                peer,
                Parcel(AGREEMENT, 0, 0, to_body(np.append(sigma, self._version))),
                mode="latest",
            )
            self._value = self._value - share
        weight = self._value[-1]
        return None if weight < _TOO_LIGHT else self._value[:-1] / weight


class Agreement(Background):
    """Exchanges values with the neighbours while a peer trains, and puts what it learns into the telemetry."""

    def __init__(
        self, post: Transport, telemetry: Telemetry, n: int, seed: int, client: bool
    ) -> None:
        self._telemetry, self._sketch = telemetry, Sketch(n, seed)
        self._mean = Mean(post, self._sketch.length + 1, client)
        self._middle: Floats | None = None
        self._round, self._since = 0, time.monotonic()  # of the last exchange
        super().__init__("agreement", _SHORTEST)

    def work(self) -> float | None:
        """Exchange, until the last round is done: then peers part, and nothing more may be on its way."""
        round, now = self._telemetry.round, time.monotonic()
        if round >= self._telemetry.rounds:
            return None
        rounds, seconds = round - self._round, now - self._since
        each = seconds / rounds if rounds else _LONGEST
        if rounds < _ROUNDS and seconds < _LONGEST:
            return min(
                max(_SHORTEST, (_ROUNDS - rounds) * each), max(_SHORTEST, _LONGEST - seconds)
            )
        self._round, self._since = round, now
        try:
            self.exchange()
        except PeerError:
            return None  # the run was halted, and says so itself
        return min(max(_SHORTEST, _ROUNDS * each), _LONGEST)

    def exchange(self) -> None:
        """Once with every neighbour."""
        if self._telemetry.model is None:
            return
        sketch = self._sketch(self._telemetry.model.numpy(force=True))
        middle = sketch if self._middle is None else self._middle
        distance = float(np.square(sketch - middle).sum())
        found = self._mean.exchange(np.append(sketch, distance))
        if found is not None:
            self._middle = found[:-1]
            self._telemetry.distance, self._telemetry.consensus = (
                distance,
                max(0.0, float(found[-1])),
            )
