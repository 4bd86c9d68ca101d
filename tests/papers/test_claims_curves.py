"""Claims about trends, ratios, pairs and nearness, on made-up tables, and the papers' own words."""

import math
import os
import re
from pathlib import Path

import pytest

from peerloom.papers.recipes import RECIPES
from peerloom.papers.recipes.claims_curves import (
    agree,
    alike,
    beats,
    improves,
    improves_most,
    nearer,
    over_points,
    within,
)
from peerloom.sweeps.readings import Reading
from tests.papers.test_checks import found

END = Reading("mean_accuracy")
LOSS = Reading("average_loss")
SEEDS = 20


def points(*values, label="ours"):
    """A point for each value, with the same value in every seed."""
    return {str(k): {label: [value] * SEEDS} for k, value in enumerate(values)}


def answer(check, given, **named):
    return check(found(given, **named)).answer


def test_an_improvement_is_the_slope_of_a_line_through_all_points():
    check = improves(["ours"], END, ["0", "1", "2"], "", name="")
    assert answer(check, points(0.3, 0.2, 0.5)) == "holds"  # not of every step
    assert answer(check, points(0.5, 0.6, 0.3)) == "does not hold"
    assert check(found(points(0.3, 0.2, 0.5))).parts[0].values[0] == pytest.approx(0.1)
    falls = improves(["ours"], LOSS, ["0", "1"], "", name="")
    assert answer(falls, points(2.0, 1.0), column="average_loss") == "holds"
    assert answer(check, points(0.3, 0.2)) == "not decided here", "one point was not run"
    assert answer(check, points(0.3, -math.inf, 0.5)) == "not decided here", "one diverged"


def test_who_improves_most_gains_more_than_each_other():
    check = improves_most("ours", ["b", "c"], END, ["0", "1"], "", name="")
    some = {
        "0": {"ours": [0.5] * SEEDS, "b": [0.1] * SEEDS, "c": [0.9] * SEEDS},
        "1": {"ours": [0.7] * SEEDS, "b": [0.2] * SEEDS, "c": [0.8] * SEEDS},
    }
    assert answer(check, some) == "holds"
    some["1"]["b"] = [0.4] * SEEDS
    assert answer(check, some) == "does not hold"


def test_alike_is_a_factor_either_way():
    def of(ours, theirs):
        given = {"": {"ours": [ours] * SEEDS, "theirs": [theirs] * SEEDS}}
        return answer(alike("ours", "theirs", LOSS, 2.0, "", name=""), given, column="average_loss")

    assert of(1.0, 1.9) == of(1.9, 1.0) == "holds"
    assert of(1.0, 2.1) == of(2.1, 1.0) == "does not hold"
    assert of(1.0, math.inf) == "does not hold"
    assert of(math.inf, math.inf) == "not decided here"


def test_every_pair_must_be_won():
    some = {"": {"a": [0.9] * SEEDS, "b": [0.5] * SEEDS, "c": [0.7] * SEEDS}}
    assert answer(beats([("a", "b"), ("c", "b")], END, "", name=""), some) == "holds"
    assert answer(beats([("a", "b"), ("b", "c")], END, "", name=""), some) == "does not hold"


def test_nearer_counts_both_sides_of_the_goal():
    some = {"": {"goal": [0.5] * SEEDS, "a": [0.6] * SEEDS, "b": [0.3] * SEEDS}}
    assert answer(nearer("goal", ["a", "b"], END, "", name=""), some) == "holds"
    assert answer(nearer("goal", ["b", "a"], END, "", name=""), some) == "does not hold"


def test_two_agree_by_a_share_of_the_larger():
    some = {"": {"a": [1.0] * SEEDS, "b": [1.1] * SEEDS}}
    for limit, expected in ((0.1, "holds"), (0.05, "does not hold")):
        check = agree([("a", "b")], LOSS, limit, "", name="")
        assert answer(check, some, column="average_loss") == expected


def test_one_point_over_another_is_said_of_each_algorithm():
    some = {
        "cnn": {"a": [0.9] * SEEDS, "b": [0.6] * SEEDS},
        "mlp": {"a": [0.8] * SEEDS, "b": [0.7] * SEEDS},
    }
    pairs = [("cnn", "mlp")]
    assert answer(over_points(["a"], pairs, END, "", name=""), some) == "holds"
    assert answer(over_points(["a", "b"], pairs, END, "", name=""), some) == "does not hold"
    spare = over_points(["a", "b"], pairs, END, "", name="", limit=-0.2)
    assert answer(spare, some) == "holds"


def test_within_compares_the_means_of_two_sets_of_points():
    check = within("ours", END, ["0", "1"], ["2", "3"], 0.05, "", name="")
    assert answer(check, points(0.5, 0.7, 0.4, 0.76)) == "holds"
    assert answer(check, points(0.5, 0.7, 0.6, 0.8)) == "does not hold"
    assert answer(check, points(0.5, 0.7, 0.6, -math.inf)) == "does not hold"


EVERY = [
    (paper, figure, check)
    for paper in RECIPES
    for figure, recipe in RECIPES[paper].items()
    for check in recipe.checks
]


def test_every_claim_has_the_papers_own_words_and_their_place():
    silent = [(p, f, c.name) for p, f, c in EVERY if not (c.words and c.place)]
    assert not silent
    assert max(len(check.words) for _, _, check in EVERY) < 200


@pytest.mark.parametrize(("paper", "figure"), [(p, f) for p in RECIPES for f in RECIPES[p]])
def test_the_claims_of_a_figure_have_names_of_their_own(paper, figure):
    names = [check.name for check in RECIPES[paper][figure].checks]
    assert len(set(names)) == len(names)


@pytest.mark.skipif(
    "PEERLOOM_PAPERS" not in os.environ, reason="needs the papers' texts: set PEERLOOM_PAPERS"
)
@pytest.mark.parametrize("paper", RECIPES)
def test_the_papers_say_these_words(paper):
    """The folder has a text file for each paper, by the name that `reproduce` gives it."""

    def plain(text):
        text = re.sub(r"-\n", "", text).replace("–", "-").replace("’", "'")  # noqa: RUF001
        return " ".join(re.sub(r"[$*]", "", text).lower().split())

    text = plain((Path(os.environ["PEERLOOM_PAPERS"]) / f"{paper}.txt").read_text("utf-8"))
    missing = [c.words for p, _, c in EVERY if p == paper and plain(c.words) not in text]
    assert not missing
