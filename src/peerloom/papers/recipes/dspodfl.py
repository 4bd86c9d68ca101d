"""DSpodFL's figures 2 to 4 (its figure 1 is a drawing); 5 to 11 are in dspodfl_appendix.

Seeds are those of the authors' code. Delays are as run, not normalised. Its tables are in
dspodfl_tables, its words in dspodfl_words.
"""

from __future__ import annotations

from . import dspodfl_points as points
from . import dspodfl_words as words
from .claims import ahead, grows
from .claims_curves import improves, improves_most, within
from .dspodfl_forms import (
    ALONG,
    END,
    EQUAL,
    SOMEWHERE,
    best,
    curves,
    early,
    recipe,
    sweep,
)
from .dspodfl_settings import CIFAR, FASHION, FAST, RULES, SLOW, beta, law, setting
from .recipe import Recipe

__all__ = ["DSPODFL"]

_UNIFORM = law("Uniform")
_CLIENTS = points.clients(10, 20, 30, 40, 50)


DSPODFL: dict[str, Recipe] = {
    "fig2a": curves(
        "Fashion-MNIST, IID, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), 4000.0, labels=10),
        words.OUTPERFORMS,
        early(4000.0),
    ),
    "fig2b": curves(
        "Fashion-MNIST, one label per client, Beta(0.5, 0.5)",
        setting(FASHION, beta(0.5), 4000.0),
        words.OUTPERFORMS,
        SOMEWHERE,
    ),
    "fig2c": curves(
        "CIFAR-10, IID, Beta(0.8, 0.8)",
        setting(CIFAR, beta(0.8), SLOW, labels=10),
        words.OUTPERFORMS,
        early(SLOW),
    ),
    "fig2d": curves(
        "CIFAR-10, three labels each, Beta(0.8, 0.8)",
        setting(CIFAR, beta(0.8), SLOW),
        words.OUTPERFORMS,
        SOMEWHERE,
    ),
    "fig3a": sweep(
        "Labels per client, U(0, 1]",
        setting(FASHION, _UNIFORM, FAST),
        "labels",
        points.labels(),
        best(words.BEST_SHARES),
        improves(
            RULES,
            END,
            list(points.labels()),
            "More labels per client, more accuracy, of all methods",
            name="labels help",
            **words.MORE_LABELS,
        ),
    ),
    "fig3b": sweep(
        "Radius of the graph, U(0, 1]",
        setting(FASHION, _UNIFORM, FAST),
        "radius",
        points.radii(),
        best(words.BEST_RADII),
        improves(
            RULES[1:],
            END,
            list(points.radii()),
            "The larger the radius, the more accurate all baselines",
            name="radius helps",
            **words.MORE_RADIUS,
        ),
    ),
    "fig3c": sweep(
        "Clients, U(0, 1]",
        setting(FASHION, _UNIFORM, FAST),
        "clients",
        _CLIENTS,
        improves_most(
            "DSpodFL",
            RULES[1:],
            END,
            list(_CLIENTS),
            "With more clients DSpodFL gains more accuracy than any other",
            **words.LARGEST_GAIN,
        ),
        grows(
            "DSpodFL",
            END,
            ["10"],
            ["50"],
            "Its lead is larger with many clients",
            **words.LARGEST_GAIN,
        ),
    ),
    "fig3d": sweep(
        "Beta(a, a)",
        setting(FASHION, beta(0.5), FAST),
        "a",
        points.betas("nodes", "links"),
        within(
            "DSpodFL",
            END,
            ["1", "0.9"],
            ["0.5", "0.6"],
            0.05,
            "DSpodFL is robust: its accuracy differs by five points at the most (our limit)",
            name="robust",
            **words.ROBUST_BETA,
        ),
        grows(
            "DSpodFL",
            END,
            ["1", "0.9"],
            ["0.5", "0.6"],
            "The gap grows as a falls",
            **words.GAP_OF_BETA,
        ),
    ),
    "fig4a": recipe(
        "Fifty clients, Beta(0.5, 0.5)",
        [
            ahead(
                "DSpodFL",
                EQUAL,
                "DSpodFL is above all others at equal delay",
                only=["50"],
                **words.AT_FIFTY,
            ),
            grows(
                "DSpodFL",
                EQUAL,
                ["10"],
                ["50"],
                "The lead is larger than with ten clients",
                **words.AT_FIFTY,
            ),
            grows(
                "DSpodFL",
                ALONG,
                ["10"],
                ["50"],
                "The lead in the mean over the delay is larger than with ten clients",
                name="margin along grows",
                **words.AT_FIFTY,
            ),
        ],
        setting(FASHION, beta(0.5), 4000.0, clients=50),
        (EQUAL, ALONG),
        "clients",
        points.clients(50, 10),
    ),
    "fig4b": sweep(
        "Two modes, mu and 1 - mu",
        setting(FASHION, law("BimodalTruncatedNormal", mean1=0.0, mean2=1.0, std=0.1), FAST),
        "mu",
        points.modes(),
        ahead(
            "DSpodFL",
            END,
            "A margin of about 15 points at the smallest mu (more than 10: our limit)",
            name="margin",
            by=0.1,
            only=["0"],
            **words.MODES,
        ),
        grows(
            "DSpodFL",
            END,
            ["0.3", "0.4"],
            ["0", "0.1"],
            "A wider margin the smaller mu",
            **words.MODES,
        ),
    ),
}
