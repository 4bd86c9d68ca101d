"""CIFAR-10's Python batches, read without unpickling.

Those files are pickles, and unpickling runs whatever a file asks for. This reader knows the few
instructions those files consist of, makes numbers, strings, lists, tuples and dictionaries, and
calls nothing: the three names that such a file mentions stay names. Anything else is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import DataError

__all__ = ["read_batch"]

_MARK = object()
_NAMES = (b"numpy.core.multiarray\n_reconstruct\n", b"numpy\nndarray\n", b"numpy\ndtype\n")
_RECORD = 3 * 32 * 32


@dataclass
class _Made:
    """What the file would have built by a call with these arguments: noted, never built."""

    arguments: Any
    state: Any = field(default=None)


def read_batch(content: bytes | memoryview) -> NDArray[np.uint8]:
    """Records [samples, 1 + 3072] as in the binary version: the label, then the pixels."""
    try:
        table = _Reader(content).run()
        _, shape, kind, fortran, raw = table[b"data"].state
        labels = np.array(table[b"labels"], np.uint8)
    except (
        KeyError,
        IndexError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        struct.error,
    ) as error:
        raise DataError(f"This is no batch of CIFAR-10: {type(error).__name__} {error}.") from error
    whole = isinstance(raw, bytes) and len(raw) == len(labels) * _RECORD
    if (
        shape != (len(labels), _RECORD)
        or not isinstance(kind, _Made)
        or kind.arguments != (b"u1", 0, 1)
        or fortran
        or not whole
    ):
        raise DataError(
            f"This is no batch of CIFAR-10: its pixels have shape {shape}, with {len(labels)} "
            "labels."
        )
    return np.concatenate([labels[:, None], np.frombuffer(raw, np.uint8).reshape(shape)], axis=1)


class _Reader:
    """A stack, and one method call per instruction."""

    def __init__(self, content: bytes | memoryview) -> None:
        self._content, self._at, self._stack = memoryview(content), 0, list[Any]()

    def run(self) -> Any:
        """Follow the instructions to their end; what is left is the answer."""
        while (code := bytes(self._take(1))) != b".":
            self._follow(code)
        (answer,) = self._stack
        return answer

    def _follow(self, code: bytes) -> None:
        push = self._stack.append
        match code:
            case b"\x80" | b"q":  # the version; a note for later use, which these files never make
                self._take(1)
            case b"r":
                self._take(4)
            case b"(":
                push(_MARK)
            case b"}":
                push({})
            case b"]":
                push([])
            case b"N":
                push(None)
            case b"\x89":
                push(False)
            case b"K":
                push(self._number("<B"))
            case b"M":
                push(self._number("<H"))
            case b"J":
                push(self._number("<i"))
            case b"U":
                push(bytes(self._take(self._number("<B"))))
            case b"T":
                push(bytes(self._take(self._number("<I"))))
            case b"e":
                entries = self._since_mark()
                self._stack[-1].extend(entries)
            case b"u":
                entries = self._since_mark()
                self._stack[-1].update(zip(entries[::2], entries[1::2], strict=True))
            case b"t":
                push(tuple(self._since_mark()))
            case b"\x85" | b"\x86" | b"\x87":
                count = code[0] - 0x84
                self._stack[-count:] = [tuple(self._stack[-count:])]
            case b"c":
                push(self._name())
            case b"R":
                arguments = self._stack.pop()
                self._stack[-1] = _Made(arguments)
            case b"b":
                state = self._stack.pop()
                self._stack[-1].state = state
            case _:
                raise DataError(
                    f"This is no batch of CIFAR-10: instruction {code!r} at byte {self._at - 1} "
                    "is not among its own."
                )

    def _take(self, count: int) -> memoryview:
        if self._at + count > len(self._content):
            raise DataError(f"This batch of CIFAR-10 ends early, at byte {len(self._content)}.")
        self._at += count
        return self._content[self._at - count : self._at]

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _name(self) -> bytes:
        for name in _NAMES:
            if self._content[self._at : self._at + len(name)] == name:
                return bytes(self._take(len(name)))
        raise DataError(
            f"This is no batch of CIFAR-10: at byte {self._at} it names something to call."
        )

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1 - self._stack[::-1].index(_MARK)
        entries = self._stack[at + 1 :]
        del self._stack[at:]
        return entries
