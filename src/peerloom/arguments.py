"""Arguments that a file gives, checked against the annotations of what takes them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from numpy.typing import ArrayLike

from .errors import ConfigError

__all__ = ["UNSAID", "MismatchError", "allowed", "alternatives", "fitted", "hints_of"]

UNSAID: Mapping[str, Any] = {"unsaid": True}
"""Metadata of a field that a file leaves out at its default.

For settings that came later: experiments without them keep their hash, so that peers of the version
before still agree with ours on what they run.
"""

_PLAIN = {bool: "true or false", float: "a number", int: "a whole number", str: "a string"}
_PLURAL = {bool: "true and false", float: "numbers", int: "whole numbers", str: "strings"}
_LISTS = (list, tuple, Sequence, Iterable)


class MismatchError(Exception):
    """A value that an annotation does not allow."""


@cache
def hints_of(make: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's or class's arguments, by name; empty where there are none."""
    target: Any = make.func if isinstance(make, partial) else make
    if inspect.isclass(target) and not dataclasses.is_dataclass(target):
        target = getattr(target, "__init__")  # noqa: B009  (a class's own)
    try:
        return get_type_hints(target)
    except NameError as error:
        where = f"{target.__module__}:{target.__qualname__}"
        raise ConfigError(
            f"The annotations of {where} cannot be read: {error}. "
            "Import what they name at the top of its module."
        ) from error


def alternatives(hint: Any) -> list[Any]:
    """The types that an annotation allows: those of a union, with those of ArrayLike as one."""
    members = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    arrays = set(get_args(ArrayLike))
    if arrays <= set(members):
        return [*(member for member in members if member not in arrays), ArrayLike]
    return members


def fitted(value: Any, hint: Any) -> Any:
    """The value as an annotation asks for it: lists become tuples, and whole numbers floats.

    >>> fitted([1, 2], tuple[float, ...])
    (1.0, 2.0)
    """
    for member in alternatives(hint):
        try:
            return _fitted(value, member)
        except MismatchError:
            continue
    raise MismatchError


def allowed(members: Iterable[Any]) -> list[str]:
    """What may stand for some types, in words; nothing for those that a file cannot say.

    >>> allowed([int, Literal["all"], None])
    ['a whole number', "'all'"]
    """
    return list(dict.fromkeys(word for member in members for word in _words(member)))


def _fitted(value: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if hint is float and type(value) in (int, float):
        return float(value)
    if hint in (bool, int, str) and type(value) is hint:
        return value
    if hint in (None, NoneType) and value is None:
        return None
    if hint is ArrayLike and _is_array(value):
        return value
    if origin is Literal and any(value == one and type(value) is type(one) for one in inner):
        return value
    if (origin or hint) in _LISTS and isinstance(value, list):
        return _entries(value, origin or hint, inner)
    if (origin or hint) in (dict, Mapping) and isinstance(value, dict):
        of_key, of_value = inner or (Any, Any)
        return {fitted(key, of_key): fitted(entry, of_value) for key, entry in value.items()}
    raise MismatchError


def _entries(values: list[Any], kind: Any, inner: tuple[Any, ...]) -> Any:
    if kind is Iterable or not inner:  # whoever goes through them looks at each
        return tuple(values) if kind is tuple else values
    if kind is not tuple:
        return [fitted(value, inner[0]) for value in values]
    if inner[-1] is ...:
        return tuple(fitted(value, inner[0]) for value in values)
    if len(values) != len(inner):
        raise MismatchError
    return tuple(fitted(value, hint) for value, hint in zip(values, inner, strict=True))


def _is_array(value: Any) -> bool:
    """Whether it is numbers; the part that takes them knows their shape."""
    if isinstance(value, list):
        return all(map(_is_array, value))
    return isinstance(value, bool | int | float)


def _words(hint: Any) -> list[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return [_PLAIN[hint]]
    if hint is ArrayLike:
        return ["a number", "a list of numbers"]
    if origin is Literal:
        return [repr(one) for one in inner]
    if (origin or hint) in _LISTS:
        entries = alternatives(inner[0]) if inner else []
        of = " or ".join(
            filter(None, (_PLURAL.get(one) or " or ".join(_words(one)) for one in entries))
        )
        return [f"a list of {of}" if of else "a list"]
    if (origin or hint) in (dict, Mapping):
        return ["a table"]
    return []
