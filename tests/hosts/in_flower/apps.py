"""Small Flower apps, as users write them, and experiments with them."""

import random

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

import peerloom as pl
from peerloom.registry import build

CLIENTS, HELD, WIDTH = 4, 30, 3
_rng = np.random.default_rng(0)
X = _rng.normal(size=(CLIENTS, HELD, WIDTH))
Y = X @ _rng.normal(size=WIDTH) + 0.1 * _rng.normal(size=(CLIENTS, HELD))


def descended(w, client, lr, steps):
    """Local training in plain NumPy."""
    for _ in range(steps):
        w = w - lr * X[client].T @ (X[client] @ w - Y[client]) / HELD
    return w


def mean_square(w, client):
    return float(np.mean((X[client] @ w - Y[client]) ** 2))


def answer(msg, **records):
    return Message(content=RecordDict(records), reply_to=msg)


modern = ClientApp()


@modern.train()
def train(msg: Message, context: Context) -> Message:
    """As many steps as the run says; the state counts how often."""
    client = int(context.node_config["partition-id"])
    seen = context.state["seen"]["times"] + 1 if "seen" in context.state else 1
    context.state["seen"] = ConfigRecord({"times": seen})
    lr = float(msg.content["config"]["lr"])
    w = descended(
        msg.content["arrays"].to_numpy_ndarrays()[0], client, lr, context.run_config["steps"]
    )
    numbers = {"num-examples": HELD, "seen": seen, "round": msg.content["config"]["server-round"]}
    return answer(msg, arrays=ArrayRecord([w]), metrics=MetricRecord(numbers))


@modern.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Clients with more samples than others; the state is changed, which must not last."""
    client = int(context.node_config["partition-id"])
    context.state["seen"] = ConfigRecord({"times": 1000})
    w = msg.content["arrays"].to_numpy_ndarrays()[0]
    numbers = {
        "eval_loss": mean_square(w, client),
        "eval_acc": client / 10,
        "first": float(w[0]),
        "num-examples": client + 1,
    }
    return answer(msg, metrics=MetricRecord(numbers))


class Legacy(NumPyClient):
    """The same training, as a client of the older kind."""

    def __init__(self, client, steps):
        self.client, self.steps = client, steps

    def fit(self, parameters, config):
        w = descended(parameters[0], self.client, config["lr"], self.steps)
        return [w], HELD, {"seen": 1}

    def evaluate(self, parameters, config):
        loss = mean_square(parameters[0], self.client)
        return loss, self.client + 1, {"accuracy": self.client / 10}


def client_fn(context: Context):
    client = int(context.node_config["partition-id"])
    return Legacy(client, int(context.run_config["steps"])).to_client()


legacy = ClientApp(client_fn=client_fn)

moody = ClientApp()


@moody.train()
def train_moody(msg: Message, context: Context) -> Message:
    """Training that depends on all that it may: the state, the round, all global generators."""
    client = int(context.node_config["partition-id"])
    kept = context.state["own"]["w"].numpy() if "own" in context.state else np.zeros(WIDTH)
    w = msg.content["arrays"]["w"].numpy()
    noise = np.random.normal(size=WIDTH) + random.random() + torch.randn(WIDTH).numpy()  # noqa: NPY002
    own = 0.9 * kept + 0.1 * w
    w = descended(w, client, 0.1, 2) + 0.01 * noise - 0.05 * (w - own)
    context.state["own"] = named(own)
    return answer(msg, arrays=named(w), metrics=MetricRecord({"num-examples": HELD}))


def named(w):
    """A record with one array, by name."""
    return ArrayRecord({"w": Array(np.ascontiguousarray(w))})


def program(kind="modern"):
    """An app as a problem, by the name of the app: what a file names."""
    return made(kind)


def made(kind="modern", **changes):
    """The same, with other settings."""
    apps = {"modern": modern, "legacy": legacy, "moody": moody}
    first = (lambda: {"w": np.zeros(WIDTH)}) if kind == "moody" else (lambda: [np.zeros(WIDTH)])
    given = {"run_config": {"steps": 3}, "config": {"lr": 0.1}} | changes
    return pl.hosts.FlowerApp(apps[kind], first, **given)


def experiment(kind="modern", rule=None, rounds=8, **changes):
    """A run of one of the apps on a ring of four."""
    problem = build("problems", {"name": "tests.hosts.in_flower.apps:program", "kind": kind}, "")
    given = {"graph": pl.graphs.ring(CLIENTS), "seed": 3, "dtype": "float64"} | changes
    return pl.Experiment(
        problem=problem, algorithm=rule or pl.rules.DSGD(lr=1.0), rounds=rounds, **given
    )
