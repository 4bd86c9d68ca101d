"""Codecs on links: the one place where rows become bytes, and the same without the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .codec import Body, Codec, Decoded, Envelope, WordCodec, envelope_of_rows
from .draw import Draws
from .messages import join_parts, longest_message, split_parts
from .network import Links
from .offers import Compressed
from .wire import (
    ByteWire,
    Carried,
    Delivery,
    LateBody,
    LateRow,
    Lengths,
    Part,
    Tag,
    columns_of,
    runs_of,
)

__all__ = ["CodedWire", "LocalWire", "Spool"]

Ids = NDArray[np.int64]
Offered = Sequence[Tensor | Compressed]
Parts = tuple[Part, ...]
_KEPT = 16  # answers: for each layer, both ways


class Spool(Protocol):
    """Where messages lie that are too large for memory."""

    @property
    def least(self) -> int:
        """Bytes from which on a message lies there."""

    def write(self, tag: Tag, nbytes: int, pieces: Iterable[Body]) -> Body:
        """Keep a message of this length, given in pieces, and return it as one body."""


class LocalWire:
    """All rows are here, so that nothing travels: rows arrive as `Codec.through` leaves them."""

    def __init__(self, codec: Codec, draws: Draws) -> None:
        self._codec, self._draws = codec, draws
        self._keys = lru_cache(maxsize=_KEPT)(_keys)

    def exchange(
        self, tag: Tag, links: Links, out: Ids, rows: Offered, into: Ids, parts: Parts
    ) -> Delivery:
        """Deliver everything."""
        sent = self._carried(tag, links, out, rows)
        got = sent if into.tobytes() == out.tobytes() else self._carried(tag, links, into, rows)
        lengths = [each.lengths() for each in sent]
        return Delivery(got, sent, lengths, np.ones(len(into), bool), np.ones(len(out), bool))

    def _carried(self, tag: Tag, links: Links, ids: Ids, rows: Offered) -> list[_Through]:
        """What a mixing draws for its links need not be drawn again for its next part."""
        envelopes = _Envelopes(self._draws, tag, links, ids, self._keys)
        return [_Through(self._codec, each, links.src[ids], envelopes) for each in rows]


class CodedWire:
    """Rows over a wire that carries bytes: encoded, sent, and decoded when they are asked for.

    With a spool, large messages are written there piece by piece as they are encoded, where the
    codec writes words; of other codecs, once they are encoded.
    """

    def __init__(
        self,
        codec: Codec,
        draws: Draws,
        hosted: Ids,
        wire: ByteWire,
        spool: Spool | None = None,
    ) -> None:
        self._codec, self._draws, self._hosted, self._wire = codec, draws, hosted, wire
        self._spool, self._writes_words = spool, isinstance(codec, WordCodec)
        self._keys = lru_cache(maxsize=_KEPT)(_keys)

    def exchange(
        self, tag: Tag, links: Links, out: Ids, rows: Offered, into: Ids, parts: Parts
    ) -> Delivery:
        """Send one message along each link, and take those that came."""
        going = self._envelopes(tag, links, out)
        messages, lengths = self._messages(tag, links.src[out], rows, parts, going)
        came = self._wire.exchange(tag, links, out, messages, into)
        if not came.acked.all():
            out = out[came.acked]
            going = self._envelopes(tag, links, out)
        at = np.searchsorted(self._hosted, links.src[out])
        like = rows[0].value if isinstance(rows[0], Compressed) else rows[0]
        return Delivery(
            self._decoded(tag, links, into[came.arrived], came.bodies, parts, like),
            [_Through(self._codec, each, at, going, self._hosted) for each in rows],
            [each[came.acked] for each in lengths],
            came.arrived,
            came.acked,
            tuple(self._late(links, row, parts, like) for row in came.late),
        )

    def _messages(
        self, tag: Tag, senders: Ids, rows: Offered, parts: Parts, going: _Envelopes
    ) -> tuple[list[Body], list[Ids]]:
        """Return the message of each link, and the lengths of each part of them."""
        spool, like = self._spool, rows[0].value if isinstance(rows[0], Compressed) else rows[0]
        large = spool is not None and longest_message(self._codec, parts, like.dtype) >= spool.least
        if spool is None or not large:
            return self._encoded_messages(senders, rows, parts, going)
        plain = [each for each in rows if not isinstance(each, Compressed)]
        if self._writes_words and len(plain) == len(rows):
            return self._written(spool, tag, senders, plain)
        messages, lengths = self._encoded_messages(senders, rows, parts, going)
        kept: dict[int, Body] = {}
        for message in messages:
            if id(message) not in kept:
                small = len(message) < spool.least
                kept[id(message)] = message if small else spool.write(tag, len(message), [message])
        return [kept[id(message)] for message in messages], lengths

    def _encoded_messages(
        self, senders: Ids, rows: Offered, parts: Parts, going: _Envelopes
    ) -> tuple[list[Body], list[Ids]]:
        bodies = [self._encoded(senders, each, going) for each in rows]
        lengths = [np.array([len(body) for body in each], np.int64) for each in bodies]
        return self._joined(parts, bodies), lengths

    def _written(
        self, spool: Spool, tag: Tag, senders: Ids, rows: list[Tensor]
    ) -> tuple[list[Body], list[Ids]]:
        """Encode rows run by run of their coordinates, each into one message for all receivers."""
        lengths = [self._codec.longest(each.shape[1], each.dtype) for each in rows]

        def pieces(k: int) -> Iterator[Body]:
            envelope = envelope_of_rows(self._draws, *tag, self._hosted[k : k + 1])
            for each in rows:
                for columns in columns_of(each):
                    yield self._codec.encode(each[k : k + 1, columns], envelope)[0]

        needed, which = np.unique(np.searchsorted(self._hosted, senders), return_inverse=True)
        every = [spool.write(tag, sum(lengths), pieces(k)) for k in needed.tolist()]
        return (
            [every[k] for k in which.tolist()],
            [np.full(len(senders), length, np.int64) for length in lengths],
        )

    def _encoded(
        self, senders: Ids, rows: Tensor | Compressed, envelopes: _Envelopes
    ) -> list[Body]:
        """Encode what each link carries; once for all receivers of a row, where it can be."""
        at = np.searchsorted(self._hosted, senders)
        if isinstance(rows, Compressed):
            known = dict(zip(rows.talking.tolist(), rows.encoded(self._codec), strict=True))
            return [known.get(k, _NOTHING) for k in at.tolist()]
        encode = self._codec.encode
        if self._codec.per_link:
            runs = runs_of(len(at), rows.shape[1])
            return [body for run in runs for body in encode(_picked(rows, at[run]), envelopes[run])]
        needed, which = np.unique(at, return_inverse=True)
        if not len(needed):
            return []
        envelope = envelope_of_rows(self._draws, *envelopes.tag, self._hosted[needed])
        every = encode(_picked(rows, needed), envelope)
        return [every[k] for k in which.tolist()]

    def _joined(self, parts: Parts, bodies: list[list[Body]]) -> list[Body]:
        """Join the parts of each link's message; the same bodies to the same object."""
        known: dict[tuple[int, ...], Body] = {}
        found = list[Body]()
        for each in zip(*bodies, strict=True):
            key = tuple(map(id, each))
            if key not in known:
                known[key] = join_parts(self._codec, parts, each)
            found.append(known[key])
        return found

    def _decoded(
        self, tag: Tag, links: Links, ids: Ids, messages: list[Body], parts: Parts, like: Tensor
    ) -> list[Carried]:
        envelopes = self._envelopes(tag, links, ids)
        cut = [split_parts(self._codec, parts, message, like.dtype) for message in messages]
        return [
            _Bodies(self._codec, [bodies[k] for bodies in cut], part, like, envelopes)
            for k, part in enumerate(parts)
        ]

    def _envelopes(self, tag: Tag, links: Links, ids: Ids) -> _Envelopes:
        return _Envelopes(self._draws, tag, links, ids, self._keys)

    def _late(self, links: Links, late: LateBody, parts: Parts, like: Tensor) -> LateRow:
        """Decode a row that came late, and what went the other way then, both by its own link."""

        def decoded(message: Body) -> list[Tensor]:
            ids = np.array([late.link])
            found = self._decoded(late.tag, links, ids, [message], parts, like)
            return [each[:][0][0] for each in found]

        own = None if late.own is None else decoded(late.own)
        return LateRow(late.tag, late.link, decoded(late.body), own)


class _Envelopes:
    """The envelopes of runs of links of one mixing; all parts share what is drawn for them."""

    def __init__(
        self,
        draws: Draws,
        tag: Tag,
        links: Links,
        ids: Ids,
        keys: Callable[..., tuple[Ids, Ids, Ids]],
    ) -> None:
        self.draws, self.tag = draws, tag
        self._links, self._ids, self._keys = links, ids, keys
        self._known: dict[tuple[int, int, int], Envelope] = {}

    def __getitem__(self, run: slice) -> Envelope:
        key = run.indices(len(self._ids))
        if key not in self._known:
            link, sender, pair = self._keys(self._links, self._ids.tobytes())
            self._known[key] = Envelope(self.draws, *self.tag, link[run], sender[run], pair[run])
        return self._known[key]

    def senders(self, run: slice) -> Ids:
        return self._links.src[self._ids[run]]


class _Through:
    """Rows as their receivers decode them, without bytes; `at` says which row each link carries."""

    def __init__(
        self,
        codec: Codec,
        rows: Tensor | Compressed,
        at: Ids,
        envelopes: _Envelopes,
        hosted: Ids | None = None,
    ) -> None:
        self._codec, self._rows, self._at, self._envelopes = codec, rows, at, envelopes
        self._hosted = hosted
        self._last: tuple[slice, Decoded] | None = None
        self._all: Decoded | None = (rows.value, None) if isinstance(rows, Compressed) else None

    def __getitem__(self, links: slice, /) -> Decoded:
        if self._last is None or self._last[0] != links:
            self._last = (links, self._decoded(links))
        return self._last[1]

    def _decoded(self, links: slice) -> Decoded:
        at = self._at[links]
        if self._all is None:
            assert isinstance(self._rows, Tensor)
            if self._codec.per_link:
                return self._codec.through(_picked(self._rows, at), self._envelopes[links])
            self._all = self._codec.through(self._rows, self._envelope_of_rows(self._rows))
        values, mask = self._all
        return _picked(values, at), None if mask is None else _picked(mask, at)

    def columns(self, columns: slice, /) -> _Through | None:
        codec, rows = self._codec, self._rows
        if not isinstance(codec, WordCodec):
            return None
        if isinstance(rows, Compressed):
            cut: Tensor | Compressed = replace(rows, value=rows.value[:, columns])
        else:
            cut = rows[:, columns]
        return _Through(codec, cut, self._at, self._envelopes, self._hosted)

    def lengths(self) -> Lengths:
        """Return the bytes of what the links carry."""
        rows = self._rows
        if isinstance(rows, Compressed):
            return rows.nbytes[self._at]
        if self._codec.fixed_length:
            return self._codec.longest(rows.shape[1], rows.dtype)
        if self._codec.per_link:
            return self._codec.nbytes(_picked(rows, self._at), self._envelopes[:])
        return self._codec.nbytes(rows, self._envelope_of_rows(rows))[self._at]

    def _envelope_of_rows(self, rows: Tensor) -> Envelope:
        hosted = np.arange(len(rows)) if self._hosted is None else self._hosted
        return envelope_of_rows(self._envelopes.draws, *self._envelopes.tag, hosted)


class _Bodies:
    """Rows that came as bytes."""

    def __init__(
        self, codec: Codec, bodies: list[Body], part: Part, like: Tensor, envelopes: _Envelopes
    ) -> None:
        self._codec, self._bodies, self._part = codec, bodies, part
        self._like, self._envelopes = like, envelopes

    def __getitem__(self, links: slice, /) -> Decoded:
        bodies, part = self._bodies[links], self._part
        if part.compression is None:
            return self._decode(bodies, self._envelopes[links])
        # Compressed by row: whole, with zeros where nothing was carried.
        senders, (t, _) = self._envelopes.senders(links), self._envelopes.tag
        draws = self._envelopes.draws
        loud = np.array([len(body) > 0 or not part.silent for body in bodies], bool)
        envelope = envelope_of_rows(draws, t, part.compression, senders[loud])
        if loud.all():
            return self._decode(bodies, envelope)[0], None
        values = self._like.new_zeros(len(bodies), part.width)
        if loud.any():
            spoken = [body for body, talks in zip(bodies, loud, strict=True) if talks]
            values[torch.from_numpy(loud).to(values.device)] = self._decode(spoken, envelope)[0]
        return values, None

    def columns(self, columns: slice, /) -> _Bodies | None:
        codec, like = self._codec, self._like
        if not isinstance(codec, WordCodec):
            return None
        word = codec.word_bytes(like.dtype)
        cut = slice(columns.start * word, columns.stop * word)
        part = replace(self._part, width=columns.stop - columns.start)
        return _Bodies(codec, [body[cut] for body in self._bodies], part, like, self._envelopes)

    def _decode(self, bodies: list[Body], envelope: Envelope) -> Decoded:
        like = self._like
        values, mask = self._codec.decode(bodies, self._part.width, like.dtype, envelope)
        return values.to(like.device), None if mask is None else mask.to(like.device)


_NOTHING: Body = np.empty(0, np.uint8)
_NOTHING.flags.writeable = False


def _picked(rows: Tensor, at: Ids) -> Tensor:
    """Pick rows; a single one stands for all, and is not copied for each."""
    return (
        rows.expand(len(at), -1) if len(rows) == 1 else rows[torch.from_numpy(at).to(rows.device)]
    )


def _keys(links: Links, ids: bytes) -> tuple[Ids, Ids, Ids]:
    """Return what draws are keyed by: the link, the sender, the pair of rows."""
    chosen = np.frombuffer(ids, np.int64)
    to, by = links.dst[chosen], links.src[chosen]
    return to * links.rows + by, by, np.minimum(to, by) * links.rows + np.maximum(to, by)
