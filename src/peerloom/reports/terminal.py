"""The summary in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..measures import own_metrics
from .groups import ACCURACY, LOSS, Quality
from .summary import Final, Summary
from .targets import Reach
from .wording import count_of, number, size

__all__ = ["render"]


def render(summary: Summary) -> RenderableType:
    """Headline, final figures, delays to targets and notes; no text is read as markup."""
    quality = ACCURACY if summary.quality == ACCURACY.name else LOSS
    parts: list[RenderableType] = [Text(sentence) for sentence in summary.headline]
    parts.append(_finals(summary, quality))
    if summary.targets:
        parts.append(_reaches(summary, quality))
    parts += [Text(note, style="yellow") for note in summary.notes]
    return Group(*parts)


def _finals(summary: Summary, quality: Quality) -> Table:
    table = Table(title="At the end, median over seeds", title_justify="left", title_style="bold")
    table.add_column("algorithm", overflow="fold")
    at = "" if summary.equal_delay is None else f"at delay {number(summary.equal_delay)}"
    measured = summary.final[0].figures if summary.final else ()
    own = [name for name in own_metrics(measured) if name != quality.name]
    for name in ("seeds", "rounds", quality.name, *([at] if at else []), *own, "delay", "sent"):
        table.add_column(Text(name), justify="right")
    equal = {one.label: one.value.median for one in summary.at_equal_delay}
    for one in summary.final:
        medians = {name: figure.median for name, figure in one.figures.items()}
        row = [_seeds(one), number(medians["round"]), quality.text(medians[quality.own])]
        row += [quality.text(equal.get(one.label))] if at else []
        row += [number(medians[f"mean_{name}"]) for name in own]
        row += [number(medians["delay"]), size(medians["bytes"])]
        table.add_row(Text(one.label), *row)
    return table


def _seeds(one: Final) -> str:
    return (
        f"{len(one.seeds)} ({one.unfinished} unfinished)" if one.unfinished else str(len(one.seeds))
    )


def _reaches(summary: Summary, quality: Quality) -> Table:
    table = Table(
        title=f"Delay to reach {quality.name}, median over seeds",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("algorithm", overflow="fold")
    for target in summary.targets:
        table.add_column(quality.text(target), justify="right")
    for label in dict.fromkeys(one.label for one in summary.reach):
        mine = [one for one in summary.reach if one.label == label]
        table.add_row(Text(label), *(_delay(one) for one in mine))
    return table


def _delay(one: Reach) -> str:
    if not one.reached:
        return "not reached"
    partly = "" if one.reached == one.seeds else f"{one.reached} of {count_of([one.seeds], 'seed')}"
    if one.delay.median is None:
        return partly
    return f"{number(one.delay.median)} ({partly})" if partly else number(one.delay.median)
