"""Samples that every site brings itself.

Here is what all sites agree on beforehand, and how a site's files become samples. Nothing needs a
number of another site: missing values and scales are constants of the experiment file.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, DataError, uniform
from .data import Dataset

__all__ = ["fill", "own", "read_samples"]

_MISSING = ("", "?", "na", "n/a", "nan", "null")  # what a CSV may hold in place of a number


def own(
    features: int | tuple[int, ...] | tuple[str, ...],
    classes: int,
    label: str | None = None,
    neutral: tuple[float, ...] | None = None,
    scale: tuple[float, ...] | None = None,
    test: float = 0.25,
) -> Dataset:
    """A place for samples that each site brings with `peerloom peer start --data`.

    It cannot be simulated. `features` is their number, their shape, or the names of a CSV's columns
    in the order of the model's inputs; `classes` is 0 where labels are real numbers; `label` names
    the label's column. Numbers of files become (number - neutral) / scale, and a missing one the
    neutral value. Files without a test part hold out the share `test`, by draws that depend on the
    number of samples alone.
    """
    shape, names = _features(features)
    if classes < 0 or classes == 1:
        raise ConfigError(f"own.classes is 2 at least, or 0 for real targets; found {classes}.")
    if not 0 <= test < 1:
        raise ConfigError(f"own.test is the share held out, from 0 to below 1; found {test}.")
    for what, values in (("neutral", neutral), ("scale", scale)):
        if values is not None and len(values) != shape[-1]:
            raise ConfigError(
                f"own.{what} has {len(values)} numbers for {shape[-1]} features. Give one for each."
            )
    if scale is not None and not all(value > 0 for value in scale):
        raise ConfigError(f"own.scale must be above 0, found {list(scale)}.")
    agreed = {
        "features": features,
        "classes": classes,
        "label": label,
        "neutral": neutral,
        "scale": scale,
        "test": test,
    }
    y = np.zeros(0, np.int64 if classes else np.float64)
    recipe, facts = {"name": "own", **agreed}, {**agreed, "columns": names}
    x = np.zeros((0, *shape), np.float32)
    return Dataset(x, y, classes, recipe=recipe, facts=facts, of_site=True)


def _features(
    given: int | tuple[int, ...] | tuple[str, ...],
) -> tuple[tuple[Any, ...], list[str]]:
    """The shape of a sample, and the names of its columns where they were given."""
    names = [name for name in given if isinstance(name, str)] if isinstance(given, tuple) else []
    shape = (given,) if isinstance(given, int) else (len(names),) if names else given
    if (
        not shape
        or any(not isinstance(size, int) or size < 1 for size in shape)
        or len(set(names)) < len(names)
    ):
        raise ConfigError(
            f"own.features is a number, a shape, or a list of different names; found {given!r}."
        )
    return shape, names


def fill(place: Dataset, samples: Dataset) -> Dataset:
    """The samples of a site in the place that an experiment has for them, if they fit."""
    if samples.x.shape[1:] != place.x.shape[1:]:
        raise DataError(
            f"The experiment is about samples of shape {list(place.x.shape[1:])}, but those of "
            f"this site have shape {list(samples.x.shape[1:])}. Bring the features that were "
            "agreed on, or ask for another file."
        )
    labels = [_labels(y, place.classes) for y in (samples.y, samples.test_y)]
    assert labels[0] is not None
    return Dataset(
        samples.x,
        labels[0],
        place.classes,
        samples.test_x,
        labels[1],
        "own",
        place.recipe,
        place.facts,
        of_site=True,
    )


def _labels(y: NDArray[Any] | None, classes: int) -> NDArray[Any] | None:
    if y is None or not classes:
        return None if y is None else y.astype(np.float64)
    wrong = (y != np.floor(y)) | (y < 0) | (y >= classes)
    if wrong.any():
        raise DataError(
            f"The experiment has {classes} classes, numbered from 0 to {classes - 1}, but "
            f"{int(wrong.sum())} of this site's labels are others, such as {y[wrong][0]}. Number "
            "them as was agreed on."
        )
    return y.astype(np.int64)


def read_samples(place: Dataset, path: Path, label: str = "") -> Dataset:
    """Read a site's .csv or .npz file, centred and scaled as the experiment says."""
    if not path.is_file():
        raise DataError(
            f"There is no file {path}. Give --data a .csv or .npz file, or module:function."
        )
    parts = (
        _npz(path)
        if path.suffix == ".npz"
        else _csv(place, path, label or place.facts["label"] or "")
    )
    given = [(_scaled(place, x, path), y) for x, y in parts]
    if len(given) == 1:
        given = _held_out(*given[0], share=place.facts["test"])
    (x, y), (test_x, test_y) = given if len(given) == 2 else (given[0], (None, None))
    # Labels are judged when they are put in place; here only that they are numbers.
    return Dataset(x, y, 0, test_x, test_y, path.name)


def _npz(path: Path) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as .npz of plain numbers ({error}).") from error
    pairs = [("x", "y"), *([("test_x", "test_y")] if "test_x" in found else [])]
    for name in (name for pair in pairs for name in pair):
        if name not in found or found[name].dtype.kind not in "biuf":
            raise DataError(
                f"{path} needs arrays of numbers x and y, and may have test_x and test_y; "
                f"'{name}' is not there."
            )
    return [(found[x].astype(np.float64), found[y].astype(np.float64)) for x, y in pairs]


def _csv(place: Dataset, path: Path, label: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    table = _Csv.read(path)
    names = ", ".join(table.columns)
    if not label:
        raise DataError(
            f"Which column of {path} is the label? Name it: --label NAME. Columns: {names}."
        )
    columns = place.facts["columns"] or [name for name in table.columns if name != label]
    if absent := [name for name in (label, *columns) if name not in table.columns]:
        raise DataError(f"{path} has no column '{absent[0]}'. It has: {names}.")
    if len(columns) != place.x.shape[1]:
        raise DataError(
            f"The experiment has {place.x.shape[1]} features, but {path} has {len(columns)} "
            f"columns beside '{label}': {', '.join(columns)}."
        )
    x = np.stack([table.numbers(name) for name in columns], axis=1)
    y = table.numbers(label)
    if np.isnan(y).any():
        line = table.lines[np.flatnonzero(np.isnan(y))[0]]
        raise DataError(f"{path}, line {line}: the label is missing. Leave such lines out.")
    return [(x, y)]


@dataclass(frozen=True)
class _Csv:
    """The texts of a CSV file with a header, column by column."""

    path: Path
    columns: dict[str, tuple[str, ...]]
    lines: list[int]  # where in the file each row ends

    @classmethod
    def read(cls, path: Path) -> _Csv:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, strict=True)
                header = next(reader, [])
                rows, lines = [], []
                for row in filter(None, reader):  # without empty lines
                    if len(row) != len(header):
                        raise DataError(
                            f"{path} cannot be read as CSV with a header: line {reader.line_num} "
                            f"has {len(row)} fields, the header {len(header)}."
                        )
                    rows.append(row)
                    lines.append(reader.line_num)
        except (csv.Error, OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as CSV with a header: {error}.") from error
        if not header or len(set(header)) < len(header):
            found = "two columns have the same name" if header else "it is empty"
            raise DataError(f"{path} cannot be read as CSV with a header: {found}.")
        texts = zip(*rows, strict=True) if rows else ((),) * len(header)
        return cls(path, dict(zip(header, texts, strict=True)), lines)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """One column as numbers; a missing one is NaN."""
        texts = self.columns[column]
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:  # a text among them is no number, or stands for a missing one
            return np.array([self._number(column, k, text) for k, text in enumerate(texts)])

    def _number(self, column: str, k: int, text: str) -> float:
        try:
            return math.nan if text.strip().lower() in _MISSING else float(text)
        except ValueError:
            raise DataError(
                f"{self.path}, line {self.lines[k]}, column '{column}': '{text}' is no number. "
                "Leave missing numbers empty."
            ) from None


def _scaled(place: Dataset, x: NDArray[Any], path: Path) -> NDArray[np.float32]:
    neutral, scale = place.facts["neutral"], place.facts["scale"]
    if x.shape[1:] == place.x.shape[1:]:
        x = (x - np.asarray(0.0 if neutral is None else neutral)) / np.asarray(
            1.0 if scale is None else scale
        )
    gone = np.isnan(x)
    if gone.any() and neutral is None:
        raise DataError(
            f"{path} has {int(gone.sum())} missing values, and the experiment does not say what "
            "stands for them. Add `neutral`, one number per feature, to the file's data (the "
            "same file at every site), or leave such samples out."
        )
    return np.where(gone, 0.0, x).astype(np.float32)


def _held_out(
    x: NDArray[Any], y: NDArray[Any], share: float
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    if not share or len(y) < 2:
        return [(x, y)]
    order = np.argsort(uniform(0, "data/own", 0, np.arange(len(y)))[:, 0], kind="stable")
    held, kept = (np.sort(part) for part in np.split(order, [max(1, round(share * len(y)))]))
    return [(x[kept], y[kept]), (x[held], y[held])]
