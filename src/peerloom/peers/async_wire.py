"""The wire of peers that wait for nobody: the latest of each neighbour, and running sums.

Per directed link the latest parcel replaces the one before, so what must not be lost is cumulative:

    models, pulled    the model itself; an old one is used again until a newer one comes
    mass, pushed      sigma, the sum of all that was ever pushed; the receiver adds sigma - rho,
                      where rho is the sum that it has added so far
    models, mixed     the model, and the sum of all that the link has moved. The lower of the two
    symmetrically     rows owns the link: for every new model x_j it moves a (x_j - x_i) to itself
                      and adds that to the sum; the other end moves the opposite when it learns of
                      it. So the mean stays, whatever is lost

`transport.sums` keeps the sums right also for peers that go back to a checkpoint.

Where the site limits norms, channels judge the models, and this wire what is new in a sum: per
round of the sender, the limit for mass, and twice the limit for what moves between two models. A
sum that grew by more is left where it is until enough rounds have passed, so no neighbour brings
more than that in the long run, and what an honest one sent is never refused for its age.
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
from .wire_memory import Memory, Pieces
from .wire_plan import WirePlan

__all__ = ["AsyncWire"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
SumKey = tuple[int, int, int]  # mix_index, other row, column
_NEVER = np.zeros(3, np.int64)
_LOOK = 1.0  # seconds between two looks at links that are down


class AsyncWire:
    """Sends the latest and receives the latest; one slot per link and mixing."""

    def __init__(self, transport: Transport, row: int, plan: WirePlan, began: Roster) -> None:
        self._transport, self._row, self._flows, self._layers = (
            transport,
            row,
            plan.flows,
            plan.layers,
        )
        self._largest = plan.largest_norm
        self._rounds: dict[SumKey, int] = {}  # of the sender, when the sum was taken last
        self._refused: dict[SumKey, tuple[int, int, int]] = {}  # orders that were counted
        self._peers = [member.id for member in began.members]
        self._pushed: dict[SumKey, Outflow] = {}
        self._heard: dict[SumKey, Inflow] = {}
        self._moved: dict[SumKey, Flow] = {}

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t with the sums of that time."""
        for name, value in memory.items():
            what, *numbers = name.split("/")
            mix_index, row, column = map(int, numbers)
            key = (mix_index, row, column)
            orders = memory.get(_name(f"{what}-order", key), _NEVER).tolist()
            if what == "sigma":
                self._pushed.setdefault(key, Outflow(len(value))).restore(value)
            elif what == "rho":
                self._heard.setdefault(key, Inflow(len(value))).restore(value, tuple(orders))
                self._rounds[key] = int(memory.get(_name("rho-round", key), _NEVER)[0])
            elif what == "flow":
                self._moved.setdefault(key, Flow(len(value))).restore(value, tuple(orders))
        self._transport.expect(t + 1)

    def memory(self, t: int) -> Callable[[], Pieces]:
        """Return the sums as they are now: they are replaced, never changed in place."""
        found: Memory = {_name("sigma", key): out.sigma for key, out in self._pushed.items()}
        for key, into in self._heard.items():
            found |= {
                _name("rho", key): into.rho,
                _name("rho-order", key): np.array(into.order, np.int64),
                _name("rho-round", key): np.array([self._rounds.get(key, 0)]),
            }
        for key, flow in self._moved.items():
            found |= {
                _name("flow", key): flow.out.sigma,
                _name("flow-order", key): np.array(flow.met, np.int64),
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
        """Receive what is latest, then send what is latest. One row lives here."""
        values = [row.value if isinstance(row, Compressed) else row for row in rows]
        mine = np.concatenate(
            [value[0].detach().cpu().numpy().astype(np.float64) for value in values]
        )
        if self._layers[tag[1]] == "up":
            self._follow(tag, links.src[into])
        came, arrived = list[Floats](), np.zeros(len(into), bool)
        for k, link in enumerate(into):
            row = int(links.src[link])
            parcel = self._transport.newest(self._peers[row], tag[1])
            if parcel is not None and not (self._flows and not len(out)):
                came.append(self._taken(tag[1], row, float(links.a[link]), mine, parcel, parts))
                arrived[k] = True
        for link in out:
            row = int(links.dst[link])
            given = to_body(self._given(tag[1], row, mine, parts))
            self._transport.send(self._peers[row], Parcel(tag[1], *tag, given), mode="latest")
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
        """Return the bytes of a part: 8 per number, twice that where sums of flows travel too."""
        return 8 * part.width * (2 if self._flows and not part.pushed else 1)

    def _follow(self, tag: Tag, workers: Ids) -> None:
        """Wait until a worker of this hub has reached the round: a hub has no pace of its own."""
        transport, peers, seen = self._transport, [self._peers[row] for row in workers], 0
        while peers and not any(
            (parcel := transport.newest(peer, tag[1])) and parcel.round >= tag[0] for peer in peers
        ):
            ways = [
                link for link in transport.links() if link.peer in peers and link.direction == "in"
            ]
            if all(not link.up and link.since >= transport.wait for link in ways):
                raise PeerError(
                    f"All workers of this hub are down, and round {tag[0]} needs one. Nothing is "
                    "lost: start one, then this peer again."
                )
            seen = transport.wait_for_arrivals(seen, _LOOK)

    def _taken(
        self,
        mix_index: int,
        row: int,
        weight: float,
        mine: Floats,
        parcel: Parcel,
        parts: tuple[Part, ...],
    ) -> Floats:
        """Return the values that a neighbour's latest parcel stands for in this mixing."""
        found, rest, column = list[Floats](), from_body(parcel.body, "float64"), 0
        for part in parts:
            key = (mix_index, row, column)
            theirs, rest = rest[: part.width], rest[part.width :]
            if part.pushed:
                found.append(self._new(key, theirs, parcel))
            elif self._flows:
                moved, rest = rest[: part.width], rest[part.width :]
                found.append(
                    self._met(
                        key, weight, mine[column : column + part.width], theirs, moved, parcel
                    )
                )
            else:
                found.append(theirs)
            column += part.width
        return np.concatenate(found)

    def _met(
        self,
        key: SumKey,
        weight: float,
        own: Floats,
        theirs: Floats,
        moved: Floats,
        parcel: Parcel,
    ) -> Floats:
        """Return the value for which pulling moves exactly what the link is to move."""
        if self._row < key[1]:  # this row owns the link: it moves once for every new model
            flow = self._moved.setdefault(key, Flow(len(own)))
            return own if flow.meet(own, theirs, weight, parcel.order) is None else theirs
        return own + self._new(key, moved, parcel) / weight

    def _new(self, key: SumKey, sum: Floats, parcel: Parcel) -> Floats:
        """Return what is new in a running sum; negative if the sender went back to a checkpoint."""
        heard = self._heard.setdefault(key, Inflow(len(sum)))
        if self._too_much(key, sum - heard.rho, parcel):
            return np.zeros(len(sum))
        found = heard.receive(sum, parcel.order)
        if found is None:
            return np.zeros(len(sum))
        self._rounds[key] = parcel.round
        return found

    def _too_much(self, key: SumKey, new: Floats, parcel: Parcel) -> bool:
        """Whether a sum grew by more than its sender's rounds allow; counted once per parcel."""
        if self._largest is None:
            return False
        rounds = abs(parcel.round - self._rounds.get(key, 0)) + 1
        each = self._largest * (2 if self._flows else 1)
        with np.errstate(over="ignore"):
            if float(np.sqrt(np.square(new).sum())) <= rounds * each:
                return False
        if self._refused.get(key) != parcel.order:
            self._refused[key] = parcel.order
            detail = f"a sum grew by more than {each:g} per round"
            self._transport.refuse("norm", detail, self._peers[key[1]])
        return True

    def _given(self, mix_index: int, row: int, body: Floats, parts: tuple[Part, ...]) -> Floats:
        """Return what to send to a row: models as they are, and running sums."""
        found, column = list[Floats](), 0
        for part in parts:
            value, key = body[column : column + part.width], (mix_index, row, column)
            if part.pushed:
                found.append(self._pushed.setdefault(key, Outflow(part.width)).push(value))
            elif self._flows:
                moved = self._moved[key].out.sigma if key in self._moved else np.zeros(part.width)
                found += [value, moved]
            else:
                found.append(value)
            column += part.width
        return np.concatenate(found)


def _name(what: str, key: SumKey) -> str:
    return "/".join(map(str, (what, *key)))
