"""What recipes choose: PaME's excess over a known optimum, steps of a grid, points by a pattern."""

import math

import numpy as np
import pytest

from peerloom.config import comparison_from
from peerloom.core import ConfigError
from peerloom.papers.recipes import RECIPES, Form
from peerloom.papers.recipes.pame_excess import excess, least_of
from peerloom.papers.recipes.tuned import at_best_steps
from peerloom.runs import RunFolder, simulate
from peerloom.sweeps.readings import Found
from tests.papers.test_checks import run

pytestmark = pytest.mark.filterwarnings("ignore::peerloom.errors.Caution")


@pytest.fixture(scope="module")
def pame(tmp_path_factory):
    """A short run of figure 2c, as it lies on disk."""
    form = Form(tiny=True, points=["2, m 32"])
    (table,) = RECIPES["pame"]["fig2c"].tables(form).values()
    (exp,) = comparison_from(table).experiments
    place = tmp_path_factory.mktemp("pame") / "run"
    simulate(exp, out=place)
    return exp, RunFolder(place).read()


def test_the_least_objective_is_that_of_the_normal_equations(pame):
    exp, ran = pame
    a, b = exp.problem.data.x.astype(np.float64), exp.problem.data.y
    w = np.linalg.solve(a.T @ a, a.T @ b)
    least = sum((row @ w - target) ** 2 for row, target in zip(a, b, strict=True)) / 2 / len(b)
    assert least_of(ran) == pytest.approx(least, rel=1e-9)
    assert min(ran.metrics["average_loss"]) > least


def test_excess_is_the_mean_over_all_rounds_however_often_they_were_judged(pame):
    _, ran = pame
    found = Found({"p": [ran]})
    rounds, loss = (np.asarray(ran.metrics[name]) for name in ("round", "average_loss"))
    assert set(np.diff(rounds)) == {3, 2}, "not every step is alike"
    every = [float(np.interp(t, rounds, loss)) for t in range(int(rounds[-1]) + 1)]
    mean = (sum(every) - (every[0] + every[-1]) / 2) / (len(every) - 1)
    (along,), (end,) = (excess(found, "p", "PaME", when).values() for when in ("along", "end"))
    assert along == pytest.approx(mean - least_of(ran), rel=1e-9)
    assert end == pytest.approx(loss[-1] - least_of(ran), rel=1e-9)
    assert excess(found, "another", "PaME", "end") == {}


def test_a_run_that_diverged_has_no_end_of_excess():
    found = Found({"p": [run("PaME", 1, status="diverged", average_loss=[1.0, 2.0])]})
    assert excess(found, "p", "PaME", "along") == {"1": math.inf}


def grid(label, seed, losses, accuracies, status="done"):
    return [
        run(
            f"{label}, step {step}", seed, status=status,
            average_train_loss=[1.0, loss], average_accuracy=[0.1, accuracy],
        )
        for step, loss, accuracy in zip((0.1, 0.2), losses, accuracies, strict=True)
    ]  # fmt: skip


def test_a_step_is_chosen_by_the_training_loss_in_every_seed_by_itself():
    runs = [
        *grid("A", 1, (0.5, 0.3), (0.9, 0.8)),  # the smaller loss, not the larger accuracy
        *grid("A", 2, (0.2, 0.3), (0.6, 0.7)),
        *grid("B", 1, (math.nan, 0.9), (0.9, 0.1)),
    ]
    kept = at_best_steps({"row": runs})["row"]
    found = {(one.info["label"], one.info["seed"]): one.path.name for one in kept}
    assert found == {
        ("A", 1): "A, step 0.2-1",
        ("A", 2): "A, step 0.1-2",
        ("B", 1): "B, step 0.2-1",
    }


def test_a_step_that_diverged_counts_only_where_all_did():
    one = grid("A", 1, (0.1, 0.2), (0.9, 0.8))
    one[0].info["status"] = "diverged"
    (kept,) = at_best_steps({"row": one})["row"]
    assert kept.path.name == "A, step 0.2-1"
    both = grid("A", 1, (0.1, 0.2), (0.9, 0.8), status="diverged")
    (kept,) = at_best_steps({"row": both})["row"]
    assert kept.info["status"] == "diverged"


def test_every_method_of_table_3_has_the_same_grid_of_steps():
    table = RECIPES["depositum"]["table3"].table
    steps = {}
    for rule in table["algorithms"]:
        label, _, step = rule["label"].partition(", step ")
        assert float(step) == rule.get("alpha", rule.get("lr"))
        steps.setdefault(label, []).append(step)
    assert list(steps) == ["OPTION I", "OPTION II", "FedMiD", "FedDR", "FedADMM"]
    assert len({tuple(each) for each in steps.values()}) == 1
    assert {rule["beta"] for rule in table["algorithms"] if "beta" in rule} == {1.0}


def test_points_are_taken_by_a_pattern():
    recipe = RECIPES["depositum"]["table3"]
    names = list(recipe.tables(Form(points=["mnist *", "*resnet18 IID"])))
    dealt = ("IID", "Dir(1)", "Dir(0.1)")
    assert names == [
        *(f"mnist {model} {each}" for model in ("mlp", "cnn") for each in dealt),
        "fashion-mnist resnet18 IID",
        "cifar10 resnet18 IID",
    ]
    with pytest.raises(ConfigError, match=r"no point '\*vgg\*' of row"):
        recipe.tables(Form(points=["*vgg*"]))


def test_pames_rivals_take_part_as_pame_does_where_they_can():
    for figure in ("fig8", "fig11"):
        rules = {
            rule.get("label", rule["name"]): rule
            for rule in RECIPES["pame"][figure].table["algorithms"]
        }
        ours = rules["PaME"]["schedule"]
        assert rules["D-PSGD, sampled"]["schedule"] == ours
        assert rules["DFedSAM, sampled"]["schedule"]["fraction"] == ours["fraction"]
        often = sum(1 / k for k in range(ours["kappa"], ours["upto"] + 1))
        often /= ours["upto"] + 1 - ours["kappa"]
        period = rules["D-PSGD"]["schedule"]["T0"]
        assert rules["DFedSAM"]["K"] == period == round(1 / often)
        assert "schedule" not in rules["BEER"]
