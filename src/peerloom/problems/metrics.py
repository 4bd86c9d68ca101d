"""Numbers by name, as a problem's own function of a model or of its scores gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError

__all__ = ["columns", "named_numbers"]

_NAME = re.compile(r"[A-Za-z]\w*([.@-]\w+)*", flags=re.ASCII)
# What a run's table and a peer's status call by these names themselves.
_TAKEN = ("consensus", "cpu_seconds", "round", "seconds", "train_loss")


def named_numbers(found: Any, whose: str) -> dict[str, float]:
    """What the function `whose` returned, checked: a mapping of names to one number each.

    >>> named_numbers({"loss": 0.5, "f1": 1}, "Task.metrics")
    {'loss': 0.5, 'f1': 1.0}
    """
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{whose} must return numbers by name, such as {{'loss': 0.3, 'f1': 0.8}}; found "
            f"{type(found).__name__}."
        )
    numbers = {}
    for name, value in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
            raise ConfigError(
                f"{whose} names a number {name!r}. Names start with a letter and have letters, "
                f"digits, and . @ - _ within; {', '.join(_TAKEN)} are taken."
            )
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ConfigError(
                f"{whose} gave a tensor of shape {list(value.shape)} for '{name}'. Give one number."
            )
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{whose} gave {type(value).__name__} for '{name}'. Give one number."
            ) from error
    if not 0 <= numbers.get("accuracy", 0.0) <= 1:
        raise ConfigError(
            f"{whose} gave an accuracy of {numbers['accuracy']:g}, but an accuracy is a share, "
            "from 0 to 1. Divide by 100, or use another name."
        )
    return numbers


def columns(found: Sequence[Mapping[str, float]], whose: str) -> dict[str, NDArray[np.float64]]:
    """The numbers of many models, each name's together; all models must have the same names."""
    names = list(found[0]) if found else []
    if other := next((one for one in found if one.keys() != found[0].keys()), None):
        raise ConfigError(
            f"{whose} named {', '.join(names)} for one model and {', '.join(other)} for another. "
            "Name the same numbers for all, NaN where there is none."
        )
    return {name: np.array([one[name] for one in found]) for name in names}
