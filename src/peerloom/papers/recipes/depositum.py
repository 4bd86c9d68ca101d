"""DEPOSITUM's figures 2 to 7; its table III is in depositum_table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core import Draws
from ...reports.groups import column
from ...runs import Run, RunFolder
from ...sweeps.readings import Found, Reading
from .checks import Check, Part, difference
from .claims import across, ahead, close, order
from .recipe import Changed, Recipe

__all__ = ["DEPOSITUM", "FIT", "MCP"]

Table = dict[str, Any]

_LOSS, _ACCURACY, _CONSENSUS = (
    Reading("average_loss"),
    Reading("average_accuracy"),
    Reading("consensus"),
)
_TRACKERS, _DIRECTIONS = Reading("consensus_tracker"), Reading("consensus_direction")
_PANELS = (
    Reading("gradient_error"),
    Reading("proximal_gradient"),
    _CONSENSUS,
    _TRACKERS,
    _DIRECTIONS,
)
MCP = {"name": "MCP", "lam": 0.0001, "theta": 4.0}
_CHOSEN = (
    "Where the paper is silent: batches of 32, Metropolis weights, MCP with lambda 0.0001 and "
    "theta 4, 500 rounds, figure 4 on a ring. With beta 0.5 it minimises f + 2h, as the paper's "
    "does. Losses are those of the test set."
)
_ONE_OPTION = (
    "The paper has two panels each of loss and of accuracy, and does not say how they differ; "
    "option I here."
)
FIT = Changed(
    "150 rounds in place of 500, evaluated less often, one seed. About 10 minutes of one core.",
    ("rounds=150", "seeds=[1]", "evaluate.every=75"),
)
_TINY = ("problem.data=digits", "problem.model=softmax", "rounds=30", "evaluate.every=10")


def _table(
    algorithms: list[Table], clients: int, partition: Any, period: int, graph: str = "ring"
) -> Table:
    return {
        "rounds": 500,
        "seeds": [1, 2, 3, 4, 5],
        "graph": {"name": graph, "clients": clients},
        "schedule": {"name": "Every", "T0": period},
        "problem": {
            "name": "Classification", "model": "cnn", "data": "mnist", "partition": partition,
            "h": MCP, "batch": 32,
        },
        "evaluate": {"every": 50},
        "algorithms": algorithms,
    }  # fmt: skip


def _rule(
    label: str, alpha: float = 0.05, beta: float = 0.5, gamma: float = 0.5, **more: Any
) -> Table:
    return {
        "name": "Depositum",
        "label": label,
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        **more,
    }


def _recipe(title: str, checks: Sequence[Check], table: Table, **more: Any) -> Recipe:
    usual: dict[str, Any] = {
        "shows": (_LOSS, _ACCURACY),
        "chosen": _CHOSEN,
        "tiny": _TINY,
        "fit": FIT,
    }
    return Recipe(title, tuple(checks), table, **(usual | more))


def _dealt(run: Run) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of each class that each client holds [classes, clients], as the run dealt it."""
    exp = RunFolder(run.path).experiment()
    labels = exp.problem.data.y  # type: ignore[attr-defined]
    parts = exp.problem.partition.deal(labels, exp.graph.clients, Draws(exp.seed))  # type: ignore[attr-defined]
    counts = np.stack(
        [np.bincount(labels[part], minlength=int(labels.max()) + 1) for part in parts], axis=1
    )
    return np.asarray(counts / np.bincount(labels)[:, None])


def _sums(found: Found) -> list[Part]:
    return [
        Part(
            f"theta {point}",
            tuple(float(np.abs(_dealt(run).sum(axis=1) - 1).max()) for run in runs.values()),
            "below",
            1e-9,
        )
        for point, labels in found.runs.items()
        for runs in labels.values()
    ]


def _uneven(found: Found) -> list[Part]:
    even, odd = (
        [run for runs in found.runs.get(p, {}).values() for run in runs.values()]
        for p in ("1", "0.1")
    )
    largest = [
        float(_dealt(b).max(axis=1).mean() - _dealt(a).max(axis=1).mean())
        for a, b in zip(even, odd, strict=False)
    ]
    return [Part("0.1 over 1", tuple(largest), "above", 0.0)]


_STEPS = ((0.1, 1.0), (0.2, 0.5), (0.2, 1.0), (0.4, 0.5), (0.4, 1.0))
_PERIOD = 5


def _name(alpha: float, beta: float) -> str:
    return f"alpha {alpha:g}, beta {beta:g}"


def _sawtooth(found: Found) -> list[Part]:
    """Of the rounds that talk, how many bring models nearer.

    Of the others, how many drive them apart.
    """
    made = []
    for label, runs in found.runs.get("", {}).items():
        shares = []
        for run in runs.values():
            rounds, apart = column(run, "round"), column(run, "consensus")
            if len(rounds) < 2 or (np.diff(rounds) != 1).any():
                shares.append(math.nan)
                continue
            rises, talks = np.diff(apart)[_PERIOD:] > 0, ((rounds[1:] - 1) % _PERIOD == 0)[_PERIOD:]
            shares.append(float((rises != talks).mean()))
        made.append(Part(label, tuple(shares), "above", 0.9))
    return made


def _calmer(reading: Reading, found: Found) -> list[Part]:
    """How much more the models' consensus error changes with alpha than this one.

    From the least to the largest alpha.
    """
    labels = [_name(alpha, 1.0) for alpha in (0.1, 0.2, 0.4)]

    def factor(what: Reading) -> dict[str, float]:
        values = [found.values("", label, what) for label in labels]
        seeds = [seed for seed in values[0] if all(seed in some for some in values)]
        return {
            seed: max(some[seed] for some in values) / min(some[seed] for some in values)
            for seed in seeds
        }

    models, these = factor(_CONSENSUS), factor(reading)
    return [Part("", tuple(models[seed] / these[seed] for seed in models), "above", 1.0)]


def _alike(pair: tuple[str, str], reading: Reading, within: float, what: str) -> Check:
    claim = f"Equal alpha beta, equal {what}: {pair[0]} and {pair[1]}"
    return close(pair, reading, within, claim, name=f"same {what}, {pair[0]}")


def _figure3() -> Recipe:
    early = Reading("average_loss", 25.0)
    soon = (Reading("gradient_error", 10.0), Reading("proximal_gradient", 10.0))
    small, middle, large = _name(0.1, 1.0), _name(0.2, 1.0), _name(0.4, 1.0)
    equal = [(_name(0.1, 1.0), _name(0.2, 0.5)), (_name(0.2, 1.0), _name(0.4, 0.5))]
    checks = [
        *(
            order(
                [large, middle, small],
                reading,
                f"Larger steps are faster, {reading.words}",
                name=f"faster, {reading.metric}",
            )
            for reading in (early, *soon)
        ),
        order(
            [small, middle, large],
            _CONSENSUS,
            "Larger steps leave models further apart",
            name="further apart",
        ),
        *(_alike(pair, early, 0.02, "loss") for pair in equal),  # at the end all losses are alike
        *(_alike(pair, _CONSENSUS, 0.25, "consensus error") for pair in equal),
        Check(
            "sawtooth",
            "The consensus error is a sawtooth of period T0",
            "share of rounds that fit",
            _sawtooth,
        ),
        *(_alike(pair, soon[1], 0.25, "proximal gradient") for pair in equal),
        *(
            Check(
                f"calm, {reading.metric}",
                f"{reading.words} depends less on alpha than that of models",
                "range over alpha at beta 1, largest over least: of models over of these",
                partial(_calmer, reading),
            )
            for reading in (_TRACKERS, _DIRECTIONS)
        ),
    ]
    table = _table([_rule(_name(a, b), a, b) for a, b in _STEPS], 10, "IID", _PERIOD)
    table["problem"] |= {"model": "linear", "data": "a9a", "h": {"name": "L1", "lam": 0.0001}}
    table["evaluate"] = {"every": 1, "closely": True}
    chosen = (
        "Where the paper is silent: all steps, gamma 0.5, l1 with lambda 0.0001, batches of 32, "
        "500 rounds. Losses are of the test set."
    )
    tiny = ("problem.data=digits", "rounds=30")
    return _recipe(
        "Step sizes, A9A",
        checks,
        table,
        shows=(early, _LOSS, *_PANELS),
        chosen=chosen,
        tiny=tiny,
        fit=None,
    )


def _figure4() -> Recipe:
    rules = [_rule("gamma 0", gamma=0.0)]
    rules += [_rule(f"I, gamma {g:g}", gamma=g) for g in (0.2, 0.5, 0.8)]
    rules += [_rule(f"II, gamma {g:g}", gamma=g, nesterov=True) for g in (0.2, 0.5, 0.8)]
    checks = [
        Check(
            f"momentum, {what}",
            f"Momentum helps somewhat, {what}",
            f"mean of all with momentum against gamma 0, {reading.words}",
            partial(_momentum, reading),
            "points" if reading.share else "",
        )
        for what, reading in (("loss", _LOSS), ("accuracy", _ACCURACY))
    ]
    return _recipe("Momentum, MNIST", checks, _table(rules, 20, "IID", 10))


def _momentum(reading: Reading, found: Found) -> list[Part]:
    """How much better runs with momentum are in the mean.

    The best of six would beat one by chance alone.
    """
    gains = [
        difference(found, "", label, ["gamma 0"], reading)
        for label in found.labels("")
        if label != "gamma 0"
    ]
    return [
        Part(
            "",
            tuple(float(np.mean(some)) for some in zip(*gains, strict=True)),
            "above",
            0.0,
            reading.least,
        )
    ]


def _figure5() -> Recipe:
    periods = (5, 10, 20)
    rules = [_rule(f"T0 {T}", schedule={"name": "Every", "T0": T}) for T in periods]
    labels = [f"T0 {T}" for T in periods]
    checks = [
        close(
            labels, _LOSS, 0.1, "The same loss after equally many rounds, with fewer communications"
        ),
        order(labels, _CONSENSUS, "The consensus error grows with T0", name="consensus"),
    ]
    dealt = {"name": "Dirichlet", "theta": 1.0}
    shows = (_LOSS, _ACCURACY, _CONSENSUS)
    note = (
        "That the sawtooth grows with T0, too, is not looked at: models are judged every 50 "
        "rounds only. Against communications the curves are those against rounds, T0 times as "
        "short."
    )
    return _recipe(
        "Communication period, MNIST", checks, _table(rules, 20, dealt, 10), shows=shows, note=note
    )


def _figure6() -> Recipe:
    names = ("complete", "ring", "star")
    rules = [_rule(name, graph={"name": name, "clients": 10}) for name in names]
    checks = [
        ahead("complete", _LOSS, "The complete graph is the best"),
        close(list(names), _ACCURACY, 0.02, "Differences between graphs are small"),
    ]
    return _recipe(
        "Graphs, MNIST",
        checks,
        _table(rules, 10, {"name": "Dirichlet", "theta": 1.0}, 20),
        note=_ONE_OPTION,
    )


def _figure7() -> Recipe:
    """Corollary 1: alpha ~ sqrt(n), 1 - gamma = sqrt(n / (T + 1)), B = sqrt(n)."""
    points = {}
    for n in (4, 9, 16, 25):
        root = math.isqrt(n)
        gamma = 1 - root / math.sqrt(401)
        settings = [f"graph.clients={n}", f"problem.batch={root}"]
        points[str(n)] = [
            *settings,
            f"algorithms.Depositum.alpha={0.025 * root}",
            f"algorithms.Depositum.gamma={gamma:.6f}",
        ]
    pairs = [("9", "4"), ("16", "9"), ("25", "16")]
    checks = [
        across("Depositum", _LOSS, pairs, "below", 1.0, "More clients are faster", name="speedup")
    ]
    table = _table(
        [{"name": "Depositum", "alpha": 0.05, "beta": 0.5}],
        4,
        {"name": "Dirichlet", "theta": 1.0},
        10,
    )
    chosen = (
        "Corollary 1 gives alpha up to the unknown L: alpha = 0.025 sqrt(n). Its beta would "
        "hardly move anything; 0.5 as elsewhere. MCP with lambda 0.0001 and theta 4. Losses are "
        "those of the test set."
    )
    return _recipe(
        "Clients, MNIST",
        checks,
        table | {"rounds": 400},
        varied="clients",
        points=points,
        chosen=chosen,
        note=_ONE_OPTION,
    )


DEPOSITUM: dict[str, Recipe] = {
    "fig2": Recipe(
        "How Dirichlet deals classes to ten clients",
        (
            Check(
                "shares", "The shares of a class add up to 1", "distance of the sum from 1", _sums
            ),
            Check(
                "uneven",
                "A smaller theta deals more unevenly",
                "mean largest share, theta 0.1 less theta 1",
                _uneven,
            ),
        ),
        _table([_rule("Depositum")], 10, {"name": "Dirichlet", "theta": 1.0}, 10) | {"rounds": 0},
        (),
        "theta",
        {theta: [f"problem.partition.theta={float(theta)}"] for theta in ("1", "0.1")},
        chosen="The paper does not say of which data; MNIST here.",
        tiny=("problem.data=digits", "problem.model=softmax"),
        kind="holdings",
    ),
    "fig3": _figure3(),
    "fig4": _figure4(),
    "fig5": _figure5(),
    "fig6": _figure6(),
    "fig7": _figure7(),
}
