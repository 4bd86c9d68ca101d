"""Golden numbers: one small run of every algorithm. A commit that changes them says why.

`python tests/test_golden.py` prints the table anew.
"""

import pytest

import peerloom as pl
from peerloom.algorithms import ALGORITHMS

# |x_0|_1, sum of squares of x, test loss of the averaged model, delay; after 50 rounds in float64.
GOLDEN: dict[str, tuple[float, float, float, float]] = {
    "DFedAvg": (43.83066324689247, 24.524733713994472, 0.5938194419417128, 123.30094821747971),
    "DGD": (44.984083707383384, 26.945606857952075, 0.42984955939799874, 216.96297156586866),
    "DSpodFL": (43.19940454671314, 23.62949733630762, 0.5961572105738757, 103.43750818705493),
    "RandomizedGossip": (44.092598682606386, 25.515461786124497, 0.48855747455535836, 186.38061144489453),
    "SporadicSGD": (43.64748065847277, 24.243401328628075, 0.5679031489242303, 134.01986830802906),
}


def figures(name):
    exp = pl.Experiment(
        graph=pl.graphs.geometric(6, radius=0.5, seed=4),
        problem=pl.problems.Classification("svm", partition=pl.problems.Labels(2), batch=8),
        algorithm=ALGORITHMS[name](lr=0.1),
        schedule=pl.schedules.Bernoulli(pl.laws.Beta(0.8, 0.8), pl.laws.Uniform(0.1, 0.9)),
        rounds=50,
        seed=11,
        dtype="float64",
    )
    result = pl.simulate(exp)
    last = result.metrics.row(-1, named=True)
    return (result.x[0].abs().sum().item(), result.x.square().sum().item(), last["average_loss"], last["delay"])


def test_the_table_is_complete():
    assert set(GOLDEN) == set(ALGORITHMS)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_golden(name):
    assert figures(name) == pytest.approx(GOLDEN[name], rel=1e-9)


if __name__ == "__main__":
    for name in sorted(ALGORITHMS):
        print(f'    "{name}": {figures(name)},')  # noqa: T201
