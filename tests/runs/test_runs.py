"""Runs on disk: complete, readable whatever happens, and resumed to the same bits."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import peerloom as pl
from peerloom.core.events import each_round
from peerloom.errors import ConfigError, DataError, DivergedError
from peerloom.measures import DIAGNOSTICS, METRICS
from peerloom.runs import RunFolder, find_runs, folder_name


def experiment(**changes):
    exp = pl.Experiment(
        graph=pl.graphs.geometric(6, radius=0.6, seed=2),
        problem=pl.problems.Classification("svm", partition=pl.problems.Labels(2), batch=4),
        algorithm=pl.rules.DSpodFL(lr=0.05),
        schedule=pl.schedules.Bernoulli(pl.laws.Beta(0.5, 0.5), pl.laws.Beta(0.5, 0.5)),
        rounds=40,
        evaluate=pl.Evaluate(every=7),
        seed=3,
    )
    return replace(exp, **changes)


def same_but_for_time(one, two):
    return one.drop("seconds").equals(two.drop("seconds"))


def test_a_run_leaves_all_that_is_needed(tmp_path):
    result = pl.simulate(experiment(), out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "advice.json", "checkpoint.safetensors", "config.toml", "holdings.json", "metrics.jsonl",
        "network.json", "run.json",
    ]  # fmt: skip
    run = RunFolder(tmp_path).read()
    assert run.info["status"] == "done"
    assert run.info["seed"] == 3
    assert run.info["versions"]["torch"] == torch.__version__
    data, parts = (
        result.experiment.problem.data,
        result.experiment.problem.deal(6, pl.core.Draws(3)),
    )
    assert run.holdings == [
        [int((data.y[part] == label).sum()) for part in parts] for label in range(data.classes)
    ]
    assert np.array(run.holdings).sum(axis=1).tolist() == np.bincount(data.y).tolist()
    assert run.metrics.equals(result.metrics)
    assert run.metrics["round"].tolist() == [0, 7, 14, 21, 28, 35, 40]
    state = safetensors.numpy.load_file(tmp_path / "checkpoint.safetensors")
    assert np.array_equal(state["state/x"], result.x.numpy())
    assert int(state["t"][0]) == 40
    again = pl.simulate(RunFolder(tmp_path).experiment())
    assert torch.equal(again.x, result.x)


def test_the_table_has_every_metric_that_is_documented():
    table = pl.simulate(experiment(rounds=2)).metrics
    assert table.columns == list(METRICS)
    last = table.row(-1, named=True)
    assert last["mean_accuracy"] == pytest.approx(np.mean(last["client_accuracy"]))
    assert last["mean_loss"] == pytest.approx(np.mean(last["client_loss"]))
    assert last["delay"] == pytest.approx(last["processing_delay"] + last["transmission_delay"])


@pytest.mark.parametrize("nesterov", [False, True])
def test_diagnostics_are_those_of_plain_loops(nesterov):
    dice = np.random.default_rng(3)
    A = [np.diag(dice.uniform(0.5, 2, 3)) for _ in range(4)]
    b = dice.normal(size=(4, 3))
    problem = pl.problems.Quadratic(A=A, b=b, noise=0.1, h=pl.problems.L1(0.2))
    rule = pl.rules.Depositum(alpha=0.1, beta=0.5, gamma=0.3, nesterov=nesterov, h_scale="beta")
    exp = pl.Experiment(
        pl.graphs.ring(4),
        problem,
        rule,
        pl.schedules.Every(2),
        rounds=7,
        dtype="float64",
        evaluate=pl.Evaluate(1, closely=True),
    )
    result = pl.simulate(exp)
    assert result.metrics.columns == [*METRICS, *DIAGNOSTICS]
    last = result.metrics.row(-1, named=True)
    x, y, _, mu = (field.numpy() for field in result.state)
    mu = 0.3 * mu + 0.7 * y
    nu = 0.3 * mu + 0.7 * y if nesterov else mu
    spread = [sum(sum((v[i] - v.mean(axis=0)) ** 2) for i in range(4)) / 4 for v in (y, nu)]
    assert [last["consensus_tracker"], last["consensus_direction"]] == pytest.approx(spread)
    own = sum(A[i] @ x[i] - b[i] for i in range(4)) / 4
    assert last["gradient_error"] == pytest.approx(sum((nu.mean(axis=0) - own) ** 2))
    total = 0.0
    for i in range(4):
        z = x[i] - 0.1 * sum(A[j] @ x[i] - b[j] for j in range(4)) / 4
        moved = np.sign(z) * np.maximum(np.abs(z) - 0.1 * 0.2, 0)
        total += sum(((x[i] - moved) / 0.1) ** 2) / 4
    assert last["proximal_gradient"] == pytest.approx(total)
    others = replace(exp, algorithm=pl.rules.ProxGT(lr=0.1))
    assert pl.simulate(others).metrics["gradient_error"].tolist() == pytest.approx(
        [np.nan] * 8, nan_ok=True
    )


def test_measures_are_those_of_plain_loops():
    exp = experiment(rounds=10, dtype="float64")
    result = pl.simulate(exp)
    data, x = exp.problem.data, result.x.numpy()
    hits, losses = [], []
    for row in [*x, x.mean(axis=0)]:
        weight, bias = row[:640].reshape(10, 64), row[640:]
        scores = data.test_x.astype(float) @ weight.T + bias
        hits.append((scores.argmax(axis=1) == data.test_y).mean())
        loss = 0.0
        for score, label in zip(scores, data.test_y, strict=True):
            loss += sum(max(0, 1 - score[label] + score[c]) for c in range(10) if c != label) / 10
        losses.append(loss / len(scores))
    last = result.metrics.row(-1, named=True)
    assert last["client_accuracy"] == pytest.approx(hits[:-1])
    assert last["average_accuracy"] == pytest.approx(hits[-1])
    assert last["client_loss"] == pytest.approx(losses[:-1])
    assert last["average_loss"] == pytest.approx(losses[-1])
    spread = sum(np.sum((row - x.mean(axis=0)) ** 2) for row in x) / len(x)
    assert last["consensus"] == pytest.approx(spread)


@pytest.mark.parametrize("stop_at", [0, 1, 13, 39])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, stop_at):
    whole = pl.simulate(experiment())
    seen = []
    first = pl.simulate(
        experiment(),
        out=tmp_path,
        observers=[each_round(seen.append)],
        stop=lambda: seen[-1] >= stop_at,
    )
    assert not first.finished
    assert RunFolder(tmp_path).info()["status"] == "interrupted"
    rest = pl.simulate(RunFolder(tmp_path).experiment(), out=tmp_path, resume=True)
    assert torch.equal(rest.x, whole.x)
    assert same_but_for_time(rest.metrics, whole.metrics)
    for name, values in whole.ledger.arrays().items():
        assert np.array_equal(rest.ledger.arrays()[name], values), name
    assert RunFolder(tmp_path).info()["status"] == "done"


def test_until_delay_ends_with_an_evaluation(tmp_path):
    result = pl.simulate(experiment(until_delay=20.0), out=tmp_path)
    assert result.finished
    assert result.rounds < 40
    last = result.metrics.row(-1, named=True)
    assert last["round"] == result.rounds
    assert last["delay"] >= 20 > result.metrics["delay"][-2]


def test_a_run_that_diverges_keeps_what_it_measured(tmp_path):
    exp = pl.Experiment(
        graph=pl.graphs.ring(3),
        problem=pl.testing.random_quadratic(3, 2),
        algorithm=pl.rules.DGD(lr=50.0),
        rounds=200,
        evaluate=pl.Evaluate(every=5),
    )
    with pytest.raises(DivergedError) as caught:
        pl.simulate(exp, out=tmp_path)
    run = RunFolder(tmp_path).read()
    assert run.info["status"] == "diverged"
    assert run.info["round"] == caught.value.round
    assert 0 < len(run.metrics) <= caught.value.round / 5 + 1
    assert run.metrics["round"].max() < caught.value.round


@pytest.mark.slow
def test_a_killed_run_can_be_read_and_resumed(tmp_path):
    """kill -9 at a random moment, while checkpoints are written after every round."""
    code = (
        "import sys, time, peerloom as pl, peerloom.runs.runner as runner\n"
        "runner.SAVE_EVERY = 0.0\n"
        "sys.path.insert(0, sys.argv[2]); from test_runs import each_round, experiment\n"
        "show = each_round(lambda t: (print(t, flush=True), time.sleep(0.02)))\n"
        "pl.simulate(experiment(), out=sys.argv[1], observers=[show])\n"
    )
    here = str(Path(__file__).parent)
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), here], stdout=subprocess.PIPE, text=True
    )
    while int(child.stdout.readline()) < 9:
        pass
    time.sleep(0.013)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    run = RunFolder(tmp_path).read()
    assert run.info["status"] == "running"
    assert run.metrics["round"][0] == 0
    rest = pl.simulate(RunFolder(tmp_path).experiment(), out=tmp_path, resume=True)
    whole = pl.simulate(experiment())
    assert torch.equal(rest.x, whole.x)
    assert same_but_for_time(rest.metrics, whole.metrics)


def test_metrics_newer_than_the_state_are_measured_again(tmp_path):
    """Killed between the two files: the metrics are ahead of the state."""
    pl.simulate(
        experiment(), out=tmp_path, stop=lambda: (tmp_path / "checkpoint.safetensors").exists()
    )
    seen = []
    pl.simulate(
        experiment(),
        out=tmp_path / "late",
        observers=[each_round(seen.append)],
        stop=lambda: seen[-1] >= 20,
    )
    early = []
    pl.simulate(
        experiment(),
        out=tmp_path / "early",
        observers=[each_round(early.append)],
        stop=lambda: early[-1] >= 8,
    )
    (tmp_path / "late" / "metrics.jsonl").replace(tmp_path / "early" / "metrics.jsonl")
    rest = pl.simulate(experiment(), out=tmp_path / "early", resume=True)
    assert same_but_for_time(rest.metrics, pl.simulate(experiment()).metrics)


def test_the_network_is_kept_as_it_was_drawn(tmp_path):
    exp = experiment(
        rounds=1,
        schedule=pl.schedules.Bernoulli(pl.laws.Beta(0.05, 0.05), pl.laws.Beta(0.05, 0.05)),
    )
    pl.simulate(exp, out=tmp_path)
    network = json.loads((tmp_path / "network.json").read_text())
    links = network["layers"]["peers"]
    assert min(network["node_probability"] + links["probability"]) == 0.01
    assert network["clipped"]["nodes"] == sum(p == 0.01 for p in network["node_probability"]) > 0
    assert network["clipped"]["links"] == sum(p == 0.01 for p in links["probability"]) > 0
    chance = dict(
        zip(zip(links["source"], links["target"], strict=True), links["probability"], strict=True)
    )
    assert all(chance[i, j] == chance[j, i] for i, j in chance)


def test_a_problem_without_accuracy_has_none(tmp_path):
    exp = pl.Experiment(
        graph=pl.graphs.ring(3),
        problem=pl.testing.random_quadratic(3, 2),
        algorithm=pl.rules.DGD(0.1),
        rounds=3,
    )
    table = pl.simulate(exp, out=tmp_path).metrics
    assert len(table) == 4
    assert np.isnan(table["mean_accuracy"]).all()
    assert RunFolder(tmp_path).read().metrics.equals(table)


def test_what_is_no_run_says_so(tmp_path):
    with pytest.raises(DataError, match="holds no run"):
        find_runs(tmp_path)
    with pytest.raises(DataError, match="holds no run"):
        find_runs(tmp_path / "nowhere")
    pl.simulate(experiment(rounds=1), out=tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not a state")
    with pytest.raises(DataError, match="cannot be read"):
        pl.simulate(experiment(rounds=1), out=tmp_path, resume=True)


def test_labels_that_look_alike_have_folders_of_their_own():
    names = {
        folder_name(experiment(label=label))
        for label in ("a/b", "a b", "a-b", "x" * 300, "x" * 301, "..")
    }
    assert len(names) == 6
    assert all(len(name) < 100 and "/" not in name and not name.startswith(".") for name in names)


def test_a_new_run_in_an_old_folder_starts_anew(tmp_path):
    pl.simulate(experiment(), out=tmp_path)
    RunFolder.create(tmp_path, experiment(seed=9))
    assert not (tmp_path / "checkpoint.safetensors").exists()
    fresh = pl.simulate(experiment(seed=9), out=tmp_path, resume=True)
    assert torch.equal(fresh.x, pl.simulate(experiment(seed=9)).x)


def test_a_run_that_fails_says_so(tmp_path):
    exp = experiment(schedule=pl.schedules.Explicit(nodes=np.ones((5, 6), bool)))
    with pytest.raises(ConfigError, match="rounds 0 to 4, but round 5"):
        pl.simulate(exp, out=tmp_path)
    assert RunFolder(tmp_path).info()["status"] == "failed"


def test_a_state_that_is_about_to_be_refused_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("peerloom.runs.runner.SAVE_EVERY", 0.0)
    exp = pl.Experiment(
        graph=pl.graphs.ring(3),
        problem=pl.testing.random_quadratic(3, 2),
        algorithm=pl.rules.DGD(1e9),
        rounds=50,
    )
    with pytest.raises(DivergedError) as straight:
        pl.simulate(exp, out=tmp_path)
    with pytest.raises(DivergedError) as resumed:
        pl.simulate(exp, out=tmp_path, resume=True)
    assert (resumed.value.round, resumed.value.row) == (straight.value.round, straight.value.row)


def test_a_folder_name_may_have_brackets(tmp_path):
    folder = tmp_path / "x[a]"
    pl.simulate(experiment(rounds=3), out=folder)
    assert len(RunFolder(folder).read().metrics) > 0


def test_broken_files_are_named(tmp_path):
    pl.simulate(experiment(rounds=1), out=tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(b"broken\n")
    with pytest.raises(DataError, match=r"metrics.jsonl cannot be read"):
        RunFolder(tmp_path).read()
    (tmp_path / "checkpoint.safetensors").write_bytes(b"PK\x03\x04broken")
    with pytest.raises(DataError, match=r"checkpoint.safetensors cannot be read"):
        pl.simulate(experiment(rounds=1), out=tmp_path, resume=True)
    (tmp_path / "config.toml").unlink()
    with pytest.raises(DataError, match=r"no config.toml"):
        RunFolder(tmp_path).read()


def test_whole_numbers_of_numpy_are_whole_numbers(tmp_path):
    exp = experiment(rounds=np.int64(3), seed=np.int64(3))
    assert torch.equal(pl.simulate(exp, out=tmp_path).x, pl.simulate(experiment(rounds=3)).x)
    with pytest.raises(ConfigError, match=r"rounds must be a whole number, found 2.5"):
        experiment(rounds=2.5)


def test_a_run_ends_by_pames_rule_and_resumes_to_the_same_end(tmp_path):
    """Stops when f at the mean model deviates less than the limit over three evaluations."""
    exp = experiment(
        rounds=400,
        evaluate=pl.Evaluate(every=2),
        until_settled=0.02,
        schedule=pl.schedules.Always(),
    )
    whole = pl.simulate(exp, out=tmp_path / "whole")
    f = 6 * whole.metrics["average_loss"]
    spreads = np.array([f[k - 2 : k + 1].std() for k in range(2, len(f))])
    assert 6 < whole.rounds < 400
    assert (spreads[:-1] >= 0.02).all()
    assert spreads[-1] < 0.02
    assert RunFolder(tmp_path / "whole").info()["status"] == "done"
    rounds = []
    pl.simulate(
        exp,
        out=tmp_path / "parts",
        observers=[each_round(rounds.append)],
        stop=lambda: len(rounds) >= whole.rounds - 1,
    )
    again = pl.simulate(exp, out=tmp_path / "parts", resume=True)
    assert same_but_for_time(again.metrics, whole.metrics)
    with pytest.raises(ConfigError, match="until_settled must be above 0"):
        experiment(until_settled=0.0)


def test_equal_models_are_judged_once_and_as_any_other(monkeypatch):
    exp = experiment(rounds=0)
    asked = []
    local = type(
        exp.problem.bind(
            pl.core.Placement(np.arange(6), 6, torch.device("cpu"), torch.float32), pl.core.Draws(3)
        )
    )
    evaluate = local.evaluate
    monkeypatch.setattr(
        local, "evaluate", lambda self, x: asked.append(len(x)) or evaluate(self, x)
    )
    row = pl.simulate(exp).metrics.row(0, named=True)
    assert asked == [1]  # one start for all, which is the averaged model too
    assert row["client_loss"] == [row["client_loss"][0]] * 6
    different = pl.simulate(replace(exp, rounds=3)).metrics.row(-1, named=True)
    assert len(set(different["client_loss"])) == 6
    assert asked[-1] == 7  # with the averaged model
