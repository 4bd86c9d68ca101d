"""How much of a run is in memory at once, in rows, counted as operations make tensors.

A run of m clients has one module, of one row, whatever m is; beside it are the rule's states before
and after the round, and what lies between them. A copy that came back would be m rows more.
"""

import numpy as np
import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.core import DivergedError, wire
from peerloom.measures import measure
from peerloom.problems import Task
from peerloom.problems.layout import RowLayout
from peerloom.runtime import Guard, Session, build_port, iterate, simulation
from tests.live_bytes import LiveBytes

WIDTH, HIDDEN = 200, 100
ROW = 4 * WIDTH * HIDDEN
LITTLE = 0.3  # of a row: samples, weights of links, pieces that are worked on together


def squared(model, batch):
    """A loss whose gradient has one row, and little beside it."""
    return model(batch).square().mean()


def wide(rule, clients, rounds=4, **options):
    """A run whose rows are worked on in pieces, if pieces are as small as `small_pieces` says."""
    task = Task(
        lambda: nn.Linear(WIDTH, HIDDEN, bias=False), squared, lambda i: torch.ones(4, WIDTH) + i, 2
    )
    directed = isinstance(rule, pl.rules.SpodGT)
    graph = (pl.graphs.directed_ring if directed else pl.graphs.complete)(clients)
    return pl.Experiment(graph, task, rule, rounds=rounds, seed=3, **options)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Rows count as wide from 2 KB on."""
    monkeypatch.setattr(wire, "_PIECE", 1 << 11)


DSPODFL = pl.rules.DSpodFL(0.1)
SPODGT = pl.rules.SpodGT(0.1)
COINS = pl.schedules.Bernoulli(nodes=0.5, links=0.6)


def peak(exp, path):
    """Rows alive at once in the rounds of a run, at the most."""
    with LiveBytes() as live:
        for _ in iterate(exp, path=path):
            pass
    return live.peak / ROW


@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize("clients", [2, 3])
@pytest.mark.parametrize(
    ("rule", "rows"),
    # Old models, mixed ones, gradients, new ones; models, trackers and gradients before and after,
    # and what is between two of them.
    [(DSPODFL, 4), (SPODGT, 8)],
)
def test_a_round_holds_so_many_rows_of_each_client_and_the_module(rule, rows, clients, path):
    found = peak(wide(rule, clients), path)
    assert rows * clients < found < rows * clients + 1 + LITTLE


@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize(("rule", "rows"), [(DSPODFL, 4), (SPODGT, 8)])
def test_it_holds_no_more_where_clients_and_links_rest(rule, rows, path):
    found = peak(wide(rule, 3, rounds=12, schedule=COINS), path)
    assert found < rows * 3 + 1 + LITTLE


@pytest.mark.parametrize("rule", [DSPODFL, SPODGT])
def test_judging_holds_the_models_and_their_mean_once_more(rule):
    clients = 3
    with LiveBytes() as live:
        for snapshot in iterate(wide(rule, clients)):
            before = live.peak = live.now
            measure(snapshot, seconds=0.0)
            # The mean is in float64 until it stands beside the models.
            assert live.peak - before < (clients + 1 + 2 + LITTLE) * ROW


def one_rests(path):
    """The port of three clients, of which one computes nothing and talks to nobody."""
    nodes, links = np.ones((2, 3), bool), np.zeros((2, 3, 3), bool)
    nodes[1, 2], links[1, 0, 1], links[1, 1, 0] = False, True, True
    explicit = pl.schedules.Explicit(nodes=nodes, links=links)
    exp = wide(DSPODFL, 3, rounds=1, schedule=explicit)
    port = build_port(exp, mixer=path)
    port.t = 1
    return port, exp.start(range(3))


@pytest.mark.parametrize("path", ["matrix", "links"])
def test_mixing_makes_its_answer_and_nothing_else(path):
    with LiveBytes() as live:
        port, x = one_rests(path)
        before = live.peak = live.now
        mixed = port.mix(x)
    assert 3 * ROW <= live.peak - before < (3 + LITTLE) * ROW
    assert torch.equal(mixed[2], x[2])


def test_gradients_of_some_rows_wait_for_no_room_of_all():
    with LiveBytes() as live:
        port, x = one_rests("links")
        before = live.peak = live.now
        g = port.grad(x, port.active())
    assert not g[2].any()
    # Two gradients, and what they are written into; while they were computed, autograd's own.
    assert live.peak - before < (2 + 3 + LITTLE) * ROW


def test_a_first_model_is_written_where_it_stays():
    module = nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 50))
    with LiveBytes() as live:
        row = RowLayout.row_of(module)
    parts = [part.flatten() for part in module.parameters()]
    assert torch.equal(row, torch.cat(parts).double())
    assert live.peak <= row.nbytes + sum(part.nbytes for part in parts)


def test_a_start_is_repeated_in_the_type_of_the_run():
    clients = 6
    with LiveBytes() as live:
        simulation(wide(DSPODFL, clients)).start()
    assert live.peak < (clients + 2 + LITTLE) * ROW  # one module, one start


def test_a_checkpoint_is_no_copy():
    session = simulation(wide(SPODGT, 2))
    session.start()
    session.step()
    for name, value in session.checkpoint().state.items():
        assert np.shares_memory(value, getattr(session.state, name).numpy())


def test_wide_rows_that_part_are_found_in_the_round_in_which_they_do():
    """The guard looks at wide rows in every round, and so need not go back."""
    problem = pl.testing.random_quadratic(2, 300)
    rule = pl.rules.DSpodFL(1e30)
    exp = pl.Experiment(pl.graphs.complete(2), problem, rule, rounds=40, dtype="float64")
    found = []
    for guard in (Guard(), Guard(every=1, replay=False)):
        session = Session(exp, build_port(exp), guard=guard)
        with pytest.raises(DivergedError) as caught:
            for _ in session:
                pass
        found.append((str(caught.value), caught.value.round, caught.value.row))
        assert session.t == caught.value.round - 1 < 39
    assert found[0] == found[1]


def test_averages_of_wide_rows_have_the_bits_of_whole_ones(monkeypatch):
    x = torch.randn(5, 7001, generator=torch.Generator().manual_seed(1))
    mass = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0], dtype=torch.float64)
    pieces, apart = pl.core.mean_model(x, mass), pl.core.spread(x, mass)
    monkeypatch.setattr(wire, "_PIECE", 1 << 30)
    assert torch.equal(pieces, pl.core.mean_model(x, mass))
    assert apart == pytest.approx(pl.core.spread(x, mass), rel=1e-13)  # another order of sums
