"""Samples by number, made into batches: of map-style data sets, as functions of a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .generators import all_seeded

__all__ = ["Part", "Reader", "placed"]

Ids = NDArray[np.int64]
Key = tuple[int, bytes, int]


class Part(NamedTuple):
    """Samples that are read together: of which data set, by number, with which seed.

    The seed is that of augmentation and of whatever else is drawn while they are read.
    """

    place: int
    samples: Ids
    seed: int


class Reader:
    """Reads parts of batches; with `ahead`, a thread reads those that are said to come.

    What is read is a function of the part, so that neither reading ahead nor keeping what was read
    changes anything but the time. Up to `keep` bytes of what is asked for again are kept.
    """

    def __init__(
        self,
        sets: Sequence[Any],
        collate: Callable[[list[Any]], Any],
        ahead: bool = False,
        keep: int = 0,
    ) -> None:
        self._kept: dict[Key, tuple[Any, list[Tensor], list[int] | None]] = {}
        self._room = keep
        self._sets, self._collate = sets, collate
        self._thread = ThreadPoolExecutor(1, "peerloom-batches") if ahead else None
        self._coming: dict[str, dict[Key, Future[Any]]] = {}

    def read(self, part: Part) -> Any:
        """The batch of these samples, as `collate` made it."""
        for expected in self._coming.values():
            if (coming := expected.pop(_key(part), None)) is not None:
                return coming.result()
        return self._read(part)

    def read_again(self, part: Part) -> Any:
        """The same, of a part that is asked for often: kept where there is room.

        A loss may change what it is given; torch counts that, and then it is read anew.
        """
        key = _key(part)
        batch, tensors, counts = self._kept.get(key, (None, [], None))
        if counts != [tensor._version for tensor in tensors]:
            batch = self._read(part)
            found = _tensors(batch)
            size = sum(tensor.nbytes for tensor in found or ())
            if found is not None and (counts is not None or size <= self._room):
                self._room -= 0 if counts is not None else size
                self._kept[key] = batch, found, [tensor._version for tensor in found]
        return batch

    def expect(self, parts: Callable[[], Iterable[Part]], of: str) -> None:
        """Have these read while others compute and mix, in place of what `of` expected before."""
        if self._thread is None:
            return
        before, now = self._coming.get(of, {}), dict[Key, Future[Any]]()
        for part in parts():
            key = _key(part)
            known = before.pop(key) if key in before else None
            now[key] = known or self._thread.submit(self._read, part)
        for left_over in before.values():
            left_over.cancel()
        self._coming[of] = now

    @torch.no_grad()
    def _read(self, part: Part) -> Any:
        of, numbers = self._sets[part.place], part.samples.tolist()
        with all_seeded(part.seed):
            if hasattr(of, "__getitems__"):  # several at once, as torch and Hugging Face have it
                return self._collate(of.__getitems__(numbers))
            return self._collate([of[number] for number in numbers])


def _key(part: Part) -> Key:
    return part.place, part.samples.tobytes(), part.seed


def _tensors(batch: Any) -> list[Tensor] | None:
    """All tensors in a batch of any nesting; None if it holds what may be of any size."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, Mapping | list | tuple):
        inner = batch.values() if isinstance(batch, Mapping) else batch
        found = [_tensors(one) for one in inner]
        return None if None in found else [one for some in found if some for one in some]
    return [] if isinstance(batch, str | float | int | None) else None


def placed(batch: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    """A batch of any nesting on a device.

    Real numbers become `dtype`, if one is given; whole numbers stay what they are.
    """
    if isinstance(batch, Tensor):
        real = dtype is not None and batch.is_floating_point()
        return batch.to(device, dtype if real else batch.dtype)
    if isinstance(batch, Mapping):
        return type(batch)({key: placed(value, device, dtype) for key, value in batch.items()})  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(placed(value, device, dtype) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(placed(value, device, dtype) for value in batch)
    return batch.to(device) if hasattr(batch, "to") else batch
