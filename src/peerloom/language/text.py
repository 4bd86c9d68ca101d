"""Texts as whole numbers, and windows of them as samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..core import ConfigError, DataError
from ..datasets import read

__all__ = ["TEXTS", "Windows", "encoded", "pieces", "tinyshakespeare"]


def tinyshakespeare(path: str | None = None) -> str:
    """A million letters of Shakespeare's plays, one after the other (Karpathy, 2015)."""
    (content,) = read("tinyshakespeare", path).values()
    return content.tobytes().decode("ascii")


def encoded(text: str, alphabet: Sequence[str]) -> Tensor:
    """The place of every letter of a text in the alphabet.

    >>> encoded("abba", "ab").tolist()
    [0, 1, 1, 0]
    """
    places = {letter: place for place, letter in enumerate(alphabet)}
    if strange := sorted(set(text) - set(places)):
        raise DataError(
            f"The text has {strange[0]!r}, which is not among the {len(places)} letters of the "
            "alphabet. Make the alphabet of all texts that are used with the model."
        )
    return torch.tensor([places[letter] for letter in text])


def pieces(tokens: Tensor, count: int) -> tuple[Tensor, ...]:
    """A text in so many pieces of equal length, in order; what is left over at the end is not used.

    >>> [piece.tolist() for piece in pieces(torch.arange(7), 3)]
    [[0, 1], [2, 3], [4, 5]]
    """
    if not 1 <= count <= len(tokens):
        raise ConfigError(
            f"A text of {len(tokens)} tokens cannot be cut into {count} pieces. Use one for each "
            "client."
        )
    return tokens[: len(tokens) // count * count].chunk(count)


class Windows:
    """A text as a data set: `length` tokens and the one after each, from anywhere in it.

    With `count`, only so many of them, at equal distances.

    >>> windows = Windows(torch.arange(10), length=3)
    >>> len(windows), windows[0].tolist(), windows[6].tolist()
    (7, [0, 1, 2, 3], [6, 7, 8, 9])
    >>> [window[0].item() for window in Windows(torch.arange(10), length=3, count=3)]
    [0, 3, 6]
    """

    def __init__(self, tokens: Tensor, length: int, count: int | None = None) -> None:
        every = len(tokens) - length
        wanted = max(1, every) if count is None else count
        if not 1 <= wanted <= every:
            raise DataError(
                f"A text of {len(tokens)} tokens has {max(0, every)} windows of {length} and one "
                f"more, and {wanted} are wanted. Ask for one at least, of a text that has them."
            )
        self._tokens, self._length = tokens, length
        self._count, self._last = wanted, every - 1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> Tensor:
        if not 0 <= k < self._count:
            raise IndexError(f"There is no window {k} among {self._count}.")
        start = k * self._last // max(1, self._count - 1)
        return self._tokens[start : start + self._length + 1]


TEXTS: dict[str, Callable[..., str]] = {"tinyshakespeare": tinyshakespeare}
"""Public texts, by the names under which `peerloom data` knows them."""
