"""Numbers and lists as text, written alike on the page and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = [
    "capital",
    "count_of",
    "duration",
    "listed",
    "number",
    "percent",
    "plural",
    "points",
    "size",
    "span",
    "times",
]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def number(value: float | None) -> str:
    """Three significant digits below 1,000, whole numbers above, powers of ten far out.

    >>> [number(v) for v in (3498.14, 999.7, 12.688, 0.0421, 2.5e-7, 0.0, None)]
    ['3,498', '1,000', '12.7', '0.0421', '2.5e-07', '0', 'n/a']
    """
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 999.5 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """An accuracy from 0 to 1 as a percentage.

    >>> [percent(v) for v in (0.7123, 0.4, None)]
    ['71.2 %', '40 %', 'n/a']
    """
    if share is None or math.isnan(share):
        return "n/a"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def points(difference: float) -> str:
    """A difference of accuracies in percentage points.

    >>> points(0.083), points(0.01)
    ('8.3 points', '1.0 points')
    """
    return f"{100 * difference:.1f} points"


def size(count: float | None) -> str:
    """A number of bytes in a suitable unit.

    >>> [size(v) for v in (512, 12_345_678)]
    ['512 B', '12.3 MB']
    """
    if count is None or math.isnan(count):
        return "n/a"
    power = 0 if count < 1 else min(int(math.log(count, 1000) + 1e-9), len(_UNITS) - 1)
    return f"{number(count / 1000**power)} {_UNITS[power]}"


def duration(seconds: float | None) -> str:
    """Seconds of wall time."""
    return number(seconds) if seconds is None or math.isnan(seconds) else f"{number(seconds)} s"


def span(seconds: float) -> str:
    """A length of time in a suitable unit.

    >>> span(0.004), span(90), span(1800), span(86400)
    ('0.004 s', '90 s', '30 min', '24 h')
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{number(seconds / length)} {unit}"
    return f"{number(seconds)} s"


def times(factor: float) -> str:
    """A factor as text.

    >>> times(5.078), times(31.2)
    ('5.1 times', '31 times')
    """
    return f"{factor:.1f} times" if factor < 10 else f"{factor:,.0f} times"


def plural(count: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "seed"), plural(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def count_of(counts: Sequence[int], word: str) -> str:
    """A number that may differ between runs: 14 links, or 14 to 18 links."""
    low, high = min(counts), max(counts)
    return plural(low, word) if low == high else f"{low:,} to {high:,} {word}s"


def capital(text: str) -> str:
    """The text with its first letter a capital.

    >>> capital("geometric, DSpodFL")
    'Geometric, DSpodFL'
    """
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str]) -> str:
    """Words joined by commas and an 'and'.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
