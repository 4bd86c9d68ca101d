"""Small experiments, graphs and ports that several test files share, and checks of their runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.codecs import Dense
from peerloom.core import Checkpoint, ConfigError, Draws, Ledger, LocalWire, Requirements
from peerloom.datasets import CATALOGUE, locate
from peerloom.experiment import Experiment
from peerloom.papers.theorems import dspodfl
from peerloom.problems import Quadratic
from peerloom.rules import DSpodFL
from peerloom.runtime import build_port, iterate
from peerloom.schedules import Explicit

paths = pytest.mark.parametrize("path", ["matrix", "links"])  # both mixers


def needs_data(*names):
    """Skip a test, and say why, where these data sets are not on this machine."""
    missing = [name for name in names if locate(CATALOGUE[name]) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"not on this machine: {', '.join(missing)} (peerloom data get)"
    )


def quadratic(clients, n=3, seed=0, noise=0.0):
    """Strongly convex quadratics, different on every client."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(clients, n, n))
    A = root @ root.transpose(0, 2, 1) / n + 0.5 * np.eye(n)
    return Quadratic(A, 2 * rng.normal(size=(clients, n)), noise=noise)


def experiment(graph, algorithm=None, **options):
    """An experiment on quadratics in float64, with what is not given filled in."""
    problem = options.pop("problem", None) or quadratic(graph.rows)
    options = {"rounds": 10, "dtype": "float64", **options}
    return Experiment(
        graph=graph, problem=problem, algorithm=algorithm or DSpodFL(lr=0.05), **options
    )


def starts(rows, n=3, seed=0):
    """Models to start from, a different one on every row."""
    return np.random.default_rng(seed).normal(size=(rows, n))


def final(exp, **options):
    """The last snapshot of a run."""
    *_, last = iterate(exp, **options)
    return last


def trajectory(exp, **options):
    """The models after every round, round 0 first."""
    return [snapshot.x for snapshot in iterate(exp, **options)]


def same_run(one, other, path):
    """Whether two experiments have the same models, bit for bit, after every round."""
    first, second = trajectory(one, path=path), trajectory(other, path=path)
    return len(first) == len(second) and all(map(torch.equal, first, second))


def check_refuses_unequal_links(rule):
    """The rule is refused, by name, on directed graphs and where weights are not symmetric."""
    named = f"^{type(rule).__name__} needs symmetric links"
    for graph in (graphs.exponential(6), graphs.directed_ring(6)):
        with pytest.raises(ConfigError, match=f"{named}, but graph '{graph.name}' is directed"):
            experiment(graph, rule)
    shift = [[0.4, 0.6, 0.0], [0.0, 0.4, 0.6], [0.6, 0.0, 0.4]]  # doubly stochastic
    with pytest.raises(ConfigError, match=named):
        experiment(graphs.from_matrix(shift), rule)


def checkpoint_at(exp, t, state):
    """Where a run of all rows goes on after round t with this state, nothing spent so far."""
    arrays = {name: value.numpy() for name, value in state._asdict().items()}
    rows = np.arange(exp.graph.rows)
    return Checkpoint(t, rows, type(exp.algorithm).__name__, arrays, Ledger(exp.graph).arrays())


LINKS = LocalWire(Dense(), Draws(0))  # link by link, for whole rows, which need no draws


def net_with_links(graph, fires, wire):
    """A port whose links fire in every round exactly where `fires` [m, m] (receiver first) says."""
    exp = experiment(
        graph, _AnyGraph(), schedule=Explicit(links=np.stack([fires, fires])), rounds=1
    )
    return build_port(exp, mixer="matrix" if wire is None else "links", wire=wire)


class _AnyGraph:
    """A rule that asks nothing of the graph; only its port is used."""

    needs = Requirements()


def rows_of(rng, rows, n=4):
    """Random rows in float64."""
    return torch.from_numpy(rng.normal(size=(rows, n)))


@st.composite
def undirected_graphs(draw, least=2, most=9):
    """Connected undirected graphs: a random tree and some more edges."""
    rows = draw(st.integers(least, most))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, rows)]
    pairs = [(i, j) for i in range(rows) for j in range(i)]
    return graphs.from_edges(rows, tree + draw(st.lists(st.sampled_from(pairs), max_size=2 * rows)))


@st.composite
def directed_graphs(draw, least=2, most=9):
    """Directed graphs of any shape, connected or not."""
    rows = draw(st.integers(least, most))
    pairs = [(i, j) for i in range(rows) for j in range(rows) if i != j]
    return graphs.from_edges(
        rows, draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True)), directed=True
    )


def dspodfl_setting(**changes):
    """Constants of DSpodFL's theorems, some of them changed."""
    usual = {"m": 10, "rho": 0.5, "beta": 1, "mu": 0.1, "zeta": 0.5, "delta": 1, "sigma": 1}
    return dspodfl.Setting(**usual | changes)


seeds = st.integers(0, 2**32 - 1)
