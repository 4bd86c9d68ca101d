"""Arguments, from a file or from Python, checked against the annotations of what takes them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from .errors import ConfigError

__all__ = ["UNSAID", "MismatchError", "allowed", "alternatives", "checked", "fitted", "hints_of"]

T = TypeVar("T")

UNSAID: Mapping[str, Any] = {"unsaid": True}
"""Metadata of a field that a file leaves out at its default.

For settings that came later: experiments without them keep their hash, so that peers of the version
before still agree with ours on what they run.
"""

_PLAIN = {bool: "true or false", float: "a number", int: "a whole number", str: "a string"}
_PLURAL = {bool: "true and false", float: "numbers", int: "whole numbers", str: "strings"}
_LISTS = (list, tuple, Sequence, Iterable)
_NUMBERS: dict[Any, type] = {float: Real, int: Integral}
_MOST = 100  # characters of a value that an error repeats


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


def checked(kind: type[T]) -> type[T]:
    """Have a dataclass refuse settings that its annotations do not allow, before it looks at them.

    Those that fit arrive as `fitted` has them. It stands above `@dataclass`; what inherits from
    such a class is checked as well.
    """
    if not dataclasses.is_dataclass(kind) or "__init__" not in vars(kind):
        return kind
    init, names = kind.__init__, [field.name for field in dataclasses.fields(kind) if field.init]

    @wraps(init)
    def checking(self: T, *given: Any, **named: Any) -> None:
        init(
            self,
            *(_setting(self, name, value) for name, value in zip(names, given, strict=False)),
            *given[len(names) :],  # too many: Python says so
            **{name: _setting(self, name, value) for name, value in named.items()},
        )

    cast("Any", kind).__init__ = checking
    return kind


def alternatives(hint: Any) -> list[Any]:
    """The types that an annotation allows: those of a union, with those of ArrayLike as one."""
    members = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    arrays = set(get_args(ArrayLike))
    if arrays <= set(members):
        return [*(member for member in members if member not in arrays), ArrayLike]
    return members


def fitted(value: Any, hint: Any) -> Any:
    """The value as an annotation asks for it: lists become tuples, and whole numbers floats.

    A part fits where a class is asked for that it belongs to, or a protocol whose methods it has.

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


def _setting(part: object, name: str, value: Any) -> Any:
    hint = hints_of(cast("Any", type(part))).get(name, Any)
    try:
        return fitted(value, hint)
    except MismatchError:
        types = alternatives(hint)
        parts = [
            f"a {one.__name__.lower()}" for one in types if inspect.isclass(one) and _is_part(one)
        ]
        words = sorted([*allowed(types), *parts], key=lambda word: word == "a function")
        words += ["left out"] if NoneType in types else []
        must = " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
        found = repr(value) if len(repr(value)) <= _MOST else f"{repr(value)[:_MOST]} ..."
        raise ConfigError(f"{type(part).__name__}.{name} must be {must}, found {found}.") from None


def _fitted(value: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    kind = origin or hint
    if hint is Any:
        return value
    if hint in _NUMBERS:
        return _number(value, hint)
    if hint is bool and isinstance(value, bool | np.bool_):
        return bool(value)
    if hint is str and isinstance(value, str):
        return value
    if hint in (None, NoneType) and value is None:
        return None
    if hint is ArrayLike and _is_array(value):
        return value
    if origin is Literal and any(type(value) is type(one) and value == one for one in inner):
        return value
    if kind in _LISTS and isinstance(value, list | tuple):
        return _entries(value, kind, inner)
    if kind in (dict, Mapping) and isinstance(value, dict):
        of_key, of_value = inner or (Any, Any)
        return {fitted(key, of_key): fitted(entry, of_value) for key, entry in value.items()}
    if kind is Callable and callable(value):
        return value
    if inspect.isclass(kind) and _is_part(kind) and _belongs(value, kind):
        return value
    raise MismatchError


def _number(value: Any, hint: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS[hint]):
        raise MismatchError
    try:
        return hint(value)
    except OverflowError as error:  # a whole number beyond all floats
        raise MismatchError from error


def _is_part(kind: type) -> bool:
    """Whether a type is that of a part, and not of plain values."""
    return kind not in (*_PLAIN, *_LISTS, dict, Mapping, Callable, NoneType)


def _belongs(value: Any, kind: Any) -> bool:
    if not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    if inspect.isclass(value):
        return False
    methods = [name for name, one in vars(kind).items() if inspect.isfunction(one)]
    return all(callable(getattr(value, name, None)) for name in methods if name[0] != "_")


def _entries(values: Sequence[Any], kind: Any, inner: tuple[Any, ...]) -> Any:
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
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError, RuntimeError, OverflowError):  # uneven rows, or no numbers
        return False


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
        many = f"{len(inner)} " if origin is tuple and inner[-1] is not ... else ""
        return [f"a list of {many}{of}" if of else "a list"]
    if (origin or hint) in (dict, Mapping):
        return ["a table"]
    return ["a function"] if (origin or hint) is Callable else []
