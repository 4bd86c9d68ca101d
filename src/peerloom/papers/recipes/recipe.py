"""One figure or table of a paper: an experiment, the settings that vary it, the claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations, count, islice
from typing import Any, Literal

from ...config import override
from ...core import ConfigError, nearest
from ...runs import Run
from ...sweeps.readings import Found, Reading
from .checks import Check
from .tuned import at_best_steps

__all__ = ["Changed", "Form", "Recipe", "first_seeds"]

Table = dict[str, Any]
Kind = Literal["figure", "table", "delays", "map", "holdings"]
DIGITS = ("problem.data=digits", "problem.model=svm")


@dataclass(frozen=True)
class Changed:
    """Settings that make a recipe smaller, or like the authors' code, and what they mean."""

    says: str
    settings: Sequence[str]


@dataclass(frozen=True)
class Form:
    """How a recipe is to be run.

    `seeds` is their number: those of the recipe first, then on from the largest.
    """

    tiny: bool = False
    fit: bool = False
    compat: bool = False
    seeds: int | None = None
    points: Sequence[str] | None = None
    settings: Sequence[str] = ()


PAPER = Form()


@dataclass(frozen=True)
class Recipe:
    """A figure or a table.

    title    what it shows
    checks   what the paper says one sees in it
    table    the experiment, as a file would say it
    shows    what is tabulated, of every algorithm at every point
    varied   what differs from point to point; nothing where the figure shows curves
    points   for each point its settings, as `--set` takes them
    note     where it cannot be as in the paper, and why
    chosen   what the paper does not say, and was chosen here
    tiny     settings under which it runs in seconds
    fit      a form that two cores finish in the time it says, where the paper's takes hours
    compat   what the authors' code did other than the paper says
    paper    the paper's own numbers: by point, label and reading
    tuned    whether its algorithms are run with several steps, and count with the best of them
    kind     how it is drawn: curves and sweeps, rows of a table, delays and their parts, a heat
             map, or who holds what
    """

    title: str
    checks: tuple[Check, ...]
    table: Mapping[str, Any]
    shows: tuple[Reading, ...]
    varied: str = ""
    points: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"": ()})
    note: str = ""
    chosen: str = ""
    tiny: Sequence[str] = DIGITS
    fit: Changed | None = None
    compat: Changed | None = None
    paper: Mapping[tuple[str, str, Reading], float] = field(default_factory=dict)
    tuned: bool = False
    kind: Kind = "figure"

    def tables(self, form: Form = PAPER) -> dict[str, Table]:
        """The experiment of each point, in the form that is asked for.

        A tiny one shows within seconds that everything works, and nothing about the claims: small
        data, a linear model, one seed, two points, few rounds.
        """
        known = list(self.table["seeds"])
        self._check_seeds(form)
        base = override({**self.table, "seeds": known[: 1 if form.tiny else None]}, [])
        changes = [
            *self._settings(form, "compat"),
            *self._settings(form, "fit"),
            *(self.tiny if form.tiny else ()),
        ]
        if form.seeds is not None:
            changes.append(f"seeds={first_seeds(known, form.seeds)}")
        chosen = self._points(form)
        before = {name: override(base, [*chosen[name], *changes]) for name in chosen}
        made = {name: override(table, form.settings) for name, table in before.items()}
        for one, other in combinations(made, 2):
            if made[one] == made[other] and before[one] != before[other]:
                raise ConfigError(
                    f"With --set {' --set '.join(form.settings)} the points {one} and {other} of "
                    f"{self.varied} are the same: it overwrites what the figure varies. Take one "
                    "of them by --point."
                )
        for name, table in made.items():
            table["title"] = f"{self.title}: {self.varied} {name}" if self.varied else self.title
            table["title"] += (
                " (tiny)" if form.tiny else " (smaller than the paper's)" if form.fit else ""
            )
        return made

    def found(self, runs: Mapping[str, Sequence[Run]]) -> Found:
        """The runs that count, for checks and tables."""
        return Found(at_best_steps(runs) if self.tuned else runs, self.varied, self.points)

    def said(self, form: Form) -> list[str]:
        """In words, how this form differs from the paper's."""
        lines = []
        if form.tiny:
            lines.append(
                "The tiny form: it shows that everything works, and nothing about the claims. "
                "Data, sizes and rounds below are those of the full form."
            )
        elif form.fit and self.fit is not None:
            lines.append(f"Smaller than the paper's: {self.fit.says}")
        elif self.fit is not None:
            lines.append("The paper's form, which takes long; --fit runs a smaller one.")
        if form.compat and self.compat is not None:
            lines.append(f"As in the authors' code: {self.compat.says}")
        if form.settings:
            lines.append(f"Changed by hand: {', '.join(form.settings)}.")
        if form.points is not None:
            lines.append(f"Only some of its points: {', '.join(form.points)}.")
        return [*lines, *(f"{text}" for text in (self.note, self.chosen) if text)]

    def _check_seeds(self, form: Form) -> None:
        if form.seeds is None:
            return
        if form.seeds < 1:
            raise ConfigError(f"--seeds must be at least 1, found {form.seeds}.")
        if listed := [setting for setting in form.settings if setting.startswith("seeds=")]:
            raise ConfigError(
                f"--seeds {form.seeds} says how many, --set {listed[0]} which ones. Give one of "
                "them."
            )

    def _points(self, form: Form) -> Mapping[str, Sequence[str]]:
        if form.points is not None:
            return {name: self.points[name] for each in form.points for name in self._named(each)}
        return dict(list(self.points.items())[:2]) if form.tiny else self.points

    def _named(self, name: str) -> list[str]:
        """The points of this name, in which * stands for anything."""
        if name in self.points:
            return [name]
        if not self.varied:
            raise ConfigError(
                "This figure has curves and no points to choose from. Leave --point out."
            )
        if "*" in name and (some := [point for point in self.points if fnmatchcase(point, name)]):
            return some
        raise ConfigError(
            f"There is no point '{name}' of {self.varied}. {nearest(name, self.points)}"
        )

    def _settings(self, form: Form, which: str) -> Sequence[str]:
        changed: Changed | None = getattr(self, which)
        if not getattr(form, which):
            return ()
        if changed is None:
            raise ConfigError(f"This recipe has no --{which} form. Leave --{which} out.")
        return changed.settings


def first_seeds(listed: Sequence[int], number: int) -> list[int]:
    """The first seeds of a list that never ends: after its largest all others follow.

    >>> first_seeds([42, 43], 4), first_seeds([42, 43], 1)
    ([42, 43, 44, 45], [42])
    """
    return [*listed, *islice(count(max(listed) + 1), max(0, number - len(listed)))][:number]
