"""`peerloom reproduce`: run a paper's figure or table, and collect what became of all."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Group
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from ..cli.console import err, show
from ..cli.points import EXPERIMENT, check_same_or_new, run_points, write_reports
from ..core import ConfigError, DataError, nearest
from ..reports.export import PICTURES, export
from ..reports.picture import Picture
from ..reports.wording import span
from .recipes import ALIASES, RECIPES, Form, Recipe, outcome
from .recipes.estimate import estimate
from .recipes.kept import (
    ESTIMATE,
    FILE,
    find_estimates,
    find_outcomes,
    keep,
    named,
    read_again,
)
from .recipes.markdown import to_markdown
from .recipes.outcome import reasons_of
from .recipes.page import to_html
from .recipes.pictures import pictures
from .recipes.recorded import place_of, recorded
from .recipes.same_runs import fingerprint
from .recipes.summary import not_run, notes, numbers_table, summary_rows
from .until_decided import Budget, run_until_decided

__all__ = ["estimate_command", "list_command", "reproduce_command", "summary_command"]

_INK = {"holds": "green", "does not hold": "red", "not decided here": "yellow"}


def list_command(paper: str | None, as_json: bool) -> None:
    """All figures and tables, of one paper or of all."""
    chosen = RECIPES if paper is None else {paper: _paper(paper)}
    entries: list[dict[str, Any]] = [
        {
            "paper": name,
            "figure": figure,
            "also": [alias for alias, target in ALIASES.get(name, {}).items() if target == figure],
            "title": recipe.title,
            "points": list(recipe.points),
            "claims": [check.claim for check in recipe.checks],
            "forms": [form for form in ("fit", "compat") if getattr(recipe, form) is not None],
            "note": recipe.note,
            "chosen": recipe.chosen,
        }
        for name, figures in chosen.items()
        for figure, recipe in figures.items()
    ]
    table = Table("paper", "figure", "what it shows", "points", "claims", "also runs with")
    for entry in entries:
        forms = ", ".join(f"--{form}" for form in entry["forms"])
        names = " ".join([entry["figure"], *(f"({alias})" for alias in entry["also"])])
        table.add_row(
            entry["paper"],
            names,
            entry["title"],
            str(len(entry["points"])),
            str(len(entry["claims"])),
            forms,
        )
    show(entries, table, as_json)


def reproduce_command(
    paper: str,
    figure: str,
    form: Form,
    jobs: int,
    out_dir: Path | None,
    formats: list[str],
    as_json: bool,
    budget: Budget | None = None,
) -> None:
    """Run every point of a figure, then hold its claims to what came of it and draw it.

    With a budget, seeds are added until the claims are decided.
    """
    asked, (recipe, figure) = figure, _find(paper, figure)
    if asked != figure:
        err.print(f"{asked} is drawn from the runs of {figure}.", highlight=False)
    kind = "".join(f"-{word}" for word in ("tiny", "fit", "compat") if getattr(form, word))
    out = out_dir or Path("runs") / f"{paper}-{figure}{kind}"
    tables = recipe.tables(form)
    places = {name: place_of(out, recipe, name) for name in recipe.points}
    others = [
        name
        for name, place in places.items()
        if name not in tables and (place / EXPERIMENT).exists()
    ]
    # points of one folder agree in all the rest
    for name, table in recipe.tables(replace(form, points=others)).items():
        check_same_or_new(places[name], table, seeds=False)
    why = ""
    if budget is None:
        runs, failures = run_points(tables, places, jobs, again="give the same command again")
    else:
        reached = run_until_decided(recipe, form, places, jobs, budget)
        runs, failures, tables, why = reached.runs, reached.failures, reached.tables, reached.why
    write_reports(runs, places, tables)
    document = outcome(paper, figure, recipe, form, runs, why).to_dict()
    document |= {
        "reasons": reasons_of(document),
        "command": _command(paper, figure, form, budget),
        "ran": {point: fingerprint(tables[point]) for point in runs},
    }
    (out / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    drawn = pictures(recipe, runs, whole=document["form"] == "paper")
    (document,) = named([document | {"folder": str(out)}])
    (out / FILE).with_suffix(".html").write_text(
        to_html([document], {document["name"]: drawn}), encoding="utf-8"
    )
    document["pictures"] = [str(path) for path in export(drawn, out / PICTURES, formats)]
    show(document, _rendered(document, out), as_json)
    if failures:
        raise failures[0]


def estimate_command(paper: str, figure: str, form: Form, out: Path | None, as_json: bool) -> None:
    """How long a figure would take on this machine, without running it.

    It is timed with one thread, as runs of small models are. With `out` the estimate is kept for a
    summary.
    """
    recipe, figure = _find(paper, figure)
    torch.set_num_threads(1)
    with err.status("timing") as status:
        found = estimate(recipe.tables(form), say=lambda text: status.update(f"timing {text}"))
    total = sum(each.seconds for each in found)
    heads = ("point", "algorithm", "runs", "rounds", "a round", "evaluations", "in all")
    table = Table(*heads, title=recipe.title)
    for each in found:
        table.add_row(
            each.point,
            each.name,
            str(each.runs),
            str(each.rounds),
            span(each.round_seconds),
            str(each.evaluations),
            span(each.seconds),
        )
    document = {
        "paper": paper,
        "figure": figure,
        "command": _command(paper, figure, form),
        "seconds": total,
        "parts": [asdict(each) for each in found],
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / ESTIMATE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    line = f"One run after another on one core: {span(total)}. --jobs N runs N of them at a time."
    show(document, Group(table, Text(line)), as_json)


def summary_command(
    places: list[Path], output: Path | None, folder: Path | None, as_json: bool
) -> None:
    """Collect the verdicts below these folders into pages, in Markdown and in HTML.

    Pictures are drawn anew from the runs, into a folder beside the page; of outcomes that were kept
    without runs they lie there already. With `folder` all outcomes are kept there, and what was
    kept there before is on the page, too.
    """
    kept = [folder] if folder is not None and folder.is_dir() else []
    found, estimates = find_outcomes([*places, *kept]), find_estimates([*places, *kept])
    page = (output or places[0] / "reproduction.md").with_suffix("")
    page.parent.mkdir(parents=True, exist_ok=True)
    drawn = {one["name"]: _drawn(one) for one in found if not one["kept"]}
    for one in found:
        if not one["kept"]:
            some = drawn[one["name"]]
            files = export(some, page.parent / PICTURES, ["svg"], f"{one['name']}-")
            one["pictures"] = [
                {"file": f"{PICTURES}/{file.name}", "title": each.title, "about": each.about}
                for file, each in zip(files, some, strict=True)
            ]
    if folder is not None:
        keep(found, estimates, folder)
    found = [_as_now(one) for one in found]
    missing = not_run(found, RECIPES)
    for name, text in to_markdown(found, page.name, estimates, missing).items():
        (page.parent / name).parent.mkdir(exist_ok=True)
        (page.parent / name).write_text(text, encoding="utf-8")
    html = page.with_suffix(".html")
    html.write_text(to_html(found, drawn, estimates, missing), encoding="utf-8")
    document = {
        "page": f"{page}.md",
        "verdicts": [
            {key: one[key] for key in ("paper", "figure", "form", "compat")} | verdict
            for one in found
            for verdict in one["verdicts"]
        ],
    }
    table = Table("paper", "figure", "claim", "verdict", "interval", "seeds", "form")
    for one in found:
        for row in summary_rows([one]):
            figure, claim, _, answer, *rest, _ = row
            answer = f"[{_INK[answer]}]{answer}[/]"
            table.add_row(one["paper"], figure, claim, answer, *map(Text, rest))
    show(document, table, as_json)
    if not as_json:
        err.print(f"Pages: {page}.md and {html}", highlight=False, markup=False)


def _as_now(one: dict[str, Any]) -> dict[str, Any]:
    """An outcome as its recipe has it now."""
    again = read_again(one, _recipe_of(one))
    return again | {"reasons": reasons_of(again)}


def _paper(name: str) -> dict[str, Recipe]:
    if name not in RECIPES:
        raise ConfigError(f"There are no figures of '{name}'. {nearest(name, RECIPES)}")
    return RECIPES[name]


def _find(paper: str, figure: str) -> tuple[Recipe, str]:
    figures = _paper(paper)
    figure = ALIASES.get(paper, {}).get(figure, figure)
    if figure not in figures:
        if parts := [name for name in figures if re.fullmatch(rf"{re.escape(figure)}[a-z]+", name)]:
            raise ConfigError(
                f"Figure '{figure}' of {paper} comes in parts: {', '.join(parts)}. "
                "Name one of them."
            )
        raise ConfigError(f"There is no figure '{figure}' of {paper}. {nearest(figure, figures)}")
    return figures[figure], figure


def _recipe_of(one: dict[str, Any]) -> Recipe:
    recipe = RECIPES.get(one["paper"], {}).get(one["figure"])
    if recipe is None:
        raise DataError(
            f"{one['folder']} has an outcome of {one['paper']} {one['figure']}, of which there is "
            "no recipe. Remove it."
        )
    return recipe


def _drawn(one: dict[str, Any]) -> list[Picture]:
    """The pictures of an outcome, from the runs beside it; none where those are gone."""
    recipe = _recipe_of(one)
    runs = recorded(Path(one["folder"]), recipe, one["ran"])
    return pictures(recipe, runs, whole=one["form"] == "paper") if runs else []


def _command(paper: str, figure: str, form: Form, budget: Budget | None = None) -> str:
    words = ["peerloom", "reproduce", paper, figure]
    words += [f"--{word}" for word in ("tiny", "fit", "compat") if getattr(form, word)]
    words += ["--seeds", str(form.seeds)] if form.seeds is not None else []
    words += ["--until-decided"] if budget is not None else []
    words += ["--budget", f"{budget.minutes:g}"] if budget is not None and budget.minutes else []
    words += [word for point in form.points or () for word in ("--point", point)]
    words += [word for setting in form.settings for word in ("--set", setting)]
    return shlex.join(words)


def _rendered(document: dict[str, Any], out: Path) -> Group:
    heads, rows = numbers_table(document)
    table = Table(
        *(Column(escape(head), overflow="fold") for head in heads), title=document["title"]
    )
    for row in rows:
        table.add_row(*map(Text, row))
    verdicts = Table("claim", "verdict", "measured", title="What the paper says, and what is seen")
    for v in document["verdicts"]:
        verdicts.add_row(v["claim"], f"[{_INK[v['answer']]}]{v['answer']}[/]", Text(v["measured"]))
    lines = [
        *notes(document),
        f"Page: {(out / FILE).with_suffix('.html')}. Runs, and pages of their curves: below {out}",
    ]
    lines += (
        [f"Pictures: {len(document['pictures'])} files in {out / PICTURES}"]
        if document["pictures"]
        else []
    )
    return Group(*([table] if rows else []), verdicts, *map(Text, lines))
