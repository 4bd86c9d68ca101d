"""What a scenario hands back: named figures, each with the target it is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Figure",
    "Scenario",
    "SkippedError",
    "Stage",
    "at_least",
    "at_most",
    "exactly",
    "shown",
    "told",
]

Value = float | int | str


class SkippedError(Exception):
    """This machine does not permit the scenario; the text says what is missing."""


@dataclass(frozen=True)
class Figure:
    """One measured number. Without a target it is only told."""

    name: str
    measured: Value
    unit: str = ""
    target: str = ""
    met: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.measured, self.unit)}"


@dataclass(frozen=True)
class Stage:
    """Where a scenario runs: an empty folder, whether to be quick, and how to report progress."""

    folder: Path
    quick: bool
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Scenario:
    """One kind of fault: `run` brings it about and measures."""

    number: int
    title: str
    run: Callable[[Stage], list[Figure]]


def at_most(name: str, measured: float, limit: float, unit: str = "") -> Figure:
    """A figure that should be small; one that is not a number misses its target."""
    return Figure(name, measured, unit, f"≤ {shown(limit, unit)}", measured <= limit)


def at_least(name: str, measured: float, limit: float, unit: str = "") -> Figure:
    """A figure that should be large."""
    return Figure(name, measured, unit, f"≥ {shown(limit, unit)}", measured >= limit)


def exactly(name: str, measured: Value, wanted: Value) -> Figure:
    """A figure that can only be right or wrong."""
    return Figure(name, measured, "", shown(wanted, ""), measured == wanted)


def told(name: str, measured: Value, unit: str = "") -> Figure:
    """A figure without a target."""
    return Figure(name, measured, unit)


def shown(value: Value, unit: str) -> str:
    """A number as people read it.

    >>> shown(0.123456, "s"), shown(2.9e-14, ""), shown(12345, "frames")
    ('0.12 s', '2.9e-14', '12345 frames')
    >>> shown(83.21, "%"), shown(0.0, "s")
    ('83 %', '0 s')
    """
    if isinstance(value, float):
        size = abs(value)
        if size != 0 and not 1e-3 <= size < 1e6:
            text = f"{value:.1e}"
        elif size >= 20 or size == 0:
            text = f"{value:.0f}"
        else:
            text = f"{value:.{2 + (size >= 10)}g}"
    else:
        text = str(value)
    return f"{text} {unit}".rstrip()
