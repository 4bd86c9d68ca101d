r"""The consensus error, estimated by gossip: every peer learns it, and nobody sees all models.

The consensus error is sum_i m_i |x_i - mean x|^2 / sum_i m_i, with the masses m_i by which models
are averaged: `core.masses`, 1 each under most rules. Every peer reduces its model to a count sketch
s_i = S x_i: each coordinate is added, with a random sign, to one of k buckets. S is linear and the
same for all peers, so distances are preserved in expectation; |S v|^2 has a standard deviation of
about sqrt(2 / k) |v|^2, and for n <= k S is the identity. Above 2^20 coordinates a sample of them
stands for all: differences in few coordinates may then be missed. Push-sum averages the sketches.
In each exchange a peer adds the change of its own input u_i and pushes equal shares along its
links:

    u_i = m_i (s_i, d_i, 1)  d_i = |s_i - m_i|^2      m_i = sketch part of value_i / its weight

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

import math
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
WHOLE = 1 << 20  # coordinates up to which all are sketched,
SAMPLE = 1 << 16  # and how many are of a longer model
_ROUNDS = 16  # between two exchanges: models mix no faster
_SHORTEST, _LONGEST = 0.25, 2.0  # seconds between two exchanges, whatever a round takes
_TOO_LIGHT = 1e-6  # a value of smaller weight says nothing yet
LARGEST = 1e150  # of what is passed on: squares and sums of it are numbers still
_OVERFLOW = (
    "numbers too large for it came up: a model has diverged, or a member lies. The next roster "
    "begins it anew"
)
_ROUNDING = 1e-9
_UNSETTLED = "what came so far does not add up yet"


def agreement_channel(n: int) -> Channel:
    """Return the channel of the estimate: sketch, deviation, weight, version of the roster."""
    return float_channel("float64", [min(n, BUCKETS) + 3], LARGEST, mix_index=-1)


class Sketch:
    """A count sketch of models with n numbers; peers with the same seed have the same one.

    Of very long models only a sample is sketched, one coordinate drawn from each of SAMPLE equal
    stretches, and scaled so that distances are still right in expectation: buckets and signs of
    every coordinate would take more memory than the model.
    """

    def __init__(self, n: int, seed: int, buckets: int = BUCKETS) -> None:
        self.length = min(n, buckets)
        self._bucket, self._sign = None, None  # type: tuple[NDArray[np.int64] | None, Floats | None]
        self._sample: NDArray[np.int64] | None = None
        if n > buckets:
            many = n if n <= WHOLE else SAMPLE
            u = uniform(seed, "sketch", 0, np.arange(many), 2)
            self._bucket = (u[:, 0] * buckets).astype(np.int64)
            self._sign = np.where(u[:, 1] < 0.5, -1.0, 1.0)
            if many < n:
                where = uniform(seed, "sketch sample", 0, np.arange(many), 1)[:, 0]
                self._sample = ((np.arange(many) + where) * (n / many)).astype(np.int64)
                self._sample = np.minimum(self._sample, n - 1)
                self._sign *= math.sqrt(n / many)

    def __call__(self, x: NDArray[np.floating]) -> Floats:
        """Return the sketch of a model."""
        if self._bucket is None or self._sign is None:
            return np.array(x, np.float64)
        some = x if self._sample is None else x[self._sample]
        sums = np.bincount(self._bucket, weights=self._sign * some, minlength=self.length)
        return sums.astype(np.float64, copy=False)


class Mean:
    """One peer's end of a push-sum whose inputs, and their masses, may change."""

    def __init__(self, transport: Transport, length: int) -> None:
        self._transport, self._length = transport, length
        self._version = 0
        self.overflowed = False

    def exchange(self, own: Floats, mass: float) -> Floats | None:
        """Receive, then push; return the mean as far as it is known, None while it is not.

        An input of mass 0, a hub's, counts nothing: the hub only passes values on. Once it has
        overflowed, nothing is passed on until all begin anew.
        """
        roster = self._transport.roster
        if roster.version != self._version:  # all begin anew: who has left must not weigh in
            self._version, self.overflowed = roster.version, False
            self._own = self._value = np.zeros(self._length + 1)
            self._out: dict[str, Outflow] = {}
            self._into: dict[str, Inflow] = {}
        mine = np.append(mass * own, mass) if mass else np.zeros(self._length + 1)
        if not _fits(mine):
            self.overflowed = True
        if self.overflowed:
            return None
        self._value, self._own = self._value + mine - self._own, mine
        links = self._transport.links()
        self._receive([link.peer for link in links if link.direction == "in"])
        if not _fits(self._value):
            self.overflowed = True
            return None
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
            if not _fits(sigma):  # the neighbour would refuse it
                self.overflowed = True
                return
            body = to_body(np.append(sigma, self._version))
            self._transport.send(peer, Parcel(AGREEMENT, 0, 0, body), mode="latest")
            self._value = self._value - share


def _fits(numbers: Floats) -> bool:
    """Whether these may be passed on: finite, and together below the largest norm."""
    with np.errstate(all="ignore"):
        return bool(np.sqrt(np.square(numbers).sum()) < LARGEST / 2)


class Agreement(Background):
    """Estimates the consensus error while a peer trains, and puts it into the telemetry."""

    def __init__(self, transport: Transport, telemetry: Telemetry, n: int, seed: int) -> None:
        self._telemetry, self._sketch = telemetry, Sketch(n, seed)
        self._mean = Mean(transport, self._sketch.length + 1)
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
        model, mass = self._telemetry.model
        sketch = self._sketch(model.numpy(force=True))
        middle = sketch if self._middle is None else self._middle
        with np.errstate(all="ignore"):  # a model may have any numbers
            distance = float(np.square(sketch - middle).sum())
        found = self._mean.exchange(np.append(sketch, distance), mass)
        telemetry = self._telemetry
        if self._mean.overflowed:
            telemetry.consensus = telemetry.distance = None
            telemetry.agreement_unknown = _OVERFLOW
        elif found is not None:
            self._middle, consensus = found[:-1], float(found[-1])
            telemetry.distance = distance
            # Rounding may take a little from 0; more means that a part is still on its way.
            unsettled = consensus < -_ROUNDING * max(1.0, distance)
            telemetry.consensus = None if unsettled else max(0.0, consensus)
            telemetry.agreement_unknown = _UNSETTLED if unsettled else ""
