"""DEPOSITUM's figures 2 to 7; its table III is in depositum_table."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...sweeps.readings import Found, Reading
from .checks import Check, Part, difference
from .claims import across, ahead, close, order
from .depositum_holdings import holdings
from .depositum_settings import ACCURACY, CONSENSUS, LOSS, recipe, rule, table
from .depositum_steps import step_sizes
from .recipe import Recipe

__all__ = ["DEPOSITUM"]

_ONE_OPTION = (
    "The paper has two panels each of loss and of accuracy, and does not say how they differ; "
    "option I here."
)
_UNEVEN = {"name": "Dirichlet", "theta": 1.0}


def _figure4() -> Recipe:
    """Figure 4: options I and II with more and less momentum, and none."""
    rules = [rule("gamma 0", gamma=0.0)]
    rules += [rule(f"I, gamma {g:g}", gamma=g) for g in (0.2, 0.5, 0.8)]
    rules += [rule(f"II, gamma {g:g}", gamma=g, nesterov=True) for g in (0.2, 0.5, 0.8)]
    checks = [
        Check(
            f"momentum, {what}",
            f"Momentum helps somewhat, {what}",
            f"mean of all with momentum against gamma 0, {reading.words}",
            partial(_momentum, reading),
            "points" if reading.share else "",
        )
        for what, reading in (("loss", LOSS), ("accuracy", ACCURACY))
    ]
    return recipe("Momentum, MNIST", checks, table(rules, 20, "IID", 10))


def _momentum(reading: Reading, found: Found) -> list[Part]:
    """How much better runs with momentum are, in the mean over all six.

    Not the best of them: the best of six would beat one by chance alone.
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
    """Figure 5: rounds between communications."""
    periods = (5, 10, 20)
    rules = [rule(f"T0 {T}", schedule={"name": "Every", "T0": T}) for T in periods]
    labels = [f"T0 {T}" for T in periods]
    checks = [
        close(
            labels, LOSS, 0.1, "The same loss after equally many rounds, with fewer communications"
        ),
        order(labels, CONSENSUS, "The consensus error grows with T0", name="consensus"),
    ]
    shows = (LOSS, ACCURACY, CONSENSUS)
    note = (
        "That the sawtooth grows with T0, too, is not looked at: models are judged every 50 "
        "rounds only. Against communications the curves are those against rounds, T0 times as "
        "short."
    )
    return recipe(
        "Communication period, MNIST", checks, table(rules, 20, _UNEVEN, 10), shows=shows, note=note
    )


def _figure6() -> Recipe:
    """Figure 6: complete graph, ring and star."""
    names = ("complete", "ring", "star")
    rules = [rule(name, graph={"name": name, "clients": 10}) for name in names]
    checks = [
        ahead("complete", LOSS, "The complete graph is the best"),
        close(list(names), ACCURACY, 0.02, "Differences between graphs are small"),
    ]
    return recipe("Graphs, MNIST", checks, table(rules, 10, _UNEVEN, 20), note=_ONE_OPTION)


def _figure7() -> Recipe:
    """Figure 7, by corollary 1: alpha ~ sqrt(n), 1 - gamma = sqrt(n / (T + 1)), B = sqrt(n)."""
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
        across("Depositum", LOSS, pairs, "below", 1.0, "More clients are faster", name="speedup")
    ]
    made = table([{"name": "Depositum", "alpha": 0.05, "beta": 0.5}], 4, _UNEVEN, 10)
    chosen = (
        "Corollary 1 gives alpha up to the unknown L: alpha = 0.025 sqrt(n). Its beta would "
        "hardly move anything; 0.5 as elsewhere. MCP with lambda 0.0001 and theta 4. Losses are "
        "those of the test set."
    )
    return recipe(
        "Clients, MNIST",
        checks,
        made | {"rounds": 400},
        varied="clients",
        points=points,
        chosen=chosen,
        note=_ONE_OPTION,
    )


DEPOSITUM: dict[str, Recipe] = {
    "fig2": holdings(),
    "fig3": step_sizes(),
    "fig4": _figure4(),
    "fig5": _figure5(),
    "fig6": _figure6(),
    "fig7": _figure7(),
}
