"""Channels for messages of a codec: how long they may be, and what is refused of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from ..core import Codec, Draws, Part, WordCodec, envelope_of_rows
from ..core.messages import check_parts, longest_message, split_parts
from ..errors import CodecError
from ..transport import Channel, RefusedError

__all__ = ["coded_channel"]

_ANY = np.zeros(1, np.int64)
_PIECE = 1 << 20  # words decoded together, where a codec writes words


def coded_channel(
    codec: Codec,
    parts: tuple[Part, ...],
    dtype: str,
    mix_index: int,
    largest_norm: float | None = None,
) -> Channel:
    """Return the channel of one mixing: messages are checked before they are acknowledged."""
    number: torch.dtype = getattr(torch, dtype)

    def check(body: memoryview) -> None:
        message = np.frombuffer(body, np.uint8)
        try:
            check_parts(codec, parts, message, number)
            if largest_norm is not None:
                _check_norm(
                    codec, split_parts(codec, parts, message, number), parts, number, largest_norm
                )
        except CodecError as error:
            raise RefusedError(error.reason) from error

    form = f"{codec!r} {dtype} {' '.join(str(part.width) for part in parts)}"
    return Channel(longest_message(codec, parts, number), check, form, mix_index)


def _check_norm(
    codec: Codec,
    bodies: list[np.ndarray],
    parts: tuple[Part, ...],
    dtype: torch.dtype,
    largest: float,
) -> None:
    """Refuse a vector, of a model or of mass, whose Euclidean norm exceeds `largest`.

    A body does not tell its round, so it is decoded as of the first: there, codecs whose levels
    shrink with the rounds have their largest.
    """
    envelope = envelope_of_rows(Draws(0), 0, 1, _ANY)
    for part, body in zip(parts, bodies, strict=True):
        squares = 0.0
        for piece, width in _pieces(codec, body, part.width, dtype):
            values, _ = codec.decode([piece], width, dtype, envelope)
            squares += float(values.double().square().sum())
        if not math.sqrt(squares) <= largest:
            raise RefusedError("norm")


def _pieces(
    codec: Codec, body: np.ndarray, width: int, dtype: torch.dtype
) -> Iterator[tuple[np.ndarray, int]]:
    """Cut a checked body into runs of coordinates, where it can be; nothing of a silent one."""
    if not len(body):
        return
    if not isinstance(codec, WordCodec):
        yield body, width
        return
    word = codec.word_bytes(dtype)
    for at in range(0, width, _PIECE):
        end = min(at + _PIECE, width)
        yield body[at * word : end * word], end - at
