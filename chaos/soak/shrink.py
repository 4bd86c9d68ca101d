"""Fewer faults that still fail: delta debugging over the list of a run."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["shrink"]


def shrink(numbers: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A short part of the list that still fails, in which every element is needed.

    `fails` is asked about parts of it, never about the whole.

    >>> shrink(list(range(10)), lambda part: {3, 7} <= set(part))
    [3, 7]
    >>> shrink(list(range(10)), lambda part: True)
    []
    """
    pieces = 2
    while numbers:
        size = -(-len(numbers) // pieces)
        cuts = [numbers[at : at + size] for at in range(0, len(numbers), size)]
        for cut in cuts:
            rest = [number for number in numbers if number not in cut]
            if fails(rest):
                numbers, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(numbers), 2 * pieces)
    return numbers
