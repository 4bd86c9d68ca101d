"""DSpodFL's figures 2 to 11 (its figure 1 is a drawing).

Seeds are those of the authors' code. Delays are as run, not normalised. Its tables are in
dspodfl_tables.
"""

from __future__ import annotations

from . import dspodfl_points as points
from .claims import ahead, grows
from .dspodfl_forms import END, EQUAL, ROBUST, SOMEWHERE, any_step, curves, early, recipe, sweep
from .dspodfl_settings import CIFAR, FASHION, beta, law, setting
from .recipe import Recipe

__all__ = ["DSPODFL"]

_SELDOM = (
    "Probabilities are drawn anew after every 1000 rounds. DSpodFL takes about 2000 to a delay of "
    "4000; the others, whose rounds cost more, mostly end before the first new draw."
)
_UNIFORM = law("Uniform")
_NORMAL = law("TruncatedNormal", mean=0.5, std=0.5)
_BOTH = ("nodes", "links")
_MORE, _FEWER = points.clients(10, 20, 30, 40, 50), points.clients(4, 6, 8, 10)
# the delays at which sweeps are judged, for Fashion-MNIST and CIFAR-10
_FAST, _SLOW = 500.0, 5000.0


DSPODFL: dict[str, Recipe] = {
    "fig2a": curves(
        "Fashion-MNIST, IID, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), 4000.0, labels=10),
        early(4000.0),
    ),
    "fig2b": curves(
        "Fashion-MNIST, one label per client, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), 4000.0),
        SOMEWHERE,
    ),
    "fig2c": curves(
        "CIFAR-10, IID, Beta(0.8, 0.8)", setting(CIFAR, beta(0.8), _SLOW, labels=10), early(_SLOW)
    ),
    "fig2d": curves(
        "CIFAR-10, three labels each, Beta(0.8, 0.8)", setting(CIFAR, beta(0.8), _SLOW), SOMEWHERE
    ),
    "fig3a": sweep(
        "Labels per client, U(0, 1]", setting(FASHION, _UNIFORM, _FAST), "labels", points.labels()
    ),
    "fig3b": sweep(
        "Radius of the graph, U(0, 1]", setting(FASHION, _UNIFORM, _FAST), "radius", points.radii()
    ),
    "fig3c": sweep(
        "Clients, U(0, 1]",
        setting(FASHION, _UNIFORM, _FAST),
        "clients",
        _MORE,
        grows("DSpodFL", END, ["10"], ["50"], "The gain is largest with many clients"),
    ),
    "fig3d": sweep(
        "Beta(a, a)",
        setting(FASHION, beta(0.5), _FAST),
        "a",
        points.betas(*_BOTH),
        grows("DSpodFL", END, ["1", "0.9"], ["0.5", "0.6"], "The gap grows as a falls"),
    ),
    "fig4a": recipe(
        "Fifty clients, Beta(0.5, 0.5)",
        [
            ahead("DSpodFL", EQUAL, "DSpodFL is above all others at equal delay", only=["50"]),
            grows("DSpodFL", EQUAL, ["10"], ["50"], "The gain is larger than with ten clients"),
        ],
        setting(FASHION, beta(0.5), 4000.0, clients=50),
        EQUAL,
        "clients",
        points.clients(50, 10),
    ),
    "fig4b": sweep(
        "Two modes, mu and 1 - mu",
        setting(FASHION, law("BimodalTruncatedNormal", mean1=0.0, mean2=1.0, std=0.1), _FAST),
        "mu",
        points.modes(),
        ahead(
            "DSpodFL",
            END,
            "A margin of about 15 points at small mu",
            name="margin",
            by=0.1,
            only=["0", "0.1"],
        ),
        grows("DSpodFL", END, ["0.3", "0.4"], ["0", "0.1"], "A wider margin the smaller mu"),
        best=False,
    ),
    "fig5a": curves(
        "Fashion-MNIST, one label per client, U(0, 1]",
        setting(FASHION, _UNIFORM, 4000.0),
        SOMEWHERE,
    ),
    "fig5b": curves(
        "CIFAR-10, three labels each, U(0, 1]", setting(CIFAR, _UNIFORM, _SLOW), SOMEWHERE
    ),
    "fig6a": sweep(
        "Labels per client, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), _FAST),
        "labels",
        points.labels(),
    ),
    "fig6b": sweep(
        "Radius of the graph, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), _FAST),
        "radius",
        points.radii(),
    ),
    "fig6c": sweep("Clients, Beta(0.5, 0.5)", setting(FASHION, beta(0.5), _FAST), "clients", _MORE),
    "fig7a": sweep("Labels, CIFAR-10", setting(CIFAR, beta(0.8), _SLOW), "labels", points.labels()),
    "fig7b": sweep("Radius, CIFAR-10", setting(CIFAR, beta(0.8), _SLOW), "radius", points.radii()),
    "fig7c": sweep(
        "Clients, CIFAR-10",
        setting(CIFAR, beta(0.8), _SLOW),
        "clients",
        _FEWER,
    ),
    "fig7d": sweep(
        "Beta(a, a), CIFAR-10", setting(CIFAR, beta(0.8), _SLOW), "a", points.betas(*_BOTH)
    ),
    "fig8a": curves(
        "Fashion-MNIST, laws redrawn",
        setting(FASHION, beta(0.5) | {"redraw": 1000}, 4000.0),
        SOMEWHERE,
        _SELDOM,
    ),
    "fig8b": curves(
        "CIFAR-10, laws redrawn", setting(CIFAR, beta(0.8) | {"redraw": 1000}, _SLOW), SOMEWHERE
    ),
    "fig9a": curves("Truncated normal, mean and deviation 0.5", setting(FASHION, _NORMAL, 4000.0)),
    "fig9b": sweep(
        "Deviation of a truncated normal",
        setting(FASHION, _NORMAL, _FAST),
        "deviation",
        points.normals("std", (0.2, 0.4, 0.6, 0.8, 1.0)),
        grows("DSpodFL", END, ["0.2"], ["1"], "The margin grows with the deviation"),
    ),
    "fig9c": sweep(
        "Mean of a truncated normal",
        setting(FASHION, _NORMAL, _FAST),
        "mean",
        points.normals("mean", (0.0, 0.25, 0.5, 0.75, 1.0)),
        best=False,
    ),
    "fig10a": sweep(
        "Radius, fifty clients and ten",
        setting(FASHION, beta(0.5), _FAST),
        "radius",
        {
            f"{r}, m {m}": [*settings, f"graph.clients={m}"]
            for m in (50, 10)
            for r, settings in points.radii().items()
        },
        grows(
            "DSpodFL",
            END,
            [f"{r}, m 10" for r in points.radii()],
            [f"{r}, m 50" for r in points.radii()],
            "The gap is larger with fifty clients than with ten",
        ),
        best=False,
    ),
    "fig10b": sweep(
        "Beta(a, a) of links only",
        setting(FASHION, beta(0.5), _FAST),
        "a",
        points.betas("links"),
        ROBUST,
    ),
    "fig10c": sweep(
        "Beta(a, a) of clients only",
        setting(FASHION, beta(0.5), _FAST),
        "a",
        points.betas("nodes"),
        ROBUST,
    ),
    "fig11a": sweep(
        "Step size",
        setting(FASHION, beta(0.5), _FAST),
        "step",
        points.rates(),
        any_step("0.01", "0.1"),
        best=False,
    ),
    "fig11b": sweep(
        "Step size, CIFAR-10",
        setting(CIFAR, beta(0.8), _SLOW),
        "step",
        points.rates(),
        any_step("0.001", "0.01"),
        best=False,
    ),
}
