"""A character model that clients train together from nothing, each on a part of the plays."""

from __future__ import annotations

from functools import partial

from ..problems import Task
from .likelihood import Perplexity, next_token
from .text import Windows, encoded, pieces, tinyshakespeare
from .transformer import Transformer

__all__ = ["characters"]

_HELD_OUT = 10  # of the text, the last part of so many


def characters(
    clients: int,
    width: int = 32,
    layers: int = 2,
    heads: int = 4,
    length: int = 32,
    batch: int = 8,
    held_out: int = 128,
    path: str | None = None,
) -> Task:
    """A `Transformer` of letters on tinyshakespeare, in as many pieces as there are clients.

    The plays stand one after the other, so every client knows other ones. The last tenth of the
    text is nobody's: `held_out` windows of it, at equal distances, judge models. `length` is that
    of windows, `path` a folder with the text where it is not found by itself.
    """
    text = tinyshakespeare(path)
    alphabet = sorted(set(text))
    tokens = encoded(text, alphabet)
    end = len(tokens) - len(tokens) // _HELD_OUT
    return Task(
        partial(Transformer, len(alphabet), width, layers, heads, length),
        next_token,
        tuple(Windows(piece, length) for piece in pieces(tokens[:end], clients)),
        batch=batch,
        metrics=Perplexity(lambda: Windows(tokens[end:], length, held_out)),
    )
