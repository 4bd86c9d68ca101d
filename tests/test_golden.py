"""Golden numbers: one small run of every algorithm. A commit that changes them says why.

`python tests/test_golden.py` prints the table anew.
"""

import pytest
from test_contract import EVERY

import peerloom as pl
from peerloom.algorithms import ALGORITHMS

# |x_0|_1, sum of squares of x, test loss of the averaged model, delay; after 50 rounds in float64.
GOLDEN: dict[str, tuple[float, float, float, float]] = {
    "AB": (45.51320709822175, 27.26711338285214, 0.4667771588819019, 219.70258060593292),
    "CooperativeSGD": (44.42819446103652, 25.499268167201112, 0.5064606706371189, 216.96297156586866),
    "D2": (45.54355279482296, 27.289572297389366, 0.4660667292286546, 216.96297156586866),
    "DFedAvg": (43.004608096337364, 23.102973413570744, 0.6681991949977903, 123.30094821747971),
    "DGD": (43.5786407638829, 24.378377591260136, 0.5450557711879132, 216.96297156586866),
    "DSGD": (42.62657596128602, 22.558001736271894, 0.692588515287942, 103.43750818705493),
    "DSGT": (45.57045195937711, 27.33146290437942, 0.46502775536723084, 219.70258060593292),
    "DSMT": (44.56731220428536, 25.66283666758762, 0.5322626646089288, 299.6851001685875),
    "DSpodFL": (42.33902871033131, 22.276719685089446, 0.7004691666002459, 103.43750818705493),
    "Depositum": (42.642517299403096, 22.58790522375635, 0.6736236862659607, 235.7807708865751),
    "EXTRA": (45.52236989125034, 27.27089687442357, 0.46722856840793725, 216.96297156586866),
    "MLLSGD": (41.99890507045005, 21.84674207230993, 0.8032131733351632, 122.73433506709674),
    "NIDS": (45.65267693757582, 27.47477215473506, 0.45978493214310345, 219.70258060593292),
    "PaME": (46.79799754286994, 29.579136240606946, 0.45029126458571805, 103.43750818705493),
    "PeriodicGT": (44.20317821256808, 25.221492987087608, 0.5144910812719256, 166.9141176945808),
    "ProxGT": (45.566106205446765, 27.308048576529128, 0.46615450743321696, 296.94549112852326),
    "PushDIGing": (45.57045195937711, 27.33146290437942, 0.46502775536723084, 219.70258060593292),
    "PushPull": (45.57045195937711, 27.33146290437942, 0.46502775536723084, 219.70258060593292),
    "RandomizedGossip": (43.08303890760398, 23.683052915897438, 0.5841105876701153, 186.38061144489453),
    "SGP": (44.42819446103652, 25.499268167201112, 0.5064606706371189, 216.96297156586866),
    "SpodGT": (42.85941436362424, 23.178615490640233, 0.6927787116462775, 104.23477151590461),
    "SporadicKGT": (42.99950383375011, 23.27522649653026, 0.6947884734878237, 134.81713163687874),
    "SporadicPushPull": (45.34489541656723, 27.00503121163426, 0.4691062371377475, 189.1202204849588),
    "SporadicSGD": (42.94390151672074, 23.140576479090104, 0.6312814712873718, 134.01986830802906),
    "SubgradientPush": (45.84331910550195, 27.853302587956467, 0.41592116005635343, 216.96297156586866),
    "SynchronousGT": (45.57045195937711, 27.331462904379418, 0.46502775536723084, 219.70258060593292),
}


def figures(name):
    with_hubs = "up" in ALGORITHMS[name].needs.layers
    exp = pl.Experiment(
        graph=pl.graphs.hubs(pl.graphs.ring(3), [1, 2, 3]) if with_hubs else pl.graphs.geometric(6, radius=0.5, seed=4),
        problem=pl.problems.Classification("svm", partition=pl.problems.Labels(2), batch=8),
        algorithm=ALGORITHMS[name](**EVERY[name]),
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
