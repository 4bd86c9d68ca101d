"""Models that leave: a safetensors file gives the module back, with its accuracy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import peerloom as pl
from peerloom.config import comparison_from
from peerloom.problems.layout import RowLayout
from peerloom.runs import RunFolder
from peerloom.runs.export import export_run, has_statistics, named_tensors
from peerloom.transport import Home
from tests import tasks
from tests.command import printed_by


@pytest.fixture
def peerloom(monkeypatch, capsys):
    """Run a command in this process; what it printed."""
    return partial(printed_by, monkeypatch, capsys)


FILE = {
    "rounds": 40,
    "seed": 4,
    "graph": {"name": "ring", "clients": 3},
    "problem": {
        "name": "Classification",
        "model": "mlp",
        "data": {"name": "blobs", "samples": 300},
        "batch": 16,
    },
    "evaluate": {"every": 40},
    "algorithm": {"name": "DSpodFL", "lr": 0.1},
}


@pytest.mark.parametrize("row", [None, 2])
def test_a_run_gives_its_model_away(row, tmp_path, peerloom):
    """Loaded into a fresh module by name, it is as good as the run said."""
    (exp,) = comparison_from(FILE).experiments
    result = pl.simulate(exp, out=tmp_path / "run")
    file = tmp_path / "deep" / "model.safetensors"
    about = peerloom(
        "export", tmp_path / "run", "-o", file, *(() if row is None else ("--row", row)), "--json"
    )
    assert about["round"] == "40"
    # Another start: every parameter must come from the file.
    module = exp.problem.module(seed=99).eval()
    module.load_state_dict(load_file(file), strict=True)
    data = exp.problem.data
    inputs, labels = (data.x, data.y) if data.test_x is None else (data.test_x, data.test_y)
    hits = module(torch.from_numpy(inputs)).argmax(dim=1).numpy() == labels
    last = result.metrics.row(-1, named=True)
    assert hits.mean() == pytest.approx(
        last["average_accuracy"] if row is None else last["client_accuracy"][row]
    )
    assert hits.mean() > 0.8
    with safe_open(file, "pt") as opened:
        assert opened.metadata() == {name: value for name, value in about.items() if name != "file"}


def test_mistakes_are_named(tmp_path, peerloom):
    (exp,) = comparison_from(FILE | {"rounds": 1}).experiments
    pl.simulate(exp, out=tmp_path / "run")
    assert "3 clients" in peerloom("export", tmp_path / "run", "--row", "3", code=2)
    assert "folder of a run" in peerloom("export", tmp_path, code=4)
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    assert "no state yet" in peerloom("export", tmp_path / "run", code=4)
    assert "peer init" in peerloom("peer", "export", "--folder", tmp_path / "nobody", code=5)
    Home.create(tmp_path / "peer", "alone", (), found=True)
    assert "No run was ever started" in peerloom(
        "peer", "export", "--folder", tmp_path / "peer", code=4
    )


def test_what_is_not_trained_is_said():
    """Batch norm's statistics are taken from samples, so an exported module must be given some."""
    (exp,) = comparison_from(FILE).experiments
    normed = replace(exp.problem, model=lambda: nn.Sequential(nn.Linear(10, 5), nn.BatchNorm1d(5)))
    assert (has_statistics(exp), has_statistics(replace(exp, problem=normed))) == (False, True)
    quadratic = pl.Experiment(
        pl.graphs.ring(3), pl.testing.random_quadratic(3, 5), pl.rules.DSpodFL(lr=0.1)
    )
    assert named_tensors(quadratic, np.arange(5.0))["x"].tolist() == [0, 1, 2, 3, 4]


def test_a_task_gives_its_module_back_with_what_is_frozen(tmp_path):
    problem = tasks.small(model=tasks.half_frozen)
    folder = tmp_path / "run"
    result = pl.simulate(tasks.run(problem), out=folder)
    export_run(RunFolder(folder), tmp_path / "model.safetensors", row=1)
    module, fresh = tasks.half_frozen().double(), problem.module(3).double()
    module.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(RowLayout.row_of(module), result.x[1])
    assert torch.equal(module[0].weight, fresh[0].weight)
