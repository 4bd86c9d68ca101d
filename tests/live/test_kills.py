"""Loops of peers that are killed anywhere, over a network in memory; what a loop says as bytes.

The rule's thread answers itself here, so that every kill falls where the seed has it.
"""

import os
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.config import spec_hash
from peerloom.core import Draws
from peerloom.errors import Caution, CheckpointError, ConfigError
from peerloom.live.answers import ENTRY, Answers, digest_of
from peerloom.live.asked import asked_problem
from peerloom.live.keeper import Keeper
from peerloom.live.loop_state import from_bytes, to_bytes
from peerloom.live.seam import Question
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.registry import describe
from tests.memory_runs import check_same, crashes, experiment, run_in_memory
from tests.own_loops import Vector, clients_of, looped

NOISE = 0.3


class Body:
    """A loop's body, in place of the thread that it has: gradients with noise of its own draws."""

    def __init__(self, gradient, client, noise=NOISE):
        self.gradient, self.drawn, self.client, self.noise = gradient, 0, client, noise

    def answer(self, question, x):
        u = Draws(5)("mine", self.drawn, np.array([self.client]), len(x))[0]
        if not question.batch:
            self.drawn += 1
        return self.gradient(x, question) + self.noise * torch.from_numpy(u - 0.5)


class Direct:
    """Stands for a seam: the loop's body runs where the rule asks."""

    left = False

    def __init__(self, body, tells):
        self.body, self.tells, self.keeper, self.began = body, tells, None, False

    def ask(self, what):
        if not self.began and self.keeper.resumed is not None:
            self.body.drawn = self.keeper.resumed["drawn"]
        if self.began and self.tells(self.body.drawn):
            self.keeper.checkpoint({"drawn": self.body.drawn})
        self.began = True
        return self.body.answer(what.question, what.x)

    def have_done(self, work):
        work()


def always(_):
    return True


def loops(exp, folder, tells=always, whole=None, noise=NOISE):
    """The rows' programs, for `run_in_memory`."""
    problem, model = exp.problem, Vector(exp.problem.start(exp.seed))
    gradient, live = clients_of(problem, exp.seed), looped(exp)
    plan = WirePlan.of(exp)
    recipe = describe(live.problem)

    def program(row):
        def go(post):
            place = folder / str(row)
            place.mkdir(parents=True, exist_ok=True)
            seam = Direct(Body(gradient, row, noise), tells)
            kept = not plan.outlasts if whole is None else whole
            keeper = seam.keeper = Keeper(row, Answers(place, kept), seam)
            asked = asked_problem(model, live.problem, recipe, seam, False, (1,), keeper)
            keep = PeerFolder(place, spec_hash(live))
            return PeerRun(replace(live, problem=asked), row, post, keep, plan, holder=keeper).run()

        return go

    return {row: program(row) for row in range(exp.graph.rows)}


def in_memory(exp, identities, folder, seed=0, crashes=(), **more):
    folder.mkdir(exist_ok=True)
    programs = loops(exp, folder, **more)
    return run_in_memory(exp, identities, folder, None, seed, crashes, instead=programs)


def in_one_process(exp):
    """The same loops' bodies for all rows; the session."""
    gradient, bodies = clients_of(exp.problem, exp.seed), {}
    run = pl.live.rows(looped(exp), path="links", batches=1, repeats=True)
    model = Vector(exp.problem.start(exp.seed))
    opt = pl.live.optimizer(model, run)
    while not opt.finished:
        asked = opt.asked
        body = bodies.setdefault(asked.client, Body(gradient, asked.client))
        model.x.grad = body.answer(asked, model.x.detach())
        opt.step()
    return run.session


def check_bits(exp, results):
    expected = in_one_process(exp)
    for name, value in expected.state._asdict().items():
        assert torch.equal(torch.cat([getattr(r.state, name) for r in results]), value), name
    for name, values in expected.ledger.arrays().items():
        assert np.array_equal(sum(r.ledger.arrays()[name] for r in results), values), name


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["SpodGT", "DSpodFL", "KGT", "CHOCO", "NIDS"]),
    seed=st.integers(0, 2**32),
    crashes=crashes,
    every=st.integers(1, 4),
    seldom=st.sampled_from([1, 1, 3]),
)
def test_kills_change_no_bit_of_loops_that_say_where_they_stand(
    name, seed, crashes, every, seldom, identities, tmp_path_factory, monkeypatch
):
    """Wherever they are killed, however seldom they say so, and however often it is due."""
    monkeypatch.setattr("peerloom.peers.wire_plan.CHECKPOINT_EVERY", 4 * every)
    exp, folder = experiment(name, rounds=14), tmp_path_factory.mktemp("crash")
    with warnings.catch_warnings(action="error", category=Caution):
        results = in_memory(
            exp, identities, folder, seed, crashes, tells=lambda drawn: not drawn % seldom
        )
    check_bits(exp, results)


def tracked(results):
    """How far the trackers are from what they should sum to."""
    y, c = (sum(getattr(result.state, name)[0] for result in results) for name in ("y", "c"))
    return float((y - c).abs().max())


KILLS = [(0.15 * k, k % 7, 0.2) for k in range(1, 9)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::peerloom.errors.Caution")
def test_without_a_journal_a_loop_that_forgets_would_part_trackers_from_gradients(
    identities, tmp_path, monkeypatch
):
    """And with it they stay together."""
    monkeypatch.setattr("peerloom.peers.wire_plan.CHECKPOINT_EVERY", 12)
    exp = experiment("SpodGT", rounds=30)
    exp = replace(exp, message=pl.messages.Dense())

    def never(_):
        return False

    kept = in_memory(exp, identities, tmp_path / "kept", 1, KILLS, tells=never)
    assert tracked(kept) < 1e-12
    lost = in_memory(exp, identities, tmp_path / "lost", 1, KILLS, tells=never, whole=False)
    assert tracked(lost) > 1e-3


@pytest.mark.slow
def test_a_loop_that_repeats_itself_differently_is_told_so(identities, tmp_path, monkeypatch):
    monkeypatch.setattr("peerloom.peers.wire_plan.CHECKPOINT_EVERY", 8)
    exp = experiment("DSpodFL", rounds=30)
    with pytest.warns(Caution, match="repeats itself differently: asked once more for round"):
        in_memory(exp, identities, tmp_path, 1, KILLS, tells=lambda drawn: False)


def test_loops_over_links_without_kills_are_the_simulator(identities, tmp_path):
    """With the noise left out, of a rule of each kind."""
    for name in ("PaME", "DSGT", "DFedAvgM", "PMGTSVRG"):
        exp = experiment(name, rounds=6)
        check_same(exp, in_memory(exp, identities, tmp_path / name, noise=0.0))


# -- the journal


def test_a_journal_cut_short_holds_what_was_whole(tmp_path):
    rows = [torch.full((3,), float(k), dtype=torch.float64) for k in range(4)]
    journal = Answers(tmp_path, whole=True)
    for k, row in enumerate(rows):
        journal.add(k, k + 1, 0, digest_of(row), row)
    journal.close()
    (path,) = tmp_path.glob("answers-*")
    os.truncate(path, path.stat().st_size - 1)
    again = Answers(tmp_path, whole=True)
    assert [again.known(k) is not None for k in range(4)] == [True, True, True, False]
    assert torch.equal(again.repeated(2, rows[0]), rows[2])


def test_a_spoilt_journal_is_refused_where_answers_must_not_be_lost(tmp_path):
    row, journal = torch.ones(3), Answers(tmp_path, whole=True)
    for k in range(3):
        journal.add(k, k + 1, 0, digest_of(row), row)
    journal.close()
    (path,) = tmp_path.glob("answers-*")
    data = path.read_bytes()
    for at in (3, ENTRY + 1, ENTRY + 12 + 2, ENTRY + 12 + 26):
        path.write_bytes(data[:at] + b"?" + data[at + 1 :])
        with pytest.raises(CheckpointError, match="was cut or changed"):
            Answers(tmp_path, whole=True)
        assert Answers(tmp_path, whole=False).known(2) is None
    path.write_bytes(data)
    path.rename(tmp_path / "answers-7.bin")
    (tmp_path / "answers-0.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"answers-7\.bin was cut or changed"):
        Answers(tmp_path, whole=True)


def test_a_journal_is_cut_where_two_checkpoints_have_passed(tmp_path):
    row, journal = torch.zeros(3), Answers(tmp_path, whole=True)
    for k in range(9):
        journal.add(k, k + 1, 0, digest_of(row), row)
        if k % 2:
            journal.saved(k + 1)
    names = sorted(path.name for path in tmp_path.glob("answers-*"))
    assert names == ["answers-6.bin", "answers-8.bin"]
    assert Answers(tmp_path, whole=True).known(5) is None


# -- what a loop says


def test_what_a_loop_says_comes_back():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    said = {
        "own": optimizer.state_dict(),
        "python": random.getstate(),
        "numpy": np.random.default_rng(3).bit_generator.state,
        "torch": torch.get_rng_state(),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "array": np.arange(4, dtype=">i4").reshape(2, 2),
        "nothing": [None, True, float("inf"), "text", {}],
        "empty": torch.zeros(0, 3),
    }
    found = from_bytes(to_bytes(said))
    assert found["python"] == said["python"]
    assert found["numpy"] == said["numpy"]
    assert found["nothing"] == said["nothing"]
    for name in ("torch", "half", "empty"):
        assert torch.equal(found[name], said[name])
        assert found[name].dtype == said[name].dtype
    assert np.array_equal(found["array"], said["array"])
    again = torch.optim.AdamW(model.parameters())
    again.load_state_dict(found["own"])
    assert torch.equal(
        again.state_dict()["state"][0]["exp_avg"], said["own"]["state"][0]["exp_avg"]
    )


@pytest.mark.parametrize("bad", [{"loader": object()}, {"a": [1, {2.5: 1}]}, {"f": len}])
def test_what_no_checkpoint_holds_is_refused(bad):
    with pytest.raises(ConfigError, match=r"opt\.checkpoint"):
        to_bytes(bad)


def test_bytes_that_a_loop_never_said_are_refused():
    data = to_bytes({"a": torch.ones(3)})
    for cut in (data[:-1], data[:20], b"", data.replace(b"float32", b"compile")):
        with pytest.raises(CheckpointError, match="cannot be read"):
            from_bytes(cut)


def test_a_question_is_named_by_what_wants_the_same_samples():
    assert Question(1, 2, 0) == Question(1, 2, 0) != Question(1, 2, 1)
