"""What is predicted is kept with a run and shown beside what was measured; no run fails for it."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

import peerloom as pl
from peerloom import graphs
from peerloom.codecs import Coordinates, TopK
from peerloom.problems import Quadratic
from peerloom.reports import write_report
from peerloom.reports.theory import measured_floor
from peerloom.rules import RULES, DSpodFL
from peerloom.runs import RunFolder
from peerloom.schedules import Bernoulli, HubRounds
from peerloom.theory import advise, predict
from tests.builders import experiment, quadratic
from tests.every_rule import EVERY


def small(**options):
    problem = quadratic(4, n=2, seed=3, noise=0.2)
    options = {
        "rounds": 8000,
        "schedule": Bernoulli(nodes=0.8, links=0.5),
        "evaluate": pl.Evaluate(every=4),
        **options,
    }
    return experiment(graphs.ring(4), DSpodFL(lr=0.05), problem=problem, **options)


def test_a_run_keeps_its_prediction_and_the_prediction_comes_true(tmp_path):
    pl.simulate(small(), out=tmp_path)
    run = RunFolder(tmp_path).read()
    assert run.advice == json.loads((tmp_path / "advice.json").read_text())
    exact = run.advice["exact"]
    assert measured_floor(run, "consensus") == pytest.approx(exact["consensus"], rel=0.15)
    excess = measured_floor(run, "average_loss") - run.advice["optimum_loss"]
    assert excess == pytest.approx(exact["excess"], rel=0.4)
    assert run.advice["contraction"]["drawn"] <= run.advice["contraction"]["per_round"]


def test_the_report_shows_both(tmp_path):
    pl.simulate(small(rounds=100), out=tmp_path / "a")
    run = RunFolder(tmp_path / "a").read()
    page = write_report([run], tmp_path / "report.html", "Runs").read_text()
    part = page.split("Theory and practice: predicted and measured")[1].split(
        "Configuration and sources"
    )[0]
    for word in (
        "predicted",
        "measured",
        "as links fired",
        "loss above the optimum",
        "Theorem 4.11",
    ):
        assert word in part
    (tmp_path / "a" / "advice.json").unlink()  # a run from before there were predictions
    page = write_report(
        [RunFolder(tmp_path / "a").read()], tmp_path / "report.html", "Runs"
    ).read_text()
    assert "Theory and practice" not in page


def test_what_would_take_long_is_left_out_with_a_reason():
    many = Quadratic(np.tile(np.eye(1), (700, 1, 1)), np.ones((700, 1)))
    assert "700" not in predict(experiment(graphs.ring(4)))
    (why,) = predict(experiment(graphs.ring(700), problem=many))["skipped"]
    assert "more than 600 clients" in why

    class Own:
        n = 2

    assert "your own" in predict(experiment(graphs.ring(4), problem=Own()))["skipped"][0]


def test_a_prediction_is_cheap():
    started = time.perf_counter()
    predict(small())
    assert time.perf_counter() - started < 1


def fitting(name):
    """A small experiment of the kind each algorithm needs."""
    rule = RULES[name](**EVERY[name])
    graph, schedule = graphs.ring(5), Bernoulli(nodes=0.6, links=0.5)
    if "across" in rule.needs.layers or rule.needs.one_hub:
        graph = graphs.hubs(
            graphs.from_edges(1, []) if rule.needs.one_hub else graphs.ring(3),
            [5] if rule.needs.one_hub else [2, 1, 2],
        )
        schedule = HubRounds(tau=2, q=2, nodes=0.6)
    return experiment(graph, rule, problem=quadratic(5), schedule=schedule, rounds=40)


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_algorithm_gets_advice(name):
    exp = fitting(name)
    found = advise(exp)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.costs.gradients > 0
    assert found.coverage.theorem
    assert "theory gave up" not in " ".join(predict(exp)["skipped"])


@pytest.mark.parametrize(
    "name", ["DSpodFL", "RandomizedGossip", "EpidemicLearning", "LocalSGD", "PaME", "PeriodicGT"]
)
def test_every_message_gets_advice(name):
    exp = replace(fitting(name), message=Coordinates(0.4))
    found = advise(exp)
    assert found.contraction.how == "drawn"
    assert 0 <= found.contraction.drawn < 1
    told = advise(replace(exp, message=TopK(0.5)))
    assert (told.contraction.how, told.rounds_to_agree) == ("unknown", None)
    assert "TopK" in told.contraction.why
    assert any("not known" in one.text and "TopK" in one.text for one in told.findings)
    follows = [told.coverage.holds, told.coverage.floor, told.coverage.exact, told.changes]
    assert not any(follows)
