"""Claims whose truth is known: how often they are decided, and how often wrongly.

What is measured is the lead of one algorithm in so many seeds, with an effect planted in its
median. The rates stand in docs/decisions/054-verdicts-that-last.md.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from peerloom.papers.recipes.checks import Check, Part, decide
from peerloom.papers.recipes.intervals import LOOKS

TRIALS = 1000
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided here"

# Noise whose median is 0 and whose quartiles lie 1 apart. Delays are 1/p with the probabilities of
# DSpodFL's figures, which have no mean and lie to one side; differences of two have both tails.
LAWS = {
    "normal": lambda draws, size: draws.normal(size=size) / 1.349,
    "cauchy": lambda draws, size: draws.standard_cauchy(size) / 2,
    "delays": lambda draws, size: (1 / draws.beta(0.5, 0.5, size) - 2) / 5.657,
    "differences": lambda draws, size: (
        (1 / draws.beta(0.5, 0.5, size) - 1 / draws.beta(0.5, 0.5, size)) / 6.2
    ),
}


def leads(law, effect, *size):
    return (effect + LAWS[law](np.random.default_rng(7), size)).tolist()


def parts_of(values):
    """One part per row of values."""
    return [Part(str(k), tuple(row), "above", 0.0) for k, row in enumerate(values)]


def at(seeds, values):
    """The answer at one look."""
    return decide(parts_of([row[:seeds] for row in values]))


def sequential(values):
    """The answer where seeds are added until there is one."""
    answers = (at(look, values) for look in LOOKS)
    return next((answer for answer in answers if answer != OPEN), OPEN)


def rates(judge, trials):
    counts = Counter(map(judge, trials))
    return {answer: counts[answer] / len(trials) for answer in (HOLDS, FAILS, OPEN)}


def one_part(law, effect, trials=TRIALS):
    return [[row] for row in leads(law, effect, trials, LOOKS[-1])]


def deviation(rate, trials):
    return (rate * (1 - rate) / trials) ** 0.5


@pytest.mark.parametrize("law", LAWS)
def test_where_there_is_no_effect_one_of_twenty_is_decided_at_the_most(law):
    trials = one_part(law, 0.0, 2000)
    for seeds in LOOKS:
        found = rates(lambda values, seeds=seeds: at(seeds, values), trials)
        assert found[HOLDS] + found[FAILS] < 0.03, seeds
    found = rates(sequential, trials)
    assert found[HOLDS] + found[FAILS] < 0.05 + 3 * deviation(0.05, 2000)
    assert min(found[HOLDS], found[FAILS]) > 0.01, "on either side"


@pytest.mark.parametrize(
    ("law", "effect", "seven", "twenty", "fifty", "in_the_end"),
    [
        # effects as shares of the distance between quartiles
        ("normal", 0.2, 0.04, 0.06, 0.20, 0.25),
        ("normal", 0.5, 0.14, 0.42, 0.89, 0.91),
        ("normal", 1.0, 0.53, 0.96, 1.00, 1.00),
        ("cauchy", 0.2, 0.04, 0.06, 0.22, 0.29),
        ("cauchy", 0.5, 0.13, 0.43, 0.89, 0.91),
        ("cauchy", 1.0, 0.33, 0.84, 1.00, 1.00),
        ("differences", 0.2, 0.06, 0.18, 0.53, 0.58),
        ("differences", 0.5, 0.13, 0.43, 0.89, 0.91),
        ("delays", 0.1, 0.04, 0.08, 0.29, 0.34),
        ("delays", -0.5, 0.00, 0.00, 0.00, 0.00),
    ],
)
def test_how_often_a_claim_is_found_to_hold(law, effect, seven, twenty, fifty, in_the_end):
    trials = one_part(law, effect)
    for seeds, expected in ((7, seven), (20, twenty), (50, fifty)):
        found = rates(lambda values, seeds=seeds: at(seeds, values), trials)
        assert found[HOLDS] == pytest.approx(expected, abs=0.05), seeds
        assert found[FAILS if effect > 0 else HOLDS] < 0.02
    found = rates(sequential, trials)
    assert found[HOLDS] == pytest.approx(in_the_end, abs=0.05)
    assert found[FAILS if effect > 0 else HOLDS] < 0.02


@pytest.mark.parametrize(
    ("effects", "holds", "fails"),
    [
        ([0.0] * 10, 0.00, 0.03),  # no effect anywhere: the claim is not true, and not shown false
        ([0.2] * 10, 0.00, 0.00),
        ([0.5] * 10, 0.36, 0.00),
        ([1.0] * 10, 0.99, 0.00),
        ([1.0] * 9 + [0.0], 0.02, 0.01),
        ([1.0] * 9 + [-0.5], 0.00, 0.65),
        ([1.0] * 9 + [-1.0], 0.00, 0.99),
    ],
)
def test_how_often_a_claim_about_ten_points_is_decided(effects, holds, fails):
    """It holds with all of them; that any of ten makes it fail by chance is as rare as with one."""
    rows = leads("cauchy", 0.0, 200, len(effects), LOOKS[-1])
    trials = [
        [[effect + x for x in row] for effect, row in zip(effects, each, strict=True)]
        for each in rows
    ]
    found = rates(sequential, trials)
    assert found[HOLDS] == pytest.approx(holds, abs=0.09)
    assert found[FAILS] == pytest.approx(fails, abs=0.09)
    if min(effects) >= 0:
        assert found[FAILS] < 0.05 + 3 * deviation(0.05, 200)


@dataclass
class Planted:
    """As much of the runs of a figure as a check asks for."""

    values: list

    @property
    def seeds(self):
        return len(self.seed_names)

    @property
    def seed_names(self):
        return list(range(len(self.values[0])))

    def only(self, seeds):
        return Planted([[row[k] for k in seeds] for row in self.values])

    def place(self, where):
        return where


CHECK = Check("lead", "", "", lambda found: parts_of(found.values))


@pytest.mark.parametrize("effect", [0.0, 0.5])
@pytest.mark.parametrize("law", ["normal", "cauchy"])
def test_the_halves_of_the_seeds_hardly_ever_contradict_each_other(law, effect):
    verdicts = [CHECK(Planted(trial)) for trial in one_part(law, effect)]
    assert sum(verdict.opposed for verdict in verdicts) <= 2
    shifted = [
        CHECK(Planted([[*row[:25], *(x - 2 for x in row[25:])]]))
        for (row,) in one_part(law, 1.0, 100)
    ]
    assert sum(verdict.opposed for verdict in shifted) > 40, "where they are not of one law"


def test_four_laws_have_quartiles_one_apart_and_a_median_of_nothing():
    """So that effects mean the same for all."""
    for law, noise in LAWS.items():
        low, middle, high = np.quantile(noise(np.random.default_rng(1), 200_000), [0.25, 0.5, 0.75])
        assert abs(middle) < 0.01, law
        assert high - low == pytest.approx(1, rel=0.05), law
