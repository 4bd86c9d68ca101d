"""Names to parts and back: what a file may say, and how a part is written into one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, get_args, get_origin

import numpy as np
from networkx import NetworkXException
from torch import Tensor

from .arguments import MismatchError, allowed, alternatives, fitted, hints_of
from .code import load_code
from .codecs import CODECS
from .core import (
    Codec,
    ConfigError,
    Cosine,
    DataError,
    FromCode,
    InverseSqrt,
    Network,
    PeerloomError,
    Pieces,
    Problem,
    Rate,
    Rule,
    Schedule,
    Warmup,
    nearest,
)
from .graphs import GRAPHS
from .problems import DATA, MODELS, PARTITIONS, PROBLEMS, REGULARISERS, Dataset
from .problems.models import Model
from .problems.partitions import Partition
from .problems.regularisers import Regulariser
from .rules import RULES
from .schedules import SCHEDULES
from .schedules.distributions import DISTRIBUTIONS, Distribution

__all__ = ["KINDS", "KIND_OF", "build", "describe", "signature"]

Table = dict[str, Any]

KINDS: dict[str, Mapping[str, Callable[..., Any]]] = {
    "algorithms": RULES,
    "data": DATA,
    "graphs": GRAPHS,
    "laws": DISTRIBUTIONS,
    "messages": CODECS,
    "models": MODELS,
    "partitions": PARTITIONS,
    "problems": PROBLEMS,
    "rates": {
        "Cosine": Cosine,
        "InverseSqrt": InverseSqrt,
        "Pieces": Pieces,
        "Warmup": Warmup,
    },
    "regularisers": REGULARISERS,
    "schedules": SCHEDULES,
}

# The types of arguments that are parts themselves, and of which kind.
KIND_OF: dict[Any, str] = {
    Rule: "algorithms",
    Dataset: "data",
    Distribution: "laws",
    Codec: "messages",
    Model: "models",
    Network: "graphs",
    Partition: "partitions",
    Problem: "problems",
    Rate: "rates",
    Regulariser: "regularisers",
    Schedule: "schedules",
}


def build(kind: str, given: object, where: str, **defaults: Any) -> Any:
    """Make a part from what a file says: a name, or a table with a name and arguments.

    `where` is the position in the file, for errors; `defaults` are arguments to use if the part
    takes them.
    """
    table: Table = (
        {"name": given}
        if isinstance(given, str)
        else dict(given)
        if isinstance(given, dict)
        else {}
    )
    if not isinstance(name := table.pop("name", None), str):
        known = ", ".join(sorted(KINDS[kind]))
        raise ConfigError(
            f'{where}: needs a name, such as name = "...". Known {kind}: {known}. Found {given!r}.'
        )
    make = _find(kind, name, where)
    takes = signature(make)
    for key in table:
        if key not in takes:
            raise ConfigError(f"{where}.{key}: '{name}' has no such key. {nearest(key, takes)}")
    for key, value in defaults.items():
        if key in takes:
            table.setdefault(key, value)
    if missing := [key for key, p in takes.items() if p.default is p.empty and key not in table]:
        raise ConfigError(
            f"{where}: '{name}' needs {' and '.join(missing)}. It takes: {', '.join(takes)}."
        )
    arguments = {
        key: _argument(make, key, value, f"{where}.{key}", defaults) for key, value in table.items()
    }
    try:
        made = make(**arguments)
    except (
        DataError
    ) as error:  # nothing is wrong with the file: the exit code says that data are missing
        raise DataError(f"{where}: {error}") from error
    except (PeerloomError, TypeError, ValueError, RuntimeError, NetworkXException) as error:
        raise ConfigError(f"{where}: {error}") from error
    if ":" in name:  # your own function made it, and can make it again
        recipe = {"name": name, **table}
        if isinstance(made, Network | Dataset):
            return dataclasses.replace(made, recipe=recipe)
        return made.made_by(recipe) if isinstance(made, FromCode) else made
    return made


def signature(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments a part takes, by name."""
    return {
        key: p for key, p in inspect.signature(make).parameters.items() if not key.startswith("_")
    }


def describe(part: object) -> Any:
    """A part as a file would say it; the inverse of `build`.

    >>> from peerloom.rules import DSpodFL
    >>> describe(DSpodFL(lr=0.1))
    {'name': 'DSpodFL', 'lr': 0.1}
    """
    if isinstance(part, Network | Dataset):
        if not part.recipe:
            raise ConfigError(
                f"'{part.name}' was made from objects in memory, so a file cannot describe it."
            )
        return {key: describe(value) for key, value in part.recipe.items() if value is not None}
    if isinstance(part, Mapping):  # a recipe within a recipe
        return {key: describe(value) for key, value in part.items() if value is not None}
    if isinstance(part, FromCode) and part.recipe is not None:
        return dict(part.recipe)
    if isinstance(part, Tensor | np.ndarray | str | bool | int | float | list | tuple | np.generic):
        return _plain(part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = [field for field in dataclasses.fields(part) if field.init]
        values = {field.name: getattr(part, field.name) for field in fields}
        for field in fields:
            if values[field.name] is None and field.default is not None:
                raise ConfigError(
                    f"{type(part).__name__}.{field.name} is None, which a file cannot say."
                )
        said = [field.name for field in fields if not _unsaid(field, values[field.name])]
        return {"name": _name_of(type(part))} | {
            name: describe(values[name]) for name in said if values[name] is not None
        }
    if isinstance(part, partial):
        return {"name": _name_of(part.func)} | {
            key: describe(value) for key, value in part.keywords.items()
        }
    if callable(part):
        return _name_of(part)
    raise ConfigError(
        f"{part!r} cannot be written to a file. Use a part that Peerloom knows by name."
    )


def _unsaid(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a setting is left out at its default (`arguments.UNSAID`)."""
    return "unsaid" in field.metadata and bool(value == field.default)


def _find(kind: str, name: str, where: str) -> Callable[..., Any]:
    if name in KINDS[kind]:
        return KINDS[kind][name]
    if ":" in name:
        return _import(name, where)
    if kind == "data" and name == "arrays":
        raise ConfigError(
            f"{where}: these data were arrays in memory. Run again from Python with the same "
            'arrays, or load them by a function of yours: data = "module:function".'
        )
    hint = nearest(name, KINDS[kind])
    raise ConfigError(
        f"{where}: there is no '{name}' among the {kind}. {hint} Your own: name = \"module:Name\"."
    )


def _import(name: str, where: str) -> Callable[..., Any]:
    """The user's own code, by module:Name; the loader in force decides whether and from where."""
    try:
        found = load_code(name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{where}: '{name}' cannot be imported ({error}). "
            "Write module:Name, and run where it lies."
        ) from error
    if not callable(found):
        raise ConfigError(
            f"{where}: '{name}' is {type(found).__name__}, but a class or a function is needed."
        )
    return found  # type: ignore[no-any-return]


def _argument(make: Callable[..., Any], key: str, value: Any, where: str, defaults: Table) -> Any:
    """One argument as its annotation asks for it: a part by its name or table, or a plain value."""
    hints = hints_of(make)
    return _fit(value, hints[key], where, defaults) if key in hints else value


def _fit(value: Any, hint: Any, where: str, defaults: Table) -> Any:
    """A value as an annotation asks for it; the entries of a list may be parts, too."""
    types = alternatives(hint)
    kinds = [KIND_OF[one] for one in types if one in KIND_OF]
    plain = [one for one in types if one not in KIND_OF and one is not NoneType]
    if not kinds and _names_function(value, plain):
        return _function(value, where)
    if kind := _kind_of(value, kinds, plain):
        return _part(kind, value, plain, where, defaults)
    for entry in map(_entry_of, plain) if isinstance(value, list) else ():
        if any(one in KIND_OF for one in alternatives(entry)):
            return tuple(
                _fit(each, entry, f"{where}.{k}", defaults) for k, each in enumerate(value)
            )
    try:
        return fitted(value, hint)
    except MismatchError:
        said = {"a function": "a function of yours, module:Name"}
        known = allowed(one for one in plain if not kinds or get_origin(one) is not Callable)
        wanted = [said.get(word, word) for word in known]
        wanted = [*wanted, *(f"a name or table of one of the {one}" for one in kinds)]
        words = " or ".join(filter(None, (", ".join(wanted[:-1]), *wanted[-1:])))
        must = f"It must be {words}." if words else "Leave it out: a file cannot say it."
        raise ConfigError(f"{where}: {value!r} is not allowed. {must}") from None


def _entry_of(hint: Any) -> Any:
    """What the entries of a tuple of any length are; nothing where it is no such tuple."""
    inner = get_args(hint)
    return inner[0] if get_origin(hint) is tuple and inner[-1:] == (...,) else NoneType


def _kind_of(value: Any, kinds: list[str], plain: list[Any]) -> str | None:
    """Of which kind the part is that a value names; None where it is a plain value, or neither."""
    name = value.get("name") if isinstance(value, dict) else value
    known = [kind for kind in kinds if name in list(KINDS[kind])]
    # A string that names nothing is a part's name, misspelt, unless something else is wanted.
    named = isinstance(value, str) and (":" in value or not plain or str in plain)
    return next(iter(known or kinds), None) if known or named or isinstance(value, dict) else None


def _part(kind: str, value: Any, plain: list[Any], where: str, defaults: Table) -> Any:
    """Build a part within another as the annotation asks: the part, its name, or its function."""
    if isinstance(value, str) and str in plain and value in KINDS[kind]:
        return value
    if _names_function(value, plain):
        return _function(value, where)
    inherited = defaults if kind == "graphs" else {}  # a graph within a graph has its seed
    return build(kind, value, where, **inherited)


def _names_function(value: Any, plain: list[Any]) -> bool:
    """Whether a value names a function of the user's own, where one is asked for."""
    name = value.get("name") if isinstance(value, dict) else value
    return ":" in str(name) and any(get_origin(one) is Callable for one in plain)


def _function(value: Any, where: str) -> Callable[..., Any]:
    """The user's own function, with the arguments that its table gives it."""
    table = {"name": value} if isinstance(value, str) else dict(value)
    found = _import(table.pop("name"), where)
    for key in table:
        if key not in (takes := signature(found)):
            raise ConfigError(f"{where}.{key}: the function has no such key. {nearest(key, takes)}")
    return partial(found, **table) if table else found


def _name_of(part: Any) -> str:
    for registry in KINDS.values():
        for name, known in registry.items():
            if known is part:
                return name
    if "<" in part.__qualname__ or part.__module__ == "__main__":
        raise ConfigError(
            f"{part.__qualname__} lives in no module that can be imported, "
            "so a file cannot name it. Move it to a .py file of its own."
        )
    return f"{part.__module__}:{part.__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | bool | int | float | dict) else describe(value)
