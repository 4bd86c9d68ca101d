"""What a problem keeps of rows beside their state: in checkpoints, and of the round they are of."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import Checkpoint, ConfigError, Evaluation, Remembers
from peerloom.errors import DivergedError
from peerloom.runtime import Session, build_port, simulation
from peerloom.runtime.shards import run_sharded
from tests.runtime.test_session import Failing, Interrupted


class LocalCount:
    """The k-th gradient of a row is k, wherever it stands."""

    def __init__(self, place):
        self.rows, self.asked = place.rows.tolist(), {}

    def grad(self, x, on, t, batch=0):
        for k in on.tolist():
            self.asked[self.rows[k]] = self.asked.get(self.rows[k], 0) + 1
        counts = [float(self.asked[self.rows[k]]) for k in on.tolist()]
        return torch.tensor(counts, dtype=x.dtype)[:, None].expand(len(on), x.shape[1])

    def prox(self, z, step):
        return z

    def evaluate(self, x):
        return Evaluation(np.zeros(len(x)), None)

    def memory(self):
        return {row: count.to_bytes(2, "big") for row, count in self.asked.items()}

    def restore(self, memory):
        self.asked = {row: int.from_bytes(kept, "big") for row, kept in memory.items()}


@dataclass(frozen=True)
class Count:
    n: int = 2
    once_a_round = True

    def start(self, seed):
        return torch.zeros(self.n, dtype=torch.float64)

    def bind(self, place, draws):
        return LocalCount(place)


COINS = pl.schedules.Bernoulli(nodes=0.5, links=0.7)


def experiment(rounds=12, **changes):
    exp = pl.Experiment(
        pl.graphs.ring(4), Count(), pl.rules.DSpodFL(lr=0.1), COINS, rounds=rounds, seed=1,
        dtype="float64",
    )  # fmt: skip
    return replace(exp, **changes)


def done(exp, **options):
    session = simulation(exp, path="links", **options)
    for _ in session:
        pass
    return session


def test_it_is_what_the_protocol_asks_for():
    assert isinstance(build_port(experiment()).problem, Remembers)


def test_a_checkpoint_holds_it_through_a_file_and_parts(tmp_path):
    whole, half = done(experiment()), done(experiment(5)).checkpoint()
    assert len(half.problem) == 4
    file = tmp_path / "half"
    file.write_bytes(b"".join(half.encode("spec")))
    read = Checkpoint.read(file)
    assert read.problem == half.problem
    parts = [read.select(rows, experiment().graph) for rows in ([1], [0, 2, 3])]
    assert [set(part.problem) for part in parts] == [{1}, {0, 2, 3}]
    for begin in (read, Checkpoint.merge(parts)):
        rest = done(experiment(), resume=begin)
        assert torch.equal(rest.state.x, whole.state.x)
        assert rest.checkpoint().problem == whole.checkpoint().problem


def test_shards_keep_it_each_of_its_own_rows():
    exp = experiment()
    half = run_sharded(exp, [[0, 1], [2], [3]], pause=6).checkpoint
    found = run_sharded(exp, [[0], [1, 2, 3]], begin=half)
    whole = done(exp)
    assert torch.equal(found.path[-1], whole.state.x)
    assert found.checkpoint.problem == whole.checkpoint().problem


def test_a_round_that_is_interrupted_leaves_what_was_kept_before_it():
    steady = {"algorithm": pl.rules.DSGD(lr=0.1), "schedule": pl.schedules.Always()}
    exp = experiment(**steady)  # which asks, then mixes
    session = Session(exp, build_port(exp, mixer="links", wire=Failing((6, 1))))
    with pytest.raises(Interrupted):
        for _ in session:
            pass
    before = done(experiment(5, **steady))
    assert session.port.problem.memory() != before.checkpoint().problem, "it was asked in round 6"
    assert session.checkpoint().problem == before.checkpoint().problem
    rest = Session(exp, build_port(exp, mixer="links"), resume=session.checkpoint())
    for _ in rest:
        pass
    assert torch.equal(rest.state.x, done(exp).state.x)


def test_gradients_on_another_device_keep_it_too():
    exp = experiment(5)
    session = Session(exp, build_port(exp, gradients="cpu"))
    for _ in session:
        pass
    assert session.checkpoint().problem == done(exp).checkpoint().problem
    port = build_port(exp, gradients="cpu")
    port.problem.restore(session.checkpoint().problem)
    assert port.problem.memory() == session.checkpoint().problem


def test_divergence_is_found_by_rounds_that_are_repeated_with_it():
    """The 20th gradient is infinite, and the repetition must count up to it again."""

    class Growing(LocalCount):
        def grad(self, x, on, t, batch=0):
            found = super().grad(x, on, t, batch)
            return torch.where(found < 20, found, torch.inf)

    @dataclass(frozen=True)
    class Bad(Count):
        def bind(self, place, draws):
            return Growing(place)

    exp = experiment(30, problem=Bad(), schedule=pl.schedules.Always())
    with pytest.raises(DivergedError) as caught:
        done(exp)
    assert caught.value.round == 20


def test_rules_that_ask_twice_are_refused_where_a_question_changes_something():
    for rule, said in (
        (pl.rules.DFedAvgM(lr=0.1, K=3), "DFedAvgM asks for 3 gradients in a round"),
        (pl.rules.ProxGTSRE(lr=0.1, q=3), "gradients on all samples"),
    ):
        with pytest.raises(ConfigError, match=said):
            done(experiment(algorithm=rule, schedule=pl.schedules.Always()))
