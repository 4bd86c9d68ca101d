"""The training loss: asked for in the file, by the objective that the rule means."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import peerloom as pl
from peerloom.config import comparison_from, experiment_to_toml, override, spec_hash
from peerloom.core import objective_over
from peerloom.core.mean_model import mean_model
from peerloom.errors import ConfigError
from peerloom.measures import METRICS, TRAINING
from peerloom.problems import L1, MLP, BySize, Classification, Dataset, blobs
from peerloom.reports import write_report
from peerloom.rules import RULES, DSpodFL
from peerloom.runs import RunFolder
from peerloom.runtime import Snapshot, iterate
from peerloom.sweeps.readings import words_of

TEXT = """
rounds = 6
dtype = "float64"
[graph]
name = "hubs"
hub_graph = { name = "ring", clients = 3 }
workers = [1, 2, 1]
weights = [1.0, 5.0, 2.0, 1.0]
[schedule]
name = "HubRounds"
tau = 2
q = 2
[problem]
name = "Classification"
model = "softmax"
l2 = 0.1
data = { name = "blobs", samples = 90, features = 4, classes = 3 }
partition = { name = "BySize", sizes = [1, 2, 3, 4] }
[evaluate]
every = 2
train = true
[algorithm]
name = "MLLSGD"
lr = 0.2
"""


def run(*settings):
    return comparison_from(override(tomllib.loads(TEXT), settings)).experiments[0]


def plain(exp, model, samples):
    """F(model) sample by sample: all alike, or each client's mean alike; with l2 and h."""
    problem, module = exp.problem, exp.problem.module(0).double()
    torch.nn.utils.vector_to_parameters(model.double().clone(), module.parameters())
    means, sums, count = [], 0.0, 0
    for part in problem.deal(exp.graph.clients, pl.core.Draws(exp.seed)):
        own = 0.0
        for k in part:
            scores = module(torch.from_numpy(problem.data.x[k : k + 1]).double())
            own += F.cross_entropy(scores, torch.tensor([int(problem.data.y[k])])).item()
        means.append(own / len(part))
        sums, count = sums + own, count + len(part)
    f = sums / count if samples else sum(means) / len(means)
    h = 0.0 if problem.h is None else float(problem.h.value(model[None])[0])
    return f + problem.l2 / 2 * float(model.square().sum()) + h


def test_mll_sgds_is_that_of_u_k_over_all_samples():
    """u_k = sum_i a_i x_i with the workers' weights, F the mean over all workers' data."""
    exp = run()
    found = pl.simulate(exp).metrics
    assert found.columns[: len(METRICS)] == list(METRICS)
    assert found.columns[len(METRICS) :] == list(TRAINING)
    a = np.array([1.0, 5.0, 2.0, 1.0]) / 9
    models = {s.t: torch.from_numpy(a) @ s.x for s in iterate(exp)}
    for t, loss in zip(found["round"], found["average_train_loss"], strict=True):
        assert loss == pytest.approx(plain(exp, models[int(t)], samples=True), rel=1e-10)
        assert loss != pytest.approx(plain(exp, models[int(t)], samples=False), rel=1e-4)


def test_others_mean_every_client_alike():
    problem = Classification(
        "softmax", blobs(samples=90, features=4, classes=3), BySize((1, 2, 3, 4)), h=L1(0.01)
    )
    exp = pl.Experiment(
        pl.graphs.ring(4), problem, pl.rules.Depositum(0.1, 1.0, 0.5), rounds=4, dtype="float64",
        evaluate=pl.Evaluate(2, train=True),
    )  # fmt: skip
    found = pl.simulate(exp).metrics
    for snapshot in iterate(exp):
        if snapshot.t % 2 == 0:
            wanted = plain(exp, snapshot.x.mean(dim=0), samples=False)
            assert found["average_train_loss"][snapshot.t // 2] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("strategy", ["closed", "vmap", "loop"])
def test_every_way_to_scores_gives_it(strategy):
    problem = Classification(
        MLP((4,)), blobs(samples=60, features=4, classes=3), BySize((1, 2)), strategy=strategy
    )
    exp = pl.Experiment(
        pl.graphs.complete(2), problem, DSpodFL(0.1), rounds=1, dtype="float64",
        evaluate=pl.Evaluate(train=True),
    )  # fmt: skip
    *_, last = iterate(exp)
    found = pl.simulate(exp).metrics["average_train_loss"][-1]
    assert found == pytest.approx(plain(exp, last.x.mean(dim=0), samples=False), rel=1e-10)


def test_samples_that_nobody_holds_count_nothing_and_those_held_twice_count_twice():
    data = Dataset.of(np.arange(8.0)[:, None], np.arange(8.0))

    class Shared:
        by = "labels"
        iid = False

        def deal(self, y, clients, draws):
            return [np.array([0, 3]), np.array([3, 5, 6])]

    exp = pl.Experiment(
        pl.graphs.complete(2), Classification("least_squares", data, Shared(), batch="all"),
        DSpodFL(0.1), rounds=0, dtype="float64", evaluate=pl.Evaluate(train=True),
        x0=[0.5, 0.0],
    )  # fmt: skip
    local = next(iter(iterate(exp))).port.problem
    x = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    loss = [0.5 * (0.5 * k - k) ** 2 for k in range(8)]
    pooled = (loss[0] + 2 * loss[3] + loss[5] + loss[6]) / 5
    alike = ((loss[0] + loss[3]) / 2 + (loss[3] + loss[5] + loss[6]) / 3) / 2
    assert local.train_loss(x, "samples")[0] == pytest.approx(pooled)
    assert local.train_loss(x, "clients")[0] == pytest.approx(alike)


def test_quadratics_have_their_own_loss_for_it():
    exp = pl.Experiment(
        pl.graphs.ring(4), pl.testing.random_quadratic(4, 3), DSpodFL(0.1), rounds=4,
        evaluate=pl.Evaluate(1, train=True),
    )  # fmt: skip
    found = pl.simulate(exp).metrics
    np.testing.assert_allclose(found["average_train_loss"], found["average_loss"], rtol=1e-6)


def test_which_rules_mean_all_samples_alike():
    over = {name for name, kind in RULES.items() if objective_over(kind) == "samples"}
    assert over == {"MLLSGD", "HLSGD", "LocalSGD", "DistributedSGD", "FedAvg"}


def test_it_is_not_computed_unless_asked_for_and_changes_nothing():
    asked, plain_run = run(), run("evaluate={every=2}")
    assert "train" not in experiment_to_toml(plain_run).split("[evaluate]")[1].split("[")[0]
    assert spec_hash(asked) != spec_hash(plain_run)
    one, other = pl.simulate(asked), pl.simulate(plain_run)
    assert other.metrics.columns == list(METRICS)
    assert torch.equal(one.x, other.x)
    for name in set(METRICS) - {"seconds"}:
        assert np.array_equal(one.metrics[name], other.metrics[name], equal_nan=True)


def test_a_file_asks_for_it_and_is_written_back():
    exp = run()
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert again.evaluate == exp.evaluate == pl.Evaluate(2, train=True)
    with pytest.raises(ConfigError, match=r"evaluate.train: 3 is not allowed. It must be true or"):
        run("evaluate.train=3")
    with pytest.raises(ConfigError, match=r"closely = true or train = true if wanted"):
        run("evaluate.training=true")


def test_a_problem_that_cannot_tell_is_refused():
    class Silent:
        def __init__(self, inner):
            self.grad, self.prox, self.evaluate = inner.grad, inner.prox, inner.evaluate

    inner = pl.testing.random_quadratic(4, 3)

    class Mine:
        n, clients = 3, 4

        def start(self, seed):
            return inner.start(seed)

        def bind(self, place, draws):
            return Silent(inner.bind(place, draws))

    exp = pl.Experiment(pl.graphs.ring(4), Mine(), DSpodFL(0.1), rounds=1)
    pl.simulate(exp)
    with pytest.raises(
        ConfigError, match=r"evaluate\.train: Silent does not say what a model loses"
    ):
        pl.simulate(replace(exp, evaluate=pl.Evaluate(train=True)))


def test_it_reaches_the_folder_tables_and_reports(tmp_path):
    exp = run()
    result = pl.simulate(exp, out=tmp_path / "one")
    lines = (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()
    kept = [json.loads(line)["average_train_loss"] for line in lines]
    assert kept == result.metrics["average_train_loss"].tolist()
    assert words_of("average_train_loss") == "training loss of the averaged model"
    page = write_report(
        [RunFolder(tmp_path / "one").read()], tmp_path / "page.html", "Title"
    ).read_text()
    assert "training loss, averaged model" in page
    assert "training loss of the averaged model" in page  # the switch of the charts


def test_the_average_is_that_of_all_other_columns():
    exp = run()
    *_, last = iterate(exp)
    assert isinstance(last, Snapshot)
    u = mean_model(last.x, last.mass)
    found = pl.simulate(exp).metrics["average_train_loss"][-1]
    assert found == pytest.approx(plain(exp, u, samples=True), rel=1e-10)
