"""A recorded run fires again, to the bit; on another graph it is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import Draws
from peerloom.errors import ConfigError, DataError
from peerloom.schedules import Bernoulli, Replay, Sampled, Waiting

EXPERIMENTS = {
    "sporadic": (
        pl.graphs.random_digraph(6, p=0.5, seed=1),
        pl.rules.SpodGT(0.05),
        Bernoulli(nodes=0.4, links=0.6),
    ),
    "sampled": (pl.graphs.regular(6, degree=4, seed=1), pl.rules.PaME(3.0), Sampled(2, 0.5)),
    "hubs": (
        pl.graphs.hubs(pl.graphs.ring(3), [2, 3, 1]),
        pl.rules.LocalSGD(0.05),
        Waiting(2, nodes=0.6),
    ),
}


def experiment(name, **changes):
    graph, rule, schedule = EXPERIMENTS[name]
    problem = pl.testing.random_quadratic(6, 4)
    return replace(pl.Experiment(graph, problem, rule, schedule, rounds=30, seed=3), **changes)


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_a_replay_gives_the_same_run(name, tmp_path):
    first = pl.simulate(experiment(name), out=tmp_path / "run", record=True)
    for source in (tmp_path / "run", tmp_path / "run" / "fired.npz"):
        again = pl.simulate(experiment(name, schedule=Replay(str(source))))
        assert torch.equal(first.x, again.x)
        assert first.ledger.messages == again.ledger.messages
        assert first.ledger.gradients == again.ledger.gradients


def test_the_record_is_what_fired(tmp_path):
    exp = experiment("sporadic")
    pl.simulate(exp, out=tmp_path, record=True)
    activity, replay = (
        exp.schedule.bind(exp.graph, Draws(3)),
        Replay(str(tmp_path)).bind(exp.graph, Draws(99)),
    )
    for t in range(31):
        assert np.array_equal(activity.nodes(t), replay.nodes(t))
        assert np.array_equal(activity.links(t, "peers"), replay.links(t, "peers"))


def test_what_cannot_be_replayed_is_refused(tmp_path):
    pl.simulate(experiment("sporadic"), out=tmp_path / "run", record=True)
    replay = Replay(str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="another graph"):
        replay.bind(pl.graphs.ring(6), Draws(0))
    with pytest.raises(ConfigError, match="rounds 0 to 30"):
        pl.simulate(experiment("sporadic", schedule=replay, rounds=31))
    pl.simulate(experiment("sporadic"), out=tmp_path / "plain")
    with pytest.raises(DataError, match="--record"):
        Replay(str(tmp_path / "plain")).bind(EXPERIMENTS["sporadic"][0], Draws(0))
    with pytest.raises(ConfigError, match="folder"):
        pl.simulate(experiment("sporadic"), record=True)


def test_a_resumed_run_has_the_whole_record(tmp_path):
    pl.simulate(experiment("sporadic"), out=tmp_path / "whole", record=True)
    count = iter(range(100))
    pl.simulate(
        experiment("sporadic"), out=tmp_path / "cut", record=True, stop=lambda: next(count) > 10
    )
    pl.simulate(experiment("sporadic"), out=tmp_path / "cut", record=True, resume=True)
    whole, cut = (np.load(tmp_path / name / "fired.npz") for name in ("whole", "cut"))
    assert all(np.array_equal(whole[key], cut[key]) for key in whole.files)
