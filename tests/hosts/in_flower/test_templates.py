"""Five apps that nobody here wrote run as they are, and to the same bits in both engines."""

import ast

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.peers.federation import Federation
from peerloom.registry import build
from tests.builders import final
from tests.hosts.in_flower import templates
from tests.memory_runs import check_same, run_in_memory, wait_for


def experiment(kind, folder, rounds=3):
    """Three clients in a line: train, then gossip."""
    name = "tests.hosts.in_flower.templates:program"
    problem = build("problems", {"name": name, "kind": kind, "folder": str(folder)}, "problem")
    graph = pl.graphs.from_edges(templates.CLIENTS, [(0, 1), (1, 2)])
    return pl.Experiment(graph, problem, pl.rules.DSGD(lr=1.0), rounds=rounds, seed=4)


@pytest.mark.parametrize("kind", templates.FILES)
def test_an_app_of_flwr_new_has_the_same_bits_in_simulator_and_peers(kind, identities, tmp_path):
    exp = experiment(kind, tmp_path / "app")
    results = run_in_memory(exp, identities, tmp_path, seed=1, crashes=[(0.05, 1, 0.2)])
    check_same(exp, results)
    last = final(exp, path="links")
    assert not torch.equal(last.x[0], exp.start([0])[0].float()), "it has trained"
    assert np.isfinite(last.port.problem.evaluate(last.x[:1]).loss).all() or kind == "numpy"


def test_an_app_of_flwr_new_learns(tmp_path):
    exp = experiment("pytorch", tmp_path, rounds=6)
    first, last = pl.simulate(exp).metrics["average_accuracy"][[0, -1]]
    assert last > first + 0.2


@pytest.mark.parametrize("kind", templates.FILES)
def test_only_what_loads_data_is_changed(kind):
    for file, part in templates.FILES[kind].items():
        text = templates.text_of(kind, part)
        if "def load_data" not in text:
            continue
        changed = templates.with_own_data(text, "images")
        kept = {ast.unparse(node) for node in ast.parse(changed).body}
        for node in ast.parse(text).body:
            assert ast.unparse(node) in kept or templates._is_data(node), file
        assert len(kept) - len(ast.parse(text).body) <= 1


def test_an_app_of_flwr_new_runs_over_tls_and_survives_a_kill(tmp_path):
    exp = experiment("pytorch_legacy_api", tmp_path / "app", rounds=12)
    federation = Federation(exp, tmp_path / "run")
    with federation.no_orphans():
        for row in range(templates.CLIENTS):
            federation.start(row)
        wait_for(lambda: any(status["round"] >= 3 for status in federation.status()))
        federation.kill(1)
        federation.start(1)
        federation.wait()
    last = final(exp, path="links")
    assert torch.equal(torch.from_numpy(federation.checkpoint().state["x"]), last.state.x)
    (measured,) = [row for row in federation.evaluations() if row["round"] == exp.rounds]
    assert 0 <= measured["mean_accuracy"] <= 1
    assert np.isfinite(measured["mean_loss"])
