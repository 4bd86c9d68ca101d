"""Messages: the bodies of all offers of a mixing, end to end, as one link carries them.

Where a receiver cannot know the length of a part, because the codec's bodies differ in length or
rows may stay silent, its length precedes the message as four bytes, little-endian; the last part
needs none. A message of which every part is silent is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import CodecError
from .codec import Body, Codec
from .wire import Lengths, Part

__all__ = ["check_parts", "join_parts", "longest_message", "message_nbytes", "split_parts"]

Ids = NDArray[np.int64]
Parts = tuple[Part, ...]
_LENGTH = np.dtype("<u4")


def join_parts(codec: Codec, parts: Parts, bodies: Sequence[Body]) -> Body:
    """Join one body of each part to a message."""
    if len(bodies) == 1:
        return bodies[0]
    if not any(len(body) for body in bodies):
        return bodies[0]
    lengths = np.array([len(bodies[k]) for k in _announced(codec, parts)], _LENGTH)
    message = np.concatenate([lengths.view(np.uint8), *bodies])
    message.flags.writeable = False
    return message


def split_parts(codec: Codec, parts: Parts, message: Body, dtype: torch.dtype) -> list[Body]:
    """Cut a message into one body of each part. Raises CodecError."""
    if len(parts) == 1 or not len(message):
        return [message] * len(parts)
    announced = _announced(codec, parts)
    start = len(announced) * _LENGTH.itemsize
    if len(message) < start:
        raise CodecError("wrong_shape", f"{len(message)} bytes are too few")
    lengths = dict(zip(announced, message[:start].view(_LENGTH).tolist(), strict=True))
    bodies = list[Body]()
    for k, part in enumerate(parts[:-1]):
        end = start + (lengths[k] if k in lengths else codec.longest(part.width, dtype))
        if end > len(message):
            raise CodecError("wrong_shape", f"{len(message)} bytes are too few")
        bodies.append(message[start:end])
        start = end
    return [*bodies, message[start:]]


def check_parts(codec: Codec, parts: Parts, message: Body, dtype: torch.dtype) -> None:
    """Judge a message that somebody else wrote. Raises CodecError."""
    for part, body in zip(parts, split_parts(codec, parts, message, dtype), strict=True):
        if len(body) or not part.silent:
            codec.check(body, part.width, dtype)


def message_nbytes(codec: Codec, parts: Parts, lengths: Sequence[Lengths]) -> Lengths:
    """Return the length of messages, given those of each part."""
    total: Lengths = sum(lengths)
    head = len(_announced(codec, parts)) * _LENGTH.itemsize
    return total + head * (total > 0)


def longest_message(codec: Codec, parts: Parts, dtype: torch.dtype) -> int:
    """Return the most bytes that a message can have."""
    head = len(_announced(codec, parts)) * _LENGTH.itemsize
    return head + sum(codec.longest(part.width, dtype) for part in parts)


def _announced(codec: Codec, parts: Parts) -> list[int]:
    """Return which parts have their length before the message."""
    return [k for k, part in enumerate(parts[:-1]) if part.silent or not codec.fixed_length]
