"""Mixing link by link: the readable path, the only one between processes, and that of messages which carry part of a row."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

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
_KEPT = 16  # answers: for each layer and law, both ways


class _Part(NamedTuple):
    """Some of the links of a mixing, few enough for their rows to stay in cache."""

    at: slice  # among those of the mixing
    ids: Ids
    trip: Trip


class _Ends(NamedTuple):
    """Where what links carry is added up: among the touched rows, and with which weights, part by part."""

    touched: Tensor  # hosted rows that hear, or give
    into: list[tuple[Tensor, Tensor]]
    out: list[tuple[Tensor, Tensor]]
    late: list[tuple[Tensor, Tensor]]
    mass: Tensor  # the sums of the weights, by which rows that arrive whole are weighed
    sent: Tensor


class LinkMixer:
    """Packs, delivers, unpacks and adds up, in link order.

    Which rows the links join changes seldom from mixing to mixing, and working it out costs a peer, with its one row, more
    than the sums themselves: so the last few answers are kept.
    """

    NUMBERS = 1 << 18  # of one part, once unpacked

    def __init__(self, place: Placement, here: Ids, message: Message, draws: Draws, wire: Wire) -> None:
        self._place, self._here, self._message, self._draws, self._wire = place, here, message, draws, wire
        self._keys = lru_cache(maxsize=_KEPT)(_keys)
        self._ends = lru_cache(maxsize=_KEPT)(self._find_ends)

    def __call__(
        self, laws: list[Offer], links: Links, out: Ids, into: Ids, tag: tuple[int, int]
    ) -> tuple[list[Tensor], Ids, Ids]:
        """The offers, combined over what arrived; the receivers of all that did; and the links that it was sent over."""
        n = max(law.value.shape[1] for law in laws)
        there = self._parts(links, out, tag, n)
        packed = [self._pack(law, links, out, there) for law in laws]
        cargo = tuple(Cargo(part.shape[1], law.counts_sent) for part, law in zip(packed, laws, strict=True))
        came = self._wire.swap(tag, links, out, _joined(packed, 1), into, cargo)
        every = bool(came.arrived.all() and came.acked.all())
        payload, mine, gone = came.payload, packed, there
        if not every:
            payload = payload[torch.from_numpy(np.flatnonzero(came.arrived))]
            mine = [part[torch.from_numpy(np.flatnonzero(came.acked))] for part in packed]
            into, out = into[came.arrived], out[came.acked]
            gone = self._parts(links, out, tag, n)
        # What was drawn need not be drawn again.
        got = gone if into.tobytes() == out.tobytes() else self._parts(links, into, tag, n)
        widths = [part.shape[1] for part in packed]
        theirs = payload.split_with_sizes(widths, dim=1)
        late = [_share(came.late, widths, k) for k in range(len(laws))]
        size = self._size(n)
        mixed = [self._combine(*parts, links, size, got, gone) for parts in zip(laws, theirs, mine, late, strict=True)]
        return mixed, links.dst[into], out

    def _pack(self, law: Offer, links: Links, out: Ids, parts: list[_Part]) -> Tensor:
        if law.packed is not None:
            assert law.packed.rows is not None  # rows are packed wherever a wire may carry them
            return self._by_sender(law.packed.rows, links, out)
        return _joined([self._message.pack(self._by_sender(law.value, links, part.ids), part.trip) for part in parts], 0)

    def _by_sender(self, rows: Tensor, links: Links, ids: Ids) -> Tensor:
        """The row that each link carries; a single one goes to every receiver, and is not copied for each."""
        return rows.expand(len(ids), -1) if rows.shape[0] == 1 else rows[self._rows(links.src[ids])]

    def _combine(
        self,
        law: Offer,
        theirs: Tensor,
        mine: Tensor,
        late: list[Late],
        links: Links,
        size: int,
        got: list[_Part],
        gone: list[_Part],
    ) -> Tensor:
        """scale_i total_i + own_i x_i for the rows that heard, or that gave; the others keep what they have."""
        x, n = law.value, law.value.shape[1]
        others = x if law.keeps else torch.zeros_like(x)
        givers = gone if law.counts_sent else []
        overdue = [row for row in late if law.counts_sent or row.own is not None]
        got, givers = ([part for part in parts if len(part.ids)] for parts in (got, givers))
        ids = [b"".join(part.ids.tobytes() for part in parts) for parts in (got, givers)]
        of_late = np.array([row.link for row in overdue], np.int64).tobytes() if overdue else b""
        ends = self._ends(links, law.weight, size, *ids, of_late)
        touched = ends.touched.shape[0]  # len() of a tensor takes ten calls
        if not touched:
            return others
        whole = law.packed is not None or self._message.fit == "whole"
        total, mass, sent = (_Sum(touched, x) for _ in range(3))
        for part, (to, weight) in zip(got, ends.into, strict=True):
            values, mask = self._unpack(law, theirs[part.at], n, part)
            total.add(to, values if law.weight == "one" else weight * values)
            if mask is not None:
                mass.add(to, mask if law.weight == "one" else weight * mask)
        for row, (to, weight) in zip(overdue, ends.late, strict=True):
            trip = self._trip(links, np.array([row.link]), row.tag)
            values, _ = self._message.unpack(row.row[None], n, trip)
            if row.own is not None:  # drawn for the pair, so both directions hold the same coordinates
                values = values - self._message.unpack(row.own[None], n, trip)[0]
            total.add(to, weight * values)
        if whole:
            scale, own = law.weigh(ends.mass, ends.sent)
        else:
            for part, (by, weight) in zip(givers, ends.out, strict=True):
                sent.add(by, weight * self._message.unpack(mine[part.at], n, part.trip)[1])
            scale, own = law.weigh(mass.value, sent.value)
        here = x if touched == x.shape[0] else x[ends.touched]
        # Most laws take what came as it is: no need for a product with one, over the whole row.
        came = total.value if isinstance(scale, int) and scale == 1 else scale * total.value
        mixed: Tensor = came + own * here
        return mixed if here is x else others.index_copy(0, ends.touched, mixed)

    def _find_ends(
        self, links: Links, kind: Literal["a", "b", "one"], size: int, got: bytes, gone: bytes, late: bytes
    ) -> _Ends:
        into, out, overdue = (np.frombuffer(ids, np.int64) for ids in (got, gone, late))
        touched = np.unique(self._here[np.concatenate([links.dst[into], links.src[out], links.dst[overdue]])])
        position = np.full(len(self._place.rows), -1)
        position[touched] = np.arange(len(touched))

        def parts(ids: Ids, ends: Ids, size: int) -> list[tuple[Tensor, Tensor]]:
            where, weight = position[self._here[ends]], links.weight(kind)[ids]
            return [
                (
                    torch.from_numpy(where[at]).to(self._place.device),
                    torch.from_numpy(weight[at]).to(self._place.device, self._place.dtype)[:, None],
                )
                for at in (_slices(len(ids), size) if len(ids) else [])
            ]

        def summed(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
            total = _Sum(len(touched), torch.empty(0, dtype=self._place.dtype, device=self._place.device))
            for where, weight in parts:
                total.add(where, weight)
            return total.value

        got_by, given_by = parts(into, links.dst[into], size), parts(out, links.src[out], size)
        return _Ends(
            torch.from_numpy(touched).to(self._place.device),
            got_by,
            given_by,
            parts(overdue, links.dst[overdue], 1),
            summed(got_by),
            summed(given_by),
        )

    def _unpack(self, law: Offer, packed: Tensor, n: int, part: _Part) -> tuple[Tensor, Tensor | None]:
        """Values, and which of them were carried; None for all."""
        if self._message.fit == "whole":
            return packed, None
        if law.packed is None:
            return self._message.unpack(packed, n, part.trip)
        # Packed by row: whole, with zeros where nothing was carried.
        trip = trip_of_rows(self._draws, part.trip.t, law.packed.turn, part.trip.sender)
        return self._message.unpack(packed, n, trip)[0], None

    def _size(self, n: int) -> int:
        return max(1, self.NUMBERS // n)

    def _parts(self, links: Links, ids: Ids, tag: tuple[int, int], n: int) -> list[_Part]:
        link, sender, pair = self._keys(links, ids.tobytes())
        slices = _slices(len(ids), self._size(n))
        return [_Part(at, ids[at], Trip(self._draws, *tag, link[at], sender[at], pair[at])) for at in slices]

    def _trip(self, links: Links, ids: Ids, tag: tuple[int, int]) -> Trip:
        return Trip(self._draws, *tag, *_keys(links, ids.tobytes()))

    def _rows(self, ids: Ids) -> Tensor:
        return torch.from_numpy(self._here[ids]).to(self._place.device)


class _Sum:
    """Sums by row, of whatever width the first terms have; a column of zeros where there are none."""

    def __init__(self, rows: int, like: Tensor) -> None:
        self._rows, self._like = rows, like
        self._value: Tensor | None = None

    @property
    def value(self) -> Tensor:
        return self._nothing(1) if self._value is None else self._value

    def add(self, rows: Tensor, terms: Tensor) -> None:
        if self._value is None:
            self._value = self._nothing(terms.shape[1])
        elif self._value.shape[1] != terms.shape[1]:
            self._value = self._value.repeat(1, terms.shape[1])
        self._value.index_add_(0, rows, terms)

    def _nothing(self, width: int) -> Tensor:
        # -0.0 is the true neutral element: a sum of nothing must not turn a row's -0.0 into 0.0.
        return torch.full((self._rows, width), -0.0, dtype=self._like.dtype, device=self._like.device)


def trip_of_rows(draws: Draws, t: int, turn: int, rows: Ids) -> Trip:
    """Draws keyed by the sender alone, so that all its receivers decode the same."""
    return Trip(draws, t, turn, rows, rows)


def _share(late: tuple[Late, ...], widths: list[int], k: int) -> list[Late]:
    """The k-th offer's columns of rows that came late."""
    first = sum(widths[:k])
    at = slice(first, first + widths[k])
    return [row._replace(row=row.row[at], own=None if row.own is None else row.own[at]) for row in late]


def _keys(links: Links, ids: bytes) -> tuple[Ids, Ids, Ids]:
    """What a message's draws are keyed by, whatever its coin: the link, the sender, the pair of rows."""
    chosen = np.frombuffer(ids, np.int64)
    to, by = links.dst[chosen], links.src[chosen]
    return to * links.rows + by, by, np.minimum(to, by) * links.rows + np.maximum(to, by)


def _slices(count: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, max(1, count), size)]


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)
