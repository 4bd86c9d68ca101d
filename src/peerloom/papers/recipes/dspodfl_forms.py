"""The two kinds of DSpodFL's figures, curves and sweeps, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...reports.groups import column
from ...runs import Run
from ...sweeps.readings import Found, Reading
from . import dspodfl_words as words
from .checks import Check, Part
from .claims import Source, ahead, by_seed, steady
from .dspodfl_settings import (
    CHOSEN,
    COMPAT,
    FIT_CURVES,
    FIT_SWEEPS,
    RULES,
    SCRATCH,
    TINY,
    Table,
)
from .recipe import Recipe

__all__ = [
    "ALONG", "END", "EQUAL", "ROBUST", "SOMEWHERE", "any_step", "best", "curves", "early",
    "recipe", "sweep",
]  # fmt: skip

END = Reading("mean_accuracy")
EQUAL = Reading("mean_accuracy", "common", "delay")
ALONG = Reading("mean_accuracy", "along", "delay")
ROBUST = steady("DSpodFL", END, "DSpodFL is the most robust", **words.ROBUST)


def recipe(
    title: str,
    checks: Sequence[Check],
    table: Table,
    shows: Sequence[Reading],
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
        tuple(shows),
        varied,
        points or {"": ()},
        note=" ".join(filter(None, [SCRATCH if large else "", note])),
        chosen=CHOSEN,
        tiny=TINY,
        fit=(FIT_SWEEPS if varied else FIT_CURVES) if large else None,
        compat=COMPAT,
    )


def curves(
    title: str, table: Table, says: Source | None, lead: Check | None = None, note: str = ""
) -> Recipe:
    """Accuracy against delay; `says` that DSpodFL is above, `lead` what it leads by on the way."""
    checks = [*(_outperforms(says) if says else []), *([lead] if lead else [])]
    note = note if checks else f"{note} {_SHOWN}".strip()
    return recipe(title, checks, table, (EQUAL, ALONG), note=note)


_SHOWN = "The paper shows this without saying anything about it."


def _outperforms(says: Source) -> list[Check]:
    """Above all others where the first of them ends, and in the mean on the way there."""
    return [
        ahead("DSpodFL", EQUAL, "DSpodFL is above all others at equal delay", **says),
        ahead(
            "DSpodFL",
            ALONG,
            "DSpodFL is above all others in the mean over the delay",
            name="ahead along",
            **says,
        ),
    ]


def early(delay: float) -> Check:
    """IID data: DSpodFL leads each other by ten points after a fortieth of the delay."""
    return ahead(
        "DSpodFL",
        Reading("mean_accuracy", delay / 40, "delay"),
        "DSpodFL leads by 10 to 20 points early on",
        name="early lead",
        by=0.1,
        **words.EARLY,
    )


def best(says: Source) -> Check:
    """Of a sweep: DSpodFL is above the others throughout."""
    return ahead("DSpodFL", END, "DSpodFL is the most accurate at every value", **says)


def sweep(
    title: str, table: Table, varied: str, points: dict[str, list[str]], *checks: Check
) -> Recipe:
    """Accuracy at the end of each run, where the delay first exceeds the paper's.

    As in the authors' code it is judged nowhere else; on the way, judging a linear model would take
    longer than its run.
    """
    ends = table | {"evaluate": {"every": table["rounds"]}}
    return recipe(title, checks, ends, (END,), varied, points, "" if checks else _SHOWN)


def any_step(points: Sequence[str], *ours: str) -> Check:
    """DSpodFL with these steps beats the others with whatever step is best for them."""

    def lead(some: Sequence[float]) -> float:
        return some[0] - max(some[1:])

    def parts(found: Found) -> list[Part]:
        rivals = [found.values(p, label, END) for p in points for label in RULES[1:]]
        return [
            Part(
                f"step {point}",
                by_seed(lead, [found.values(point, "DSpodFL", END), *rivals]),
                "above",
                0.0,
            )
            for point in ours
        ]

    claim = f"DSpodFL with step {' or '.join(ours)} beats every other at its best step"
    what = "DSpodFL against the best other at any step"
    return Check("any step", claim, what, parts, "points", **words.BEST_STEP)


def _leads(found: Found) -> list[Part]:
    """The largest lead over each of the others, at any delay that both reached."""
    made = []
    for point in found.planned:
        runs = found.runs.get(point, {})
        for label in RULES[1:]:
            ours, theirs = runs.get("DSpodFL", {}), runs.get(label, {})
            leads = tuple(
                _largest_lead(ours[seed], theirs[seed]) for seed in ours if seed in theirs
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
    **words.SOMEWHERE,
)
