"""What a loop may not do is said in a sentence, where it is done."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.errors import ConfigError, DivergedError
from peerloom.live.alone import Alone
from peerloom.live.asked import asked_problem
from peerloom.live.seam import Seam
from peerloom.peers.experiments import only_experiment
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.start import run_identity
from peerloom.peers.wire_plan import WirePlan
from peerloom.registry import describe
from tests.memory_runs import experiment
from tests.own_loops import Vector, looped


def started(rule=None, model=None, rounds=3, **options):
    """A model and its optimizer, at the first question."""
    exp = pl.Experiment(
        pl.graphs.ring(3), pl.problems.Loop(), rule or pl.rules.DSpodFL(lr=0.1), rounds=rounds
    )
    model = model or nn.Linear(2, 1)
    return model, pl.live.optimizer(model, pl.live.rows(exp, **options))


def backward(model, scale=1.0):
    (scale * model(torch.ones(2, 2)).square().mean()).backward()


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(ConfigError, match="has no parameter to train: all 2 are frozen"):
        started(model=nn.Linear(2, 1).requires_grad_(False))
    with pytest.raises(ConfigError, match="was given int"):
        started(model=3)


def test_a_model_of_several_processes_is_refused():
    with pytest.raises(ConfigError, match=r"wrapped by DataParallel.*model\.module"):
        started(model=nn.Sequential(nn.DataParallel(nn.Linear(2, 1))))


def test_an_experiment_that_computes_itself_is_refused():
    with pytest.raises(ConfigError, match="has the problem Quadratic"):
        pl.live.rows(experiment("DSpodFL"))


def test_a_loop_without_its_script_is_refused():
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1))
    with pytest.raises(ConfigError, match="Start the script that has it"):
        pl.simulate(exp)


def test_a_step_without_a_gradient_is_refused_and_may_be_done_again():
    model, opt = started()
    with pytest.raises(ConfigError, match="client 0 in round 1, batch 0, waits for one"):
        opt.step()
    backward(model)
    opt.step()
    assert opt.answers == 1
    opt.close()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_names_client_and_round(bad):
    model, opt = started()
    backward(model)
    opt.step()
    opt.zero_grad()
    backward(model, bad)
    with pytest.raises(DivergedError, match="client 1 in round 1") as found:
        opt.step()
    assert (found.value.row, found.value.round) == (1, 1)
    opt.zero_grad()
    backward(model)
    opt.step()
    opt.close()


def test_parts_that_the_loss_does_not_depend_on_stay():
    model, opt = started(model=nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)]))
    before = model[1].weight.clone()
    while not opt.finished:
        opt.zero_grad()
        backward(model[0])
        opt.step()
    torch.testing.assert_close(model[1].weight.detach(), before.detach())


def test_a_second_question_about_a_batch_needs_a_closure():
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DFedSAM(lr=0.1, K=1))
    model = nn.Linear(2, 1)
    opt = pl.live.optimizer(model, Alone(exp, client=0, rounds=3))
    backward(model)
    with pytest.raises(ConfigError, match=r"DFedSAM asks about one batch twice.*closure"):
        opt.step()
    with pytest.raises(ConfigError, match="was closed"):
        opt.step()


def test_a_second_question_after_others_needs_samples_that_repeat():
    model, opt = started(pl.rules.DFedSAM(lr=0.1, K=1))
    for _ in range(2):
        opt.step(lambda: backward(model))
    with pytest.raises(ConfigError, match="repeats=True"):
        opt.step(lambda: backward(model))


def test_gradients_on_all_samples_must_be_counted():
    model = Vector(torch.zeros(5, dtype=torch.float64))
    exp = looped(experiment("PMGTSVRG"))
    with pytest.raises(ConfigError, match="batches=N"):
        pl.live.optimizer(model, pl.live.rows(exp))


def test_a_scheduler_that_changes_the_rate_is_refused():
    model, opt = started()
    constant = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1.0)
    backward(model)
    opt.step()
    constant.step()
    torch.optim.lr_scheduler.StepLR(opt, 1)  # at its start, the rate is what it was
    opt.step()
    opt.param_groups[0]["lr"] = 0.05
    with pytest.raises(ConfigError, match=r"changed from 0\.1 to 0\.05"):
        opt.step()
    opt.close()


def test_a_step_after_the_end_is_refused():
    model, opt = started(rounds=1)
    for _ in range(3):
        backward(model)
        opt.step()
    assert opt.finished
    with pytest.raises(ConfigError, match="all 1 rounds are done"):
        opt.step()


def test_settings_that_make_no_sense_are_refused():
    model, opt = started()
    opt.close()
    for options in ({"samples": 0, "size": 1}, {"samples": 4, "size": 0}):
        with pytest.raises(ConfigError, match="must be at least 1"):
            pl.live.Batches(opt, **options)
    run = pl.live.rows(opt.experiment)
    with pytest.raises(ConfigError, match="at least 1 step"):
        pl.live.outer(model, run, every=0)
    exp = pl.Experiment(
        pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DGD(lr=0.1), until_settled=0.1
    )
    with pytest.raises(ConfigError, match="until_settled"):
        pl.live.rows(exp)
    used = pl.live.optimizer(model, run)
    with pytest.raises(ConfigError, match="has an optimizer already"):
        pl.live.optimizer(model, run)
    used.close()


def test_what_a_rule_raises_comes_out_of_the_step():
    def each(snapshot):
        if snapshot.t == 1:
            raise ValueError("mine")

    model, opt = started(each=each)
    backward(model)
    opt.step()
    opt.step()
    with pytest.raises(ValueError, match="mine"):
        opt.step()


def test_peers_with_other_first_models_refuse_each_other():
    """In the greeting: names and shapes, what is frozen, and where they start."""

    def made(change=None):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model[0].requires_grad_(False)
        if change is not None:
            with torch.no_grad():
                change(model)
        exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1))
        problem = asked_problem(model, exp.problem, describe(exp.problem), Seam(), False)
        exp = replace(exp, problem=problem)
        return run_identity(exp, WirePlan.of(exp))

    def other_names(model):
        model[1] = nn.Sequential(model[1])

    changes = [
        other_names,
        lambda model: model[0].weight.add_(1e-6),
        lambda model: model[1].bias.add_(1e-6),
    ]
    same, again, *others = made(), made(), *map(made, changes)
    assert same.agreement == again.agreement
    assert len({run.agreement for run in (same, *others)}) == 4
    assert {run.run_id for run in others} == {same.run_id}


def test_what_was_not_tried_between_peers_is_refused(tmp_path):
    file = tmp_path / "loop.toml"
    file.write_text(
        'rounds = 3\n[graph]\nname = "ring"\nclients = 3\n[problem]\nname = "Loop"\n'
        '[algorithm]\nname = "DSpodFL"\nlr = 0.1\n'
    )
    exp = only_experiment(file)
    assert describe(exp.problem) == {"name": "Loop"}
    home = found_on_this_machine(exp, tmp_path / "peers", file)[0].folder
    for site, word in (
        (pl.live.Site(deadline=1.0), "deadline"),
        (pl.live.Site(free=True), "free=True"),
        (pl.live.Site(device="cuda"), "device 'cuda'"),
    ):
        with pytest.raises(ConfigError, match=word):
            pl.live.peer(home, file, site)
    file.write_text(file.read_text().replace("0.1", "0.2"))
    with pytest.raises(ConfigError, match="byte by byte"):
        pl.live.peer(home, file)


EARLY = """
import torch
import peerloom as pl
from torch import nn
exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1), rounds=7)
model = nn.Linear(2, 1)
opt = pl.live.optimizer(model, pl.live.rows(exp))
for _ in range(5):
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
"""


@pytest.mark.slow
def test_a_loop_that_ends_early_is_told_so():
    done = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, check=True, timeout=60
    )
    assert "The loop ended after round 1 of 7" in done.stderr


def test_nothing_is_written_once_a_run_has_ended():
    """Nobody is there to write: the rule's thread is gone."""
    for end in ("finished", "closed"):
        model, opt = started(rounds=1)
        backward(model)
        if end == "closed":
            opt.close()
        while not opt.finished and end == "finished":
            opt.step()
        opt._dialogue.run.checkpoint = pytest.fail
        assert not opt.checkpoint(steps=1)


def test_importing_changes_nothing():
    code = (
        "import sys, threading, peerloom as pl\npl.live.__all__\n"
        "sys.exit('torch' in sys.modules or threading.active_count() > 1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError, match="no attribute 'peeer'"):
        _ = pl.live.peeer
