"""A fault that is put in on purpose is found by the checks that the other tests rely on."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import Draws, Links, average, offers, pull, push
from peerloom.graphs import weights
from peerloom.rules import DSpodFL
from peerloom.schedules import Bernoulli, BernoulliActivity
from tests.builders import LINKS, experiment, net_with_links, paths, rows_of
from tests.oracles import (
    check_coins,
    check_conserves_mass,
    check_doubly_stochastic,
    check_dspodfl,
    check_keeps_consensus,
    check_metropolis,
    check_offers,
    check_pure,
    check_row_stochastic,
)

COINS = Bernoulli(nodes=0.5, links=0.3)
fails = pytest.raises(AssertionError)


def link_falls():
    activity = COINS.bind(graphs.ring(5), Draws(0))
    return activity, [activity.links(t, "peers") for t in range(1, 500)]


def test_a_link_that_latches_is_found(monkeypatch):
    """The fault of the public DSpodFL code: once a link has fired it fires for ever."""
    check_coins(link_falls()[1], np.full(10, 0.3))
    check_pure(COINS.bind(graphs.ring(5), Draws(0)), range(1, 20))
    right, latched = BernoulliActivity.links, {}

    def wrong(self, t, layer):
        latched[self] = latched.get(self, False) | right(self, t, layer)
        return latched[self]

    monkeypatch.setattr(BernoulliActivity, "links", wrong)
    with fails:
        check_coins(link_falls()[1], np.full(10, 0.3))
    with fails:
        check_pure(COINS.bind(graphs.ring(5), Draws(0)), range(1, 20))


def test_a_link_drawn_at_both_ends_is_found(monkeypatch):
    """Two draws and an OR fire with probability 1 - (1 - b)^2 (erratum E-D1)."""
    right = BernoulliActivity.links
    monkeypatch.setattr(
        BernoulliActivity,
        "links",
        lambda self, t, layer: right(self, t, layer) | right(self, t + 10**6, layer),
    )
    with fails:
        check_coins(link_falls()[1], np.full(10, 0.3))


@paths
def test_weights_that_forget_the_own_row_are_found(monkeypatch, path):
    """1 / max(degree), not 1 / (1 + max(degree)): stochastic, but not Metropolis."""
    check_metropolis(graphs.path(4))

    def wrong(rows, src, dst):
        degree = np.bincount(dst, minlength=rows)
        r = 1 / np.maximum(degree[src], degree[dst])
        return r, r

    monkeypatch.setattr(weights, "metropolis", wrong)
    with fails:
        check_metropolis(graphs.path(4))
    exp = experiment(graphs.path(4), DSpodFL(0.1), schedule=COINS)
    with fails:
        check_dspodfl(exp, path, lambda t: 0.1)


@paths
def test_a_missing_own_weight_is_found(monkeypatch, path):
    monkeypatch.setattr(offers, "_keep_what_was_not_received", lambda mass, sent: (1, 0 * mass))
    exp = experiment(graphs.path(4), DSpodFL(0.1), schedule=COINS)
    with fails:
        check_dspodfl(exp, path, lambda t: 0.1)


DIRECTED = graphs.from_edges(4, [(0, 1), (1, 2), (2, 0), (0, 3), (3, 0)], directed=True)


@pytest.mark.parametrize("wire", [None, LINKS], ids=["matrix", "links"])
def test_a_diagonal_from_the_wrong_side_is_found(monkeypatch, wire):
    """Column sums where row sums belong, and the reverse.

    The same on symmetric links, wrong on directed ones.
    """
    rng = np.random.default_rng(0)
    x, fires = rows_of(rng, 4), np.ones((4, 4), bool)

    def mixed():
        net = net_with_links(DIRECTED, fires, wire)
        return net.mix(pull(x)), net.mix(push(x)), net.mix(average(x))

    def agreeing():
        return net_with_links(DIRECTED, fires, wire).mix(pull(x[:1].repeat(4, 1)))

    check_offers(DIRECTED, fires, x, *mixed())
    check_keeps_consensus(agreeing(), x[:1])
    check_conserves_mass(mixed()[1], x)
    received, sent = offers._keep_what_was_not_received, offers._keep_what_was_not_sent
    monkeypatch.setattr(offers, "_keep_what_was_not_received", sent)
    monkeypatch.setattr(offers, "_keep_what_was_not_sent", received)
    with fails:
        check_offers(DIRECTED, fires, x, *mixed())
    with fails:
        check_keeps_consensus(agreeing(), x[:1])
    with fails:
        check_conserves_mass(mixed()[1], x)


def test_a_mean_that_counts_the_own_value_is_found(monkeypatch):
    """PaME's prose averages the own value in, its equation does not (erratum E-A3)."""
    monkeypatch.setattr(
        offers, "_keep_where_nothing_came", lambda mass, sent: (1 / (mass + 1), 1 / (mass + 1))
    )
    x, fires = rows_of(np.random.default_rng(0), 4), np.ones((4, 4), bool)
    net = net_with_links(DIRECTED, fires, LINKS)
    with fails:
        check_offers(DIRECTED, fires, x, net.mix(pull(x)), net.mix(push(x)), net.mix(average(x)))


def test_a_matrix_with_a_wrong_diagonal_is_found(monkeypatch):
    check_row_stochastic(DIRECTED.peers.matrix("a"))
    right = Links.matrix

    def from_columns(self, kind="a"):
        full = right(self, kind)
        np.fill_diagonal(full, 0)
        np.fill_diagonal(full, 1 - full.sum(axis=0 if kind == "a" else 1))
        return full

    monkeypatch.setattr(Links, "matrix", from_columns)
    with fails:
        check_row_stochastic(DIRECTED.peers.matrix("a"))
    monkeypatch.setattr(
        Links, "matrix", lambda self, kind="a": right(self, kind) * (1 - np.eye(self.rows))
    )
    with fails:
        check_doubly_stochastic(graphs.ring(4).peers.matrix("a"))


@paths
def test_a_gradient_at_the_mixed_point_is_found(monkeypatch, path):
    """CTA-post in place of CTA: the order that section 0 tells apart."""

    def wrong(self, s, net):
        z = net.mix(s.x)
        return type(s)(z - self.lr * net.grad(z, net.active()))

    exp = experiment(graphs.path(4), DSpodFL(0.1), schedule=COINS)
    check_dspodfl(exp, path, lambda t: 0.1)
    monkeypatch.setattr(DSpodFL, "step", wrong)
    with fails:
        check_dspodfl(exp, path, lambda t: 0.1)


def test_a_row_that_computes_without_its_turn_is_found(monkeypatch):
    exp = experiment(graphs.path(4), DSpodFL(0.1), schedule=COINS)
    monkeypatch.setattr(
        DSpodFL, "step", lambda self, s, net: type(s)(net.mix(s.x) - self.lr * net.grad(s.x))
    )
    with fails:
        check_dspodfl(exp, "matrix", lambda t: 0.1)
