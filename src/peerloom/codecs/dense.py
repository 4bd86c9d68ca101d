"""The whole row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arguments import checked
from ..core import Body, Decoded, Envelope, Fit
from ..errors import CodecError
from .floats import check_finite, check_length, fixed

__all__ = ["Dense"]

_WORDS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_EXPONENTS = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}
_PIECE = 1 << 20  # words looked at together
_RAW = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # NumPy has no bfloat16


@checked
@dataclass(frozen=True)
class Dense:
    """The whole row, every number as it is, or rounded to a shorter word.

    The words are "float32", "float16" and "bfloat16", which has the range of float32 and three
    decimal digits. What is too large for the word arrives as the largest number it has.
    """

    word: Literal["float32", "float16", "bfloat16"] | None = None
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = True

    @property
    def fit(self) -> Fit:
        """Rounded numbers do not add up to what was sent."""
        return "whole" if self.word is None else "rounded"

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write every number in the word."""
        short = self._shortened(rows)
        words = short.cpu().contiguous().view(_RAW[short.element_size()]).numpy()
        words = words.astype(f"<i{words.itemsize}", copy=short is rows)
        words.flags.writeable = False
        return list(words.view(np.uint8))

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read every number."""
        word = self._word(dtype)
        for body in bodies:
            check_length(body, n * word.itemsize)
        words = np.stack(bodies).view(f"<i{word.itemsize}").astype(f"=i{word.itemsize}", copy=False)
        return torch.from_numpy(words).view(word).to(dtype), None

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Round, at the most."""
        return self._shortened(rows).to(rows.dtype), None

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return one word per coordinate."""
        return fixed(rows, self.longest(rows.shape[1], rows.dtype))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return one word per coordinate."""
        return n * self._word(dtype).itemsize

    def word_bytes(self, dtype: torch.dtype) -> int:
        """Return the bytes of the word."""
        return self._word(dtype).itemsize

    def paper_bits(self, n: int) -> int:
        """Papers count 64-bit numbers, where they do not say how short their words are."""
        return 64 * n if self.word is None else 8 * n * _WORDS[self.word].itemsize

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, and that all is finite."""
        word = self._word(dtype)
        check_length(body, n * word.itemsize)
        if word in _EXPONENTS:  # all its bits are set in numbers that are not finite
            exponent, words = _EXPONENTS[word], body.view("<u2")
            for at in range(0, n, _PIECE):
                if ((words[at : at + _PIECE] & exponent) == exponent).any():
                    raise CodecError("not_finite")
        else:
            check_finite(body.view(f"<f{word.itemsize}"))

    def _word(self, dtype: torch.dtype) -> torch.dtype:
        return dtype if self.word is None else _WORDS[self.word]

    def _shortened(self, rows: Tensor) -> Tensor:
        if self.word is None:
            return rows
        word = _WORDS[self.word]
        largest = torch.finfo(word).max
        if largest >= torch.finfo(rows.dtype).max:
            return rows.to(word)
        return torch.where(rows.isfinite(), rows.clamp(-largest, largest), rows).to(word)
