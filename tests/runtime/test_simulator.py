"""The simulator: watching changes nothing, resuming continues, divergence is located."""

import os

import numpy as np
import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom import graphs
from peerloom.core import Caution, ConfigError, DivergedError
from peerloom.experiment import Evaluate, Experiment
from peerloom.problems import Classification, Quadratic, blobs
from peerloom.rules import DGD, DSpodFL
from peerloom.runtime import build_port, iterate
from peerloom.schedules import Bernoulli, distributions
from tests.builders import experiment, final, quadratic, trajectory

GRAPH = graphs.geometric(5, radius=0.6, seed=1)
COINS = Bernoulli(nodes=distributions.Uniform(), links=distributions.Beta(0.5, 0.5), redraw=7)


def busy(**options):
    """A run with every kind of chance in it: abilities, coins and gradient noise."""
    options = {
        "problem": quadratic(5, noise=0.5),
        "schedule": COINS,
        "rounds": 30,
        "seed": 4,
        **options,
    }
    return experiment(GRAPH, DSpodFL(0.05), **options)


def with_dropout():
    def module():
        return nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.BatchNorm1d(6), nn.Linear(6, 3))

    return busy(problem=Classification(module, blobs(100, 4, 3), batch=5), rounds=6)


def test_writing_to_a_snapshot_does_not_change_the_run():
    undisturbed = trajectory(busy())
    for k, snapshot in enumerate(iterate(busy())):
        assert torch.equal(snapshot.x, undisturbed[k])
        assert snapshot.t == k
        snapshot.x.zero_()
        snapshot.state.x.fill_(torch.nan)
        for values in snapshot.ledger.arrays().values():
            values += 1
    assert torch.equal(snapshot.x, undisturbed[-1])
    assert snapshot.ledger.messages == final(busy()).ledger.messages


def test_a_snapshot_kept_for_later_stays_what_it_was():
    kept, noted = [], []
    for snapshot in iterate(busy()):
        kept.append(snapshot)
        noted.append((snapshot.x, snapshot.ledger.messages))
    for snapshot, (x, messages) in zip(kept, noted, strict=True):
        assert torch.equal(snapshot.x, x)
        try:
            found = snapshot.ledger.messages
        except (pl.errors.PeerloomError, RuntimeError):  # to refuse is as good as to remember
            continue
        assert found == messages


@pytest.mark.parametrize("make", [busy, with_dropout], ids=["quadratic", "dropout"])
def test_evaluating_does_not_disturb_a_run(make):
    never = trajectory(make())[-1]
    for snapshot in iterate(make()):
        snapshot.port.problem.evaluate(snapshot.x)
    assert torch.equal(snapshot.x, never)


@pytest.mark.parametrize("make", [busy, with_dropout], ids=["quadratic", "dropout"])
def test_global_generators_are_neither_used_nor_changed(make):
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = final(make()).x
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    torch.manual_seed(2)
    assert torch.equal(final(make()).x, first)


def test_a_run_is_a_function_of_its_seed():
    assert torch.equal(final(busy()).x, final(busy()).x)
    assert not torch.equal(final(busy(seed=4)).x, final(busy(seed=5)).x)


@pytest.mark.parametrize("path", ["auto", "matrix", "links"])
def test_both_mixers_agree(path):
    torch.testing.assert_close(
        final(busy(), path=path).x, final(busy(), path="links").x, rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("cut", [0, 1, 13, 29, 30])
@pytest.mark.parametrize("path", ["matrix", "links"])
def test_a_resumed_run_is_the_uninterrupted_one(cut, path):
    whole = list(iterate(busy(), path=path))
    at_cut = final(busy(rounds=cut), path=path)
    halted = at_cut.checkpoint()
    resumed = list(iterate(busy(), path=path, resume=halted))
    assert [snapshot.t for snapshot in resumed] == list(range(cut, 31))
    for one, other in zip(whole[cut:], resumed, strict=True):
        assert torch.equal(one.x, other.x)
    for name, values in whole[-1].ledger.arrays().items():
        assert np.array_equal(values, resumed[-1].ledger.arrays()[name])


def test_resuming_leaves_the_checkpoint_as_it_was():
    at_cut = final(busy(rounds=10))
    halted = at_cut.checkpoint()
    x, messages = halted.state["x"].copy(), halted.ledger["peers/messages"].copy()
    final(busy(), resume=halted)
    assert np.array_equal(halted.state["x"], x)
    assert np.array_equal(halted.ledger["peers/messages"], messages)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", torch.float32), ("float64", torch.float64)]
)
def test_rows_have_the_type_that_was_asked_for(dtype, kind):
    assert {snapshot.x.dtype for snapshot in iterate(busy(dtype=dtype))} == {kind}


def test_float32_is_float64_with_less_precision():
    single, double = final(busy(dtype="float32")).x.double(), final(busy()).x
    torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-4)
    assert not torch.equal(single, double)


def first_bad(exp):
    """The first round and row that are not finite, looked for in every round."""
    net = build_port(exp)
    state = exp.algorithm.init(exp.start(range(exp.graph.rows)).to(exp.torch_dtype), net)
    for net.t in range(1, exp.rounds + 1):
        state = exp.algorithm.step(state, net)
        bad = [i for i, row in enumerate(state.x.tolist()) if not np.isfinite(row).all()]
        if bad:
            return net.t, bad[0]
    return None


def stiff(row, curvature=40.0, clients=5):
    """Quadratics of which one is too steep for the step."""
    A = np.ones((clients, 1, 1))
    A[row] = curvature
    return Quadratic(A, np.ones((clients, 1)))


@pytest.mark.parametrize("lr", [0.2, 1.0, 1e3, 1e20, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("links", [0.0, 0.5])
def test_divergence_is_named_by_its_first_round_and_row(lr, dtype, links):
    schedule = Bernoulli(nodes=0.8, links=links)
    exp = experiment(
        GRAPH, DSpodFL(lr), problem=stiff(3), schedule=schedule, rounds=1000, dtype=dtype
    )
    wanted = first_bad(exp)
    assert wanted is not None
    with pytest.raises(DivergedError, match=f"in round {wanted[0]}, row {wanted[1]} ") as error:
        final(exp)
    assert (error.value.round, error.value.row) == wanted


@pytest.mark.parametrize("rounds", [9, 10, 11, 12, 13])
def test_divergence_in_the_last_rounds_is_found(rounds):
    exp = experiment(GRAPH, DGD(1e30), rounds=rounds)
    wanted = first_bad(exp)
    if wanted is None:
        assert torch.isfinite(final(exp).x).all()
    else:
        with pytest.raises(DivergedError) as error:
            final(exp)
        assert error.value.round == wanted[0]


def test_divergence_is_found_although_the_delay_ends_the_run():
    exp = experiment(GRAPH, DGD(1e30), rounds=1000, until_delay=28.0)
    with pytest.raises(DivergedError):
        final(exp)


def test_a_start_that_is_not_finite_is_refused_in_round_zero():
    x0 = np.zeros((5, 3))
    x0[2, 1] = np.inf
    with pytest.raises(DivergedError) as error:
        final(busy(x0=x0))
    assert (error.value.round, error.value.row) == (0, 2)


def test_large_but_finite_models_are_no_divergence():
    still = Quadratic(np.zeros((5, 1, 1)), np.zeros((5, 1)))
    x = final(experiment(GRAPH, DGD(0.1), problem=still, rounds=40, x0=[1.5e308])).x
    assert torch.isfinite(x).all()


@pytest.mark.parametrize("limit", [0.5, 7.0, 33.0, 1e9])
def test_a_run_ends_in_the_round_that_reaches_the_delay(limit):
    spent = [snapshot.ledger.delay() for snapshot in iterate(busy(until_delay=limit))]
    assert all(delay < limit for delay in spent[:-1])
    assert spent[-1] >= limit or len(spent) == 31
    whole = trajectory(busy())
    assert torch.equal(final(busy(until_delay=limit)).x, whole[len(spent) - 1])


def test_models_start_from_one_vector_or_one_per_row():
    vector, table = np.array([1.0, 2.0, 3.0]), np.arange(15.0).reshape(5, 3)
    assert torch.equal(trajectory(busy(x0=vector))[0], torch.from_numpy(vector).repeat(5, 1))
    assert torch.equal(trajectory(busy(x0=table))[0], torch.from_numpy(table))
    assert torch.equal(trajectory(busy(x0=torch.from_numpy(table)))[0], torch.from_numpy(table))
    assert torch.equal(trajectory(busy(x0=table.tolist()))[0], torch.from_numpy(table))
    final(busy(x0=table))
    assert np.array_equal(table, np.arange(15.0).reshape(5, 3))


@pytest.mark.parametrize("x0", [np.zeros(4), np.zeros((4, 3)), np.zeros((5, 4)), 1.0])
def test_a_start_of_the_wrong_shape_is_refused(x0):
    with pytest.raises(ConfigError, match=r"x0 has shape .*\[3\], or one per client \[5, 3\]"):
        final(busy(x0=x0))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rounds": -1}, "rounds"),
        ({"dtype": "float16"}, "dtype"),
        ({"until_delay": 0.0}, "until_delay"),
        ({"problem": quadratic(4)}, "4 clients, graph 'geometric' 5"),
    ],
)
def test_impossible_experiments_are_refused_before_they_run(options, named):
    with pytest.raises(ConfigError, match=named):
        busy(**options)


@pytest.mark.parametrize("options", [{"path": "fast"}, {"device": "abacus"}])
def test_impossible_ways_to_run_are_refused(options):
    with pytest.raises(ConfigError):
        final(busy(), **options)


def test_the_logarithmic_grid_is_the_papers():
    """t mod (10^(digits(t) - 1) / 2) = 0: every round to 10, then 15, 20, ..., 100, 150, ..."""
    evaluate = Evaluate(grid="log")
    found = [t for t in range(1, 20_000) if evaluate.due(t, rounds=10**6)]
    assert found == [t for t in range(1, 20_000) if (2 * t) % 10 ** (len(str(t)) - 1) == 0]
    some = [t for t in found if t <= 20 or 90 <= t <= 200]
    assert some == [*range(1, 11), 15, 20, 90, 95, 100, 150, 200]


def test_evaluation_every_so_many_rounds_and_always_at_both_ends():
    assert [t for t in range(26) if Evaluate(every=10).due(t, 25)] == [0, 10, 20, 25]
    assert [t for t in range(126) if Evaluate(grid="log").due(t, 123)][-2:] == [100, 123]
    assert sum(Evaluate().due(t, 1000) for t in range(1001)) == 51
    assert sum(Evaluate().due(t, 7) for t in range(8)) == 8
    assert [t for t in range(26) if Evaluate(every=10, last=3).due(t, 25)] == [
        0,
        10,
        20,
        23,
        24,
        25,
    ]
    for wrong in ({"every": 0}, {"every": 5, "grid": "log"}):
        with pytest.raises(ConfigError):
            Evaluate(**wrong)


def test_simulate_is_iterate_with_measures():
    exp = busy(evaluate=Evaluate(every=4))
    result, last = pl.simulate(exp), final(busy())
    assert torch.equal(result.x, last.x)
    assert result.metrics["round"].tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 30]
    for name, values in last.ledger.arrays().items():
        assert np.array_equal(values, result.ledger.arrays()[name])


def test_an_experiment_of_no_rounds_is_its_start():
    exp = Experiment(GRAPH, quadratic(5), DGD(0.1), rounds=0, x0=np.ones(3), dtype="float64")
    assert [snapshot.t for snapshot in iterate(exp)] == [0]
    assert torch.equal(final(exp).x, torch.ones(5, 3, dtype=torch.float64))


@pytest.mark.skipif(
    not hasattr(os, "sysconf"), reason="this system does not say how much memory it has"
)
def test_a_run_that_memory_will_hardly_hold_is_announced(monkeypatch):
    exp = busy()
    size = exp.graph.rows * exp.problem.n * 8  # one block of all models
    pages = {"SC_PHYS_PAGES": 5, "SC_PAGE_SIZE": size - 1}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    with pytest.warns(Caution, match="want of memory"):
        next(iterate(exp))
    pages["SC_PAGE_SIZE"] = size
    next(iterate(exp))
