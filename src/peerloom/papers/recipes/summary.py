"""Outcomes of many reproductions in words and tables, for pages of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .intervals import LOOKS
from .recipe import Recipe
from .same_runs import distinct

__all__ = [
    "ESTIMATED",
    "MISSING",
    "READ",
    "SAME",
    "SUMMARY",
    "TIMED",
    "TIMES",
    "VERDICTS",
    "counted",
    "figure_of",
    "first_forms",
    "form_of",
    "not_run",
    "notes",
    "numbers_table",
    "papers",
    "summary_rows",
    "time_rows",
    "title",
    "verdict_rows",
]

_COMPAT = "with what the authors' code did"
_FORMS = {"paper": "as in the paper", "fit": "smaller", "tiny": "tiny, nothing decided"}

VERDICTS = ("claim", "verdict", "interval", "seeds", "measured")
READ = (
    "A claim holds or fails where a 95 % interval for the median over seeds lies on one side of "
    "its limit. Where it lies on both, or there are fewer than "
    f"{LOOKS[0]} seeds, it is not decided here. A claim about many places holds with all of them "
    "and fails with one: the weakest is named. A lead is positive where the claim has it so, also "
    "of losses and delays. Delays are those of the algorithm's own account, a communication round "
    "is one in which every client hears. Trackers and directions are DEPOSITUM's y and nu."
)
SUMMARY = (
    *("figure", "claim", "the paper's words", "verdict"),
    *("interval", "seeds", "form", "command"),
)
SAME = "These are the same runs, and count once:"
MISSING = "Not run here"
ESTIMATED = "How long others take"
TIMED = (
    "A few rounds were timed on this machine, the rest counted: hours of one core, for runs one "
    "after another."
)
TIMES = ("command", "runs", "rounds, in all runs", "hours")


def papers(found: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The outcomes of each paper."""
    made: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        made.setdefault(one["paper"], []).append(one)
    return made


def first_forms(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each figure one outcome: the paper's own form, where it was run.

    A figure that was run in several forms, or with several settings, counts once.
    """
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found:
        key = one["paper"], one["figure"]
        if key not in made or _further(one) < _further(made[key]):
            made[key] = one
    return list(made.values())


def _further(one: dict[str, Any]) -> tuple[int, bool, int, int]:
    """How far an outcome's form is from the paper's."""
    forms = list(_FORMS)
    return forms.index(one["form"]), one["compat"], len(one["settings"]), -one["points"][0]


def not_run(
    found: Iterable[dict[str, Any]], there: Mapping[str, Mapping[str, Recipe]]
) -> list[str]:
    """Paper by paper, the figures and tables that were not run."""
    run = {(one["paper"], one["figure"]) for one in found}
    rest = {
        paper: [name for name in recipes if (paper, name) not in run]
        for paper, recipes in there.items()
    }
    return [f"{paper}: {', '.join(names)}" for paper, names in rest.items() if names]


def counted(found: Sequence[dict[str, Any]]) -> str:
    """How many were run, and how their claims came out: what is the same counts once."""
    first = first_forms(found)
    verdicts = {
        (verdict["what"], tuple(sorted(set(one["ran"].values())))): verdict["answer"]
        for one in first
        for verdict in one["verdicts"]
    }
    every = sum(len(one["verdicts"]) for one in first)
    counts = Counter(verdicts.values())
    points, different = distinct(first)
    again = len(found) - len(first)
    return " ".join(
        [
            f"Figures and tables run: {len(first)}"
            + (f", {again} times one of them again in another form." if again else "."),
            f"Points run: {points}"
            + (f", of which {different} are different runs." if different < points else "."),
            f"Claims: {len(verdicts)}"
            + (f", and {every - len(verdicts)} once more" if len(verdicts) < every else "")
            + f", of which hold: {counts['holds']}, do not hold: {counts['does not hold']}, not "
            f"decided here: {counts['not decided here']}.",
        ]
    )


def title(one: dict[str, Any]) -> str:
    """The title of an outcome's section."""
    compat = f", {_COMPAT}" if one["compat"] else ""
    return f"{one['paper']} {one['figure']}{compat}: {one['title']}"


def figure_of(one: dict[str, Any]) -> str:
    """The name under which a figure has a page."""
    return f"{one['paper']}-{one['figure']}"


def verdict_rows(one: dict[str, Any]) -> list[list[str]]:
    """A row for every claim, under the heads of VERDICTS."""
    return [
        [v["claim"], v["answer"], v["interval"], _seeds(v), "; ".join(_measured(v))]
        for v in one["verdicts"]
    ]


def summary_rows(found: Iterable[dict[str, Any]]) -> list[list[str]]:
    """A row for every claim of these outcomes, under the heads of SUMMARY."""
    return [
        [
            one["figure"],
            verdict["claim"],
            _sources(verdict),
            verdict["answer"],
            "; ".join(filter(None, [verdict["interval"], verdict["where"]])),
            _seeds(verdict),
            form_of(one),
            one["command"],
        ]
        for one in found
        for verdict in one["verdicts"]
    ]


def _measured(verdict: dict[str, Any]) -> list[str]:
    halves = "the halves of the seeds contradict each other" if verdict["opposed"] else ""
    return [text for text in (verdict["what"], verdict["where"], halves) if text]


def _sources(verdict: dict[str, Any]) -> str:
    """The paper's words for a claim, and where they stand."""
    words = f"\u201c{verdict['words']}\u201d" if verdict["words"] else ""
    place = f"({verdict['place']})" if verdict["place"] else ""
    return " ".join(filter(None, [words, place]))


def _seeds(verdict: dict[str, Any]) -> str:
    """The seeds that decide, and those that were run beyond them."""
    more = verdict["seeds"] > verdict["judged"] > 0
    return f"{verdict['judged']} of {verdict['seeds']}" if more else str(verdict["judged"])


def form_of(one: dict[str, Any]) -> str:
    """In what form a figure was run."""
    run, there = one["points"]
    said = [_FORMS[one["form"]], *([_COMPAT] if one["compat"] else [])]
    said += [", ".join(one["settings"])] if one["settings"] else []
    said += [f"{run} of {there} points"] if run < there else []
    return ", ".join(said)


def notes(one: dict[str, Any]) -> list[str]:
    """What is to be said of an outcome, beside its verdicts."""
    diverged = f"; {one['diverged']} runs diverged" if one["diverged"] else ""
    spent = f"Seconds of rounds, without evaluation: {one['seconds']:,.0f}{diverged}."
    return [
        *one["said"],
        *(["The recipe has other settings now than these runs."] if one.get("stale") else []),
        *([f"Seeds were added until {one['why']}."] if one["why"] else []),
        *(f"Why claims fail: {reason}" for reason in one["reasons"]),
        f"Seeds: {one['seeds']}. {spent}",
    ]


def time_rows(estimates: Iterable[dict[str, Any]]) -> list[list[str]]:
    """A row for every estimate, under the heads of TIMES."""
    return [
        [
            one["command"],
            str(sum(part["runs"] for part in one["parts"])),
            f"{sum(part['runs'] * part['rounds'] for part in one['parts']):,}",
            f"{one['seconds'] / 3600:,.1f}",
        ]
        for one in estimates
    ]


def numbers_table(one: dict[str, Any], apart: str = " ") -> tuple[list[str], list[list[str]]]:
    """A row for each point and reading, a column per algorithm: what was measured over seeds.

    `apart` stands between the median with its quartiles, the mean with its deviation, and the
    paper's number.
    """
    labels = list(dict.fromkeys(number["label"] for number in one["numbers"]))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in one["numbers"]:
        cell = apart.join(_cells(number))
        rows.setdefault((number["point"], number["what"]), {})[number["label"]] = cell
    heads = [one["varied"] or "", "median (quartiles); mean \u00b1 deviation [paper]", *labels]
    return heads, [
        [point, what, *(cells.get(label, "") for label in labels)]
        for (point, what), cells in rows.items()
    ]


def _cells(number: dict[str, Any]) -> list[str]:
    share = number["share"]
    median = "never" if number["never"] else _value(number["median"], share)
    cells = [median]
    if number["seeds"] > 1:
        low, high = (_value(number[end], share) for end in ("low", "high"))
        cells = [f"{median} ({low} to {high});"]
        mean, deviation = (_value(number[name], share) for name in ("mean", "deviation"))
        known = number["mean"] is not None
        cells.append(f"{mean} \u00b1 {deviation}" if known else "no mean")
    return cells + ([f"[{_value(number['paper'], share)}]"] if number["paper"] is not None else [])


def _value(value: float | None, share: bool) -> str:
    if value is None:
        return "n/a"
    if share:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
