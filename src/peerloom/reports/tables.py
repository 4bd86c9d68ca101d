"""The tables of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ..measures import meaning
from .colours import Colours
from .groups import ACCURACY, LOSS, Quality
from .summary import Summary
from .targets import Reach, Spread
from .wording import duration, number, percent, size

__all__ = ["equal_table", "final_table", "quality_named", "reach_table", "swatch", "table"]

# How the columns of the final figures are called and written.
_WRITTEN: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "round": ("rounds", number),
    "mean_accuracy": ("accuracy, own models", percent),
    "average_accuracy": ("accuracy, averaged model", percent),
    "mean_loss": ("loss", number),
    "average_train_loss": ("training loss, averaged model", number),
    "consensus": ("consensus error", number),
    "delay": ("delay, as run", number),
    "delay_normalised": ("delay, normalised", number),
    "bytes": ("sent", size),
    "messages": ("messages", number),
    "gradients": ("gradients", number),
    "seconds": ("wall time", duration),
}


def quality_named(name: str) -> Quality:
    """The quality by which a summary judges models."""
    return ACCURACY if name == ACCURACY.name else LOSS


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are HTML already; the first cell of a row is its name."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = [(row[0], "".join(f"<td>{cell}</td>" for cell in row[1:])) for row in rows]
    body = "".join(f'<tr><th scope="row">{name}</th>{cells}</tr>' for name, cells in lines)
    parts = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{parts}</table></div>'


def swatch(label: str, colours: Colours) -> str:
    """An algorithm's name with its colour."""
    colour, dashes = colours[label]
    gaps = f"repeating-linear-gradient(90deg, {colour} 0 3px, transparent 3px 5px)"
    background = gaps if dashes else colour
    return f'<span class="swatch" style="background:{background}"></span>{escape(label)}'


def reach_table(summary: Summary, colours: Colours) -> str:
    """Delay to each target: overall, then its parts, then the range."""
    quality = quality_named(summary.quality)
    head = [
        "algorithm",
        *(escape(f"{quality.name} {quality.text(target)}") for target in summary.targets),
    ]
    soonest = {target: _soonest(summary.reach, target) for target in summary.targets}
    rows = []
    for final in summary.final:
        mine = {one.target: one for one in summary.reach if one.label == final.label}
        cells = [
            _reach_cell(mine[target], mine[target].delay.median == soonest[target])
            for target in summary.targets
        ]
        rows.append([swatch(final.label, colours), *cells])
    return table(head, rows, "reach")


def final_table(summary: Summary, colours: Colours) -> str:
    """All figures at the last evaluation."""
    head = ["at the end"]
    for one in summary.final:
        late = (
            f'<small class="warn">{one.unfinished} of {len(one.seeds)} unfinished</small>'
            if one.unfinished
            else ""
        )
        head.append(swatch(one.label, colours) + late)
    rows = []
    for name in summary.final[0].figures if summary.final else ():
        if any(one.figures[name].count for one in summary.final):
            words, written = _WRITTEN.get(name) or (_own_words(name), number)
            cells = [_spread_cell(one.figures[name], written) for one in summary.final]
            shown = f'<span title="{escape(meaning(name))}">{escape(words)}</span>'
            rows.append([shown, *cells])
    return table(head, rows, "final")


def equal_table(summary: Summary, colours: Colours) -> str:
    """The quality at the same delay: median, and each seed alone."""
    quality = quality_named(summary.quality)
    seeds = list(dict.fromkeys(seed for one in summary.at_equal_delay for seed in one.by_seed))
    medians = [one.value.median for one in summary.at_equal_delay if one.value.median is not None]
    best = (max if quality.higher else min)(medians, default=None)
    rows = []
    for one in summary.at_equal_delay:
        middle = quality.text(one.value.median)
        first = f"<b>{middle}</b>" if one.value.median == best else middle
        each = [quality.text(one.by_seed.get(seed)) for seed in seeds]
        rows.append([swatch(one.label, colours), first, *each, quality.text(one.averaged.median)])
    head = [
        "algorithm",
        "median",
        *(escape(f"seed {seed}") for seed in seeds),
        "averaged model, median",
    ]
    return table(head, rows)


def _own_words(column: str) -> str:
    """A column of what the problem measures besides, as the others are called."""
    which, _, name = column.partition("_")
    return f"{name}, {'own models' if which == 'mean' else 'averaged model'}"


def _soonest(reached: Sequence[Reach], target: float) -> float | None:
    medians = [
        one.delay.median for one in reached if one.target == target and one.delay.median is not None
    ]
    return min(medians, default=None)


def _reach_cell(one: Reach, best: bool) -> str:
    if not one.reached:
        return '<span class="none">not reached</span>'
    partly = (
        ""
        if one.reached == one.seeds
        else f'<small class="warn">{one.reached} of {one.seeds} seeds</small>'
    )
    low, high = number(one.delay.low), number(one.delay.high)
    span = low if low == high else f"{low} to {high}"
    if one.delay.median is None:
        return f"{partly}<small>{span}</small>"
    overall = f"<b>{number(one.delay.median)}</b>" if best else number(one.delay.median)
    parts = f"<small>{number(one.processing)} + {number(one.transmission)}</small>"
    return overall + parts + (f"<small>{span}</small>" if low != high else "") + partly


def _spread_cell(figure: Spread, written: Callable[[float | None], str]) -> str:
    if figure.low is None or figure.low == figure.high:
        return written(figure.median)
    low, high = written(figure.low), written(figure.high)
    unit = low.rpartition(" ")[2]
    if " " in low and high.endswith(f" {unit}"):  # the unit once is enough
        low = low.removesuffix(f" {unit}")
    return f"{written(figure.median)}<small>{low} to {high}</small>"
