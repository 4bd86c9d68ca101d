"""Reading the JSON files of a peer's folder: what was spoilt is refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .files import read_lines

__all__ = [
    "COUNT", "NUMBER", "TEXT", "Each", "Optional", "check_form", "read_json", "read_json_lines",
]  # fmt: skip

_SPOILT = (ValueError, KeyError, TypeError, RecursionError)
_MOST = 2**62

TEXT, NUMBER, COUNT = str, float, int


class Each:
    """A list or table of any length whose entries have one form."""

    def __init__(self, form: Any) -> None:
        self.form = form


class Optional:
    """null, or a value of this form."""

    def __init__(self, form: Any) -> None:
        self.form = form


def check_form(value: Any, form: Any, where: str = "it") -> None:
    """Refuse, with ValueError, a value of another form.

    A form is bool, `TEXT`, `NUMBER`, `COUNT` (a whole number from 0), `Each`, `Optional`, or a
    table of forms: its keys must be there, and more may be.
    """
    if isinstance(form, Optional):
        if value is not None:
            check_form(value, form.form, where)
    elif isinstance(form, Each):
        if not isinstance(value, (list, dict)):
            raise ValueError(f"{where} is neither a list nor a table")
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            check_form(entry, form.form, f"{where}[{key!r}]")
    elif isinstance(form, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is no table")
        for key, inner in form.items():
            if key not in value:
                raise ValueError(f"{where} has no '{key}'")
            check_form(value[key], inner, f"{where}.{key}")
    elif form is NUMBER:
        if type(value) not in (int, float) or (type(value) is int and abs(value) > _MOST):
            raise ValueError(f"{where} is no number")
    elif form is COUNT:
        if type(value) is not int or not 0 <= value <= _MOST:
            raise ValueError(f"{where} is no count")
    elif type(value) is not form:
        raise ValueError(f"{where} is no {'text' if form is TEXT else 'truth value'}")


def read_json(path: Path, form: Any, make: Callable[[Any], Any] = lambda value: value) -> Any:
    """The content of a file, of this form (see `check_form`), as `make` turns it into values.

    Refuses a file that is missing, cut or changed with `PeerError`.
    """
    try:
        return _formed(path.read_bytes(), form, make)
    except OSError as error:
        raise PeerError(f"{path} cannot be read: {error.strerror}. {_HELP}") from None
    except _SPOILT as error:
        raise PeerError(f"{path} is spoilt ({_in_short(error)}). {_HELP}") from None


def read_json_lines(
    path: Path, form: Any, make: Callable[[Any], Any] = lambda value: value
) -> list[Any]:
    """The same of every complete line of a file; none if there is no file."""
    found = list[Any]()
    try:
        for line in read_lines(path):
            found.append(_formed(line, form, make))
    except _SPOILT as error:
        raise PeerError(
            f"{path} is spoilt in line {len(found) + 1} ({_in_short(error)}). {_HELP}"
        ) from None
    return found


_HELP = "See what else is: peerloom peer doctor"


def _formed(text: bytes | str, form: Any, make: Callable[[Any], Any]) -> Any:
    value = json.loads(text)
    check_form(value, form)
    return make(value)


def _in_short(error: Exception) -> str:
    """The first line of a message, which may quote what was read."""
    return str(error).split("\n", 1)[0][:200] or type(error).__name__
