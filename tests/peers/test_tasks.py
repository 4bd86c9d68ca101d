"""Tasks between peers: the simulator's bits after kills, agreement on parameters, allowed code."""

import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.code import loading_code_by
from peerloom.core import ConfigError
from peerloom.peers.experiments import only_experiment
from peerloom.peers.federation import Federation
from peerloom.peers.site_code import SiteCode
from peerloom.peers.start import run_identity
from peerloom.peers.status import figures, read_status
from peerloom.peers.wire_plan import WirePlan
from peerloom.registry import build, describe
from peerloom.transport.reasons import explained
from tests import tasks
from tests.doubles.memory import Faults
from tests.memory_runs import check_same, crashes, experiment, run_in_memory, wait_for

pytestmark = pytest.mark.slow  # starts processes, or runs for long


def with_task(name, rounds=8, **changes):
    return experiment(name, rounds, problem=tasks.noisy(**changes))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", ["DSpodFL", "SpodGT", "DFedSAM", "MLLSGD"])
def test_peers_have_the_simulators_bits(name, ahead, identities, tmp_path):
    exp = with_task(name, ahead=ahead)
    check_same(exp, run_in_memory(exp, identities, tmp_path, Faults(breaks=0.05), seed=len(name)))


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["SpodGT", "DFedAvgM"]), seed=st.integers(0, 2**32), crashes=crashes)
def test_kills_change_no_bit(name, seed, crashes, identities, tmp_path_factory):
    """A batch is drawn, read and augmented again as it was before the kill."""
    exp, folder = with_task(name, rounds=12), tmp_path_factory.mktemp("crash")
    check_same(exp, run_in_memory(exp, identities, folder, Faults(breaks=0.03), seed, crashes))


def test_processes_over_tls_one_of_them_killed_have_the_simulators_bits(tmp_path):
    exp = replace(with_task("SpodGT", rounds=60), graph=pl.graphs.ring(3))
    federation = Federation(exp, tmp_path)
    with federation.no_orphans():
        for row in range(3):
            federation.start(row)
        wait_for(lambda: any(status["round"] >= 5 for status in federation.status()))
        federation.kill(1)
        federation.start(1)
        federation.wait()
    *_, last = pl.iterate(exp, path="links")
    assert torch.equal(torch.from_numpy(federation.checkpoint().state["x"]), last.state.x)
    (measured,) = [row for row in federation.evaluations() if row["round"] == exp.rounds]
    assert measured["mean_size"] == exp.problem.n
    for row, folder in enumerate(federation.peer_folders()):
        own, status = folder.measurements()[-1], read_status(folder.path)
        assert own["f1"] == measured["client_f1"][row] == status["last"]["f1"]
        assert figures(own) == {name: own[name] for name in ("loss", "f1", "size")}


# -- what peers agree on beforehand


def test_peers_whose_code_makes_other_parameters_refuse_each_other(monkeypatch):
    """One file and as many numbers, but another module behind its name at one of the sites."""
    exp, found = (
        experiment("DSpodFL", problem=build("problems", "tests.tasks:either", "problem")),
        [],
    )
    for bias in (True, True, False):
        monkeypatch.setattr(tasks, "BIAS", bias)
        one = replace(exp, problem=build("problems", "tests.tasks:either", "problem"))
        found.append(run_identity(one, WirePlan.of(one)))
    assert {run.run_id for run in found} == {found[0].run_id}
    assert {frozenset(run.channels) for run in found} == {frozenset(found[0].channels)}
    assert found[0].agreement == found[1].agreement != found[2].agreement
    assert "disagree on the model" in explained("b", "wrong_spec")


# -- code of a site's own

CODE = """
from torch import nn
from torch.nn import functional as F

from peerloom.problems import Task


def task(width):
    return Task(lambda: nn.Linear(2, width), lambda m, b: F.mse_loss(m(b[0]), b[1]), lambda i: [0])
"""
FILE = """
rounds = 3
[graph]
name = "ring"
clients = 3
[problem]
name = "hearts_code:task"
width = 2
[algorithm]
name = "DSpodFL"
lr = 0.1
"""


def test_a_task_is_made_where_the_site_allows_its_code_and_nowhere_else(tmp_path):
    file, policy = tmp_path / "task.toml", SiteCode(tmp_path)
    file.write_text(FILE)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "hearts_code.py").write_text(CODE)
    with loading_code_by(policy), pytest.raises(ConfigError, match="allow hearts_code:task"):
        only_experiment(file)
    policy.allow("hearts_code:task")
    with loading_code_by(policy):
        exp = only_experiment(file)
    assert exp.problem.n == 6
    assert describe(exp.problem) == {"name": "hearts_code:task", "width": 2}
    sys.modules.pop("hearts_code")
