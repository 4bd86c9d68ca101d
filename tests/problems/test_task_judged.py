"""Tasks: how models are judged, what peers agree on, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import peerloom as pl
from peerloom.core import ConfigError, DataError, DivergedError
from tests import tasks
from tests.builders import experiment, final
from tests.tasks import ALL, bound, models, run

# -- how models are judged


def test_metrics_are_columns_by_their_names():
    result = pl.simulate(run(tasks.small(test=tasks.held_out, metrics=tasks.f1_and_size)))
    last, task = result.metrics.row(-1), tasks.small()
    assert last["mean_size"] == last["average_size"] == task.n
    assert last["mean_f1"] == pytest.approx(np.mean(last["client_f1"]))
    module, held = task.module(3).double(), tasks.held_out()
    for row, loss, f1 in zip(result.x, last["client_loss"], last["client_f1"], strict=True):
        nn.utils.vector_to_parameters(row, module.parameters())
        assert loss == pytest.approx(F.cross_entropy(module(held.x), held.y).item())
        assert f1 == tasks.f1_and_size(module)["f1"]
    assert np.isnan(last["mean_accuracy"])


def test_loss_and_accuracy_of_the_metrics_take_the_usual_columns():
    task = tasks.small(metrics=lambda model: {"loss": 2.5, "accuracy": torch.tensor(0.25)})
    last = pl.simulate(run(task)).metrics.row(-1)
    assert (last["mean_loss"], last["average_loss"], last["mean_accuracy"]) == (2.5, 2.5, 0.25)
    assert not [
        name for name in last if name.startswith("mean_") and name not in pl.measures.METRICS
    ]


def test_without_a_test_part_the_samples_of_clients_here_judge():
    task = tasks.small()
    x, local = models(task), bound(task)
    expected = []
    for row in x:
        module = task.module(3).double()
        nn.utils.vector_to_parameters(row.clone(), module.parameters())
        held = [tasks.Points(client) for client in ALL]
        expected.append(np.mean([F.cross_entropy(module(of.x), of.y).item() for of in held]))
    assert local.evaluate(x).loss == pytest.approx(expected, rel=1e-12)
    assert local.train_loss(x, "clients") == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_changes_its_batch_spoils_nothing():
    def careless(model, batch):
        batch["x"] *= 0.5
        return F.cross_entropy(model(batch.pop("x")), batch["y"])

    task = tasks.small(loss=careless, test=tasks.held_out)
    x, local = models(task), bound(task)
    first = local.evaluate(x).loss
    assert np.array_equal(local.evaluate(x).loss, first)
    assert np.array_equal(bound(task).evaluate(x[2:]).loss, first[2:])


def test_the_training_loss_weighs_clients_or_samples():
    sizes = (3, 9, 12, 30)
    task = tasks.small(data=lambda client: tasks.Points(client, sizes[client]))
    x, local = models(task)[:1], bound(task)
    module = task.module(3).double()
    nn.utils.vector_to_parameters(x[0].clone(), module.parameters())
    sets = [tasks.Points(client, size) for client, size in enumerate(sizes)]
    each = np.array([F.cross_entropy(module(of.x), of.y).item() for of in sets])
    assert local.train_loss(x, "clients") == pytest.approx([each.mean()])
    assert local.train_loss(x, "samples") == pytest.approx([each @ sizes / sum(sizes)])


# -- what peers agree on


def test_peers_compare_names_shapes_and_frozen_values():
    def named(**layers):
        return tasks.small(model=lambda: nn.ModuleDict(layers))

    def frozen(value):
        layer = nn.Linear(2, 2)
        nn.init.constant_(layer.weight, value)
        return named(a=layer.requires_grad_(False), b=nn.Linear(2, 2))

    tried = [
        named(a=nn.Linear(2, 3)), named(b=nn.Linear(2, 3)), named(a=nn.Linear(3, 2)),
        named(a=nn.Linear(2, 3, bias=False), b=nn.Linear(3, 1, bias=False)),
    ]  # fmt: skip
    found = [task.agreed(1) for task in tried]
    assert len(set(found)) == len(found)
    assert tasks.small().agreed(1) == tasks.small().agreed(2)  # of what is trained, not the values
    assert (
        len(
            {
                tasks.small(model=lambda v=v: copy.deepcopy(frozen(v).model())).agreed(1)
                for v in (1.0, 2.0)
            }
        )
        == 2
    )


# -- refusals


def constant(model, batch):
    return torch.tensor(1.0)


def nothing_to_train():
    return tasks.net().requires_grad_(False)


def again():
    """A task whose model is always the same one, of which `n` has been asked already."""
    one = tasks.net()
    task = tasks.small(model=lambda: one)
    assert task.n
    return task


REFUSED = {
    "Task.model is a module": lambda: tasks.small(model=tasks.net()),
    "gave the same module twice": lambda: experiment(pl.graphs.ring(4), problem=again()).start([0]),
    "gave str": lambda: tasks.small(model=lambda: "net").n,
    "no parameter to train: all 4 are frozen": lambda: tasks.small(model=nothing_to_train).n,
    "no parameter to train. Give": lambda: tasks.small(model=nn.ReLU).n,
    "'0' of Task's model holds torch.complex64": lambda: tasks.small(
        model=lambda: nn.ParameterList([nn.Parameter(torch.zeros(2, dtype=torch.complex64))])
    ).n,
    r"gave a tensor of shape \[4\]": lambda: gradient(
        loss=lambda model, batch: F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
    ),
    "gave float, but it must give one number": lambda: gradient(loss=lambda model, batch: 1.0),
    "depends on no trainable parameter": lambda: gradient(loss=constant),
    "of client 2 is int, which has no length": lambda: bound(
        tasks.small(data=[tasks.Points(0)] * 2 + [3, 4])
    ),
    "Task.test is list_iterator, which has no length": lambda: bound(
        tasks.small(test=lambda: iter([1]))
    ).evaluate(models(tasks.small())),
    r"Task.data has 2 entries for 4 clients": lambda: run(tasks.small(data=[tasks.Points(0)] * 2)),
    "Task.batch must be at least 1 sample": lambda: tasks.small(batch=0),
    "Task.batch: client 0 holds 20 samples, too few": lambda: bound(
        tasks.small(batch=21, replace=False)
    ),
    "Task.replace has no effect": lambda: tasks.small(batch="all", replace=False),
    "Task.accumulate must be at least 1": lambda: tasks.small(accumulate=0),
    "Task.accumulate is 5, but a batch has 4": lambda: tasks.small(accumulate=5),
    "Task.clip must be above 0": lambda: tasks.small(clip=0.0),
    "Task.precision must be 'run'": lambda: tasks.small(precision="half"),
    "Task.data must be": lambda: tasks.small(data=3),
    "Task.metrics must return numbers by name": lambda: judged(lambda model: 0.5),
    "Task.metrics names a number 'round'": lambda: judged(lambda model: {"round": 1.0}),
    "Task.metrics names a number 'a b'": lambda: judged(lambda model: {"a b": 1.0}),
    r"shape \[3\] for 'f1'": lambda: judged(lambda model: {"f1": torch.zeros(3)}),
    "gave str for 'f1'": lambda: judged(lambda model: {"f1": "much"}),
    "accuracy of 87, but": lambda: judged(lambda model: {"accuracy": 87.0}),
    "named loss for one model and loss, f1": lambda: judged(iter_names()),
}  # fmt: skip


def gradient(**changes):
    return bound(tasks.small(**changes)).grad(models(tasks.small()), ALL, 1)


def judged(metrics):
    return bound(tasks.small(metrics=metrics)).evaluate(models(tasks.small()))


def iter_names():
    """Metrics that name another number for every model but the first."""
    seen = []

    def metrics(model):
        seen.append(1)
        return {"loss": 1.0} if len(seen) == 1 else {"loss": 1.0, "f1": 0.5}

    return metrics


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_are_sentences(words):
    with pytest.raises(ConfigError, match=words) as refused:
        REFUSED[words]()
    assert str(refused.value).endswith(".")


def test_a_data_set_of_length_zero_is_refused():
    task = tasks.small(data=lambda client: tasks.Points(client, 0 if client == 2 else 5))
    with pytest.raises(DataError, match="client 2 is a data set of length 0"):
        final(run(task))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_names_client_round_batch_and_samples(value):
    class Spoilt(tasks.Points):
        def __init__(self, client):
            super().__init__(client)
            if client == 2:
                self.x[:] = value

    exp = run(
        tasks.small(data=Spoilt), pl.rules.DFedAvgM(lr=0.1, K=2), schedule=pl.schedules.Always()
    )
    words = r"loss of client 2 is \w+ in round 1, on its batch 0, samples \d+, \d+, \d+, \d+\."
    with pytest.raises(DivergedError, match=words) as refused:
        final(exp)
    assert (refused.value.round, refused.value.row) == (1, 2)
