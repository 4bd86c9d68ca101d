"""A wire whose peer waits for nobody: the newest of every neighbour is enough, and running sums keep what must not be lost.

Per directed link the newest parcel replaces the one before, so what matters must be cumulative:

    models, pulled            the model itself; an old one is used again until a newer one comes
    mass, pushed              sigma, the sum of all that was ever pushed; the receiver adds what is new in it, sigma - rho
    models, mixed             the model, and the sum of all that the link has moved: of the two rows the lower one owns the
    symmetrically             link, and for every new model it hears it moves a (x_j - x_i) to itself and says so; the other
                              end moves the same the other way when it hears of it. So the mean
                              stays, whatever is lost

The sums are those of `transport.sums`, also for peers that go back to a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Compressed, Delivery, Links, Part, Rows
from ..errors import PeerError
from ..transport import Flow, Inflow, Outflow, Parcel, Roster, Transport
from .decisions import Tag
from .floats import from_body, to_body
from .sync_wire import Memory, Pieces
from .wire_plan import WirePlan

__all__ = ["AsyncWire"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Place = tuple[int, int, int]  # mix_index, other row, column
_NEVER = np.zeros(3, np.int64)
_LOOK = 1.0  # seconds between two looks at links that are down


class AsyncWire:
    """Sends the newest and takes the newest; one slot per link and mixing."""

    def __init__(self, post: Transport, row: int, plan: WirePlan, began: Roster) -> None:
        self._post, self._row, self._flows, self._layers = post, row, plan.flows, plan.layers
        self._peers = [member.id for member in began.members]
        self._pushed: dict[Place, Outflow] = {}
        self._heard: dict[Place, Inflow] = {}
        self._moved: dict[Place, Flow] = {}

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t with the sums of that time; whatever was reached since, nobody waited for it."""
        for name, value in memory.items():
            what, *numbers = name.split("/")
            mix_index, row, column = map(int, numbers)
            place, orders = (
                (mix_index, row, column),
                memory.get(f"{what}-order/{mix_index}/{row}/{column}", _NEVER).tolist(),
            )
            if what == "sigma":
                self._pushed.setdefault(place, Outflow(len(value))).restore(value)
            elif what == "rho":
                self._heard.setdefault(place, Inflow(len(value))).restore(value, tuple(orders))
            elif what == "flow":
                self._moved.setdefault(place, Flow(len(value))).restore(value, tuple(orders))
        self._post.expect(t + 1)

    def memory(self, t: int) -> Callable[[], Pieces]:
        """The sums as they are now; they are replaced, never changed, so that a checkpoint may hold them."""
        found: Memory = {_name("sigma", place): out.sigma for place, out in self._pushed.items()}
        for place, into in self._heard.items():
            found |= {
                _name("rho", place): into.rho,
                _name("rho-order", place): np.array(into.order, np.int64),
            }
        for place, flow in self._moved.items():
            found |= {
                _name("flow", place): flow.out.sigma,
                _name("flow-order", place): np.array(flow.met, np.int64),
            }
        return lambda: {name: [value] for name, value in found.items()}

    def exchange(
        self,
        tag: Tag,
        links: Links,
        out: Ids,
        rows: Sequence[Tensor | Compressed],
        into: Ids,
        parts: tuple[Part, ...],
    ) -> Delivery:
        """Take what is newest, then send what is newest. Its one row is all that lives here."""
        values = [row.value if isinstance(row, Compressed) else row for row in rows]
        mine = np.concatenate(
            [value[0].detach().cpu().numpy().astype(np.float64) for value in values]
        )
        if self._layers[tag[1]] == "up":
            self._follow(tag, links.src[into])
        came, arrived = list[Floats](), np.zeros(len(into), bool)
        for k, link in enumerate(into):
            row = int(links.src[link])
            parcel = self._post.newest(self._peers[row], tag[1])
            if parcel is not None and not (self._flows and not len(out)):
                came.append(self._taken(tag[1], row, float(links.a[link]), mine, parcel, parts))
                arrived[k] = True
        for link in out:
            row = int(links.dst[link])
            given = to_body(self._given(tag[1], row, mine, parts))
            self._post.send(self._peers[row], Parcel(tag[1], *tag, given), mode="latest")
        like, columns = values[0], np.cumsum([0, *(part.width for part in parts)])
        table = torch.from_numpy(np.array(came).reshape(len(came), columns[-1])).to(like)
        got = [Rows(table[:, first:last]) for first, last in pairwise(columns.tolist())]
        return Delivery(
            got,
            [Rows(value.expand(len(out), -1)) for value in values],
            [np.full(len(out), self._nbytes(part), np.int64) for part in parts],
            arrived,
            np.ones(len(out), bool),
        )

    def _nbytes(self, part: Part) -> int:
        """The bytes of a part: a number each, and another for what was moved so far."""
        return 8 * part.width * (2 if self._flows and not part.pushed else 1)

    def _follow(self, tag: Tag, workers: Ids) -> None:
        """A hub has no pace of its own, as it computes nothing: it goes on when the fastest of its workers is here, too."""
        post, peers, seen = self._post, [self._peers[row] for row in workers], 0
        while peers and not any(
            (parcel := post.newest(peer, tag[1])) and parcel.round >= tag[0] for peer in peers
        ):
            ways = [link for link in post.links() if link.peer in peers and link.direction == "in"]
            if all(not link.up and link.since >= post.wait for link in ways):
                raise PeerError(
                    f"All workers of this hub are down, and round {tag[0]} needs one. Nothing is "
                    "lost: start one, then this peer again."
                )
            seen = post.wait_for_arrivals(seen, _LOOK)

    def _taken(
        self,
        mix_index: int,
        row: int,
        weight: float,
        mine: Floats,
        parcel: Parcel,
        parts: tuple[Part, ...],
    ) -> Floats:
        """What a neighbour's newest parcel means to this row now."""
        found, rest, column = list[Floats](), from_body(parcel.body, "float64"), 0
        for part in parts:
            place = (mix_index, row, column)
            theirs, rest = rest[: part.width], rest[part.width :]
            if part.pushed:
                found.append(self._new(place, theirs, parcel))
            elif self._flows:
                moved, rest = rest[: part.width], rest[part.width :]
                found.append(
                    self._met(
                        place, weight, mine[column : column + part.width], theirs, moved, parcel
                    )
                )
            else:
                found.append(theirs)
            column += part.width
        return np.concatenate(found)

    def _met(
        self,
        place: Place,
        weight: float,
        own: Floats,
        theirs: Floats,
        moved: Floats,
        parcel: Parcel,
    ) -> Floats:
        """The value with which pulling moves exactly what the link is to move."""
        if self._row < place[1]:  # this row owns the link: for every model it hears it moves once
            flow = self._moved.setdefault(place, Flow(len(own)))
            return own if flow.meet(own, theirs, weight, parcel.order) is None else theirs
        return own + self._new(place, moved, parcel) / weight

    def _new(self, place: Place, sum: Floats, parcel: Parcel) -> Floats:
        """What is new in a neighbour's running sum; it may be negative, when that went back to a checkpoint."""
        found = self._heard.setdefault(place, Inflow(len(sum))).receive(sum, parcel.order)
        return np.zeros(len(sum)) if found is None else found

    def _given(self, mix_index: int, row: int, body: Floats, parts: tuple[Part, ...]) -> Floats:
        """What to send to a row: models as they are, sums as they have become."""
        found, column = list[Floats](), 0
        for part in parts:
            value, place = body[column : column + part.width], (mix_index, row, column)
            if part.pushed:
                found.append(self._pushed.setdefault(place, Outflow(part.width)).push(value))
            elif self._flows:
                moved = (
                    self._moved[place].out.sigma if place in self._moved else np.zeros(part.width)
                )
                found += [value, moved]
            else:
                found.append(value)
            column += part.width
        return np.concatenate(found)


def _name(what: str, place: Place) -> str:
    return "/".join(map(str, (what, *place)))
