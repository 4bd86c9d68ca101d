"""The two kinds of DSpodFL's figures, curves and sweeps, and what is claimed of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...reports.groups import column
from ...runs import Run
from ...sweeps.readings import Found, Reading
from .checks import Check, Part
from .claims import ahead, steady
from .dspodfl_settings import CHOSEN, COMPAT, FIT, SCRATCH, TINY, Table
from .recipe import Recipe

__all__ = ["END", "EQUAL", "ROBUST", "SOMEWHERE", "any_step", "curves", "early", "recipe", "sweep"]

END = Reading("mean_accuracy")
EQUAL = Reading("mean_accuracy", "common", "delay")
ROBUST = steady("DSpodFL", END, "DSpodFL is the most robust")


def recipe(
    title: str,
    checks: Sequence[Check],
    table: Table,
    shows: Reading,
    varied: str = "",
    points: Mapping[str, Sequence[str]] | None = None,
    note: str = "",
) -> Recipe:
    """A recipe of section 5; that of VGG-11 has a smaller form as well."""
    large = table["problem"]["model"] == "vgg11"
    return Recipe(
        title,
        tuple(checks),
        table,
        (shows,),
        varied,
        points or {"": ()},
        note=" ".join(filter(None, [SCRATCH if large else "", note])),
        chosen=CHOSEN,
        tiny=TINY,
        fit=FIT if large else None,
        compat=COMPAT,
    )


def curves(title: str, table: Table, lead: Check | None = None, note: str = "") -> Recipe:
    """Accuracy against delay, and what the paper says about the lead on the way."""
    checks = [ahead("DSpodFL", EQUAL, "DSpodFL is above all others at equal delay")]
    return recipe(title, [*checks, *([lead] if lead else [])], table, EQUAL, note=note)


def early(delay: float) -> Check:
    """IID data: DSpodFL leads each other by ten points after a fortieth of the delay."""
    soon = Reading("mean_accuracy", delay / 40, "delay")
    return ahead(
        "DSpodFL", soon, "DSpodFL leads by 10 to 20 points early on", name="early lead", by=0.1
    )


def sweep(
    title: str,
    table: Table,
    varied: str,
    points: dict[str, list[str]],
    *more: Check,
    best: bool = True,
) -> Recipe:
    """Accuracy at the end of each run, where the delay first exceeds the paper's.

    As in the authors' code it is judged nowhere else; on the way, judging a linear model would take
    longer than its run. With `best` the paper says of it, or of all sweeps of its kind, that
    DSpodFL is above the others throughout.
    """
    above = [ahead("DSpodFL", END, "DSpodFL is the most accurate at every value")] if best else []
    ends = table | {"evaluate": {"every": table["rounds"]}}
    note = "" if above or more else "The paper shows this without saying anything about it."
    return recipe(title, [*above, *more], ends, END, varied, points, note)


def any_step(*points: str) -> Check:
    """DSpodFL with these steps beats the others with whatever step is best for them."""

    def parts(found: Found) -> list[Part]:
        rivals = [
            found.values(p, label, END)
            for p in found.points
            for label in found.labels(p)
            if label != "DSpodFL"
        ]
        made = []
        for point in points:
            mine = found.values(point, "DSpodFL", END)
            others = {
                seed: max((of[seed] for of in rivals if seed in of), default=math.nan)
                for seed in mine
            }
            made.append(
                Part(
                    f"step {point}", tuple(mine[seed] - others[seed] for seed in mine), "above", 0.0
                )
            )
        return made

    claim = f"DSpodFL with step {' or '.join(points)} beats every other at its best step"
    return Check("any step", claim, "DSpodFL against the best other at any step", parts, "points")


def _leads(found: Found) -> list[Part]:
    """The largest lead over each of the others, at any delay that both reached."""
    made = []
    for point in found.points:
        for label in found.labels(point):
            if label != "DSpodFL":
                pairs = [
                    (run, found.runs[point][label].get(seed))
                    for seed, run in found.runs[point]["DSpodFL"].items()
                ]
                leads = tuple(
                    _largest_lead(ours, theirs) for ours, theirs in pairs if theirs is not None
                )
                made.append(Part(f"over {label}", leads, "above", 0.1))
    return made


def _largest_lead(ours: Run, theirs: Run) -> float:
    (x, y), (other_x, other_y) = (
        (column(run, "delay"), column(run, "mean_accuracy")) for run in (ours, theirs)
    )
    both = x <= other_x[-1]
    return float((y[both] - np.interp(x[both], other_x, other_y)).max())


SOMEWHERE = Check(
    "lead somewhere",
    "DSpodFL leads each other by 10 to 40 points at some delay",
    "largest lead at any delay, more than 10 points",
    _leads,
    "points",
)
