"""Figures of the papers: their settings are the papers', each runs, and verdicts are true."""

import json

import pytest
from test_cli import peerloom

from peerloom.cli.reproduce import list_command, reproduce_command
from peerloom.config import comparison_from
from peerloom.core import ConfigError
from peerloom.recipes import RECIPES, outcome
from peerloom.recipes.outcome import _verdict
from peerloom.runs import RunFolder, simulate

ALL = [(paper, figure) for paper, figures in RECIPES.items() for figure in figures]
DSPODFL = RECIPES["dspodfl"]


@pytest.mark.parametrize(("paper", "figure"), ALL)
def test_every_point_of_every_figure_is_a_valid_experiment(paper, figure):
    recipe = RECIPES[paper][figure]
    tables = recipe.tables()
    assert list(tables) == list(recipe.points)
    without_data = ["problem.data=digits", "problem.model=svm"]
    for table in recipe.tables(seeds=1, settings=without_data).values():
        if table["graph"]["radius"] == 0.2:  # a connected one of ten points takes seconds to find
            table["graph"]["radius"] = 0.4
        names = [exp.name for exp in comparison_from(table).experiments]
        assert recipe.ours in names


def test_dspodfl_has_all_its_figures():
    letters = {2: "abcd", 3: "abcd", 4: "ab", 5: "ab", 6: "abc", 7: "abcd", 8: "ab", 9: "abc", 10: "abc", 11: "ab"}
    assert list(DSPODFL) == [f"fig{number}{letter}" for number, which in letters.items() for letter in which]


@pytest.mark.parametrize("figure", DSPODFL)
def test_the_common_settings_of_dspodfl_hold(figure):
    """Section 4.2: ten clients, radius 0.4, step 0.01, batch 16, five algorithms, unless the figure varies it."""
    recipe = DSPODFL[figure]
    table = recipe.table
    assert [rule["name"] for rule in table["algorithms"]] == ["DSpodFL", "DGD", "RandomizedGossip", "SporadicSGD", "DFedAvg"]
    assert {rule["lr"] for rule in table["algorithms"]} == {0.01}
    assert (table["graph"]["radius"], table["problem"]["batch"]) == (0.4, 16)
    assert table["graph"]["clients"] == (50 if figure in ("fig4a", "fig10a") else 10)
    cifar = table["problem"]["data"]["name"] == "cifar10"
    assert cifar == (figure in ("fig2c", "fig2d", "fig5b", "fig7a", "fig7b", "fig7c", "fig7d", "fig8b", "fig11b"))
    assert table["problem"]["model"] == ("vgg11" if cifar else "svm")
    assert table["problem"]["partition"]["per_client"] == (10 if figure in ("fig2a", "fig2c") else 3 if cifar else 1)
    if recipe.varied:
        assert table["until_delay"] == (5000 if cifar else 500)
    assert bool(recipe.note) == cifar


POINTS = {
    "fig3a": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"],
    "fig3b": ["0.2", "0.4", "0.6", "0.8", "1"],
    "fig3c": ["10", "20", "30", "40", "50"],
    "fig3d": ["0.5", "0.6", "0.7", "0.8", "0.9", "1"],
    "fig4b": ["0", "0.1", "0.2", "0.3", "0.4"],
    "fig7c": ["4", "6", "8", "10"],
    "fig11a": ["0.0001", "0.001", "0.01", "0.1"],
}


@pytest.mark.parametrize("figure", POINTS)
def test_sweeps_have_the_papers_points(figure):
    assert list(DSPODFL[figure].points) == POINTS[figure]


def test_points_change_what_they_should():
    law = DSPODFL["fig4b"].tables()["0.3"]["schedule"]["links"]
    assert (law["mean1"], law["mean2"], law["std"]) == (0.3, 0.7, 0.1)
    links, nodes = (DSPODFL[figure].tables()["0.8"]["schedule"] for figure in ("fig10b", "fig10c"))
    assert (links["links"]["a"], links["links"]["b"], links["nodes"]["a"]) == (0.8, 0.8, 0.5)
    assert (nodes["links"]["a"], nodes["nodes"]["a"], nodes["nodes"]["b"]) == (0.5, 0.8, 0.8)
    assert {rule["lr"] for rule in DSPODFL["fig11a"].tables()["0.1"]["algorithms"]} == {0.1}
    assert DSPODFL["fig8a"].table["schedule"]["redraw"] == 1000
    assert DSPODFL["fig11a"].table["algorithms"][0]["lr"] == 0.01  # the recipe itself stays as it was


def test_seeds_and_settings_are_taken():
    recipe = DSPODFL["fig2b"]
    (table,) = recipe.tables(seeds=2, settings=["problem.batch=8"]).values()
    assert table["seeds"] == [42, 43]
    assert table["problem"]["batch"] == 8
    for wrong in (0, 8):
        with pytest.raises(ConfigError, match="1 to 7"):
            recipe.tables(seeds=wrong)


def test_verdicts_are_true():
    curves, sweep = DSPODFL["fig2b"], DSPODFL["fig3b"]
    assert _verdict(curves, {"": "DSpodFL"}, 3) == "The claim is seen: DSpodFL is the best in the median of 3 seeds."
    assert _verdict(curves, {"": "DGD"}, 1) == "The claim is not seen: DGD is the best with one seed."
    assert "seen: DSpodFL is the best at all 2 values of radius" in _verdict(sweep, {"1": "DSpodFL", "2": "DSpodFL"}, 3)
    assert "at 1 of 2 values of radius, with one seed; not at 2 (DGD)" in _verdict(sweep, {"1": "DSpodFL", "2": "DGD"}, 1)


def test_the_best_is_the_one_with_the_highest_median(tmp_path):
    recipe = DSPODFL["fig3d"]
    runs = {}
    for name, table in recipe.tables(tiny=True).items():
        runs[name] = []
        for exp in comparison_from(table | {"until_delay": 10.0}).experiments:
            folder = tmp_path / name / exp.name
            simulate(exp, out=folder)
            runs[name].append(RunFolder(folder).read())
    found = outcome(recipe, runs)
    for name, of_point in runs.items():
        last = {run.path.name: run.metrics["mean_accuracy"][-1] for run in of_point}
        assert {label: spread.median for label, spread in found.points[name].items()} == last
        assert last[found.best[name]] == max(last.values())


def test_figures_are_listed_and_misspellings_named(capsys):
    list_command("dspodfl", as_json=True)
    assert [entry["figure"] for entry in json.loads(capsys.readouterr().out)] == list(DSPODFL)
    for paper, figure, hint in (("dspodlf", "fig2a", "dspodfl"), ("dspodfl", "fig2z", "fig2")):
        with pytest.raises(ConfigError, match=f"Did you mean '{hint}"):
            reproduce_command(paper, figure, True, None, [], None, False)


def test_the_command_reproduces_and_goes_on(tmp_path):
    words = ["reproduce", "dspodfl", "fig3d", "--tiny", "--out", "out", "--json"]
    done = peerloom(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["points"]) == ["0.5", "0.6"]
    assert "tiny" in document["verdict"]
    assert (tmp_path / "out/a-0.5/report.html").exists()
    before = (tmp_path / "out/a-0.6/DGD-seed42/run.json").stat().st_mtime_ns
    again = peerloom(*words, cwd=tmp_path)
    assert json.loads(again.stdout)["points"] == document["points"]
    assert (tmp_path / "out/a-0.6/DGD-seed42/run.json").stat().st_mtime_ns == before  # nothing was run twice
    other = peerloom(*words, "--set", "problem.batch=4", cwd=tmp_path)
    assert other.returncode == 2
    assert "other settings" in other.stderr
