"""Mixing link by link: the readable path, the only one between processes, and that of messages which carry part of a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draws
from .network import Links
from .offers import Offer
from .ports import Cargo, Late, Message, Placement, Trip, Wire

__all__ = ["LinkMixer", "trip_of_rows"]

Ids = NDArray[np.int64]


class _Part(NamedTuple):
    """Some of the links of a mixing, few enough for their rows to stay in cache."""

    at: slice  # among those of the mixing
    ids: Ids
    trip: Trip


class LinkMixer:
    """Packs, delivers, unpacks and adds up, in link order."""

    NUMBERS = 1 << 18  # of one part, once unpacked

    def __init__(self, place: Placement, here: Ids, message: Message, draws: Draws, wire: Wire) -> None:
        self._place, self._here, self._message, self._draws, self._wire = place, here, message, draws, wire

    def __call__(
        self, laws: list[Offer], links: Links, out: Ids, into: Ids, tag: tuple[int, int]
    ) -> tuple[list[Tensor], Ids]:
        """The offers, combined over what arrived; and the receivers of all that did."""
        n = max(law.value.shape[1] for law in laws)
        there = self._parts(links, out, tag, n)
        packed = [self._pack(law, links, out, there) for law in laws]
        cargo = tuple(Cargo(part.shape[1], law.counts_sent) for part, law in zip(packed, laws, strict=True))
        came = self._wire.swap(tag, links, out, torch.cat(packed, dim=1), into, cargo)
        every = bool(came.arrived.all() and came.acked.all())
        payload = came.payload if every else came.payload[torch.from_numpy(np.flatnonzero(came.arrived))]
        into, acked = into[came.arrived], out[came.acked]
        gone = there if every else self._parts(links, acked, tag, n)
        got = (
            gone if np.array_equal(into, acked) else self._parts(links, into, tag, n)
        )  # what was drawn need not be drawn again
        widths = [part.shape[1] for part in packed]
        theirs = torch.split(payload, widths, dim=1)
        late = [_share(came.late, widths, k) for k in range(len(laws))]
        mine = packed if every else [part[torch.from_numpy(np.flatnonzero(came.acked))] for part in packed]
        mixed = [self._combine(*parts, links, got, gone) for parts in zip(laws, theirs, mine, late, strict=True)]
        return mixed, links.dst[into]

    def _pack(self, law: Offer, links: Links, out: Ids, parts: list[_Part]) -> Tensor:
        senders = self._rows(links.src[out])
        if law.packed is not None:
            assert law.packed.rows is not None  # rows are packed wherever a wire may carry them
            return law.packed.rows[senders]
        return torch.cat([self._message.pack(law.value[senders[part.at]], part.trip) for part in parts])

    def _combine(
        self,
        law: Offer,
        theirs: Tensor,
        mine: Tensor,
        late: list[Late],
        links: Links,
        got: list[_Part],
        gone: list[_Part],
    ) -> Tensor:
        """scale_i total_i + own_i x_i for the rows that heard, or that gave; the others keep what they have."""
        x, n = law.value, law.value.shape[1]
        receivers = [links.dst[part.ids] for part in got]
        givers = [links.src[part.ids] for part in gone] if law.counts_sent else []
        overdue = late if law.counts_sent else []
        waited = [links.dst[[row.link]] for row in overdue]
        touched = np.unique(self._here[np.concatenate([*receivers, *givers, *waited])])
        if not len(touched):
            return x
        position = np.full(len(self._place.rows), -1)
        position[touched] = np.arange(len(touched))
        place = torch.from_numpy(position).to(x.device)
        weight = torch.from_numpy(links.weight(law.weight)).to(x)[:, None]
        total, mass, sent = _Sum(len(touched), x), _Sum(len(touched), x), _Sum(len(touched), x)
        for part, rows in zip(got, receivers, strict=True):
            values, mask = self._unpack(law, theirs[part.at], n, part)
            to, w = place[self._rows(rows)], weight[part.ids]
            total.add(to, values if law.weight == "one" else w * values)
            mass.add(to, mask if law.weight == "one" else w * mask)
        for row, rows in zip(overdue, waited, strict=True):
            ids = np.array([row.link])
            values, _ = self._message.unpack(row.row[None], n, self._trip(links, ids, row.tag))
            total.add(place[self._rows(rows)], weight[ids] * values)
        for part, rows in zip(gone, givers, strict=law.counts_sent):
            _, given = self._unpack(law, mine[part.at], n, part)
            sent.add(place[self._rows(rows)], weight[part.ids] * given)
        scale, own = law.weigh(mass.value, sent.value)
        some = torch.from_numpy(touched).to(x.device)
        mixed: Tensor = scale * total.value + own * x[some]
        return mixed if len(touched) == len(x) else x.index_copy(0, some, mixed)

    def _unpack(self, law: Offer, packed: Tensor, n: int, part: _Part) -> tuple[Tensor, Tensor]:
        if law.packed is None:
            return self._message.unpack(packed, n, part.trip)
        # Packed by row: whole, with zeros where nothing was carried.
        trip = trip_of_rows(self._draws, part.trip.t, law.packed.turn, part.trip.sender)
        values, _ = self._message.unpack(packed, n, trip)
        return values, torch.ones_like(values[:, :1])

    def _parts(self, links: Links, ids: Ids, tag: tuple[int, int], n: int) -> list[_Part]:
        size = max(1, self.NUMBERS // n)
        slices = [slice(first, first + size) for first in range(0, max(1, len(ids)), size)]
        return [_Part(at, ids[at], self._trip(links, ids[at], tag)) for at in slices]

    def _trip(self, links: Links, ids: Ids, tag: tuple[int, int]) -> Trip:
        """A message's draws are keyed by its link, whatever its coin."""
        to, by = links.dst[ids], links.src[ids]
        pair = np.minimum(to, by) * links.rows + np.maximum(to, by)
        return Trip(self._draws, *tag, to * links.rows + by, by, pair)

    def _rows(self, ids: Ids) -> Tensor:
        return torch.from_numpy(self._here[ids]).to(self._place.device)


class _Sum:
    """Sums by row, of whatever width the first terms have; a column of zeros where there are none."""

    def __init__(self, rows: int, like: Tensor) -> None:
        # From -0.0, the true neutral element: a sum of nothing must not turn a row's -0.0 into 0.0.
        self.value = torch.full((rows, 1), -0.0, dtype=like.dtype, device=like.device)

    def add(self, rows: Tensor, terms: Tensor) -> None:
        if self.value.shape[1] != terms.shape[1]:
            self.value = self.value.repeat(1, terms.shape[1])
        self.value.index_add_(0, rows, terms)


def trip_of_rows(draws: Draws, t: int, turn: int, rows: Ids) -> Trip:
    """Draws keyed by the sender alone, so that all its receivers decode the same."""
    return Trip(draws, t, turn, rows, rows)


def _share(late: tuple[Late, ...], widths: list[int], k: int) -> list[Late]:
    """The k-th offer's columns of rows that came late."""
    first = sum(widths[:k])
    return [row._replace(row=row.row[first : first + widths[k]]) for row in late]
