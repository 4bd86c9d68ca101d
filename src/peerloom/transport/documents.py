"""JSON that strangers wrote, read strictly; and the one form of JSON that is signed."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any, NoReturn

__all__ = [
    "MALFORMED",
    "canonical",
    "digest",
    "parse_json",
    "pem",
    "sealed",
    "text",
    "texts",
    "unsealed",
    "whole",
]

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a stranger's document may raise: any field may be missing or of any type."""

_LIMIT = 2**53  # beyond it a double, and so another reader of JSON, gives another number


def canonical(content: Any) -> bytes:
    """The bytes that are signed: sorted keys and no spaces, so one content has one form."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def parse_json(data: bytes) -> Any:
    """A document in UTF-8. Any fault raises one of `MALFORMED`.

    Refuses NaN, infinity, whole numbers that are not exact everywhere, and a name given twice.
    """
    return json.loads(
        data.decode(),
        parse_constant=_no_number,
        parse_float=_finite,
        parse_int=_exact,
        object_pairs_hook=_names_once,
    )


def whole(value: object) -> int:
    """A count."""
    if type(value) is not int or not 0 <= value < _LIMIT:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def text(value: object, longest: int = 200) -> str:
    """Characters of ASCII that people can see, not too many.

    Others could move a terminal's cursor, and so change what a person reads before signing.
    """
    if type(value) is not str or not _visible(value) or len(value) > longest:
        raise ValueError(f"{value!r:.40} is no text of at most {longest} ASCII characters")
    return value


def pem(value: object, longest: int = 2000) -> str:
    """A certificate as text, line by line."""
    if type(value) is not str or not _visible(value.replace("\n", "")) or len(value) > longest:
        raise ValueError(f"{value!r:.40} is no certificate of at most {longest} characters")
    return value


def _visible(value: str) -> bool:
    return value.isascii() and value.isprintable()


def texts(value: object, longest: int = 300) -> tuple[str, ...]:
    """A list of texts."""
    if type(value) is not list:
        raise ValueError(f"{value!r:.40} is no list")
    return tuple(text(each, longest) for each in value)


def digest(value: object) -> str:
    """A SHA-256 in hexadecimal."""
    if type(value) is not str or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{value!r:.80} is no SHA-256")
    return value


def sealed(value: bytes) -> str:
    """Bytes as text for a document."""
    return base64.b64encode(value).decode()


def unsealed(value: object) -> bytes:
    """The bytes that `sealed` wrote; no other text stands for them."""
    found = base64.b64decode(text(value, 1000), validate=True)
    if sealed(found) != value:
        raise ValueError("bytes are not written in base64 as they should be")
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        _no_number(word[:40])
    return value


def _exact(word: str) -> int:
    value = int(word)
    if abs(value) >= _LIMIT:
        raise ValueError(f"{word[:40]} is beyond 2^53")
    return value


def _names_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found
