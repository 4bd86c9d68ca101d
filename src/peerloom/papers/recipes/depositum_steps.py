"""DEPOSITUM's figure 3: step sizes on A9A, and the consensus errors that they leave."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...reports.groups import column
from ...sweeps.readings import Found, Reading, words_of
from . import depositum_words as words
from .checks import Check, Part
from .claims import order
from .claims_curves import agree
from .depositum_settings import CONSENSUS, LOSS, recipe, rule, table
from .recipe import Recipe

__all__ = ["step_sizes"]

_TRACKERS, _DIRECTIONS = Reading("consensus_tracker"), Reading("consensus_direction")
_ERRORS = (CONSENSUS, _TRACKERS, _DIRECTIONS)
_APART = Reading("consensus", "along")
_FALLING, _SOON = ("average_train_loss", "gradient_error", "proximal_gradient"), 25.0
_PANELS = (Reading("gradient_error"), Reading("proximal_gradient"), *_ERRORS)
# pairs of alpha and beta
_STEPS = ((0.1, 1.0), (0.2, 0.5), (0.2, 1.0), (0.4, 0.5), (0.4, 1.0))
_PERIOD = 5  # T0


def step_sizes() -> Recipe:
    """Figure 3: five pairs of alpha and beta, judged in every round."""
    small, middle, large = _name(0.1, 1.0), _name(0.2, 1.0), _name(0.4, 1.0)
    equal = [(_name(0.1, 1.0), _name(0.2, 0.5)), (_name(0.2, 1.0), _name(0.4, 0.5))]
    falls = [Reading(name, "along", upto=_SOON) for name in _FALLING]
    checks = [
        *(
            order(
                [large, middle, small],
                reading,
                f"Larger steps are faster, {words_of(reading.metric)}",
                name=f"faster, {reading.metric}",
                **words.FASTER,
            )
            for reading in falls
        ),
        order(
            [small, middle, large],
            _APART,
            "Larger steps leave models further apart",
            name="further apart",
            **words.FURTHER_APART,
        ),
        *(
            agree(
                equal,
                reading,
                within,
                f"Equal alpha beta, equal {word}",
                name=f"same {word}",
                **words.PRODUCT,
            )
            for reading, within, word in (
                (falls[0], 0.02, "loss"),
                (falls[2], 0.25, "proximal gradient"),
                (_APART, 0.25, "consensus error"),
            )
        ),
        Check(
            "sawtooth",
            "The consensus error is a sawtooth of period T0",
            "share of rounds that fit",
            _sawtooth,
            **words.JAGGED,
        ),
        *(
            Check(
                f"calm, {reading.metric}",
                f"{reading.words} depends less on alpha than that of models",
                "range over alpha at beta 1, largest over least: of models over of these",
                partial(_calmer, reading),
                **words.CALMER,
            )
            for reading in (_TRACKERS, _DIRECTIONS)
        ),
    ]
    made = table([rule(_name(a, b), a, b) for a, b in _STEPS], 10, "IID", _PERIOD)
    made["problem"] |= {"model": "linear", "data": "a9a", "h": {"name": "L1", "lam": 0.0001}}
    made["evaluate"] = {"every": 1, "closely": True, "train": True}
    chosen = (
        "Where the paper is silent: all steps, gamma 0.5, l1 with lambda 0.0001, batches of 32, "
        f"500 rounds; faster is a smaller mean over the first {_SOON:g} rounds, and two lines "
        "align whose means differ by at most 2 % (loss) or 25 %; training losses have h in them."
    )
    tiny = ("problem.data=digits", "rounds=30")
    return recipe(
        "Step sizes, A9A",
        checks,
        made,
        shows=(*falls, LOSS, *_PANELS),
        chosen=chosen,
        tiny=tiny,
        fit=None,
    )


def _name(alpha: float, beta: float) -> str:
    return f"alpha {alpha:g}, beta {beta:g}"


def _sawtooth(found: Found) -> list[Part]:
    """The share of rounds that fit: communication brings models nearer, all others part them.

    The first period is left out. Undecided where a run was not judged in every round.
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
    """How much more the models' consensus error changes with alpha than this one does.

    A change is the largest value over the least, of three alphas at beta 1.
    """
    labels = [_name(alpha, 1.0) for alpha in (0.1, 0.2, 0.4)]

    def factor(what: Reading) -> dict[str, float]:
        values = [found.values("", label, what) for label in labels]
        seeds = [seed for seed in values[0] if all(seed in some for some in values)]
        return {
            seed: max(some[seed] for some in values) / min(some[seed] for some in values)
            for seed in seeds
        }

    models, these = factor(CONSENSUS), factor(reading)
    return [Part("", tuple(models[seed] / these[seed] for seed in models), "above", 1.0)]
