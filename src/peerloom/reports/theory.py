"""What theory predicted of the runs, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ..runs import Run
from .colours import Colours
from .groups import Group, column
from .tables import swatch, table
from .wording import number

__all__ = ["measured_floor", "theory_table"]


def theory_table(groups: Sequence[Group], colours: Colours) -> str:
    """One row per algorithm: contraction, floors and the theorem, predicted and measured."""
    head = [
        "algorithm",
        "left of disagreement",
        "consensus error",
        "loss above the optimum",
        "theorem",
    ]
    rows = [[swatch(group.label, colours), *_cells(group.runs)] for group in groups]
    filled = [k for k in range(len(head)) if any(row[k] not in ("", "n/a") for row in rows)]
    return table([head[k] for k in filled], [[row[k] for k in filled] for row in rows], "theory")


def measured_floor(run: Run, name: str) -> float | None:
    """The mean of a column over the last quarter of the evaluations; None if not measured."""
    values = column(run, name)
    late = values[-max(1, len(values) // 4) :]
    late = late[np.isfinite(late)]
    return float(late.mean()) if len(late) else None


def _cells(runs: Sequence[Run]) -> list[str]:
    advised = [run for run in runs if run.advice]
    if not advised:
        return ["", "", "", "no prediction was kept"]
    skipped = [text for run in advised for text in run.advice.get("skipped", [])]
    if all("contraction" not in run.advice for run in advised):
        return [
            "",
            _pair(None, _median(runs, lambda run: measured_floor(run, "consensus"))),
            "",
            escape("; ".join(skipped[:1])),
        ]
    return [
        _pair(
            _median(advised, lambda run: _agreeing(run.advice["contraction"])),
            _median(advised, lambda run: _number(run.advice["contraction"]["drawn"])),
            measure="as links fired",
        ),
        _pair(
            _median(advised, lambda run: _floor(run, "consensus")),
            _median(advised, lambda run: measured_floor(run, "consensus")),
            bound=not advised[0].advice.get("exact"),
        ),
        _pair(_median(advised, lambda run: _floor(run, "excess")), _median(advised, _excess)),
        _theorem(advised[0].advice),
    ]


def _pair(
    predicted: float | None,
    measured: float | None,
    *,
    bound: bool = False,
    measure: str = "measured",
) -> str:
    """A cell with the prediction above the measurement."""
    first = (
        ""
        if predicted is None
        else f"{'at most ' if bound else ''}{number(predicted)}<small>predicted</small>"
    )
    second = "" if measured is None else f"{number(measured)}<small>{measure}</small>"
    return first + second or "n/a"


def _agreeing(contraction: Mapping[str, Any]) -> float | None:
    """What a round leaves at the most, or else in the long run."""
    most = _number(contraction["per_round"])
    return _number(contraction.get("lasting")) if most is None else most


def _floor(run: Run, name: str) -> float | None:
    exact, bounded = run.advice.get("exact") or {}, run.advice.get("floor") or {}
    return _number(exact.get(name, bounded.get(name)))


def _excess(run: Run) -> float | None:
    least, found = run.advice.get("optimum_loss"), measured_floor(run, "average_loss")
    return None if least is None or found is None else found - least


def _theorem(advice: Mapping[str, Any]) -> str:
    if advice.get("holds"):
        return escape(str(advice["theorem"]))
    return f"none<small>{escape('; '.join(advice.get('fails', [])))}</small>"


def _median(runs: Sequence[Run], of: Callable[[Run], float | None]) -> float | None:
    known = [value for run in runs if (value := of(run)) is not None]
    return float(np.median(known)) if known else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
