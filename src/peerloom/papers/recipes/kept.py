"""Outcomes on disk: beside their runs, or kept without them, in a few kilobytes each.

What is kept are numbers and, for every part of a claim, a value per seed. All else follows from the
recipe, so that a page of kept outcomes says what the recipe says now, and judges by today's rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import DataError
from ...runs import replace_file
from ...sweeps.readings import in_words
from .outcome import judges, part_from, verdict_to_dict
from .recipe import Form, Recipe
from .same_runs import fingerprint

__all__ = ["ESTIMATE", "FILE", "find_estimates", "find_outcomes", "keep", "named", "read_again"]

Document = dict[str, Any]

FILE = "outcome.json"  # in the folder of every reproduction; what is kept ends so, too
ESTIMATE = "estimate.json"  # and of every estimate that was kept
_KEPT = (
    *("paper", "figure", "form", "compat", "settings", "command", "why"),
    *("seeds", "diverged", "seconds", "ran", "pictures"),
)
_DIGITS = 6  # as pages show, so that they say the same of runs and of what is kept


def find_outcomes(places: Sequence[Path]) -> list[Document]:
    """The outcomes at or below these folders, paper by paper, each with its folder and a name.

    One that lies beside its runs is newer than one that was kept of the same figure and settings.
    """
    found = _documents(places, FILE)
    if not found:
        raise DataError(
            f"There is no {FILE} below {', '.join(map(str, places))}. Give folders that `peerloom "
            "reproduce` made."
        )
    fresh = {_name(one) for one in found if not one["kept"]}
    return named([one for one in found if not one["kept"] or _name(one) not in fresh])


def find_estimates(places: Sequence[Path]) -> list[Document]:
    """What `--estimate` has left at or below these folders, paper by paper."""
    found = _documents(places, ESTIMATE)
    fresh = {one["command"] for one in found if not one["kept"]}
    return [one for one in found if not one["kept"] or one["command"] not in fresh]


def _documents(places: Sequence[Path], ending: str) -> list[Document]:
    found = []
    for file in (file for place in places for file in sorted(place.rglob(f"*{ending}"))):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(
                f"{file} cannot be read ({error}). Give the reproduction's command again."
            ) from error
        if ending == FILE and "settings" not in document:
            raise DataError(
                f"{file} was written by an earlier version of peerloom. Give the reproduction's "
                "command again; its runs are still good."
            )
        found.append(_rounded(document) | {"folder": str(file.parent), "kept": file.name != ending})
    return sorted(found, key=lambda one: (str(one["paper"]), _ranked(str(one["figure"]))))


def named(found: Iterable[Document]) -> list[Document]:
    """Outcomes with names of their own: of paper, figure and form, and of what was set by hand."""
    names: dict[str, int] = {}
    made = []
    for one in found:
        name = _name(one)
        names[name] = names.get(name, 0) + 1
        made.append(one | {"name": f"{name}-{names[name]}" if names[name] > 1 else name})
    return made


def _name(one: Document) -> str:
    form = [] if one["form"] == "paper" else [one["form"]]
    words = [one["paper"], one["figure"], *form, *(["compat"] if one["compat"] else [])]
    pairs = (setting.partition("=") for setting in one["settings"])
    words += [f"{path.rpartition('.')[2]}-{value}" for path, _, value in pairs]
    letters = (letter if letter.isalnum() or letter in "-." else "-" for letter in "-".join(words))
    return "".join(letters)[:100].strip("-.")


def keep(found: Iterable[Document], estimates: Iterable[Document], folder: Path) -> None:
    """Write what a page is made of into this folder, a file for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        kept = {key: one[key] for key in _KEPT if key in one}
        verdicts = [
            {key: verdict[key] for key in ("name", "what", "answer", "opposed", "parts")}
            for verdict in one["verdicts"]
        ]
        kept |= {"numbers": one["numbers"], "verdicts": verdicts}
        _write(folder / f"{one['name']}.{FILE}", kept)
    for one in estimates:
        name = "-".join(one["command"].split()[2:]).replace("---", "-")
        kept = {key: value for key, value in one.items() if key not in ("folder", "kept")}
        _write(folder / f"{name}.{ESTIMATE}", kept)


def _write(path: Path, document: Document) -> None:
    """As JSON, an entry of a list per line: so that what changed can be seen."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = (json.dumps(entry, ensure_ascii=False) for entry in value)
            text = "[\n  " + ",\n  ".join(entries) + "\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    replace_file(path, lambda file: file.write(("{\n" + ",\n".join(lines) + "\n}\n").encode()))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def read_again(one: Document, recipe: Recipe) -> Document:
    """An outcome as its recipe has it now: title, notes and claims, judged by what was measured."""
    form = Form(
        tiny=one["form"] == "tiny",
        fit=one["form"] == "fit",
        compat=one["compat"],
        points=None if len(one["ran"]) == len(recipe.points) else list(one["ran"]),
        settings=one["settings"],
    )
    measured = {(verdict["name"], verdict["what"]): verdict for verdict in one["verdicts"]}
    verdicts = []
    for check in recipe.checks:
        before: Mapping[str, Any] = measured.get((check.name, check.what), {})
        verdict = check.verdict(
            [part_from(part) for part in before.get("parts", [])],
            one["seeds"],
            lambda where: in_words(where, recipe.varied, recipe.points),
            before.get("opposed", False),
            judges(form, check.exact),
        )
        verdicts.append(verdict_to_dict(verdict))
    gone = [point for point in one["ran"] if point not in recipe.points]
    return one | {
        "title": recipe.title,
        "varied": recipe.varied,
        "points": [len(one["ran"]), len(recipe.points)],
        "said": recipe.said(form) if not gone else [],
        "verdicts": verdicts,
        "stale": bool(gone) or _differs(one, recipe, form),
    }


def _differs(one: Document, recipe: Recipe, form: Form) -> bool:
    """Whether a point's experiment is no longer the one that was run."""
    now = {point: fingerprint(table) for point, table in recipe.tables(form).items()}
    return any(now.get(point) != mark for point, mark in one["ran"].items())


def _ranked(figure: str) -> tuple[str, int, str]:
    """fig2b before fig10a."""
    digits = "".join(letter for letter in figure if letter.isdigit())
    kind, rest = figure.split(digits, 1) if digits else (figure, "")
    return kind, int(digits or 0), rest
