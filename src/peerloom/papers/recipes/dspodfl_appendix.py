"""DSpodFL's figures 5 to 11, those of its appendix O."""

from __future__ import annotations

from dataclasses import replace

from . import dspodfl_points as points
from . import dspodfl_words as words
from .claims import grows
from .dspodfl_forms import END, ROBUST, any_step, best, curves, sweep
from .dspodfl_settings import CIFAR, FASHION, FAST, FIT_CURVES, SLOW, beta, law, setting
from .recipe import Changed, Recipe

__all__ = ["DSPODFL_APPENDIX"]

_SELDOM = (
    "Probabilities are drawn anew after every 1000 rounds. DSpodFL takes about 2000 to a delay of "
    "4000; the others, whose rounds cost more, mostly end before the first new draw."
)
_FIT_REDRAWN = Changed(
    f"{FIT_CURVES.says} Probabilities are drawn anew after every 250 rounds in place of 1000.",
    (*FIT_CURVES.settings, "schedule.redraw=250"),
)
_OTHER_LAW = (
    "The paper compares with figure 3b, whose ten clients have probabilities from U(0, 1]; here "
    "both have the same law, so that only their number differs."
)
_UNIFORM = law("Uniform")
_NORMAL = law("TruncatedNormal", mean=0.5, std=0.5)

DSPODFL_APPENDIX: dict[str, Recipe] = {
    "fig5a": curves(
        "Fashion-MNIST, one label per client, U(0, 1]",
        setting(FASHION, _UNIFORM, 4000.0),
        words.OUTPERFORMS_UNIFORM,
    ),
    "fig5b": curves(
        "CIFAR-10, three labels each, U(0, 1]",
        setting(CIFAR, _UNIFORM, SLOW),
        words.OUTPERFORMS_UNIFORM,
    ),
    "fig6a": sweep(
        "Labels per client, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), FAST),
        "labels",
        points.labels(),
        best(words.ROBUST_GAIN),
    ),
    "fig6b": sweep(
        "Radius of the graph, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), FAST),
        "radius",
        points.radii(),
        best(words.ROBUST_GAIN),
    ),
    "fig6c": sweep(
        "Clients, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), FAST),
        "clients",
        points.clients(10, 20, 30, 40, 50),
        best(words.ROBUST_GAIN),
    ),
    "fig7a": sweep(
        "Labels, CIFAR-10",
        setting(CIFAR, beta(0.8), SLOW),
        "labels",
        points.labels(),
        best(words.CIFAR_SWEEPS),
    ),
    "fig7b": sweep(
        "Radius, CIFAR-10",
        setting(CIFAR, beta(0.8), SLOW),
        "radius",
        points.radii(),
        best(words.CIFAR_SWEEPS),
    ),
    "fig7c": sweep(
        "Clients, CIFAR-10",
        setting(CIFAR, beta(0.8), SLOW),
        "clients",
        points.clients(4, 6, 8, 10),
        best(words.CIFAR_SWEEPS),
    ),
    "fig7d": sweep(
        "Beta(a, a), CIFAR-10",
        setting(CIFAR, beta(0.8), SLOW),
        "a",
        points.betas("nodes", "links"),
        best(words.CIFAR_SWEEPS),
    ),
    "fig8a": curves(
        "Fashion-MNIST, laws redrawn",
        setting(FASHION, beta(0.5) | {"redraw": 1000}, 4000.0),
        words.OUTPERFORMS_REDRAWN,
        note=_SELDOM,
    ),
    "fig8b": replace(
        curves(
            "CIFAR-10, laws redrawn",
            setting(CIFAR, beta(0.8) | {"redraw": 1000}, SLOW),
            words.OUTPERFORMS_REDRAWN,
        ),
        fit=_FIT_REDRAWN,
    ),
    "fig9a": curves(
        "Truncated normal, mean and deviation 0.5", setting(FASHION, _NORMAL, 4000.0), None
    ),
    "fig9b": sweep(
        "Deviation of a truncated normal",
        setting(FASHION, _NORMAL, FAST),
        "deviation",
        points.normals("std", (0.2, 0.4, 0.6, 0.8, 1.0)),
        grows(
            "DSpodFL",
            END,
            ["0.2", "0.4"],
            ["0.8", "1"],
            "The margin grows with the deviation",
            **words.WIDER_MARGIN,
        ),
    ),
    "fig9c": sweep(
        "Mean of a truncated normal",
        setting(FASHION, _NORMAL, FAST),
        "mean",
        points.normals("mean", (0.0, 0.25, 0.5, 0.75, 1.0)),
    ),
    "fig10a": replace(
        sweep(
            "Radius, fifty clients and ten",
            setting(FASHION, beta(0.5), FAST),
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
                **words.GAP_AT_FIFTY,
            ),
        ),
        note=_OTHER_LAW,
    ),
    "fig10b": sweep(
        "Beta(a, a) of links only",
        setting(FASHION, beta(0.5), FAST),
        "a",
        points.betas("links"),
        ROBUST,
    ),
    "fig10c": sweep(
        "Beta(a, a) of clients only",
        setting(FASHION, beta(0.5), FAST),
        "a",
        points.betas("nodes"),
        ROBUST,
    ),
    "fig11a": sweep(
        "Step size",
        setting(FASHION, beta(0.5), FAST),
        "step",
        points.rates(),
        any_step(list(points.rates()), "0.01", "0.1"),
    ),
    "fig11b": sweep(
        "Step size, CIFAR-10",
        setting(CIFAR, beta(0.8), SLOW),
        "step",
        points.rates(),
        any_step(list(points.rates()), "0.001", "0.01"),
    ),
}
