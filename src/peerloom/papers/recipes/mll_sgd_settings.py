"""The common setting of MLL-SGD's experiments: its tasks, hubs and periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...sweeps.readings import Reading
from .checks import Check
from .claims import printed
from .mll_sgd_words import SHIPPED
from .recipe import Changed, Recipe

__all__ = [
    "ACCURACIES",
    "ACCURACY",
    "CNN",
    "COMPAT",
    "COMPAT_EPOCHS",
    "COMPAT_PATHS",
    "LOGISTIC",
    "LOSSES",
    "RESNET",
    "Numbers",
    "Table",
    "Task",
    "experiment",
    "hubs",
    "periods",
    "recipe",
]

Table = dict[str, Any]
Numbers = Mapping[tuple[str, str, Reading], float]

_LOSS, ACCURACY = Reading("average_train_loss"), Reading("average_accuracy")
# Who is faster: at the end of the logistic runs all have arrived at the same place.
LOSSES, ACCURACIES = (Reading(name, "along") for name in ("average_train_loss", "average_accuracy"))
_SHIPPED = (
    "Numbers in brackets are not in the paper but in the files that came with its code. There a "
    "step is a pass over all data of a worker, drawn anew, and CIFAR-10's pictures are cut up "
    "wrongly: a run as the paper describes it need not meet them."
)
_MEMORY = (
    "In the paper's form it needs more than 24 GB of memory: 110 models of 11.7 million "
    "parameters, several times over."
)
_CHOSEN = (
    "Where the paper is silent: batches of 300 (its code), drawn with replacement; in figures 1 "
    "and 7 every algorithm weighs workers by their data. Three seeds in place of the paper's one. "
    "Logistic regression is judged every 320 rounds, not every 32."
)
_LEFT_OUT = (
    "Left out: fresh subsets of all data for every epoch; averages among hubs after the first "
    "round in place of the q-th."
)
_IN_PLACE = "hubs average in place, one after the other, by their shares of the data."
COMPAT = Changed(f"{_IN_PLACE} {_LEFT_OUT}", ("graph.compat=true",))
COMPAT_PATHS = Changed(COMPAT.says, tuple(f"algorithms.{k}.graph.compat=true" for k in range(3)))
COMPAT_EPOCHS = Changed(
    f"{_IN_PLACE} An epoch is a step: four batches of 300, which, as all workers always compute, "
    f"is four times the steps at four times tau. {_LEFT_OUT}",
    (
        *COMPAT.settings,
        "rounds=25600",
        *(f"algorithms.{k}.schedule.tau={tau}" for k, tau in ((1, 128), (2, 32), (3, 16))),
        "evaluate.every=128",
    ),
)


@dataclass(frozen=True)
class Task:
    """A model on its data, with what the paper sets for it.

    words    as titles name it
    problem  model and data, as a file would say them
    lr       the step size
    tiny     its stand-in in the tiny form
    fit      its form for two cores, and the step size there, where it is another one
    note     what cannot be as in the paper
    """

    words: str
    problem: Table
    lr: Any
    tiny: tuple[str, ...]
    fit: Changed
    fit_lr: float | None = None
    rounds: int = 6400
    every: int = 32
    note: str = ""


_SEVEN = "seeds=[42, 43, 44, 45, 46, 47, 48]"
_FIT_CNN = Changed(
    "160 rounds in place of 6400, a twelfth of the pictures and 520 of the 20,800 to judge on, "
    "batches of 4 in place of 300, steps of 0.05 in place of 0.01, seven seeds. About two minutes "
    "of one core for a seed. It says how these compare while the network begins to learn.",
    (
        "rounds=160",
        "problem.batch=4",
        "problem.data={name='part', of='emnist-letters', samples=10400, test=520}",
        "evaluate.every=32",
        _SEVEN,
    ),
)
_FIT_RESNET = Changed(
    "ResNet-20 in place of ResNet-18, 32 rounds in place of 6400, 1000 of the 50,000 pictures and "
    "50 of the 10,000 to judge on, one picture in place of 300 in a batch, three seeds. About ten "
    "minutes of one core for a seed. It shows that the recipe runs, and next to nothing about the "
    "claims: a single average of all workers teaches a ResNet little.",
    (
        "problem.model=resnet20",
        "rounds=32",
        "problem.batch=1",
        "problem.data={name='part', of='cifar10', samples=1000, test=50}",
        "evaluate.every=16",
    ),
)
_FIT_LOGISTIC = Changed(
    "3200 rounds in place of 32,000, batches of 30 in place of 300, seven seeds. About a minute of "
    "one core for a seed.",
    ("rounds=3200", "problem.batch=30", "evaluate.every=64", _SEVEN),
)
_TINY = ("problem.batch=4", "rounds=64", "evaluate.every=32")
_DIGITS = ("problem.model=softmax", "problem.data=digits", "problem.outputs=10")

CNN = Task(
    "CNN on EMNIST",
    {"model": "mll_cnn", "data": "emnist-letters", "outputs": 62},
    lr=0.01,
    tiny=_DIGITS,
    fit=_FIT_CNN,
    fit_lr=0.05,
)
RESNET = Task(
    "ResNet-18 on CIFAR-10",
    {"model": "resnet18", "data": "cifar10", "outputs": 1000},
    lr={"name": "Pieces", "rates": [0.1, 0.01, 0.001], "starts": [1, 2134, 4267]},
    tiny=_DIGITS,
    fit=_FIT_RESNET,
    note=_MEMORY,
)
LOGISTIC = Task(
    "logistic regression",
    {
        "model": {"name": "logistic", "zero": True},
        "data": {"name": "mnist", "low": True, "scale": "unit"},
    },
    lr=0.2,
    tiny=(
        "problem.model=logistic",
        "problem.data={name='logistic_regression', samples=1000, features=20}",
    ),
    fit=_FIT_LOGISTIC,
    rounds=32_000,
    every=320,
)


def hubs(number: int = 10, weights: list[int] | None = None, shape: str = "complete") -> Table:
    """A graph of so many hubs that share a hundred workers equally; one hub is a server."""
    inner = (
        {"name": "from_edges", "n": 1, "edges": []}
        if number == 1
        else {"name": shape, "clients": number}
    )
    graph: Table = {"name": "hubs", "hub_graph": inner, "workers": [100 // number] * number}
    return graph | ({"weights": weights} if weights else {})


def periods(tau: int, q: int, nodes: Any = 1.0, waits: bool = False) -> Table:
    """The schedule of tau and q; with `waits` a time slot ends with the slowest worker."""
    return {"name": "Waiting" if waits else "HubRounds", "tau": tau, "q": q, "nodes": nodes}


def experiment(task: Task, algorithms: list[Table], graph: Table, partition: Any = "IID") -> Table:
    """Everything but what a figure compares."""
    return {
        "rounds": task.rounds,
        "seeds": [42, 43, 44],
        "graph": graph,
        "problem": {"name": "Classification", "batch": 300, **task.problem, "partition": partition},
        "evaluate": {"every": task.every, "train": True},
        "algorithms": [rule | {"lr": task.lr} for rule in algorithms],
    }


def recipe(
    title: str,
    checks: Sequence[Check],
    table: Table,
    task: Task,
    numbers: Numbers | None = None,
    compat: Changed = COMPAT,
) -> Recipe:
    """A recipe of this task; `numbers` are the authors' own, to be held to as well."""
    paper = numbers or {}
    steps = range(len(table["algorithms"])) if task.fit_lr is not None else ()
    settings = [*task.fit.settings, *(f"algorithms.{k}.lr={task.fit_lr}" for k in steps)]
    known = printed(paper, 0.02, "The final accuracies of the authors' runs", **SHIPPED)
    return Recipe(
        f"{title}, {task.words}",
        (*checks, *([known] if paper else [])),
        table,
        (_LOSS, ACCURACY, LOSSES, ACCURACIES),
        note=" ".join(filter(None, [_SHIPPED if paper else "", task.note])),
        chosen=_CHOSEN,
        tiny=(*task.tiny, *_TINY),
        fit=Changed(task.fit.says, settings),
        compat=compat,
        paper=paper,
    )
