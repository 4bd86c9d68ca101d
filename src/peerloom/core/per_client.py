"""Settings of which every client may have its own: one value for all, or a tuple with one each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from numbers import Real
from typing import Any

from ..errors import ConfigError

__all__ = ["check_entries", "check_lengths", "each", "is_number", "of_first", "own_settings"]


def is_number(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is a finite number from `least` to `most`; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(value) and least <= float(value) <= most


def check_entries(part: object, name: str, fits: Callable[[Any], bool], wanted: str) -> None:
    """Refuse a setting, or an entry of it, that does not fit.

    `wanted` says in words what fits.
    """
    value = getattr(part, name)
    entries = value if isinstance(value, tuple) else (value,)
    if not entries or not all(fits(entry) for entry in entries):
        raise ConfigError(
            f"{type(part).__name__}.{name} must be {wanted}, or a list of such with one for each "
            f"client; found {value!r}."
        )


def own_settings(part: object) -> dict[str, tuple[Any, ...]]:
    """The settings of a part of which every client has its own, by name.

    A part says which may be such: `per_client`, a class variable.
    """
    given = {name: getattr(part, name) for name in getattr(part, "per_client", ())}
    return {name: value for name, value in given.items() if isinstance(value, tuple)}


def check_lengths(part: object, count: int, of: str = "clients") -> None:
    """Refuse settings with one entry per client where there are not as many clients."""
    for name, value in own_settings(part).items():
        if len(value) != count:
            raise ConfigError(
                f"{type(part).__name__}.{name} has {len(value)} entries for {count} {of}. "
                "Give one for each, or one value for all."
            )


def of_first(part: Any) -> Any:
    """The part with the first client's settings for all, so that it fits any number of clients."""
    own = own_settings(part)
    return replace(part, **{name: value[0] for name, value in own.items()}) if own else part


def each(*settings: Any) -> list[tuple[Any, ...]] | None:
    """The settings of every client, together; None where all clients have the same.

    >>> each(0.5, (1, 2)), each(0.5, 1)
    ([(0.5, 1), (0.5, 2)], None)
    """
    if not any(isinstance(one, tuple) for one in settings):
        return None
    # Not strict: what all have in common is repeated without end.
    own = (one if isinstance(one, tuple) else repeat(one) for one in settings)
    return list(zip(*own, strict=False))
