"""A wire whose peer waits for nobody: the newest of every neighbour is enough, and running sums keep what must not be lost.

Per directed link the newest parcel replaces the one before, so what matters must be cumulative:

    models, pulled            the model itself; an old one is used again until a newer one comes
    mass, pushed              sigma, the sum of all that was ever pushed; the receiver adds what is new in it, sigma - rho
    models, mixed             the model, and the sum of all that the link has moved: of the two rows the lower one owns the
    symmetrically             link, and for every new model it hears it moves a (x_j - x_i) to itself and says so; the other
                              end moves the same the other way when it hears of it. So the mean stays, whatever is lost

A peer that goes back to a checkpoint sends smaller sums, and its neighbours give back the difference (transport.sums).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Cargo, Delivery, Links
from ..transport import Parcel, Post
from .decisions import Tag
from .wire import Memory, Shape

__all__ = ["FreeWire"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Key = tuple[str, int, int, int]
_NEVER = np.zeros(3, np.int64)


class FreeWire:
    """Sends the newest and takes the newest; one slot per link and mixing."""

    def __init__(self, post: Post, row: int, shape: Shape) -> None:
        self._post, self._row, self._flows = post, row, shape.flows
        self._peers = [member.id for member in post.roster.members]
        # By (what, turn, other row, column): sigma and rho of what is pushed, the flow that was moved and that which is
        # known, the order of the parcel used last. Arrays are replaced, never changed, so that a checkpoint may hold them.
        self._sums: dict[Key, NDArray[Any]] = {}

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t with the sums of that time."""
        for name, value in memory.items():
            what, turn, row, column = name.split("/")
            self._sums[what, int(turn), int(row), int(column)] = value
        self._post.expect(t + 1)

    def memory(self, t: int) -> Memory:
        """The sums as they are now."""
        return {"/".join(map(str, key)): value for key, value in self._sums.items()}

    def swap(self, tag: Tag, links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]) -> Delivery:
        """Take what is newest, then send what is newest."""
        bodies = payload.detach().cpu().numpy().astype(np.float64)
        mine = bodies[0] if len(bodies) else None  # all parcels of a row hold the same: rows travel whole
        came, arrived = np.zeros((len(into), payload.shape[1])), np.zeros(len(into), bool)
        for k, link in enumerate(into):
            row = int(links.src[link])
            parcel = self._post.newest(self._peers[row], tag[1])
            if parcel is not None and not (self._flows and mine is None):
                came[k], arrived[k] = self._taken(tag[1], row, float(links.a[link]), mine, parcel, cargo), True
        for link, body in zip(out, bodies, strict=True):
            row = int(links.dst[link])
            self._post.send(self._peers[row], Parcel(tag[1], *tag, self._given(tag[1], row, body, cargo)), keep="newest")
        return Delivery(torch.from_numpy(came).to(payload.dtype), arrived, np.ones(len(out), bool))

    def _taken(
        self, turn: int, row: int, weight: float, mine: Floats | None, parcel: Parcel, cargo: tuple[Cargo, ...]
    ) -> Floats:
        """What a neighbour's newest parcel means to this row now."""
        order = self._sums.get(("order", turn, row, 0), _NEVER)
        new = parcel.order > tuple(order.tolist())
        self._sums["order", turn, row, 0] = np.array(max(parcel.order, tuple(order.tolist())), np.int64)
        parts, rest, column = list[Floats](), np.array(parcel.body, np.float64), 0
        for part in cargo:
            theirs, rest = rest[: part.width], rest[part.width :]
            if part.pushed:
                parts.append(self._difference("rho", (turn, row, column), theirs))
            elif self._flows:
                assert mine is not None
                moved, rest = rest[: part.width], rest[part.width :]
                own = mine[column : column + part.width]
                parts.append(self._met((turn, row, column), weight, own, theirs, moved, new))
            else:
                parts.append(theirs)
            column += part.width
        return np.concatenate(parts)

    def _met(
        self, place: tuple[int, int, int], weight: float, own: Floats, theirs: Floats, moved: Floats, new: bool
    ) -> Floats:
        """The value with which pulling moves exactly what the link is to move."""
        if self._row < place[1]:  # this row owns the link: for every model it hears it moves once
            if new:
                self._add("flow", place, -weight * (theirs - own))
            return theirs if new else own
        return own + self._difference("known", place, moved) / weight

    def _given(self, turn: int, row: int, body: Floats, cargo: tuple[Cargo, ...]) -> Floats:
        """What to send to a row: models as they are, sums as they have become."""
        parts, column = list[Floats](), 0
        for part in cargo:
            value, place = body[column : column + part.width], (turn, row, column)
            if part.pushed:
                parts.append(self._add("sigma", place, value))
            else:
                parts += [value, self._sum("flow", place, part.width)] if self._flows else [value]
            column += part.width
        return np.concatenate(parts)

    def _sum(self, what: str, place: tuple[int, int, int], width: int) -> Floats:
        return self._sums.get((what, *place), np.zeros(width))

    def _add(self, what: str, place: tuple[int, int, int], amount: Floats) -> Floats:
        self._sums[what, *place] = self._sum(what, place, len(amount)) + amount
        return self._sums[what, *place]

    def _difference(self, what: str, place: tuple[int, int, int], now: Floats) -> Floats:
        """What is new in a neighbour's running sum; it may be negative, when that went back to a checkpoint."""
        found = now - self._sum(what, place, len(now))
        self._sums[what, *place] = now
        return found
