"""PaME against plain loops, its worked example, and Sampled, Split and Coordinates."""

import tomllib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, strategies

import peerloom as pl
from peerloom.codecs import Coordinates
from peerloom.config import (
    comparison_from,
    experiment_to_table,
    experiment_to_toml,
    override,
)
from peerloom.core import Draws, Envelope, push
from peerloom.errors import CodecError, ConfigError
from peerloom.runtime import build_port, iterate
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Bernoulli, Explicit, Sampled, Split

GRAPH = pl.graphs.regular(8, degree=4, seed=3)
KAPPA = np.array([1, 2, 3, 1, 2, 3, 1, 2])


def experiment(**changes):
    exp = pl.Experiment(
        graph=GRAPH,
        problem=pl.testing.random_quadratic(8, 6, seed=1),
        algorithm=pl.rules.PaME(sigma=3.0, growth=1.01),
        schedule=Sampled(KAPPA, fraction=0.5),
        message=Coordinates(0.5),
        rounds=20,
        seed=5,
        x0=np.random.default_rng(0).normal(size=(8, 6)),
        dtype="float64",
    )
    return replace(exp, **changes)


def envelope(exp, t, receiver, sender, mix_index=1):
    m = exp.graph.rows
    return Envelope(
        Draws(exp.seed), t, mix_index, np.array([receiver * m + sender]), np.array([sender])
    )


def chosen(exp, t, receiver, sender):
    """T_j as a set, read off a message of ones."""
    n = exp.problem.n
    _, mask = exp.message.through(
        torch.ones(1, n, dtype=torch.float64), envelope(exp, t, receiver, sender)
    )
    return set(range(n)) if mask is None else set(np.flatnonzero(mask.numpy()[0]))


def oracle(exp):
    """Section 1.5 of the specification, client by client and coordinate by coordinate."""
    m, n = exp.graph.rows, exp.problem.n
    sigma, growth = (np.broadcast_to(s, m) for s in (exp.algorithm.sigma, exp.algorithm.growth))
    links = exp.graph.peers
    A, b = np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    w, used = np.array(exp.x0), np.ones(m)
    for k in range(exp.rounds):
        fires = activity.links(k + 1, "peers")
        computes = activity.nodes(k + 1)
        new = w.copy()
        for i in range(m):
            picked = [int(j) for e, j in enumerate(links.src) if links.dst[e] == i and fires[e]]
            sets = {j: chosen(exp, k + 1, i, j) for j in picked}
            vbar = w[i].copy()
            for coordinate in range(n):
                senders = [j for j in picked if coordinate in sets[j]]
                if senders:
                    vbar[coordinate] = sum(w[j, coordinate] for j in senders) / len(senders)
            if picked:
                used[i] = len(picked)
            gradient = A[i] @ vbar - b[i] if computes[i] else 0.0
            new[i] = vbar - gradient / (sigma[i] * growth[i] ** k * used[i])
        w = new
    return w


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"message": pl.messages.Dense()},
        {"message": Coordinates(0.2, per_sender=True)},
        {"schedule": Sampled(2, fraction=1.0)},
        {"schedule": Split(nodes=Bernoulli(nodes=0.5), links=Sampled(KAPPA, 0.5))},
        {"schedule": Bernoulli(nodes=0.7, links=0.4)},
    ],
    ids=["paper", "whole rows", "per sender", "all neighbours", "sporadic compute", "coins"],
)
def test_the_rule_is_its_equation(changes):
    exp = experiment(**changes)
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), oracle(exp), rtol=0, atol=1e-12)


# sigma_i, gamma_i, nu_i and s_i: every client has its own.
SIGMA = (3.0, 2.0, 5.0, 4.0, 3.5, 2.5, 6.0, 3.0)
GROWTH = (1.0, 1.05, 1.01, 1.2, 1.0, 1.03, 1.01, 1.5)
HEARD = (0.25, 0.3, 0.5, 0.75, 1.0, 0.01, 0.5, 0.6)  # of four neighbours: 1 2 2 3 4 1 2 3
SHARE = (0.01, 0.2, 0.5, 1.0, 0.34, 0.5, 0.8, 0.17)  # of six coordinates: 1 2 3 6 3 3 5 2
COUNT = [1, 2, 3, 6, 3, 3, 5, 2]
OWN = {
    "algorithm": pl.rules.PaME(SIGMA, GROWTH),
    "schedule": Sampled(KAPPA, HEARD),
    "message": Coordinates(SHARE),
}


@pytest.mark.parametrize(
    "changes",
    [
        OWN,
        {"algorithm": pl.rules.PaME(SIGMA)},
        {"algorithm": pl.rules.PaME(3.0, GROWTH)},
        {"schedule": Sampled(2, list(HEARD))},
        {"message": Coordinates(SHARE)},
        {"message": Coordinates(SHARE, per_sender=True)},
        {"message": Coordinates(SHARE, mask=True)},
    ],
    ids=["all", "sigma", "growth", "neighbours", "coordinates", "per sender", "mask"],
)
def test_every_client_may_have_settings_of_its_own(changes):
    exp = experiment(**changes)
    found = pl.simulate(exp)
    np.testing.assert_allclose(found.x.numpy(), oracle(exp), rtol=0, atol=1e-12)
    in_shards = run_sharded(exp, [[0, 3], [1, 2, 5], [4, 6, 7]])
    assert torch.equal(in_shards.path[-1], pl.simulate(exp, path="links").x)
    check_same_ledger(in_shards.ledger, found.ledger)


def test_settings_of_their_own_that_are_all_the_same_change_no_bit():
    same = {
        "algorithm": pl.rules.PaME((3.0,) * 8, (1.01,) * 8),
        "schedule": Sampled(KAPPA, (0.5,) * 8),
        "message": Coordinates((0.5,) * 8),
    }
    for dtype in ("float32", "float64"):
        one, other = (pl.simulate(experiment(dtype=dtype, **more)) for more in ({}, same))
        assert torch.equal(one.x, other.x)
        check_same_ledger(one.ledger, other.ledger)


def test_the_ledger_charges_what_each_client_really_sends():
    exp = experiment(rounds=7, **OWN)
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    sent = np.zeros(8, int)
    for t in range(1, 8):
        links = exp.graph.peers
        sent += np.bincount(links.src[activity.links(t, "peers")], minlength=8)
    for mask, more in ((False, 0), (True, 1)):  # six bits are one byte
        ledger = pl.simulate(replace(exp, message=Coordinates(SHARE, mask=mask))).ledger
        by_sender, links = np.zeros((2, 8)), exp.graph.peers
        np.add.at(by_sender[0], links.src, ledger.layers["peers"].nbytes)
        np.add.at(by_sender[1], links.src, ledger.layers["peers"].paper_bits)
        assert by_sender[0].tolist() == [sent[j] * (8 * COUNT[j] + more) for j in range(8)]
        assert by_sender[1].tolist() == [sent[j] * (63 * COUNT[j] + 6) for j in range(8)]


def test_several_offers_in_one_message_have_their_lengths_before_them():
    """A receiver knows no fraction but by the length of what came: 4 bytes more for all but one."""
    exp = experiment(
        algorithm=pl.rules.SpodGT(0.01), schedule=Explicit(links=np.ones((2, 8, 8), bool)),
        message=Coordinates(SHARE), rounds=1,
    )  # fmt: skip
    ledger = pl.simulate(exp).ledger
    wanted = [2 * 8 * COUNT[j] + 4 for j in exp.graph.peers.src]
    assert ledger.layers["peers"].nbytes.tolist() == wanted
    check_same_ledger(run_sharded(exp, [[0, 1, 2], [3, 4, 5, 6, 7]]).ledger, ledger)


def test_differences_from_copies_are_charged_by_their_sender_too():
    exp = experiment(
        algorithm=pl.rules.CHOCO(0.01, gamma=0.2), message=Coordinates(SHARE), rounds=1,
        schedule=pl.schedules.Always(),
    )  # fmt: skip
    ledger = pl.simulate(exp).ledger.layers["peers"]
    assert ledger.nbytes.tolist() == [8 * COUNT[j] for j in exp.graph.peers.src]
    assert ledger.paper_bits.tolist() == [63 * COUNT[j] + 6 for j in exp.graph.peers.src]


@given(
    seed=strategies.integers(0, 99), per_sender=strategies.booleans(), mask=strategies.booleans()
)
def test_a_message_of_a_client_carries_its_own_share(seed, per_sender, mask):
    codec = Coordinates(SHARE, per_sender, mask)
    values = torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 6)))
    sender = np.array([7, 0, 3, 3, 6])
    here = Envelope(Draws(seed), 7, 1, np.array([3, 9, 11, 12, 14]), sender)
    bodies = codec.encode(values, here)
    assert [len(body) for body in bodies] == [8 * COUNT[j] + mask for j in sender]
    back, chosen = codec.decode(bodies, 6, torch.float64, here)
    assert chosen.sum(dim=1).tolist() == [COUNT[j] for j in sender]
    assert torch.equal(back, values * chosen)
    if per_sender:
        assert torch.equal(chosen[2], chosen[3])
    # A body is judged before anyone knows whose it is: any client's length will do, no other.
    for body in bodies:
        codec.check(body, 6, torch.float64)
    for k in set(range(8)) - set(COUNT):
        with pytest.raises(CodecError, match="in place of"):
            codec.check(np.zeros(8 * k + mask, np.uint8), 6, torch.float64)


def check_same_ledger(one, other):
    found, wanted = one.arrays(), other.arrays()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


@dataclass(frozen=True)
class Fixed:
    """A message whose coordinates are given, sender by sender."""

    sets: tuple[tuple[int, ...], ...]
    fit: ClassVar[str] = "part"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = True

    def through(self, rows, envelope):
        mask = torch.zeros(rows.shape, dtype=torch.bool)
        for k, j in enumerate(envelope.sender):
            mask[k, list(self.sets[j])] = True
        return rows * mask, mask

    def longest(self, n, dtype):
        return 0

    def paper_bits(self, n):
        return 0

    encode = decode = nbytes = check = None


def test_the_worked_example_with_its_numbers():
    """N_i = {2, 4, 5}, two coordinates each; the zero that was sent is counted (erratum E-A2)."""
    w = np.array([[2, 8, 3, 6], [2, 8, 1, 4], [4, 7, 2, 5], [3, 6, 0, 6]], float)
    graph = pl.graphs.from_edges(4, [(1, 0), (2, 0), (3, 0)], directed=True)
    nothing = pl.problems.Quadratic(np.zeros((4, 4, 4)), np.zeros((4, 4)))
    message = Fixed(((0, 1), (0, 3), (2, 3), (2, 3)))
    exp = pl.Experiment(
        graph, nothing, pl.rules.PaME(1.0), message=message, rounds=1, x0=w, dtype="float64"
    )
    assert pl.simulate(exp).x.tolist() == [[2, 8, 1, 5], *w[1:].tolist()]


def test_bits_are_the_papers():
    message = Coordinates(0.01)
    assert message.paper_bits(10_000) == 16_300
    assert pl.messages.Dense().paper_bits(10_000) == 640_000
    assert message.longest(10_000, torch.float32) == 4 * 100


def test_the_ledger_keeps_both_counts():
    exp = experiment(schedule=Explicit(links=np.ones((4, 8, 8), bool)), rounds=3)
    ledger = pl.simulate(exp).ledger
    assert ledger.messages == 3 * 32
    assert ledger.bytes == 3 * 32 * 3 * 8
    assert ledger.paper_bytes == 3 * 32 * (63 * 3 + 6) / 8


def test_reduction_to_neighbour_averaging():
    """s = n, nu = kappa = gamma = 1: a step 1 / (sigma |N_i|) from the neighbours' mean."""
    exp = experiment(
        schedule=Sampled(),
        message=pl.messages.Dense(),
        algorithm=pl.rules.PaME(sigma=3.0),
        rounds=15,
    )
    B = (exp.graph.peers.matrix() > 0) * (1 - np.eye(8)) / 4
    w = np.array(exp.x0)
    A, b = np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    for _ in range(15):
        v = B @ w
        w = v - np.stack([A[i] @ v[i] - b[i] for i in range(8)]) / (3.0 * 4)
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), w, atol=1e-12)


def test_averages_never_leave_the_range_of_the_models():
    nothing = pl.problems.Quadratic(np.zeros((8, 6, 6)), np.zeros((8, 6)))
    exp = experiment(problem=nothing, rounds=30)
    largest = [snapshot.x.abs().max().item() for snapshot in iterate(exp)]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(largest))


def test_consensus_is_a_fixed_point_of_the_exchange():
    nothing = pl.problems.Quadratic(np.zeros((8, 6, 6)), np.zeros((8, 6)))
    x0 = np.arange(6.0)
    assert pl.simulate(experiment(problem=nothing, x0=x0)).x.numpy() == pytest.approx(
        np.tile(x0, (8, 1)), abs=1e-12
    )


def test_the_steps_shrink_geometrically_so_that_the_iterates_settle():
    exp = experiment(algorithm=pl.rules.PaME(sigma=3.0, growth=1.05), rounds=600)
    states = [snapshot.x for snapshot in iterate(exp)]
    assert (states[-1] - states[-8]).abs().max() < 1e-9


@given(
    n=strategies.integers(1, 40), fraction=strategies.floats(0.01, 1.0),
    seed=strategies.integers(0, 99), per_sender=strategies.booleans(),
    mix_index=strategies.integers(1, 3),
)  # fmt: skip
def test_a_message_carries_exactly_its_coordinates(n, fraction, seed, per_sender, mix_index):
    message = Coordinates(fraction, per_sender)
    values = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, n)))
    here = Envelope(Draws(seed), 7, mix_index, np.array([3, 9, 11]), np.array([1, 1, 2]))
    count = max(1, int(np.ceil(round(fraction * n, 9))))
    bodies = message.encode(values, here)
    assert [len(body) for body in bodies] == [8 * count] * 3
    back, mask = message.decode(bodies, n, torch.float64, here)
    assert mask.sum(dim=1).tolist() == [count] * 3
    assert torch.equal(back, values * mask)
    if per_sender:
        assert torch.equal(mask[0], mask[1])


def test_every_coordinate_is_as_likely_and_senders_are_independent():
    message, draws = Coordinates(0.25), Draws(4)
    masks = np.stack(
        [
            message.through(
                torch.ones(2, 12), Envelope(draws, t, 1, np.array([1, 2]), np.array([1, 2]))
            )[1].numpy()
            for t in range(2000)
        ]
    )
    error = np.sqrt(0.25 * 0.75 / 2000)
    assert np.abs(masks.mean(axis=0) - 0.25).max() < 4.5 * error
    both = (masks[:, 0] * masks[:, 1]).mean(axis=0)
    assert np.abs(both - 0.0625).max() < 4.5 * np.sqrt(0.0625 * 0.9375 / 2000)
    somebody = 1 - (1 - masks).prod(axis=1).mean(axis=0)
    assert np.abs(somebody - (1 - 0.75**2)).max() < 4.5 * np.sqrt(0.25 / 2000)


@given(seed=strategies.integers(0, 50), p=strategies.floats(0.1, 1.0))
def test_pushing_part_of_a_row_conserves_mass_in_every_coordinate(seed, p):
    graph = pl.graphs.random_digraph(6, p=0.5, seed=seed)
    exp = experiment(
        graph=graph, problem=pl.testing.random_quadratic(6, 6), schedule=Bernoulli(links=p),
        x0=None, seed=seed, message=Coordinates(0.4), algorithm=pl.rules.SpodGT(0.1),
    )  # fmt: skip
    net = build_port(exp, mixer="links")
    net.t = 1
    y = torch.from_numpy(np.random.default_rng(seed).normal(size=(6, 6)))
    np.testing.assert_allclose(
        net.mix(push(y)).sum(dim=0).numpy(), y.sum(dim=0).numpy(), atol=1e-12
    )


def test_sampled_hears_the_wanted_number_of_neighbours_in_its_own_rounds():
    activity = Sampled(KAPPA, fraction=0.6).bind(GRAPH, Draws(1))
    picks = set()
    for t in range(1, 40):
        heard = np.bincount(GRAPH.peers.dst[activity.links(t, "peers")], minlength=8)
        # ceil(0.6 * 4)
        assert heard.tolist() == [3 if (t - 1) % kappa == 0 else 0 for kappa in KAPPA]
        picks.add(tuple(GRAPH.peers.src[activity.links(t, "peers") & (GRAPH.peers.dst == 0)]))
    assert picks == {tuple(np.delete(GRAPH.peers.src[GRAPH.peers.dst == 0], k)) for k in range(4)}
    star = pl.graphs.star(5)
    least = Sampled(1, fraction=0.01).bind(star, Draws(1)).links(1, "peers")
    assert np.bincount(star.peers.dst[least]).tolist() == [1, 1, 1, 1, 1]


def test_periods_are_drawn_between_two_numbers():
    periods = Sampled(3, upto=7).periods(2000, Draws(2))
    assert set(periods) == {3, 4, 5, 6, 7}
    assert np.abs(np.bincount(periods)[3:] - 400).max() < 4.5 * np.sqrt(2000 * 0.2 * 0.8)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sampled(0), "at least 1 round"),
        (lambda: Sampled(1.5), "whole numbers"),
        (lambda: Sampled(1, fraction=0.0), "fraction"),
        (lambda: Sampled(5, upto=3), "at least kappa"),
        (lambda: Sampled([1, 2]).bind(GRAPH, Draws(0)), "8 clients"),
        (lambda: Coordinates(0.0), "fraction"),
        (lambda: Sampled(1, fraction=(0.5, 0.0)), "Sampled.fraction must be above 0"),
        (lambda: Sampled(1, fraction="half"), "Sampled.fraction must be a number"),
        (lambda: Sampled(1, fraction=()), "Sampled.fraction must be above 0"),
        (lambda: Sampled(1, (0.5, 1.0)).bind(GRAPH, Draws(0)), r"Sampled.fraction .*8 clients"),
        (lambda: Coordinates((0.5, 1.5)), "Coordinates.fraction must be above 0 and at most 1"),
        (lambda: Coordinates(()), "Coordinates.fraction must be"),
        (lambda: Coordinates("half"), "Coordinates.fraction must be"),
        (lambda: Coordinates((0.5, 0.5), per_pair=True), "so all clients have one fraction"),
        (lambda: pl.messages.RandK((0.5, 0.5)), "RandK.fraction must be a number"),
        (
            lambda: experiment(message=Coordinates((0.5, 0.2))),
            "Coordinates.fraction has 2 entries for 8 clients. Give one for each",
        ),
        (lambda: pl.rules.PaME(sigma=0.0), "PaME.sigma must be a number above 0"),
        (lambda: pl.rules.PaME(sigma=(1.0, 0.0)), "PaME.sigma must be a number above 0"),
        (lambda: pl.rules.PaME(sigma=()), "PaME.sigma must be a number above 0"),
        (lambda: pl.rules.PaME(pl.rates.InverseSqrt(1.0, 1.0)), "PaME.sigma must be a number"),
        (lambda: pl.rules.PaME((pl.rates.InverseSqrt(1, 1),) * 8), "PaME.sigma must be a number"),
        (lambda: pl.rules.PaME(1.0, growth=0.9), "PaME.growth must be a number of at least 1"),
        (lambda: pl.rules.PaME(1.0, (1.0, None)), "PaME.growth must be a number or a list"),
        (
            lambda: experiment(algorithm=pl.rules.PaME((1.0, 2.0))),
            "PaME.sigma has 2 entries for 8 clients. Give one for each, or one value for all",
        ),
        (
            lambda: experiment(algorithm=pl.rules.PaME(1.0, (1.0,) * 9)),
            "PaME.growth has 9 entries for 8 clients",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_a_file_may_give_every_client_its_own():
    table = {
        "rounds": 3,
        "graph": {"name": "complete", "clients": 4},
        "schedule": {"name": "Sampled", "kappa": [1, 2, 1, 3], "fraction": [0.2, 1, 0.5, 1.0]},
        "message": {"name": "Coordinates", "fraction": [0.1, 0.2, 0.3, 1]},
        "problem": {"name": "Classification"},
        "algorithm": {"name": "PaME", "sigma": [1, 2.0, 3.0, 4.0], "growth": [1, 1.1, 1, 1]},
    }
    exp = comparison_from(table).experiments[0]
    assert exp.algorithm == pl.rules.PaME((1.0, 2.0, 3.0, 4.0), (1.0, 1.1, 1.0, 1.0))
    assert exp.message == Coordinates((0.1, 0.2, 0.3, 1.0))
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert (again.algorithm, again.message) == (exp.algorithm, exp.message)
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)
    assert pl.theory.advise(exp).costs.bytes > 0
    with pytest.raises(ConfigError, match=r"PaME\.sigma has 2 entries for 4 clients"):
        comparison_from(override(table, ["algorithm.sigma=[1, 2]"]))


def test_hubs_send_as_well():
    graph, share = pl.graphs.hubs(pl.graphs.ring(3), [1, 1, 1]), (0.5, 0.2, 0.3)
    problem = pl.testing.random_quadratic(3, 6)

    def experiment_with(message):
        return pl.Experiment(graph, problem, pl.rules.MLLSGD(0.1), message=message, rounds=3)

    with pytest.raises(ConfigError, match="has 3 entries for 6 clients and hubs"):
        experiment_with(Coordinates(share))
    exp = experiment_with(Coordinates((*share, 1.0, 0.9, 0.1)))
    nbytes = pl.simulate(exp).ledger.layers["down"].nbytes
    assert nbytes.tolist() == [3 * 4 * {3: 6, 4: 6, 5: 1}[j] for j in graph.layers["down"].src]


def test_a_file_may_name_all_of_it():
    table = {
        "rounds": 3,
        "graph": {"name": "complete", "clients": 5},
        "schedule": {
            "name": "Split",
            "nodes": {"name": "Bernoulli", "nodes": 0.5},
            "links": {"name": "Sampled", "kappa": 3, "upto": 7, "fraction": 0.2},
        },
        "message": {"name": "Coordinates", "fraction": 0.2},
        "problem": {"name": "Classification"},
        "algorithm": {"name": "PaME", "sigma": 1.0, "growth": 1.005},
    }
    exp = comparison_from(table).experiments[0]
    again = comparison_from(experiment_to_table(exp)).experiments[0]
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)
    assert isinstance(
        comparison_from(table | {"schedule": {"name": "Split", "nodes": "Always"}})
        .experiments[0]
        .schedule,
        Split,
    )
