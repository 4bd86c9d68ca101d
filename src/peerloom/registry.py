"""Names to parts and parts to names: what a file may say, and how a part is written back into one."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, get_type_hints

import numpy as np
from networkx import NetworkXException
from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from torch import Tensor

from .algorithms import ALGORITHMS
from .code import load_code
from .core import ConfigError, DataError, InverseSqrt, Network, PeerloomError, Pieces, nearest
from .graphs import GRAPHS
from .messages import MESSAGES
from .problems import DATA, MODELS, PARTITIONS, PROBLEMS, REGULARISERS, Dataset
from .schedules import SCHEDULES
from .schedules.laws import LAWS

__all__ = ["KINDS", "PARTS", "build", "describe", "signature"]

Table = dict[str, Any]

KINDS: dict[str, Mapping[str, Callable[..., Any]]] = {
    "algorithms": ALGORITHMS,
    "data": DATA,
    "graphs": GRAPHS,
    "laws": LAWS,
    "messages": MESSAGES,
    "models": MODELS,
    "partitions": PARTITIONS,
    "problems": PROBLEMS,
    "rates": {"InverseSqrt": InverseSqrt, "Pieces": Pieces},
    "regularisers": REGULARISERS,
    "schedules": SCHEDULES,
}

# Parameters that are parts themselves, and of which kind.
PARTS = {
    "data": "data",
    "h": "regularisers",
    "graph": "graphs",
    "hub_graph": "graphs",
    "links": "laws",
    "lr": "rates",
    "model": "models",
    "nodes": "laws",
    "partition": "partitions",
    "resources": "schedules",
}
_BY_NAME_TOO = {"data", "graph", "h", "hub_graph", "model", "partition", "resources"}  # these may be named by a bare string


def build(kind: str, given: object, where: str, **defaults: Any) -> Any:
    """Make a part from what a file says: a name, or a table with a name and arguments.

    `where` is the place in the file, for errors; `defaults` are arguments to use if the part takes them.
    """
    table: Table = {"name": given} if isinstance(given, str) else dict(given) if isinstance(given, dict) else {}
    if not isinstance(name := table.pop("name", None), str):
        known = ", ".join(sorted(KINDS[kind]))
        raise ConfigError(f'{where}: needs a name, such as name = "...". Known {kind}: {known}. Found {given!r}.')
    make = _find(kind, name, where)
    takes = signature(make)
    for key in table:
        if key not in takes:
            raise ConfigError(f"{where}.{key}: '{name}' has no such key. {nearest(key, takes)}")
    for key, value in defaults.items():
        if key in takes:
            table.setdefault(key, value)
    if missing := [key for key, p in takes.items() if p.default is p.empty and key not in table]:
        raise ConfigError(f"{where}: '{name}' needs {' and '.join(missing)}. It takes: {', '.join(takes)}.")
    arguments = {key: _argument(make, key, value, f"{where}.{key}", defaults) for key, value in table.items()}
    try:
        made = make(**arguments)
    except DataError as error:  # nothing is wrong with the file: the exit code says that data are missing
        raise DataError(f"{where}: {error}") from error
    except (PeerloomError, TypeError, ValueError, RuntimeError, NetworkXException) as error:
        raise ConfigError(f"{where}: {error}") from error
    if ":" in name and isinstance(made, Network | Dataset):  # your own function made it, and can make it again
        return dataclasses.replace(made, recipe={"name": name, **table})
    return made


def signature(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments a part takes, by name."""
    return {key: p for key, p in inspect.signature(make).parameters.items() if not key.startswith("_")}


def describe(part: object) -> Any:
    """A part as a file would say it; the inverse of `build`.

    >>> from peerloom.algorithms import DSpodFL
    >>> describe(DSpodFL(lr=0.1))
    {'name': 'DSpodFL', 'lr': 0.1}
    """
    if isinstance(part, Network | Dataset):
        if not part.recipe:
            raise ConfigError(f"'{part.name}' was made from objects in memory, so a file cannot describe it.")
        return {key: describe(value) for key, value in part.recipe.items() if value is not None}
    if isinstance(part, Tensor | np.ndarray | str | bool | int | float | list | tuple | np.generic):
        return _plain(part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = [field for field in dataclasses.fields(part) if field.init]
        values = {field.name: getattr(part, field.name) for field in fields}
        for field in fields:
            if values[field.name] is None and field.default is not None:
                raise ConfigError(f"{type(part).__name__}.{field.name} is None, which a file cannot say.")
        return {"name": _name_of(type(part))} | {k: describe(v) for k, v in values.items() if v is not None}
    if isinstance(part, partial):
        return {"name": _name_of(part.func)} | {key: describe(value) for key, value in part.keywords.items()}
    if callable(part):
        return _name_of(part)
    raise ConfigError(f"{part!r} cannot be written to a file. Use a part that Peerloom knows by name.")


def _find(kind: str, name: str, where: str) -> Callable[..., Any]:
    if name in KINDS[kind]:
        return KINDS[kind][name]
    if ":" in name:
        return _import(name, where)
    if kind == "data" and name == "arrays":
        raise ConfigError(
            f"{where}: these data were arrays in memory. Run again from Python with the same arrays, or load them by a "
            'function of yours: data = "module:function".'
        )
    hint = nearest(name, KINDS[kind])
    raise ConfigError(f"{where}: there is no '{name}' among the {kind}. {hint} Your own: name = \"module:Name\".")


def _import(name: str, where: str) -> Callable[..., Any]:
    """Code of one's own, by module:Name. Whether it may be imported, and from where, the loader in force decides."""
    try:
        found = load_code(name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{where}: '{name}' cannot be imported ({error}). Write module:Name, and run where it lies."
        ) from error
    if not callable(found):
        raise ConfigError(f"{where}: '{name}' is {type(found).__name__}, but a class or a function is needed.")
    return found  # type: ignore[no-any-return]


def _argument(make: Callable[..., Any], key: str, value: object, where: str, defaults: Table) -> Any:
    kind = PARTS.get(key)
    if kind == "laws" and (value.get("name") if isinstance(value, dict) else value) in list(SCHEDULES):
        return build("schedules", value, where)  # Split's halves are schedules, where Bernoulli's are laws
    if key == "model" and isinstance(value, str):
        return value if value in MODELS else _find("models", value, where)
    if key == "model" and isinstance(value, dict) and ":" in str(value.get("name")):
        own = {name: given for name, given in value.items() if name != "name"}
        return partial(_find("models", str(value["name"]), where), **own)
    if kind and (isinstance(value, dict) or (isinstance(value, str) and key in _BY_NAME_TOO)):
        return build(kind, value, where, **(defaults if kind == "graphs" else {}))  # a graph within a graph has its seed
    if key in _BY_NAME_TOO:
        raise ConfigError(f"{where}: {value!r} is not allowed. It must be a name or table of one of the {kind}.")
    adapter = _adapter(make, key)
    if adapter is None:
        return value
    try:
        # As JSON, lists may become tuples, but "1" stays no number and 1.5 no whole number.
        return adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        reasons = [_allowed(str(found["msg"])) for found in error.errors() if "isinstance" not in str(found["msg"])]
        part = [f"a name or table of one of the {kind}"] if kind else []
        wanted = " or ".join(dict.fromkeys([*reasons, *part]))
        raise ConfigError(f"{where}: {value!r} is not allowed. It must be {wanted}.") from error
    except TypeError as error:
        raise ConfigError(f"{where}: {value!r} is not allowed. It must be a number, a string, a list or a table.") from error


def _allowed(message: str) -> str:
    """The wording of pydantic, as the end of our own sentence."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message[0].lower() + message[1:]


@cache
def _adapter(make: Callable[..., Any], key: str) -> TypeAdapter[Any] | None:
    """The check of one argument's type, where its annotation is one that can be checked."""
    target: Any = make.func if isinstance(make, partial) else make
    hints = get_type_hints(getattr(target, "__init__") if inspect.isclass(target) else target)  # noqa: B009  (a class's own)
    if key not in hints or "ArrayLike" in str(inspect.signature(target).parameters[key].annotation):
        return None  # arrays are checked by the part itself, which knows their shape
    try:
        return TypeAdapter(hints[key], config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None


def _name_of(part: Any) -> str:
    for registry in KINDS.values():
        for name, known in registry.items():
            if known is part:
                return name
    if "<" in part.__qualname__ or part.__module__ == "__main__":
        raise ConfigError(
            f"{part.__qualname__} lives in no module that can be imported, so a file cannot name it. "
            "Move it to a .py file of its own."
        )
    return f"{part.__module__}:{part.__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value
