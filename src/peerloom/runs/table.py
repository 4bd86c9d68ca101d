"""Tables of named NumPy columns: what a run measured, read and written as JSON lines.

A column of whole numbers is int64, one of numbers float64 with NaN where a value is missing, one
of text an object array, and one of lists of equal length a float64 array with two axes.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, require

if TYPE_CHECKING:
    import polars

__all__ = ["Table", "json_line", "read_json_lines", "read_parquet"]

Column = NDArray[Any]
Values = Sequence[Any] | Column


class Table:
    """Columns of equal length, by name.

    >>> table = Table({"round": [0, 10], "loss": [2.5, None]})
    >>> table["loss"]
    array([2.5, nan])
    >>> table.row(0)
    {'round': 0, 'loss': 2.5}
    """

    def __init__(self, columns: Mapping[str, Values]) -> None:
        self._columns = {name: _column(values) for name, values in columns.items()}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The columns of a table have different lengths: {lengths}.")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table from its rows; a key that a row does not have is a missing value."""
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self._columns)})"

    def row(self, index: int, *, named: bool = True) -> Any:
        """One row as a dictionary, or as a tuple; a negative index counts from the end."""
        one = slice(index, index + 1 or None)
        found = {name: column[one].tolist()[0] for name, column in self._columns.items()}
        return found if named else tuple(found.values())

    def rows(self) -> list[dict[str, Any]]:
        """All rows, as plain Python values."""
        values = zip(*(column.tolist() for column in self._columns.values()), strict=True)
        return [dict(zip(self._columns, row, strict=True)) for row in values]

    def with_column(self, name: str, values: Values) -> Table:
        """The same table with a column added or replaced."""
        return Table({**self._columns, name: values})

    def drop(self, *names: str) -> Table:
        """The same table without some columns."""
        return Table({name: column for name, column in self._columns.items() if name not in names})

    def append(self, row: Mapping[str, Any]) -> Table:
        """The same table with one more row."""
        return Table.of([*self.rows(), row])

    @staticmethod
    def concat(tables: Iterable[Table]) -> Table:
        """All rows of several tables; columns that a table does not have are missing there."""
        return Table.of(row for table in tables for row in table.rows())

    def equals(self, other: Table) -> bool:
        """Whether both have the same columns, in order, of the same types and values."""
        names = self.columns
        return names == other.columns and all(_same(self[name], other[name]) for name in names)

    def to_csv(self) -> str:
        """The table as CSV with a header; missing values are empty."""
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerow(self.columns)
        for row in self.rows():
            out.writerow("" if _missing(value) else value for value in row.values())
        return text.getvalue()

    def to_polars(self) -> polars.DataFrame:
        """The table as a polars DataFrame; missing numbers are null."""
        require("Table.to_polars", "tables", "polars")
        import polars

        numbers = [
            name
            for name, column in self._columns.items()
            if column.dtype == float and column.ndim == 1
        ]
        values = {name: list(map(_null, column.tolist())) for name, column in self._columns.items()}
        return polars.DataFrame(values, schema_overrides=dict.fromkeys(numbers, polars.Float64))

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        require("Table.to_pandas", "", "pandas")
        import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

        columns = self._columns.items()
        return pandas.DataFrame(
            {name: list(column) if column.ndim > 1 else column for name, column in columns}
        )


def json_line(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON: missing numbers are null, infinite ones 1e999."""
    pairs = (f"{json.dumps(name)}: {_json(value)}" for name, value in row.items())
    return "{" + ", ".join(pairs) + "}\n"


def read_json_lines(path: Path) -> Table:
    """The table of a file of JSON lines; a last line that was not finished is left out."""
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
        rows = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read ({error}). Delete the folder and run again."
        ) from error
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(
            f"{path} cannot be read (a line is no table row). Delete the folder and run again."
        )
    return Table.of(rows)


def read_parquet(path: Path) -> Table:
    """The table of a Parquet file, as runs of version 0.1 wrote them."""
    require(f"{path}, which Peerloom 0.1 wrote,", "tables", "polars")
    import polars

    try:
        found = polars.read_parquet(path, glob=False)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} cannot be read ({error}). Delete the folder and run again."
        ) from error
    return Table(found.to_dict(as_series=False))


def _column(values: Values) -> Column:
    """Values as a column of the narrowest of the four types that holds them all."""
    if isinstance(values, np.ndarray) and (
        values.dtype in (np.int64, np.float64) or values.dtype == object
    ):
        return values
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    known = [value for value in found if not _missing(value)]
    if (
        found
        and len(known) == len(found)
        and all(isinstance(value, int | np.integer) for value in known)
    ):
        return np.array(found, np.int64)
    if all(isinstance(value, int | float | np.number) for value in known):
        return np.array([math.nan if value is None else value for value in found], np.float64)
    if (
        all(isinstance(value, list | tuple | np.ndarray) for value in known)
        and len({len(value) for value in known}) == 1
    ):
        gone = [math.nan] * len(known[0])
        return np.array([gone if _missing(value) else value for value in found], np.float64)
    column = np.empty(len(found), object)
    column[:] = [None if _missing(value) else value for value in found]
    return column


def _same(one: Column, other: Column) -> bool:
    return one.dtype == other.dtype and np.array_equal(
        one, other, equal_nan=one.dtype == np.float64
    )


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _null(value: Any) -> Any:
    """A missing number, or a row of nothing but such, as None."""
    if isinstance(value, list):
        return None if all(map(_missing, value)) else value
    return None if _missing(value) else value


def _json(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    if _missing(value):
        return "null"
    if isinstance(value, float) and math.isinf(value):
        return (
            "1e999" if value > 0 else "-1e999"
        )  # a number of JSON that every reader takes for infinity
    return json.dumps(value)
