r"""The consensus error, estimated by gossip: every peer learns it, and nobody sees all models.

The consensus error is (1/m) sum_i |x_i - mean x|^2. Every peer reduces its model to a count sketch
s_i = S x_i: each coordinate is added, with a random sign, to one of k buckets. S is linear and the
same for all peers, so distances are preserved in expectation; |S v|^2 has a standard deviation of
about sqrt(2 / k) |v|^2, and for n <= k S is the identity. Push-sum averages the sketches. In each
exchange a peer adds the change of its own input u_i and pushes equal shares along its links:

    u_i = (s_i, d_i, 1)      d_i = |s_i - m_i|^2      m_i = sketch part of value_i / its weight

    value_i <- value_i + u_i - (u_i of the last exchange) + what came
    value_i / (1 + links)    leaves along each link that is up

The weight is the last entry. `transport.sums` preserves the sum over all peers under loss,
repetition, crashes and restarts, so value_i / weight tends to the mean over all peers: m_i to the
mean sketch, and the second part to the mean of d_i, the consensus error. It lags by some rounds, or
a few seconds, while models move. The rows, parcels and ledger of the run are not touched.

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
BUCKETS = 256
_ROUNDS = 16  # between two exchanges: models mix no faster
_SHORTEST, _LONGEST = 0.25, 2.0  # seconds between two exchanges, whatever a round takes
_TOO_LIGHT = 1e-6  # a value of smaller weight says nothing yet


def agreement_channel(n: int) -> Channel:
    """Return the channel of the estimate: sketch, deviation, weight, version of the roster."""
    return float_channel("float64", [min(n, BUCKETS) + 3], mix_index=-1)


class Sketch:
    """A count sketch of models with n numbers; peers with the same seed have the same one."""

    def __init__(self, n: int, seed: int, buckets: int = BUCKETS) -> None:
        self.length = min(n, buckets)
        self._bucket, self._sign = None, None  # type: tuple[NDArray[np.int64] | None, Floats | None]
        if n > buckets:
            u = uniform(seed, "sketch", 0, np.arange(n), 2)
            self._bucket = (u[:, 0] * buckets).astype(np.int64)
            self._sign = np.where(u[:, 1] < 0.5, -1.0, 1.0)

    def __call__(self, x: NDArray[np.floating]) -> Floats:
        """Return the sketch of a model."""
        if self._bucket is None or self._sign is None:
            return np.array(x, np.float64)
        sums = np.bincount(self._bucket, weights=self._sign * x, minlength=self.length)
        return sums.astype(np.float64, copy=False)


class Mean:
    """One peer's end of a push-sum whose inputs may change.

    A hub only passes values on: with `counts` False its own input weighs nothing.
    """

    def __init__(self, transport: Transport, length: int, counts: bool = True) -> None:
        self._transport, self._length, self._counts = transport, length, counts
        self._version = 0

    def exchange(self, own: Floats) -> Floats | None:
        """Receive, then push; return the mean as far as it is known, None while it is not."""
        roster = self._transport.roster
        if roster.version != self._version:  # all begin anew: who has left must not weigh in
            self._version = roster.version
            self._own = self._value = np.zeros(self._length + 1)
            self._out: dict[str, Outflow] = {}
            self._into: dict[str, Inflow] = {}
        mine = np.append(own, 1.0) if self._counts else np.zeros(self._length + 1)
        self._value, self._own = self._value + mine - self._own, mine
        links = self._transport.links()
        self._receive([link.peer for link in links if link.direction == "in"])
        self._push([link.peer for link in links if link.direction == "out" and link.up])
        weight = self._value[-1]
        return None if weight < _TOO_LIGHT else self._value[:-1] / weight

    def _receive(self, peers: list[str]) -> None:
        for peer in peers:
            parcel = self._transport.newest(peer, AGREEMENT)
            found = None if parcel is None else from_body(parcel.body, "float64")
            if parcel is not None and found is not None and found[-1] == self._version:
                inflow = self._into.setdefault(peer, Inflow(self._length + 1))
                came = inflow.receive(found[:-1], parcel.order)
                self._value = self._value + (0.0 if came is None else came)

    def _push(self, peers: list[str]) -> None:
        share = self._value / (1 + len(peers))
        for peer in peers:
            sigma = self._out.setdefault(peer, Outflow(self._length + 1)).push(share)
            body = to_body(np.append(sigma, self._version))
            self._transport.send(peer, Parcel(AGREEMENT, 0, 0, body), mode="latest")
            self._value = self._value - share


class Agreement(Background):
    """Estimates the consensus error while a peer trains, and puts it into the telemetry."""

    def __init__(
        self, transport: Transport, telemetry: Telemetry, n: int, seed: int, client: bool
    ) -> None:
        self._telemetry, self._sketch = telemetry, Sketch(n, seed)
        self._mean = Mean(transport, self._sketch.length + 1, client)
        self._middle: Floats | None = None
        self._round, self._since = 0, time.monotonic()  # of the last exchange
        super().__init__("agreement", _SHORTEST)

    def work(self) -> float | None:
        """Exchange when it is due; end with the last round, as nothing may travel after it."""
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
        """Exchange once with every neighbour."""
        if self._telemetry.model is None:
            return
        sketch = self._sketch(self._telemetry.model.numpy(force=True))
        middle = sketch if self._middle is None else self._middle
        distance = float(np.square(sketch - middle).sum())
        found = self._mean.exchange(np.append(sketch, distance))
        if found is not None:
            self._middle = found[:-1]
            self._telemetry.distance = distance
            self._telemetry.consensus = max(0.0, float(found[-1]))
