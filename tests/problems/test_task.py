"""Tasks: gradients against plain loops, rows of any module, draws as functions, refusals."""

import dataclasses
import random
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import TensorDataset

import peerloom as pl
from peerloom.core import Caution, Draws
from peerloom.problems import Classification, Labels, Task
from peerloom.problems.batches import different
from peerloom.problems.layout import RowLayout, trainable
from peerloom.problems.reader import placed
from peerloom.runtime import iterate
from peerloom.runtime.shards import run_sharded
from tests import tasks
from tests.builders import final
from tests.tasks import ALL, CLIENTS, bound, models, path_of, run


def states():
    """The global generators of the process."""
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
    )


# -- gradients


def plain_gradient(task, row, client, picks, cut=1, clip=None):
    """The gradient as one writes it with torch: one model, one batch, no rows."""
    module = task.module(3).double()
    nn.utils.vector_to_parameters(row.clone(), module.parameters())
    held, total = tasks.Points(client), torch.zeros_like(row)
    for part in np.array_split(picks, cut):
        batch = {"x": held.x[part], "y": held.y[part]}
        value = tasks.loss(module, batch) * len(part) / len(picks)
        found = torch.autograd.grad(value, list(module.parameters()))
        total += torch.cat([g.flatten() for g in found])
    return total if clip is None else total * min(1.0, clip / float(total.norm()))


@given(
    batch=st.integers(1, 9), cut=st.integers(1, 4), t=st.integers(0, 9), k=st.integers(0, 2),
    clip=st.sampled_from([None, 0.05, 50.0]), replace=st.booleans(),
)  # fmt: skip
def test_a_gradient_is_that_of_the_samples_drawn(batch, cut, t, k, clip, replace):
    cut = min(cut, batch)
    task = tasks.small(batch=batch, accumulate=cut, clip=clip, replace=replace)
    x, local = models(task), bound(task)
    u = Draws(3)(f"batch/{k}" if k else "batch", t, ALL, batch)
    found = local.grad(x, ALL, t, k)
    for i in ALL:
        picks = (u[i] * tasks.HELD).astype(int)
        if not replace:
            picks = different(u[i : i + 1], np.array([[tasks.HELD]]))[0]
        expected = plain_gradient(task, x[i], i, picks, cut, clip)
        torch.testing.assert_close(found[i], expected, rtol=1e-12, atol=1e-14)
        assert clip is None or float(found[i].norm()) <= clip * (1 + 1e-12)


def test_all_samples_may_be_taken():
    task, some = tasks.small(batch="all", accumulate=3), tasks.small()
    x = models(task)
    found = bound(task).grad(x, ALL, 7)
    for i in ALL:
        expected = plain_gradient(task, x[i], i, np.arange(tasks.HELD), 3)
        torch.testing.assert_close(found[i], expected, rtol=1e-12, atol=1e-14)
    local = bound(some)
    torch.testing.assert_close(local.whole_gradients(x, ALL), found, rtol=1e-11, atol=1e-14)
    assert local.batches.tolist() == [5] * CLIENTS


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize(
    "sampling", [{"batch": 8}, {"batch": 5, "replace": False}, {"batch": (3, 8, 5, 3)}], ids=str
)
def test_where_both_apply_a_task_has_the_bits_of_classification(dropout, sampling):
    def net():
        return nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, 10))

    def loss(model, batch):
        s, y = model(batch[0]), batch[1]
        return (torch.logsumexp(s, dim=-1) - s.gather(-1, y.unsqueeze(-1)).squeeze(-1)).mean()

    known = Classification(net, partition=Labels(per_client=3), strategy="loop", **sampling)
    x, y = torch.from_numpy(known.data.x), torch.from_numpy(known.data.y)
    held = [TensorDataset(x[part], y[part]) for part in known.deal(CLIENTS, Draws(3))]
    task = Task(net, loss, held, **sampling)
    assert torch.equal(path_of(run(task)), path_of(run(known)))


@pytest.mark.parametrize("changes", [{}, {"clip": 0.1, "accumulate": 3}], ids=str)
def test_a_row_has_the_same_bits_alone_and_among_others(changes):
    task = dataclasses.replace(tasks.noisy(), **changes)
    x = models(task)
    together = bound(task).grad(x, ALL, 4)
    for i in ALL:
        assert torch.equal(
            bound(task, rows=ALL[i : i + 1]).grad(x[i : i + 1], ALL[:1], 4)[0], together[i]
        )
    assert torch.equal(bound(task).grad(x, ALL[1::2], 4), together[1::2])


# -- draws


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    "rule", [pl.rules.SpodGT(lr=0.05), pl.rules.DFedAvgM(lr=0.02, K=3)], ids=str
)
def test_whatever_draws_is_a_function_of_seed_round_and_client(ahead, rule):
    before = states()
    one = path_of(run(tasks.noisy(), rule))
    assert states() == before
    torch.manual_seed(99)
    random.seed(7)
    np.random.seed(5)  # noqa: NPY002
    assert torch.equal(one, path_of(run(tasks.noisy(ahead), rule)))
    assert not torch.equal(one, path_of(run(tasks.noisy(), rule, seed=4)))


def test_every_client_round_batch_and_part_draws_for_itself():
    read, computed = [], []

    class Drawing(tasks.Points):
        def __getitem__(self, k):
            read.append((torch.rand(1).item(), random.random(), np.random.rand()))  # noqa: NPY002
            return super().__getitem__(k)

    def loss(model, batch):
        computed.append((torch.rand(1).item(), random.random(), np.random.rand()))  # noqa: NPY002
        return tasks.loss(model, batch)

    task = tasks.small(data=Drawing, loss=loss, batch=2, accumulate=2)
    local = bound(task)
    for t, k in ((1, 0), (1, 1), (2, 0)):
        local.grad(models(task), ALL, t, k)
    for drawn in (read, computed):
        assert len(drawn) == 3 * CLIENTS * 2
        assert all(len(set(numbers)) == len(drawn) for numbers in zip(*drawn, strict=True))
    assert not set(read) & set(computed)


@pytest.mark.parametrize("shards", [[[0, 2], [1], [3]], [[0], [1], [2], [3]]])
def test_shards_have_the_simulators_bits(shards):
    exp = run(tasks.noisy(ahead=True))
    assert torch.equal(run_sharded(exp, shards).path, path_of(exp))


def test_what_is_read_ahead_is_what_is_asked_for():
    asked = []

    class Counting(tasks.Points):
        def __getitem__(self, k):
            asked.append(k)
            return super().__getitem__(k)

    exp = run(
        tasks.small(data=Counting, ahead=True), pl.rules.DGD(lr=0.1), schedule=pl.schedules.Always()
    )
    for snapshot in iterate(exp):
        snapshot.port.problem._reader._thread.submit(int).result()  # all that was expected is read
    # Rounds 1 to 5, and the sixth, which nobody asked for.
    assert len(asked) == 6 * CLIENTS * 4


def test_sets_that_give_several_samples_at_once_are_asked_so():
    one, several = (path_of(run(tasks.small(data=of))) for of in (tasks.Points, tasks.Listed))
    assert torch.equal(one, several)


# -- what a row holds


class Tied(nn.Module):
    """An embedding whose weights are also the last layer's."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def test_tied_parameters_are_there_once_and_tokens_stay_whole():
    lines = [(torch.arange(30)[:, None] + torch.arange(9)[None]) % 7] * CLIENTS
    task = Task(
        Tied, lambda m, b: F.cross_entropy(m(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten()), lines
    )
    assert task.n == 28
    losses = [
        float(bound(task).evaluate(row[None]).loss[0])
        for row in path_of(run(task, pl.rules.DGD(lr=1.0), rounds=30))[[0, -1], 0]
    ]
    assert losses[1] < 0.8 * losses[0]


def partly_frozen():
    """Frozen layers, and batch norm between."""
    module = nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 3)
    )
    for layer in (module[0], module[3]):
        layer.requires_grad_(False)
    return module


def test_frozen_weights_and_buffers_are_held_once_and_stay():
    task = tasks.small(model=partly_frozen)
    assert task.n == 2 * 16 + 16 * 3 + 3
    local = final(run(task)).port.problem
    fresh = task.module(3).double().state_dict()
    for name, value in local.module.state_dict().items():
        if name not in trainable(local.module):
            assert torch.equal(value, fresh[name]), name


def test_batch_norm_is_judged_by_statistics_of_the_clients_samples():
    task = tasks.small(model=partly_frozen, test=tasks.held_out)
    x, local = models(task), bound(task)
    found = local.evaluate(x).loss
    module = task.module(3).double()
    module[1].momentum = None
    for row, value in zip(x, found, strict=True):
        RowLayout(module).load(row, trainable(module).values())
        module[1].reset_running_stats()
        module.train()
        with torch.no_grad():
            for client in ALL:
                for part in tasks.Points(client).x.split(4):
                    module(part)
            module.eval()
            held = tasks.held_out()
            expected = F.cross_entropy(module(held.x), held.y)
        assert value == pytest.approx(expected.item(), rel=1e-12)
    assert np.array_equal(local.evaluate(x).loss, found)


def test_a_batch_norm_that_keeps_to_evaluation_mode_is_left_alone():
    class Still(nn.Sequential):
        def train(self, mode=True):
            super().train(mode)
            self[1].eval()
            return self

    def pretrained():
        module = Still(nn.Linear(6, 3), nn.BatchNorm1d(3))
        module[1].running_mean += torch.arange(3.0)
        return module

    task = tasks.small(model=pretrained, test=tasks.held_out)
    module, held = task.module(3).double().eval(), tasks.held_out()
    found = bound(task).evaluate(task.start(3)[None]).loss[0]
    expected = F.cross_entropy(module(held.x), held.y).item()
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_buffer_that_training_moves_is_put_back_with_a_caution():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = tasks.net()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen += 1
            return self.inner(x) * self.seen

    task = tasks.small(model=Counting)
    x = models(task)
    local = bound(task)
    with pytest.warns(Caution, match="Buffer 'seen'"):
        first = local.grad(x, ALL, 1)
    assert torch.equal(local.grad(x, ALL, 1), first)
    assert local.module.seen == 0


def test_parameters_may_keep_types_of_their_own():
    def mixed():
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3).bfloat16())

    def loss(model, batch):
        hidden = model[1](model[0](batch["x"].float()))
        return F.cross_entropy(model[2](hidden.bfloat16()).float(), batch["y"])

    task = tasks.small(model=mixed, loss=loss, precision="own")
    path = path_of(run(task, pl.rules.DGD(lr=0.01), rounds=20))
    assert path.dtype == torch.float64
    part = path[1:, :, -27:]  # which the module holds in bfloat16
    assert (part.bfloat16()[-2] == part.bfloat16()[-1]).any()  # too little for that type to say
    assert (part[-2] != part[-1]).all()


def test_autocast_computes_in_bfloat16_on_float32_parameters():
    types = set()

    def loss(model, batch):
        scores = model(batch["x"])
        types.add((scores.dtype, next(model.parameters()).dtype, batch["x"].dtype))
        return F.cross_entropy(scores.float(), batch["y"])

    task, plain = tasks.small(loss=loss, precision="bfloat16"), tasks.small()
    x = models(task, dtype=torch.float32)
    found = bound(task, dtype=torch.float32).grad(x, ALL, 1)
    assert types == {(torch.bfloat16, torch.float32, torch.float32)}
    exact = bound(plain, dtype=torch.float32).grad(x, ALL, 1)
    assert found.dtype == torch.float32
    assert 0 < float((found - exact).abs().max()) < 0.05 * float(exact.abs().max())


def test_batches_of_any_nesting_are_placed():
    Pair = namedtuple("Pair", "a b")
    batch = {"x": [torch.ones(2), Pair(torch.ones(2, dtype=torch.int32), "text")], "y": (None, 3)}
    found = placed(batch, torch.device("cpu"), torch.float64)
    assert found["x"][0].dtype == torch.float64
    assert found["x"][1].a.dtype == torch.int32
    assert (found["x"][1].b, found["y"]) == ("text", (None, 3))
    assert placed(torch.ones(1), torch.device("cpu"), None).dtype == torch.float32
