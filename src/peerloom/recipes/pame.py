"""PaME's figures 2 to 12. Those that show the same runs share a recipe: 3 with 2a, 4 with 2b, 5 with 2c, 6 with 2d, 10 with 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .checks import Check, Part
from .claims import across, ahead, order, printed
from .readings import Found, Reading
from .recipe import Changed, Recipe

__all__ = ["PAME", "PAME_ALIASES"]

Table = dict[str, Any]

_OBJECTIVE, _ROUNDS, _ACCURACY = Reading("average_loss"), Reading("round"), Reading("average_accuracy")
_TALKS, _VOLUME = Reading("communications"), Reading("paper_bytes")
_NODES = (32, 64, 128)
_EACH = 400  # samples of a client in example 1
_CHOSEN1 = (
    "Where the paper is silent: 200 features, 400 samples per node, full gradients, random regular graphs of degree "
    "m/2; at most 1000 iterations. The objective is the mean over nodes, the paper's the sum; the stopping rule is the "
    "paper's, of the sum."
)
_CHOSEN2 = (
    "Where the paper is silent: 100 samples per node, full gradients, random regular graphs of degree m/2, steps of "
    "0.25 for the baselines (PaME's own first step), BEER with gamma 0.1 and the largest fifth of the entries, "
    "ANQ-NIDS with its defaults, at most 3000 rounds. All rules but PaME hear all neighbours: theirs need symmetric "
    "links. D-PSGD and DFedSAM talk every fifth step, the others, whose memory counts on it, at every one. Accuracy is "
    "that on all samples: there are no others. A communication round is one in which a node hears, in the mean over "
    "nodes."
)
_CHOSEN3 = (
    "Where the paper is silent: ten nodes of degree 6, batches of 32, steps of 0.05 for the baselines, DEPOSITUM's "
    "CNN, 1000 iterations, a common random start. Otherwise as for example 2."
)
_NORM = "ResNet-20 has group norm in place of batch norm."


def _pame(
    fraction: float, share: float, kappa: int, upto: int | None, sigma: float, growth: float, label: str = ""
) -> Table:
    schedule: Table = {"name": "Sampled", "kappa": kappa, "fraction": fraction} | ({"upto": upto} if upto else {})
    message = {"name": "Coordinates", "fraction": share}
    rule: Table = {"name": "PaME", "sigma": sigma, "growth": growth, "schedule": schedule, "message": message}
    return rule | ({"label": label} if label else {})


def _regression(algorithms: list[Table]) -> Table:
    data = {"name": "linear_regression", "samples": 32 * _EACH, "features": 200, "noise": 0.5, "nonzero": 0.01}
    return {
        "rounds": 1000,
        "until_settled": 0.001,
        "seeds": [1, 2, 3],
        "graph": {"name": "regular", "clients": 32, "degree": 16},
        "problem": {
            "name": "Classification",
            "model": {"name": "least_squares", "bias": False, "zero": True},
            "data": data,
            "batch": "all",
        },
        "evaluate": {"every": 1},
        "algorithms": algorithms,
    }


def _nodes(m: int, each: int = _EACH) -> list[str]:
    return [f"graph.clients={m}", f"graph.degree={m // 2}", f"problem.data.samples={m * each}"]


_TINY1 = ("rounds=20", "problem.data.samples=640", "problem.data.features=20")
_EXAMPLE1 = _pame(0.2, 0.2, 3, 7, 1.0, 1.005)


def _grid(values: Sequence[float], setting: str) -> dict[str, list[str]]:
    return {f"{v:g}, m {m}": [*_nodes(m), f"algorithms.PaME.{setting}={v:g}"] for m in _NODES for v in values}


def _own(
    title: str, checks: Sequence[Check], varied: str, points: dict[str, list[str]], algorithms: list[Table] | None = None
) -> Recipe:
    """Example 1, PaME alone."""
    table, shows = _regression(algorithms or [_EXAMPLE1]), (_OBJECTIVE, _ROUNDS)
    return Recipe(title, tuple(checks), table, shows, varied, points, chosen=_CHOSEN1, tiny=_TINY1)


def _pairs(first: str, second: str) -> list[tuple[str, str]]:
    return [(f"{first}, m {m}", f"{second}, m {m}") for m in _NODES]


def _diminishing(found: Found) -> list[Part]:
    """Iterations saved from 0.1 to 0.2, less those saved from 0.2 to 0.3."""
    made = []
    for m in _NODES:
        a, b, c = (found.values(f"{v}, m {m}", "PaME", _ROUNDS) for v in ("0.1", "0.2", "0.3"))
        if a and b and c:
            made.append(Part(f"m {m}", tuple((a[s] - b[s]) - (b[s] - c[s]) for s in a if s in b and s in c), "above", 0.0))
    return made


def _insensitive(within: float, label: str = "PaME") -> Check:
    """The final objective of all points with equally many nodes lies within a share of the least."""

    def parts(found: Found) -> list[Part]:
        made = []
        for m in _NODES:
            some = [found.values(point, label, _OBJECTIVE) for point in found.points if point.endswith(f"m {m}")]
            if some:
                seeds = [seed for seed in some[0] if all(seed in values for values in some)]
                spans = [max(v[s] for v in some) / min(v[s] for v in some) - 1 for s in seeds]
                made.append(Part(f"m {m}", tuple(spans), "below", within))
        return made

    return Check(
        "insensitive",
        "The period hardly matters to the final objective",
        f"largest over least, less 1, below {within:g}",
        parts,
    )


_PERIODS = (1, 2, 4, 8, 16)


def _unequal() -> Recipe:
    """Figure 2d: equal and unequal periods of one median side by side."""
    points = {
        f"{k}, m {m}": [
            *_nodes(m),
            f"algorithms.equal.schedule.kappa={k}",
            f"algorithms.unequal.schedule.kappa={max(1, k // 2)}",
            f"algorithms.unequal.schedule.upto={k + k // 2}",
        ]
        for m in _NODES
        for k in _PERIODS
    }
    points = {name: settings for name, settings in points.items() if not name.startswith("1,")}  # 1 has no neighbours below
    checks = [
        _insensitive(0.1, "unequal"),
        order(["equal", "unequal"], _ROUNDS, "Unequal periods are slightly slower", name="slower"),
    ]
    rules = [_pame(0.2, 0.2, 1, None, 1.0, 1.005, "equal"), _pame(0.2, 0.2, 1, 2, 1.0, 1.005, "unequal")]
    return _own("Unequal communication periods", checks, "median period", points, rules)


_SHARES, _DEGREES = (0.1, 0.2, 0.4, 0.6), (6, 12, 26, 38, 63)


def _connectivity() -> Recipe:
    """Figure 7: a table of transmission rate and degree."""
    points = {
        f"{share:g}, degree {degree}": [
            *_nodes(64),
            f"graph.degree={degree}",
            f"algorithms.PaME.message.fraction={share:g}",
            "algorithms.PaME.schedule.fraction=0.4",
        ]
        for share in _SHARES
        for degree in _DEGREES
    }
    far = "0.6, degree 63"
    dense = [
        (point, far) for point in points if not point.startswith("0.1") and not point.endswith("degree 6") and point != far
    ]
    iterations = {(point, "PaME", _ROUNDS): 200.0 for point, _ in dense}
    checks = [
        across(
            "PaME",
            _OBJECTIVE,
            dense,
            "below",
            1.05,
            "The objective saturates but for sparse graphs and small s",
            name="saturates",
        ),
        printed(iterations, 1.0, "About 200 iterations, to a factor of two", ratio=True, name="iterations"),
    ]
    return _own("Transmission rate and degree, m 64", checks, "rate and degree", points)


def _compared(ours: Table, lr: float, period: int, compressed: float) -> list[Table]:
    every = {"name": "Every", "T0": period}
    return [
        ours,
        {"name": "DGD", "label": "D-PSGD", "lr": lr, "schedule": every},
        {"name": "DFedSAM", "lr": lr, "K": period},
        {"name": "BEER", "lr": lr, "gamma": 0.1, "message": {"name": "TopK", "fraction": compressed}},
        {"name": "ANQNIDS", "lr": lr, "message": "ANQ"},
    ]


def _logistic() -> Table:
    table = _regression(_compared(_EXAMPLE1, 0.25, 5, 0.2))
    data = {"name": "logistic_regression", "samples": 3200, "features": 1000, "nonzero": 0.5}
    model = {"name": "logistic", "bias": False, "zero": True}
    return table | {"rounds": 3000, "problem": table["problem"] | {"model": model, "data": data, "l2": 0.001}}


def _half(found: Found) -> list[Part]:
    """At how many points PaME sends less than half of what the thriftiest other one does."""
    good, known = 0, 0
    for point in found.points:
        others = [found.values(point, label, _VOLUME) for label in found.labels(point) if label != "PaME"]
        mine = found.values(point, "PaME", _VOLUME)
        for seed, value in mine.items():
            rivals = [values[seed] for values in others if seed in values]
            if rivals and math.isfinite(value):
                known, good = known + 1, good + (value < 0.5 * min(rivals))
    return [Part("", (good / known,) if known else (), "above", 0.5)]


_FEW = Changed(
    "one seed, at most 600 rounds, and 32 and 64 nodes of up to 1000 features where --points asks for them. About 10 "
    "minutes of one core.",
    ("seeds=[1]", "rounds=600"),
)
_TINY2 = ("rounds=20", "problem.data.samples=640", "problem.data.features=20", "graph.clients=16", "graph.degree=8")
_EXAMPLE3 = _pame(0.5, 0.1, 5, 10, 5.0, 1.001)
_TINY3 = ("problem.data=digits", "problem.model=softmax", "rounds=30", "evaluate.every=10")
_FIT3 = Changed(
    "150 iterations in place of 1000, one seed. About 15 minutes of one core per point.",
    ("rounds=150", "seeds=[1]", "evaluate.every=50"),
)
_EQUAL = Reading("average_accuracy", "common", "communications")


def _networks(
    title: str, model: str, data: str, varied: str, points: dict[str, list[str]], *more: Check, note: str = ""
) -> Recipe:
    """Examples 3 and 4."""
    table = {
        "rounds": 1000,
        "seeds": [1, 2, 3],
        "graph": {"name": "regular", "clients": 10, "degree": 6},
        "problem": {"name": "Classification", "model": model, "data": data, "batch": 32, "partition": "IID"},
        "evaluate": {"every": 50},
        "algorithms": _compared(_EXAMPLE3, 0.05, 5, 0.1),
    }
    fastest = ahead("PaME", _EQUAL, "PaME is the most accurate at equal communication rounds", name="fastest")
    shows = (_EQUAL, _ACCURACY)
    return Recipe(title, (fastest, *more), table, shows, varied, points, note, _CHOSEN3, _TINY3, _FIT3)


PAME: dict[str, Recipe] = {
    "fig2a": _own(
        "Transmission rate",
        [
            across(
                "PaME",
                _OBJECTIVE,
                _pairs("0.1", "0.6"),
                "below",
                1.05,
                "A rate of 0.1 already comes near",
                name="0.1 is near",
            ),
            across(
                "PaME", _OBJECTIVE, _pairs("0.2", "0.6"), "below", 1.02, "Little is gained beyond 0.2", name="0.2 is enough"
            ),
        ],
        "rate",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "message.fraction"),
    ),
    "fig2b": _own(
        "Participation rate",
        [
            across("PaME", _ROUNDS, _pairs("0.1", "0.2"), "above", 1.0, "0.2 is faster than 0.1", name="faster"),
            Check(
                "diminishing",
                "A big gain from 0.1 to 0.2, then less",
                "iterations saved to 0.2, less those to 0.3",
                _diminishing,
            ),
        ],
        "participation",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "schedule.fraction"),
    ),
    "fig2c": _own(
        "Equal communication periods",
        [
            _insensitive(0.05),
            *(
                across(
                    "PaME",
                    _ROUNDS,
                    _pairs(str(b), str(a)),
                    "above",
                    1.0,
                    "Short periods are faster",
                    name=f"{a} faster than {b}",
                )
                for a, b in pairwise(_PERIODS)
            ),
        ],
        "period",
        {f"{k}, m {m}": [*_nodes(m), f"algorithms.PaME.schedule.kappa={k}"] for m in _NODES for k in _PERIODS},
        [_pame(0.2, 0.2, 1, None, 1.0, 1.005)],
    ),
    "fig2d": _unequal(),
    "fig7": _connectivity(),
    "fig8": Recipe(
        "Logistic regression, 1000 features",
        (
            ahead("PaME", _EQUAL, "PaME is the most accurate at equal communication rounds", name="fastest"),
            ahead("PaME", _ACCURACY, "PaME ends with the highest accuracy", name="best"),
            ahead("DFedSAM", _EQUAL, "DFedSAM is second", name="second", over=["D-PSGD", "BEER", "ANQNIDS"]),
        ),
        _logistic(),
        (_EQUAL, _ACCURACY, _TALKS),
        "nodes",
        {str(m): _nodes(m, 100) for m in _NODES},
        chosen=_CHOSEN2,
        tiny=_TINY2,
        fit=_FEW,
    ),
    "fig9": Recipe(
        "Communication to converge, logistic regression",
        (
            ahead("PaME", _TALKS, "PaME needs the fewest communication rounds", name="fewest rounds"),
            ahead("PaME", _VOLUME, "PaME sends the least", name="least data"),
            Check("half", "At least half is saved in most settings", "share of runs that send less than half", _half),
        ),
        _logistic(),
        (_TALKS, _VOLUME, _ACCURACY),
        "size",
        {f"m {m}, n {n}": [*_nodes(m, 100), f"problem.data.features={n}"] for m in _NODES for n in (1000, 5000, 10_000)},
        chosen=_CHOSEN2,
        tiny=_TINY2,
        fit=_FEW,
    ),
    "fig11": _networks(
        "CNN on Fashion-MNIST, classes per node",
        "cnn",
        "fashion-mnist",
        "classes",
        {str(c): [f"problem.partition={{name='Labels', per_client={c}}}"] for c in (1, 7, 10)},
        ahead("PaME", _ACCURACY, "PaME ends best with one class per node", name="best at 1", only=["1"]),
    ),
    "fig12": _networks(
        "ResNet-20 on CIFAR-10",
        "resnet20",
        "cifar10",
        "partition",
        {"IID": []} | {f"Dir({b:g})": [f"problem.partition={{name='Dirichlet', theta={b}}}"] for b in (0.6, 0.3)},
        ahead("PaME", _ACCURACY, "PaME ends with the highest accuracy", name="best"),
        note=_NORM,
    ),
}
PAME_ALIASES = {"fig3": "fig2a", "fig4": "fig2b", "fig5": "fig2c", "fig6": "fig2d", "fig10": "fig9"}
