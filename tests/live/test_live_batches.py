"""Batches as functions of what is asked, and optimizers of a loop's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import peerloom as pl
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.live.alone import Alone
from tests import tasks


def stepped(exp, model, size=4, **more):
    """A loop with loaders of `tasks.Points`; the states after every round."""
    states = []
    run = pl.live.rows(
        exp, each=lambda snapshot: states.append(snapshot.x), path="links", repeats=True
    )
    opt = pl.live.optimizer(model, run)
    sampler = pl.live.Batches(opt, tasks.HELD, size, **more)
    loaders = [
        iter(DataLoader(tasks.Points(k), batch_sampler=sampler)) for k in range(tasks.CLIENTS)
    ]
    while not opt.finished:
        batch = next(loaders[opt.asked.client])

        def closure():
            opt.zero_grad()
            loss = tasks.loss(model, batch)  # noqa: B023
            loss.backward()
            return loss

        opt.step(closure)
    return torch.stack(states)


@pytest.mark.parametrize("name", ["DSpodFL", "SpodGT", "DFedSAM", "KGT"])
def test_a_loop_with_them_has_the_bits_of_a_task(name):
    task = tasks.small()
    settings = {} if name in ("DSpodFL", "SpodGT") else {"K": 2}
    exp = tasks.run(task, getattr(pl.rules, name)(lr=0.05, **settings))
    expected = tasks.path_of(exp)
    live = replace(exp, problem=pl.problems.Loop())
    found = stepped(live, task.module(exp.seed).double())
    assert torch.equal(found, expected)


def test_a_loader_that_reads_ahead_is_refused():
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1), rounds=3)
    opt = pl.live.optimizer(nn.Linear(6, 3), pl.live.rows(exp))
    sampler = iter(pl.live.Batches(opt, 20, 4, parts=2))
    first, second = next(sampler), next(sampler)
    assert len(first) == len(second) == 4
    assert first != second
    with pytest.raises(ConfigError, match="num_workers=0"):
        next(sampler)
    opt.close()


# -- an optimizer of the loop's own


CLIENTS, H, ROUNDS = 4, 3, 5


def samples(client, k):
    """The batch that a client takes for its k-th local step."""
    u = Draws(7)("mine", k, np.array([client]), 12)[0].copy()
    return torch.from_numpy(u.reshape(4, 3)), torch.from_numpy(u[:4, None] * (client + 1))


def net():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(3, 1).double()


def test_outer_is_adamw_and_gossip_by_hand():
    exp = pl.Experiment(
        pl.graphs.ring(CLIENTS), pl.problems.Loop(), pl.rules.DSGD(lr=1.0), rounds=ROUNDS,
        dtype="float64",
    )  # fmt: skip
    found = []
    model = net()
    run = pl.live.rows(exp, each=lambda snapshot: found.append(snapshot.x))
    outer = pl.live.outer(model, run, every=H)
    steps = [0] * CLIENTS
    # One module serves all clients, and each has an optimizer state of its own.
    own = [torch.optim.AdamW(model.parameters(), lr=0.05) for _ in range(CLIENTS)]
    while not outer.finished:
        i = outer.asked.client
        for _ in range(H):
            x, y = samples(i, steps[i])
            own[i].zero_grad()
            (model(x) - y).square().mean().backward()
            own[i].step()
            steps[i] += 1
            outer.step()

    models = [net() for _ in range(CLIENTS)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.05) for model in models]
    W = exp.graph.peers
    for t in range(ROUNDS):
        for i, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            for k in range(H):
                x, y = samples(i, t * H + k)
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
        rows = torch.stack([nn.utils.parameters_to_vector(m.parameters()) for m in models]).detach()
        mixed = rows.clone()
        for source, target, a in zip(W.src, W.dst, W.a, strict=True):
            mixed[target] += a * (rows[source] - rows[target])
        for i, model in enumerate(models):
            nn.utils.vector_to_parameters(mixed[i].clone(), model.parameters())
        assert float((mixed - found[t + 1]).abs().max()) < 1e-12
    assert float((found[-1] - found[0]).abs().max()) > 0.1


def test_outer_refuses_a_rule_that_would_train_twice():
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DFedSAM(lr=0.1, K=1))
    outer = pl.live.outer(net(), Alone(exp, client=0, rounds=3), every=2)
    outer.step()
    assert not outer.checkpoint()
    with pytest.raises(ConfigError, match="DFedSAM asks about one batch twice"):
        outer.step()


def test_metrics_are_asked_for_and_change_nothing():
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1), rounds=3)
    told, modes = [], []

    def metrics(model):
        modes.append(model.training)
        return {"loss": torch.rand(()), "size": 3.0}

    def each(snapshot):
        told.append(snapshot.port.problem.evaluate(snapshot.x))

    model = nn.Linear(3, 1)
    opt = pl.live.optimizer(model, pl.live.rows(exp, each=each), metrics=metrics)
    before = torch.get_rng_state()
    while not opt.finished:
        opt.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        opt.step()
    assert torch.equal(before, torch.get_rng_state())
    assert len(told) == 4
    assert all((one.more["size"] == 3).all() for one in told)
    assert not any(modes)
    assert model.training
