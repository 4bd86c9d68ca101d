"""Flower apps under rules: plain loops, both engines, states, refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp

import peerloom as pl
from peerloom.core import Checkpoint, ConfigError, DivergedError
from peerloom.hosts import FlowerApp
from peerloom.peers.federation import Federation
from peerloom.rules import RULES
from peerloom.runtime import build_port, iterate, trace
from peerloom.runtime.shards import run_sharded
from tests.builders import final
from tests.every_rule import EVERY
from tests.hosts.in_flower import apps
from tests.hosts.in_flower.apps import CLIENTS, HELD, WIDTH, X, Y
from tests.memory_runs import check_same, run_in_memory, wait_for

COINS = pl.schedules.Bernoulli(nodes=0.6, links=0.6)


def by_hand(rounds):
    """Train, then gossip."""
    W = pl.graphs.ring(CLIENTS).peers.matrix()
    w = np.zeros((CLIENTS, WIDTH))
    for _ in range(rounds):
        w = W @ np.stack([apps.descended(w[i], i, 0.1, 3) for i in range(CLIENTS)])
    return w


@pytest.mark.parametrize("kind", ["modern", "legacy"])
def test_an_app_on_a_ring_is_local_training_and_gossip(kind):
    last = final(apps.experiment(kind, rounds=20))
    assert np.allclose(last.x.numpy(), by_hand(20), atol=1e-12)
    assert last.port.problem.reported[2]["num-examples"] == HELD


@pytest.mark.parametrize("name", ["DSGD", "DSpodFL", "PairwiseGossip", "LocalSGDM", "SpodGT"])
def test_rules_that_ask_once_have_the_same_bits_in_simulator_and_shards(name):
    outer = {"nesterov": True, "momentum": 0.5}
    rule = RULES[name](lr=0.7, **outer if name == "LocalSGDM" else {})
    coins = {"schedule": COINS} if name in ("DSpodFL", "SpodGT") else {}
    exp = apps.experiment("moody", rule, **coins)
    found = run_sharded(exp, [[0, 2], [1], [3]])
    last = final(exp, path="links")
    assert torch.equal(found.path[-1], last.x)
    assert found.checkpoint.problem == last.port.problem.memory()
    assert len(found.checkpoint.problem) == CLIENTS


def test_each_client_counts_its_own_trainings():
    last = final(apps.experiment("modern", pl.rules.DSpodFL(lr=1.0), 30, schedule=COINS))
    trained = last.ledger.rows.gradients
    assert [last.port.problem.reported[i]["seen"] for i in range(CLIENTS)] == trained.tolist()
    assert len(set(trained.tolist())) > 1


def test_a_run_goes_on_with_the_states_of_its_clients(tmp_path):
    exp = apps.experiment("moody", rounds=9)
    whole = final(exp)
    for snapshot in iterate(exp):
        if snapshot.t == 4:
            file = tmp_path / "at.safetensors"
            file.write_bytes(b"".join(snapshot.checkpoint().encode("s")))
            break
    kept = Checkpoint.read(file)
    assert len(kept.problem) == CLIENTS
    assert torch.equal(final(exp, resume=kept).x, whole.x)
    parts = [kept.select(rows, exp.graph) for rows in ([0, 3], [1, 2])]
    assert set(parts[0].problem) == {0, 3}
    assert Checkpoint.merge(parts).problem == kept.problem
    forgotten = replace(kept, problem={})
    assert not torch.equal(final(exp, resume=forgotten).x, whole.x)


@pytest.mark.parametrize("crashes", [[], [(0.02, 1, 0.5), (0.2, 3, 0.1)], [(0.1, 0, 1.0)]])
def test_peers_have_the_simulators_bits_after_kills(crashes, identities, tmp_path):
    exp = apps.experiment("moody", pl.rules.DSpodFL(lr=0.9), 12, schedule=COINS)
    results = run_in_memory(exp, identities, tmp_path, seed=5, crashes=crashes)
    check_same(exp, results)
    kept = {row: what for each in results for row, what in each.checkpoint().problem.items()}
    assert kept == final(exp, path="links").port.problem.memory()


def test_processes_over_tls_one_of_them_killed_have_the_simulators_bits(tmp_path):
    exp = apps.experiment("moody", rounds=60, graph=pl.graphs.ring(3))
    federation = Federation(exp, tmp_path)
    with federation.no_orphans():
        for row in range(3):
            federation.start(row)
        wait_for(lambda: any(status["round"] >= 5 for status in federation.status()))
        federation.kill(1)
        federation.start(1)
        federation.wait()
    last, found = final(exp, path="links"), federation.checkpoint()
    assert torch.equal(torch.from_numpy(found.state["x"]), last.state.x)
    assert found.problem == last.port.problem.memory()


def test_global_generators_are_left_as_they_were():
    np.random.seed(7), torch.manual_seed(7)  # noqa: NPY002
    wanted = np.random.random(), torch.rand(1)  # noqa: NPY002
    np.random.seed(7), torch.manual_seed(7)  # noqa: NPY002
    final(apps.experiment("moody", rounds=2))
    assert (np.random.random(), torch.rand(1)) == wanted  # noqa: NPY002


# -- evaluation


@pytest.mark.parametrize(("kind", "accuracy"), [("modern", "eval_acc"), ("legacy", "accuracy")])
def test_models_are_judged_by_all_clients_by_how_many_samples_each_has(kind, accuracy):
    port = build_port(apps.experiment(kind))
    x = torch.randn(2, WIDTH, dtype=torch.float64)
    found = port.problem.evaluate(x)
    weights = np.arange(1, CLIENTS + 1)
    squares = ((np.einsum("csd,kd->kcs", X, x.numpy()) - Y) ** 2).mean(axis=2)
    assert np.allclose(found.loss, squares @ weights / weights.sum(), atol=1e-12)
    wanted = np.arange(CLIENTS) @ weights / weights.sum() / 10
    assert np.allclose(found.accuracy, wanted)
    assert accuracy not in found.more
    if kind == "modern":
        assert np.allclose(found.more["first"], x[:, 0].numpy())


def test_judging_leaves_no_trace_in_states():
    exp = apps.experiment("modern", rounds=6)
    result = pl.simulate(exp)
    assert result.metrics["mean_first"].shape == (7,)
    assert result.metrics["mean_loss"][-1] < result.metrics["mean_loss"][0] / 10
    last = final(exp)
    before = last.port.problem.memory()
    last.port.problem.evaluate(last.x)
    assert last.port.problem.memory() == before
    assert last.port.problem.reported[0]["seen"] == 6


def test_an_app_that_evaluates_nothing_has_no_loss(tmp_path):
    result = pl.simulate(apps.experiment("moody", rounds=3), out=tmp_path / "run")
    assert np.isnan(result.metrics["mean_loss"]).all()
    assert np.isfinite(result.metrics["consensus"]).all()
    found = build_port(apps.experiment("moody")).problem.evaluate(torch.zeros(2, WIDTH))
    assert np.isnan(found.loss).all()
    assert found.accuracy is None


def test_a_number_may_be_chosen_as_the_loss():
    exp = replace(apps.experiment(), problem=apps.made(loss="first"))
    found = build_port(exp).problem.evaluate(torch.ones(1, WIDTH))
    assert found.loss.tolist() == [1.0]
    assert set(found.more) == {"eval_loss"}
    exp = replace(exp, problem=apps.made(accuracy="f1"))
    with pytest.raises(ConfigError, match="'f1', but the app's evaluate function returns eval_"):
        build_port(exp).problem.evaluate(torch.ones(1, WIDTH))


# -- what the app is told


def test_nodes_are_told_what_is_theirs_and_only_if_they_live_here():
    asked = []

    def node(client):
        asked.append(client)
        return {"data-path": f"/data/{client}"}

    seen, app = {}, ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        seen[context.node_id] = dict(context.node_config)
        return apps.answer(msg, arrays=msg.content["arrays"])

    problem = FlowerApp(app, lambda: [np.zeros(1)], node_config=node)
    port = build_port(replace(apps.experiment(), problem=problem), np.array([1, 3]), mixer="links")
    port.grad(torch.zeros(2, 1, dtype=torch.float64))
    assert asked == [1, 3]
    assert seen[2] == {"data-path": "/data/1", "partition-id": 1, "num-partitions": CLIENTS}


# -- refusals


RULE = {name: RULES[name](**EVERY[name]) for name in RULES}
ONCE = {
    name for name, rule in RULE.items() if (seen := trace(rule)).gradients <= 1 and not seen.whole
}


def test_which_rules_ask_once():
    assert {"DSGD", "DSpodFL", "PairwiseGossip", "DGD", "SpodGT", "MLLSGD"} <= ONCE
    assert not {"DFedSAM", "DiLoCo", "KGT", "LocalAdamW", "ProxGTSRE"} & ONCE


@pytest.mark.parametrize("name", sorted(RULE.keys() - ONCE))
def test_rules_that_would_train_twice_are_refused_before_the_run(name):
    exp = apps.experiment("modern", RULE[name], graph=pl.testing.graph_for(RULE[name]))
    with pytest.raises(ConfigError, match=r"once in a round|trains as it likes"):
        next(iter(iterate(exp)))


def test_a_second_question_in_a_round_is_refused():
    port = build_port(apps.experiment())
    x = torch.zeros(CLIENTS, WIDTH, dtype=torch.float64)
    port.t = 1
    port.grad(x)
    with pytest.raises(ConfigError, match="client 0 for a second gradient in round 1"):
        port.grad(x, batch=1)
    port.t = 2
    port.grad(x)


def answering(reply):
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        return reply(msg)

    problem = FlowerApp(app, lambda: {"w": np.zeros(2)})
    return replace(apps.experiment(rounds=2), problem=problem)


def one(w):
    return ArrayRecord([np.asarray(w)])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (lambda msg: 1 / 0, "client 0 failed to train in round 1: ZeroDivisionError"),
        (lambda msg: apps.answer(msg, arrays=apps.named(np.zeros(3))), r"\[\[3\]\] in round 1"),
        (lambda msg: apps.answer(msg, a=one([0.0]), b=one([0.0])), "2 records of arrays"),
        (lambda msg: apps.answer(msg, arrays=one([0.0, 0.0])), "returned arrays 0, but was sent w"),
        (lambda msg: apps.answer(msg, metrics=MetricRecord({"a": 1})), "0 records of arrays"),
    ],
)
def test_answers_that_are_no_row_are_refused(reply, said):
    with pytest.raises(ConfigError, match=said):
        final(answering(reply))


def test_a_model_that_is_not_finite_ends_the_run_with_its_client_and_round():
    exp = answering(lambda msg: apps.answer(msg, arrays=apps.named(np.array([1.0, np.nan]))))
    with pytest.raises(DivergedError, match=r"client 0 .* round 1") as caught:
        final(exp)
    assert (caught.value.round, caught.value.row) == (1, 0)


def test_an_app_without_a_train_function_is_refused():
    exp = replace(apps.experiment(), problem=FlowerApp(ClientApp(), lambda: [np.zeros(2)]))
    with pytest.raises(ConfigError, match="No train function registered"):
        final(exp)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (lambda: torch.zeros(3), "gave Tensor"),
        (list, "no numbers"),
        (lambda: [np.zeros(3, np.int64)], "array '0' of int64"),
        (lambda: torch.nn.BatchNorm1d(2).state_dict(), "'num_batches_tracked' of int64"),
        (lambda: {"w": torch.zeros(2, dtype=torch.bfloat16)}, "'w' of bfloat16"),
    ],
)
def test_first_arrays_that_cannot_be_mixed_are_refused(first, said):
    with pytest.raises(ConfigError, match=said):
        FlowerApp(apps.modern, first).start(0)


def test_a_first_model_may_come_as_the_server_has_it_and_follows_the_seed():
    def net():
        return torch.nn.Linear(3, 2)

    makers = [
        lambda: net().state_dict(),
        lambda: ArrayRecord(net().state_dict()),
        lambda: [part.detach().numpy() for part in net().parameters()],
        lambda: {name: part.detach().numpy() for name, part in net().named_parameters()},
    ]
    found = [FlowerApp(apps.modern, first).start(5) for first in makers]
    assert all(torch.equal(one, found[0]) for one in found)
    assert not torch.equal(FlowerApp(apps.modern, makers[0]).start(6), found[0])


def test_what_is_no_client_app_is_refused():
    with pytest.raises(ConfigError, match=r"FlowerApp.app is function\. Give the app's ClientApp"):
        FlowerApp(apps.client_fn, lambda: [np.zeros(1)])


def test_peers_compare_names_shapes_and_types_of_arrays():
    made = [
        FlowerApp(apps.modern, first).agreed(0)
        for first in (
            lambda: [np.zeros(2)],
            lambda: [np.ones(2)],
            lambda: [np.zeros(2, np.float32)],
            lambda: {"w": np.zeros(2)},
            lambda: [np.zeros((2, 1))],
        )
    ]
    assert made[0] == made[1]
    assert len(set(made)) == 4
