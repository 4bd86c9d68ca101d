"""Outcomes that are kept without their runs: small, judged again, and all that pages need."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from peerloom.core import ConfigError, DataError
from peerloom.papers.cli import reproduce
from peerloom.papers.recipes import RECIPES, Form
from peerloom.papers.recipes.intervals import LOOKS
from peerloom.papers.recipes.kept import FILE, find_outcomes
from peerloom.papers.reproduce import reproduce_command, summary_command

pytestmark = pytest.mark.filterwarnings("ignore::peerloom.errors.Caution")

DOCS = Path(__file__).parents[2] / "docs"
SHORT = ("problem.data=digits", "problem.model=svm", "until_delay=4.0", "rounds=10")


def written(folder):
    return {
        str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.md"))
    }


@pytest.fixture
def figure(tmp_path, monkeypatch, capsys):
    """One figure of two points and two algorithms, run with as many seeds as decide."""
    own = RECIPES["dspodfl"]["fig6a"]
    table = own.table | {"algorithms": own.table["algorithms"][:2]}
    points = {name: own.points[name] for name in ("1", "10")}
    monkeypatch.setitem(RECIPES["dspodfl"], "fig6a", replace(own, table=table, points=points))
    form = Form(seeds=LOOKS[0], settings=SHORT)
    reproduce_command("dspodfl", "fig6a", form, 1, tmp_path / "runs/fig6a", [], True)
    capsys.readouterr()
    return tmp_path


def test_pages_of_kept_outcomes_are_those_of_their_runs(figure, capsys):
    runs, kept = figure / "runs", figure / "docs/outcomes"
    summary_command([runs], figure / "docs/reproduction.md", kept, True)
    first = json.loads(capsys.readouterr().out)
    pages = written(figure / "docs")
    (file,) = kept.iterdir()
    assert file.name.startswith("dspodfl-fig6a-data-digits-model-svm-")
    assert file.stat().st_size < 6000
    shutil.rmtree(runs)
    summary_command([kept], figure / "docs/reproduction.md", None, True)
    again = json.loads(capsys.readouterr().out)
    assert written(figure / "docs") == pages
    assert [v["interval"] for v in again["verdicts"]] == [v["interval"] for v in first["verdicts"]]
    page = pages["reproduction/dspodfl-fig6a.md"]
    (picture,) = re.findall(r"\]\(\.\./(pictures/[^)]+)\)", page)
    assert (figure / "docs" / picture).exists()
    assert "median (quartiles); mean \u00b1 deviation [paper]" in page
    text = pages["reproduction.md"]
    assert "| [fig6a](reproduction/dspodfl-fig6a.md) | DSpodFL is the most accurate" in text
    assert "peerloom reproduce dspodfl fig6a --seeds 7 --set problem.data=digits" in text


def test_what_was_kept_stays_beside_what_was_run_since(figure, capsys):
    """Of the same figure and settings that which has runs is newer."""
    runs, kept = figure / "runs", figure / "kept"
    summary_command([runs], figure / "page.md", kept, True)
    (file,) = kept.iterdir()
    (other,) = [kept / f"pame-fig2a.{FILE}"]
    document = json.loads(file.read_text())
    other.write_text(json.dumps(document | {"paper": "pame", "figure": "fig2a", "ran": {}}))
    file.write_text(json.dumps(document | {"seeds": 3}))
    capsys.readouterr()
    summary_command([runs], figure / "page.md", kept, True)
    assert {one["paper"] for one in find_outcomes([kept])} == {"dspodfl", "pame"}
    assert json.loads(file.read_text())["seeds"] == LOOKS[0], "kept anew"
    assert "## pame" in (figure / "page.md").read_text()


def test_kept_values_are_judged_by_the_claims_that_the_recipe_makes_now(figure, monkeypatch):
    kept = figure / "kept"
    summary_command([figure / "runs"], figure / "page.md", kept, True)
    (file,) = kept.iterdir()
    document = json.loads(file.read_text())
    for part in document["verdicts"][0]["parts"]:
        part["values"] = [0.1] * 5 + [None, "inf"] + [0.1] * 3
    file.write_text(json.dumps(document))

    def page():
        summary_command([kept], figure / "page.md", None, True)
        return (figure / "page.md").read_text()

    assert "| holds |" not in page(), "one of ten is not known"
    for part in document["verdicts"][0]["parts"]:
        part["values"] = [0.1] * 6 + ["inf"] + [0.1] * 3
    file.write_text(json.dumps(document))
    assert "+10.0 points (+10.0 to diverged or never)" in page()
    assert "| holds |" in page()
    recipe = RECIPES["dspodfl"]["fig6a"]
    (check,) = recipe.checks
    said = replace(check, claim="As said", words="the best of all", place="section 5")
    monkeypatch.setitem(RECIPES["dspodfl"], "fig6a", replace(recipe, checks=(said,)))
    assert "| As said | \u201cthe best of all\u201d (section 5) | holds |" in page()
    other = replace(check, what="something else")
    monkeypatch.setitem(RECIPES["dspodfl"], "fig6a", replace(recipe, checks=(other,)))
    assert "nothing was measured" in page(), "what was measured is not what is claimed now"


def test_runs_of_settings_that_a_recipe_no_longer_has_are_told(figure, monkeypatch, capsys):
    def page():
        summary_command([figure / "runs"], figure / "page.md", None, True)
        return (figure / "page/dspodfl-fig6a.md").read_text()

    assert "other settings now" not in page()
    recipe = RECIPES["dspodfl"]["fig6a"]
    changed = recipe.table | {"dtype": "float64"}
    monkeypatch.setitem(RECIPES["dspodfl"], "fig6a", replace(recipe, table=changed))
    assert "The recipe has other settings now than these runs." in page()


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / FILE).write_text('{"paper": "dspodfl", "figure": "fig6a", "ran": ["1"]}')
    with pytest.raises(DataError, match="earlier version"):
        find_outcomes([tmp_path])
    (tmp_path / FILE).write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        find_outcomes([tmp_path])
    with pytest.raises(ConfigError, match="Give both"):
        reproduce("dspodfl", "fig6a", keep=tmp_path)


def test_the_committed_pages_are_what_the_committed_outcomes_say(tmp_path, capsys):
    summary_command([DOCS / "reproduction/outcomes"], tmp_path / "reproduction.md", None, True)
    made = written(tmp_path)
    committed = {
        name: text
        for name, text in written(DOCS).items()
        if name.startswith("reproduction/") or name == "reproduction.md"
    }
    committed.pop("reproduction/before.md")
    assert made == committed, (
        "peerloom reproduce --summary docs/reproduction/outcomes --out docs/reproduction.md"
    )


def test_committed_outcomes_are_small_and_of_the_recipes_settings():
    for file in (DOCS / "reproduction/outcomes").iterdir():
        assert file.stat().st_size < 60_000, file.name
        document = json.loads(file.read_text())
        if file.name.endswith(FILE):
            assert document["paper"] in RECIPES
            for verdict in document["verdicts"]:
                for part in verdict["parts"]:
                    assert all(
                        value is None or not math.isnan(float(value)) for value in part["values"]
                    )
