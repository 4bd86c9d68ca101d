"""What pictures of readings share: axes, names, and rows of dots."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from ..reports.picture import Dot, Dots, Picture
from ..reports.scales import Along, Unit, spans_decades
from .readings import Found, Reading, middle, quartiles, words_of

__all__ = ["QUARTILES", "Paper", "along_of", "dots_panel", "logged", "name_of", "table_picture"]

Paper = Mapping[tuple[str, str, Reading], float]  # a paper's numbers by point, label and reading

QUARTILES = "band: quartiles over seeds"


def table_picture(title: str, found: Found, reading: Reading, paper: Paper) -> Picture:
    """A row per point, a dot per algorithm."""
    dots = [
        Dot(point, label, middle(values), *quartiles(values), paper.get((point, label, reading)))
        for point in found.points
        for label in found.labels(point)
        if (values := list(found.values(point, label, reading).values()))
    ]
    band = QUARTILES.replace("band", "line") if found.seeds > 1 else ""
    return Picture(
        name_of(reading), f"{title}: {reading.words}", [dots_panel("", dots, reading.metric)], band
    )


def dots_panel(title: str, dots: Sequence[Dot], metric: str) -> Dots:
    """Rows of dots of a column."""
    along = along_of(metric)
    values = [
        value
        for dot in dots
        for value in (dot.value, dot.low, dot.high, dot.paper)
        if value is not None
    ]
    return Dots(title, dots, dataclasses.replace(along, log=logged(values, along)))


def along_of(metric: str) -> Along:
    """The axis of a column."""
    unit: Unit = "%" if "accuracy" in metric else "B" if metric.endswith("bytes") else ""
    return Along(words_of(metric), log=metric == "consensus", unit=unit)


def logged(values: Sequence[float], along: Along) -> bool:
    """Whether an axis for these values should be logarithmic."""
    return along.log or (along.unit != "%" and spans_decades(values))


def name_of(reading: Reading) -> str:
    """A reading as the name of a file."""
    return re.sub(r"[^a-z0-9.]+", "-", reading.words.lower()).strip("-")
