"""Figures that show the same runs are found by their experiments, and counted once."""

from peerloom.papers.recipes import RECIPES, Form
from peerloom.papers.recipes.same_runs import distinct, fingerprint, shared


def outcomes(paper):
    return [
        {
            "paper": paper,
            "figure": figure,
            "varied": recipe.varied,
            "ran": {point: fingerprint(table) for point, table in recipe.tables().items()},
        }
        for figure, recipe in RECIPES[paper].items()
    ]


def test_figures_of_dspodfl_have_points_in_common():
    same = {frozenset(some) for some in shared(outcomes("dspodfl"))}
    assert any(
        some >= {"fig6a at labels 1", "fig6c at clients 10", "fig10c at a 0.5"} for some in same
    )
    assert any(some >= {"fig3a at labels 1", "fig3c at clients 10"} for some in same)
    assert not any({"fig2b", "fig6a at labels 1"} <= some for some in same), (
        "one goes on to a delay of 4000, the other to 500"
    )
    points, different = distinct(outcomes("dspodfl"))
    assert points - different == sum(len(some) - 1 for some in same) > 5


def test_neither_title_nor_seeds_make_another_experiment():
    recipe = RECIPES["dspodfl"]["fig6a"]
    one, more = (recipe.tables(Form(seeds=n, points=["1"]))["1"] for n in (1, 20))
    assert fingerprint(one) == fingerprint(more)
    other = recipe.tables(Form(points=["1"], settings=["problem.batch=8"]))["1"]
    assert fingerprint(one) != fingerprint(other)


def test_figures_seen_twice_are_counted_once():
    one = {"paper": "p", "figure": "fig1", "varied": "a", "ran": {"1": "x", "2": "y"}}
    two = one | {"figure": "fig2", "varied": "b", "ran": {"3": "y", "4": "z"}}
    assert distinct([one, two]) == (4, 3)
    assert shared([one, two]) == [["fig1 at a 2", "fig2 at b 3"]]
