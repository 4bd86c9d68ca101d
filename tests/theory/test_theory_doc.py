"""docs/theory.md says what this recomputes, number by number."""

import re
from pathlib import Path

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import Draws
from peerloom.papers.theorems import depositum, dspodfl, mll_sgd, pame
from peerloom.papers.theorems import dspodfl_nonconvex as nonconvex
from peerloom.papers.theorems import spod_gt_recursion as recursion
from peerloom.papers.theorems.spod_gt import Mixing
from peerloom.schedules import Bernoulli, distributions
from peerloom.theory.matrices import second_modulus
from tests.builders import dspodfl_setting

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
SEEDS = range(1, 21)


def sporadic(graph, seed):
    """The links' chances in the papers' experiments."""
    return (
        Bernoulli(links=distributions.Beta(0.5, 0.5))
        .bind(graph, Draws(seed))
        .link_chance(1, "peers")
    )


def geometric_rho(on):
    rates = []
    for seed in SEEDS:
        graph = graphs.geometric(10, 0.4, seed)
        rates.append(
            dspodfl.rho_tilde(
                graph.peers, np.ones(len(graph.peers)) if on else sporadic(graph, seed)
            )
        )
    return float(np.median(rates))


def two_way():
    graph = graphs.two_way(graphs.geometric(10, 0.4, 1))
    return Mixing(graph.peers, sporadic(graph, 1))


def recursion_gap():
    s = dspodfl_setting(mu=0.9, zeta=0.1, rho=0.3)
    return dspodfl.convex_bound(s, dspodfl.alpha_max(s) / 2, 10**6, (1.0, 1.0))[0]


def nonconvex_floor():
    s = dspodfl_setting(zeta=0.0, delta=1.0, sigma=0.0, d_min=0.5)
    return nonconvex.nonconvex_gap(s, 1e-9)


def step_48():
    sure = Mixing(two_way().links, np.ones(28))
    return recursion.step_bound(sure, recursion.Clients.equal(10, delta1=1.0))


def workers(hubs, p):
    zeta = 0.0 if hubs is None else mll_sgd.zeta(graphs.path(hubs).peers.matrix())
    return mll_sgd.step(mll_sgd.Setting(zeta, 8, 4, np.full(100, 0.01), np.full(100, p), 1.0, 1.0))


def beta(graph, T0, gamma=0.5):
    return depositum.beta_limit(graph.rows, second_modulus(graph.peers.matrix()), T0, gamma)


def corollary(n):
    found = depositum.corollary(n, 1.0, second_modulus(graphs.ring(n).peers.matrix()), 10, 400)
    assert found.holds
    return found


def growth(m, fraction, p, k0):
    return pame.growth(
        graphs.complete(m).peers, np.full(m, int(np.ceil(fraction * (m - 1) - 1e-9))), p, k0
    ).truth


NUMBERS = {
    "chance that ten clients from Beta(0.5, 0.5) are all above one half": lambda: 0.5**10,
    "rho tilde, links from Beta(0.5, 0.5)": lambda: geometric_rho(False),
    "rho tilde, every link on": lambda: geometric_rho(True),
    "rho(Phi) at 0.99 of the printed bound, mu = 1, d_min = 0.6": lambda: dspodfl.rho_phi(
        dspodfl_setting(mu=1.0, d_min=0.6),
        0.99 * dspodfl.convex_step(dspodfl_setting(mu=1.0, d_min=0.6)).printed,
        3,
    ),
    "rho(Phi) at 0.99 of the printed bound, mu = 0.1, d_min = 1": lambda: dspodfl.rho_phi(
        dspodfl_setting(), 0.99 * dspodfl.convex_step(dspodfl_setting()).printed, 3
    ),
    "model error after many rounds, Theorem 4.11's closed form": lambda: recursion_gap().printed,
    "the same, by the recursion, with the constant 6 that is proved": lambda: recursion_gap().truth,
    "log10(1 - r_A)": lambda: two_way().least_probability()[0],
    "log10(1 - r_B)": lambda: two_way().least_probability()[1],
    "least probability of a link": lambda: two_way().ph.min(),
    "printed contraction of the models": lambda: two_way().models().printed,
    "exact contraction of the models": lambda: two_way().models().truth,
    "exact contraction of the trackers": lambda: two_way().trackers().truth,
    "largest step of Proposition 4.8, every link on, L = 1, as printed": lambda: step_48().printed,
    "largest step for which its recursion shrinks": lambda: step_48().truth,
    "floor of the squared gradient over (1 - d_min) G^2, gradients bounded by G, as printed": (
        lambda: nonconvex_floor().printed / 0.5
    ),
    "the same, with the weights as derived": lambda: nonconvex_floor().truth / 0.5,
    "least p for which condition (12) has a step": mll_sgd.least_probability,
    "largest eta L, complete hubs, p = 1 (Figure 1)": lambda: workers(None, 1.0).printed,
    "the same, as its proof has it": lambda: workers(None, 1.0).truth,
    "largest eta L, complete hubs, least p = 0.6 (Figure 6)": lambda: workers(None, 0.6).printed,
    "the same, as its proof has it with p = 0.6": lambda: workers(None, 0.6).truth,
    "largest eta L, path of 5 hubs (Figures 2, 3)": lambda: workers(5, 1.0).printed,
    "largest eta L, path of 20 hubs (Figures 2, 3)": lambda: workers(20, 1.0).printed,
    "largest beta, ring of 20, T0 = 10, printed (Figures 4, 5)": lambda: (
        beta(graphs.ring(20), 10).printed
    ),
    "largest beta, ring of 20, T0 = 10, safe": lambda: beta(graphs.ring(20), 10).truth,
    "largest beta, complete graph of 10, T0 = 20, safe (Figure 6)": lambda: (
        beta(graphs.complete(10), 20).truth
    ),
    "beta of Corollary 1, ring of 4, T0 = 10, T = 400 (Figure 7)": lambda: corollary(4).beta,
    "beta of Corollary 1, ring of 25, T0 = 10, T = 400 (Figure 7)": lambda: corollary(25).beta,
    "largest growth, complete graph of 32, kappa up to 7": lambda: growth(32, 0.2, 0.2, 7),
    "largest growth, complete graph of 128, kappa up to 7": lambda: growth(128, 0.2, 0.2, 7),
    "largest growth, complete graph of 32, nu = 0.5, s/n = 0.1, kappa up to 10": lambda: growth(
        32, 0.5, 0.1, 10
    ),
    "zeta of an even ring": lambda: pame.zeta(graphs.ring(10).peers).printed,
}


def rows():
    return dict(re.findall(r"^\| ([^|]+?) \| ([-+.e\d]+) \|$", PAGE.read_text(), flags=re.M))


def test_the_page_has_every_number_and_no_other():
    assert set(rows()) == set(NUMBERS)


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_the_number_on_the_page_is_the_one_computed(name):
    shown = rows()[name]
    assert float(shown) == pytest.approx(float(NUMBERS[name]()), rel=6e-3, abs=1e-9)
