"""Figures and tables of the papers: the papers' settings, each runs, outcomes are true."""

import json
import os
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from peerloom.config import comparison_from
from peerloom.core import ConfigError, DataError
from peerloom.papers.recipes import ALIASES, RECIPES, Form, outcome
from peerloom.papers.recipes.checks import Check, Part
from peerloom.papers.recipes.estimate import estimate
from peerloom.papers.recipes.outcome import reasons_of
from peerloom.papers.recipes.pictures import pictures
from peerloom.papers.recipes.reasons import REASONS
from peerloom.papers.recipes.recipe import first_seeds
from peerloom.papers.reproduce import (
    estimate_command,
    list_command,
    reproduce_command,
    summary_command,
)
from peerloom.problems import Classification
from peerloom.reports.sheet import NARROW, draw
from peerloom.runs import RunFolder, folder_name, simulate
from peerloom.sweeps import Found
from tests.command import peerloom

pytestmark = pytest.mark.filterwarnings("ignore::peerloom.errors.Caution")

ALL = [(paper, figure) for paper, figures in RECIPES.items() for figure in figures]
DSPODFL = RECIPES["dspodfl"]
SILENT = ("fig9a", "fig9c")  # of DSpodFL
FIGURES = [figure for figure in DSPODFL if figure.startswith("fig")]


def carried_out(recipe, form, folder):
    """Every point of a form, run into folders."""
    runs = {}
    for name, table in recipe.tables(form).items():
        runs[name] = []
        for exp in comparison_from(table).experiments:
            place = folder / str(len(runs)) / folder_name(exp)
            simulate(exp, out=place)
            runs[name].append(RunFolder(place).read())
    return runs


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "figure"), ALL)
def test_every_recipe_runs_in_its_tiny_form_and_decides_nothing(paper, figure, tmp_path):
    recipe, form = RECIPES[paper][figure], Form(tiny=True)
    runs = carried_out(recipe, form, tmp_path)
    assert len(runs) == min(2, len(recipe.points))
    found = outcome(paper, figure, recipe, form, runs)
    assert {verdict.answer for verdict in found.verdicts} <= {"not decided here"}
    assert len(found.verdicts) == len(recipe.checks)
    assert bool(recipe.checks) == (figure not in SILENT), "of which the paper claims nothing"
    assert "nothing about the claims" in found.said[0]
    json.dumps(found.to_dict(), allow_nan=False)
    for check in recipe.checks:  # a label that no run has would leave a check without parts
        parts = check(Found(runs)).parts
        assert parts or len(recipe.points) > 2, check.name
    drawn = pictures(recipe, runs)
    assert drawn
    assert len({picture.name for picture in drawn}) == len(drawn)
    for picture in drawn:
        assert len(draw(picture)) < 100_000
        assert ElementTree.fromstring(draw(picture, NARROW)).tag.endswith("svg")
        assert len(picture.table())


@pytest.mark.parametrize(("paper", "figure"), ALL)
def test_every_point_is_a_valid_experiment_in_every_form(paper, figure):
    recipe = RECIPES[paper][figure]
    forms = [form for form in ("fit", "compat") if getattr(recipe, form) is not None]
    # A connected graph of ten points takes seconds to find.
    slow = ["0.2"] if recipe.varied == "radius" else []
    points = [name for name in recipe.points if name not in slow]
    for table in recipe.tables(Form(tiny=True, points=points)).values():
        assert comparison_from(table).experiments
    for name in forms:
        (table,) = recipe.tables(Form(tiny=True, points=points[:1], **{name: True})).values()
        assert comparison_from(table).experiments
        assert any(getattr(recipe, name).says in line for line in recipe.said(Form(**{name: True})))
    for missing in {"fit", "compat"} - set(forms):
        with pytest.raises(ConfigError, match=f"no --{missing} form"):
            recipe.tables(Form(**{missing: True}))


def test_all_figures_and_tables_are_there():
    letters = ["abcd", "abcd", "ab", "ab", "abc", "abcd", "ab", "abc", "abc", "ab"]
    wanted = [f"fig{number}{each}" for number, these in enumerate(letters, 2) for each in these]
    assert wanted == FIGURES
    assert list(DSPODFL)[len(FIGURES) :] == ["table2", "table3", "table4", "table5"]
    assert list(RECIPES["spod-gt"]) == [f"fig{n}{letter}" for n in (2, 3, 5) for letter in "abcd"]
    assert list(RECIPES["depositum"]) == [*(f"fig{n}" for n in range(2, 8)), "table3"]
    pame, mll = (set(RECIPES[p]) | set(ALIASES[p]) for p in ("pame", "mll-sgd"))
    assert pame == {"fig2a", "fig2b", "fig2c", "fig2d", *(f"fig{n}" for n in range(3, 13))}
    assert {f"fig1{x}" for x in "abcd"} | {f"fig6{x}" for x in "abcd"} | {
        f"fig{n}" for n in (2, 3, 4, 5, 7, 8, 9, 10)
    } <= mll
    for paper, names in ALIASES.items():
        assert set(names.values()) <= set(RECIPES[paper])


@pytest.mark.parametrize("figure", FIGURES)
def test_the_common_settings_of_dspodfl_hold(figure):
    """Section 4.2: ten clients, radius 0.4, step 0.01, batch 16, five rules, unless varied."""
    recipe = DSPODFL[figure]
    table = recipe.table
    assert [rule["name"] for rule in table["algorithms"]] == [
        "DSpodFL",
        "DGD",
        "RandomizedGossip",
        "SporadicSGD",
        "DFedAvg",
    ]
    assert {rule["lr"] for rule in table["algorithms"]} == {0.01}
    assert (table["graph"]["radius"], table["problem"]["batch"]) == (0.4, 16)
    assert table["graph"]["clients"] == (50 if figure == "fig4a" else 10)
    cifar = table["problem"]["data"]["name"] == "cifar10"
    assert cifar == (
        figure in ("fig2c", "fig2d", "fig5b", "fig7a", "fig7b", "fig7c", "fig7d", "fig8b", "fig11b")
    )
    assert table["problem"]["model"] == ("vgg11" if cifar else "svm")
    assert table["problem"]["partition"]["per_client"] == (
        10 if figure in ("fig2a", "fig2c") else 3 if cifar else 1
    )
    if recipe.varied and figure != "fig4a":
        assert table["until_delay"] == (5000 if cifar else 500)
    assert ("from scratch" in recipe.note) == (recipe.fit is not None) == cifar


POINTS = {
    "fig3a": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"],
    "fig3b": ["0.2", "0.4", "0.6", "0.8", "1"],
    "fig3c": ["10", "20", "30", "40", "50"],
    "fig3d": ["0.5", "0.6", "0.7", "0.8", "0.9", "1"],
    "fig4b": ["0", "0.1", "0.2", "0.3", "0.4"],
    "fig7c": ["4", "6", "8", "10"],
    "fig10a": [
        f"{radius}, m {m}" for m in (50, 10) for radius in ("0.2", "0.4", "0.6", "0.8", "1")
    ],
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
    # The recipe itself stays as it was.
    assert DSPODFL["fig11a"].table["algorithms"][0]["lr"] == 0.01
    assert [table["rounds"] for table in DSPODFL["table2"].tables().values()] == [3500, 15_000]
    assert "until_delay" not in DSPODFL["table4"].table


def test_the_settings_of_the_other_papers_hold():
    """Sections 4.1 and 4.3 to 4.5."""
    spod = RECIPES["spod-gt"]["fig2b"].table
    assert (spod["graph"]["name"], spod["until_delay"], len(spod["seeds"])) == ("two_way", 5000, 5)
    assert spod["schedule"]["links"] == {"name": "Beta", "a": 0.5, "b": 0.5}
    mll = RECIPES["mll-sgd"]
    for figure, lr in (("fig1ab", 0.01), ("fig7", 0.2)):
        table = mll[figure].table
        assert {rule["lr"] for rule in table["algorithms"]} == {lr}
        assert sum(table["graph"]["workers"]) == 100
        assert [
            rule["schedule"]["tau"] * rule["schedule"]["q"] for rule in table["algorithms"][1:]
        ] == [32, 32, 32]
    chances = [rule["schedule"]["nodes"] for rule in mll["fig4"].table["algorithms"]]
    assert chances[:2] == [1.0, 0.55]
    assert [sum(nodes) / 100 for nodes in chances[2:]] == pytest.approx([0.55] * 3)
    depositum = RECIPES["depositum"]
    assert depositum["fig3"].table["schedule"]["T0"] == 5
    seven = depositum["fig7"].tables()
    assert [table["problem"]["batch"] for table in seven.values()] == [2, 3, 4, 5]
    assert [table["graph"]["clients"] for table in seven.values()] == [4, 9, 16, 25]
    assert len(depositum["table3"].points) == 27
    pame = RECIPES["pame"]["fig2a"].tables()["0.3, m 64"]
    rule = pame["algorithms"][0]
    assert (rule["sigma"], rule["growth"], rule["message"]["fraction"]) == (1.0, 1.005, 0.3)
    assert (rule["schedule"]["kappa"], rule["schedule"]["upto"], rule["schedule"]["fraction"]) == (
        3,
        7,
        0.2,
    )
    assert (pame["graph"]["clients"], pame["until_settled"], pame["evaluate"]["every"]) == (
        64,
        0.001,
        1,
    )


def test_the_papers_numbers_are_those_of_the_specification():
    numbers = {
        (point, label, reading.words): value
        for name in ("table2", "table4")
        for (point, label, reading), value in DSPODFL[name].paper.items()
    }
    assert numbers["non-IID", "DSpodFL", "accuracy at round 15000"] == 0.70
    assert numbers["IID", "RandomizedGossip", "accuracy at round 2500"] == 0.82
    assert numbers["non-IID", "DSpodFL", "delay to accuracy 0.4"] == 688.65
    assert numbers["IID", "SporadicSGD", "transmission delay to accuracy 0.75"] == 7614.84
    table3 = {
        (point, label): value
        for (point, label, _), value in RECIPES["depositum"]["table3"].paper.items()
    }
    assert len(table3) == 27 * 5
    assert table3["cifar10 cnn Dir(0.1)", "FedDR"] == 0.1908
    assert table3["fashion-mnist mlp IID", "OPTION II"] == 0.8647


def test_seeds_points_and_settings_are_taken():
    recipe = DSPODFL["fig2b"]
    (table,) = recipe.tables(Form(seeds=2, settings=["problem.batch=8"])).values()
    assert table["seeds"] == [42, 43]
    assert table["problem"]["batch"] == 8
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        recipe.tables(Form(seeds=0))
    with pytest.raises(ConfigError, match="how many, --set seeds="):
        recipe.tables(Form(seeds=2, settings=["seeds=[1, 2]"]))
    assert list(DSPODFL["fig3b"].tables(Form(points=["0.6"]))) == ["0.6"]
    with pytest.raises(ConfigError, match=r"no point '0\.5' of radius"):
        DSPODFL["fig3b"].tables(Form(points=["0.5"]))


@pytest.mark.parametrize(("paper", "figure"), ALL)
def test_seeds_go_on_beyond_those_of_the_paper(paper, figure):
    """First the paper's own, so that more seeds are those before and others."""
    recipe = RECIPES[paper][figure]
    own = list(recipe.table["seeds"])
    assert own == sorted(set(own))
    forms = [{}, *({name: True} for name in ("fit", "compat") if getattr(recipe, name))]
    point = [next(iter(recipe.points))] if recipe.varied else None
    for form in forms:
        few, all_of_them, many = (
            next(iter(recipe.tables(Form(seeds=number, points=point, **form)).values()))["seeds"]
            for number in (None, len(own), 50)
        )
        assert all_of_them == own
        assert few == first_seeds(own, len(few)), "a smaller form has fewer or more, in that order"
        assert many == [*own, *range(own[-1] + 1, own[-1] + 51 - len(own))]


def test_compat_is_off_unless_asked_for():
    (plain,), (compat,) = (
        DSPODFL["fig2a"].tables(Form(compat=on)).values() for on in (False, True)
    )
    assert "compat" not in plain["schedule"]
    assert compat["schedule"]["compat"] == ["or", "latch"]
    assert compat["problem"]["partition"]["compat"] is True
    assert compat["algorithms"][4]["rounding"] == "floor"


def test_figures_are_listed_and_misspellings_named(capsys):
    list_command("dspodfl", as_json=True)
    assert [entry["figure"] for entry in json.loads(capsys.readouterr().out)] == list(DSPODFL)
    for paper, figure, hint in (("dspodlf", "fig2a", "dspodfl"), ("dspodfl", "fig2z", "fig2")):
        with pytest.raises(ConfigError, match=f"Did you mean '{hint}"):
            reproduce_command(paper, figure, Form(tiny=True), 1, None, [], False)
    with pytest.raises(ConfigError, match="comes in parts: fig1ab, fig1cd"):
        reproduce_command("mll-sgd", "fig1", Form(tiny=True), 1, None, [], False)


def test_the_command_reproduces_goes_on_and_sums_up(tmp_path, capsys):
    def document(command, *given):
        command(*given, True)
        return json.loads(capsys.readouterr().out)

    out, form = tmp_path / "out", Form(tiny=True)
    first = document(reproduce_command, "dspodfl", "fig3d", form, 1, out, [])
    assert {number["point"] for number in first["numbers"]} == {"0.5", "0.6"}
    assert "accuracy at the end" in (out / "outcome.html").read_text()
    assert not (out / "a-0.5/report.html").exists()  # two evaluations make no curve
    before = (out / "a-0.6/DGD-seed42/run.json").stat().st_mtime_ns
    assert (
        document(reproduce_command, "dspodfl", "fig3d", form, 2, out, [])["numbers"]
        == first["numbers"]
    )
    assert (out / "a-0.6/DGD-seed42/run.json").stat().st_mtime_ns == before  # nothing was run twice
    with pytest.raises(ConfigError, match="other settings"):
        reproduce_command(
            "dspodfl", "fig3d", Form(tiny=True, settings=["problem.batch=4"]), 1, out, [], False
        )
    (out / "a-0.7").mkdir()  # points that were begun, and left for later, are left out
    (out / "a-0.8/DGD-seed42").mkdir(parents=True)
    (out / "a-0.8/DGD-seed42/run.json").write_text('{"status": "running", "started": "2026-01-01"}')
    summed = document(summary_command, [tmp_path], tmp_path / "page.md", None)
    assert len(summed["verdicts"]) == len(DSPODFL["fig3d"].checks)
    for page in ("page.md", "page.html"):
        text = (tmp_path / page).read_text()
        assert text.count("not decided here") >= 2
        assert "peerloom reproduce dspodfl fig3d --tiny" in text
    (picture,) = (tmp_path / "pictures").iterdir()
    assert "[fig3d](page/dspodfl-fig3d.md)" in (tmp_path / "page.md").read_text()
    assert f"](../pictures/{picture.name})" in (tmp_path / "page/dspodfl-fig3d.md").read_text()
    assert picture.name == "dspodfl-fig3d-tiny-accuracy-at-the-end.svg"
    assert picture.read_text() in (tmp_path / "page.html").read_text()
    # Drawn anew from the runs, to the same bytes.
    assert picture.read_text() in (out / "outcome.html").read_text()
    with pytest.raises(DataError, match=r"no outcome\.json"):
        summary_command([tmp_path / "nowhere"], None, None, False)


def test_nothing_is_written_before_all_is_known_to_be_right(tmp_path, capsys):
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="radus"):
        reproduce_command(
            "dspodfl", "fig3d", Form(tiny=True, settings=["graph.radus=1"]), 1, out, [], False
        )
    assert not out.exists()
    reproduce_command("dspodfl", "fig3d", Form(tiny=True, points=["0.5"]), 1, out, [], True)
    # Another point, the same folder.
    with pytest.raises(ConfigError, match=r"graph\.radius is 0\.4 there and 0\.7 here"):
        reproduce_command(
            "dspodfl",
            "fig3d",
            Form(tiny=True, points=["0.6"], settings=["graph.radius=0.7"]),
            1,
            out,
            [],
            False,
        )
    reproduce_command("dspodfl", "fig3d", Form(tiny=True, points=["0.6"]), 1, out, [], True)
    capsys.readouterr()
    summary_command([out], tmp_path / "page.md", None, True)
    (picture,) = (tmp_path / "pictures").iterdir()
    text = picture.read_text()
    assert "a 0.6:" in text, "the last outcome is of this point alone"
    assert "a 0.5:" not in text


def test_settings_may_not_undo_what_a_figure_varies():
    with pytest.raises(ConfigError, match="the points 1 and 2 of labels are the same"):
        DSPODFL["fig3a"].tables(Form(settings=["problem.partition.per_client=4"]))
    assert DSPODFL["fig3a"].tables(Form(settings=["problem.partition.per_client=4"], points=["3"]))
    with pytest.raises(ConfigError, match="no points to choose from"):
        DSPODFL["fig2b"].tables(Form(points=["x"]))


def test_the_same_figure_twice_has_its_own_pictures_and_is_counted_once(tmp_path, capsys):
    for name, radius in (("a", 0.4), ("b", 0.9)):
        form = Form(tiny=True, points=["0.5"], settings=[f"graph.radius={radius}"])
        reproduce_command("dspodfl", "fig3d", form, 1, tmp_path / name, [], True)
    capsys.readouterr()
    summary_command([tmp_path], None, None, True)
    page = (tmp_path / "reproduction/dspodfl-fig3d.md").read_text()
    links = re.findall(r"\]\(\.\./(pictures/[^)]+)\)", page)
    assert len(links) == len(set(links)) == 2
    assert all((tmp_path / link).exists() for link in links)
    assert "radius-0.9" in links[1], "the name says what was set by hand"
    text = (tmp_path / "reproduction.md").read_text()
    assert "Figures and tables run: 1, 1 times one of them again in another form." in text


@pytest.mark.slow
def test_the_command_takes_its_options(tmp_path):
    words = "reproduce spod-gt fig3d --tiny --point 0.1 --jobs 2 --out out --export parquet"
    done = peerloom(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "What the paper says" in done.stdout
    assert (tmp_path / "out/step-0.1/report.html").exists()
    assert (tmp_path / "out/pictures/mean-accuracy-delay-both-ways.parquet").exists()
    assert json.loads((tmp_path / "out/outcome.json").read_text())["command"].endswith(
        "fig3d --tiny --point 0.1"
    )


@pytest.mark.skipif(
    "PEERLOOM_DATA" not in os.environ, reason="needs the data sets: set PEERLOOM_DATA"
)
def test_the_papers_models_take_the_papers_data():
    recipe = RECIPES["depositum"]["table3"]
    (table,) = recipe.tables(Form(points=["emnist-letters cnn IID"], seeds=1)).values()
    problem = comparison_from(table).experiments[0].problem
    assert isinstance(problem, Classification)
    assert problem.n == 270_555


def test_an_estimate_counts_the_rounds_and_evaluations_of_a_real_run():
    tables = RECIPES["dspodfl"]["fig3d"].tables(
        Form(tiny=True, settings=["until_delay=40.0", "rounds=400"])
    )
    found = estimate(tables, seconds=0.01)
    assert {each.point for each in found} == set(tables)
    for each in found:
        exps = [
            exp for exp in comparison_from(tables[each.point]).experiments if exp.name == each.name
        ]
        rows = list(simulate(exps[0]).metrics["round"])
        assert (each.runs, each.rounds, each.evaluations) == (len(exps), rows[-1], len(rows))
        assert each.seconds > 0


def test_the_command_says_how_long_a_figure_would_take(capsys, tmp_path):
    estimate_command("dspodfl", "fig2b", Form(tiny=True), tmp_path, True)
    document = json.loads(capsys.readouterr().out)
    assert document["seconds"] == pytest.approx(
        sum(
            part["runs"]
            * (
                part["rounds"] * part["round_seconds"]
                + part["evaluations"] * part["evaluation_seconds"]
            )
            for part in document["parts"]
        )
    )
    reproduce_command("dspodfl", "fig2b", Form(tiny=True), 1, tmp_path / "out", [], True)
    summary_command([tmp_path], None, None, True)
    for page in ("reproduction.md", "reproduction.html"):
        text = (tmp_path / page).read_text()
        assert "How long others take" in text
        assert f"{document['seconds'] / 3600:,.1f}" in text


def test_both_forms_of_a_figure_have_their_place_on_the_page(tmp_path, capsys):
    for compat in (False, True):
        reproduce_command(
            "dspodfl", "fig2b", Form(tiny=True, compat=compat), 1, tmp_path / str(compat), [], True
        )
    summary_command([tmp_path], None, None, True)
    capsys.readouterr()
    text = (tmp_path / "reproduction/dspodfl-fig2b.md").read_text()
    assert "# dspodfl fig2b: " in text
    assert "## Tiny, nothing decided\n" in text
    assert "## Tiny, nothing decided, with what the authors' code did\n" in text
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {name.replace("compat-", "") for name in names if "compat" in name} == {
        n for n in names if "compat" not in n
    }


@pytest.mark.parametrize("bound", [-1.0, 2.0])
def test_reasons_are_given_where_a_claim_fails_and_nowhere_else(bound, tmp_path):
    recipe = RECIPES["dspodfl"]["fig2b"]
    runs = carried_out(recipe, Form(tiny=True), tmp_path)
    claim = Check("claim", "", "", lambda found: [Part("", (0.5,) * 7, "above", bound)])
    (reason, *_) = REASONS["dspodfl", "fig4b"]
    found = outcome("dspodfl", "fig4b", replace(recipe, checks=(claim,)), Form(), runs)
    assert (reason in reasons_of(found.to_dict())) == (bound > 1)
    assert all(figure in RECIPES[paper] for paper, figure in REASONS)
