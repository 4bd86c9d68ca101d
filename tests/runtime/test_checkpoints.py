"""One checkpoint for all engines: a run begun in one goes on in another, to the same bits."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

import peerloom as pl
from peerloom.config import spec_hash
from peerloom.core import Checkpoint, CheckpointError, DamagedError, Ledger
from peerloom.core.events import each_round
from peerloom.peers.decisions import Decision
from peerloom.peers.federation import Federation
from peerloom.peers.folder import PeerFolder
from peerloom.runs import RunFolder
from peerloom.runtime import Session, StopRule, build_port, simulation
from peerloom.runtime.shards import run_sharded
from tests.every_rule import EVERY
from tests.memory_runs import experiment, run_in_memory

pytestmark = pytest.mark.slow  # starts processes, or runs for long

OLD = Path(__file__).parents[1] / "data" / "run-0.1"


def until(exp, t, begin=None):
    """A session of all rows, link by link, after round t."""
    session = Session(exp, build_port(exp, mixer="links"), stop=StopRule(t), resume=begin)
    for _ in session:
        pass
    return session


def write(path, at, spec="spec"):
    path.write_bytes(b"".join(at.encode(spec)))
    return path


def same(a, b):
    assert (a.t, a.rule, list(a.state), list(a.ledger)) == (
        b.t,
        b.rule,
        list(b.state),
        list(b.ledger),
    )
    assert np.array_equal(a.rows, b.rows)
    for name in a.state:
        assert a.state[name].tobytes() == b.state[name].tobytes(), name
    for name in a.ledger:
        assert np.array_equal(a.ledger[name], b.ledger[name]), name


# -- the file


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_file_gives_back_what_was_written_and_any_tool_can_read_it(name, tmp_path):
    at = until(experiment(name), 5).checkpoint()
    path = write(tmp_path / "at.safetensors", at)
    same(Checkpoint.read(path, "spec"), at)
    with safetensors.safe_open(path, "numpy") as file:
        about = file.metadata()
        assert file.get_tensor("state/x").tobytes() == at.state["x"].tobytes()
    assert {key: about[key] for key in ("peerloom", "format", "spec", "rule", "fields")} == {
        "peerloom": "checkpoint", "format": "2", "spec": "spec", "rule": name,
        "fields": ",".join(at.state),
    }  # fmt: skip


def test_pieces_are_written_end_to_end(tmp_path):
    at = until(experiment("DSpodFL"), 2).checkpoint()
    pieces = {
        "bodies": [np.arange(3.0), np.array([-0.0]), np.empty(0)],
        "about": [np.arange(6).reshape(2, 3)],
    }
    found = Checkpoint.read(write(tmp_path / "at", replace(at, wire=pieces))).memory()
    assert found["bodies"].tobytes() == np.array([0.0, 1.0, 2.0, -0.0]).tobytes()
    assert found["about"].tolist() == [[0, 1, 2], [3, 4, 5]]


@given(st.data())
def test_a_file_that_was_cut_or_changed_anywhere_is_damaged(data):
    whole = b"".join(ROUND_TWO.encode("spec"))
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        spoilt = whole[:place]
    else:
        flip = data.draw(st.integers(1, 255))
        spoilt = whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :]
    path = Path(f"/tmp/peerloom-damaged-{os.getpid()}")
    path.write_bytes(spoilt)
    try:
        with pytest.raises(CheckpointError):
            Checkpoint.read(path, "spec")
    finally:
        path.unlink()


ROUND_TWO = until(experiment("DSpodFL"), 2).checkpoint()


def test_another_experiment_format_or_file_is_refused_with_a_word_on_what_to_do(tmp_path):
    path = write(tmp_path / "at", ROUND_TWO)
    with pytest.raises(
        CheckpointError, match=r"another experiment than the one to run .* give another folder"
    ):
        Checkpoint.read(path, "other")
    path.write_bytes(path.read_bytes().replace(b'"format": "2"', b'"format": "3"'))
    with pytest.raises(
        CheckpointError,
        match=r"has format 3, and this Peerloom reads format 2. Go on with the version",
    ):
        Checkpoint.read(path, "spec")
    safetensors.numpy.save_file({"x": np.zeros(3)}, path, metadata={"a": "b"})
    with pytest.raises(DamagedError, match="another safetensors file"):
        Checkpoint.read(path)
    assert CheckpointError.exit_code == 4


def test_a_session_refuses_a_checkpoint_that_is_not_its_own():
    exp = experiment("DSpodFL")
    at = until(exp, 2).checkpoint()
    with pytest.raises(CheckpointError, match="is of DSpodFL with x, but the run is of DGD with x"):
        simulation(
            replace(exp, algorithm=pl.rules.DGD(lr=0.1), schedule=pl.schedules.Always()), resume=at
        ).start()
    with pytest.raises(CheckpointError, match="holds 1 rows, and not the 7 that live here"):
        simulation(exp, resume=at.select([3], exp.graph)).start()
    with pytest.raises(CheckpointError, match="messages of a wire between peers"):
        simulation(exp, resume=replace(at, wire={"sent": [np.zeros(1)]})).start()


# -- parts and wholes


@pytest.mark.parametrize("name", ["SpodGT", "MLLSGD", "CHOCO", "Depositum"])
def test_parts_make_the_whole_again(name):
    exp = experiment(name)
    at, rows = until(exp, 6).checkpoint(), exp.graph.rows
    for deal in (
        [[i] for i in range(rows)],
        [list(range(0, rows, 2)), list(range(1, rows, 2))],
        [range(rows)],
    ):
        parts = [at.select(part, exp.graph) for part in deal]
        same(Checkpoint.merge(parts[::-1]), at)


def test_parts_that_do_not_belong_together_are_refused():
    exp = experiment("DSpodFL")
    at, later = until(exp, 2).checkpoint(), until(exp, 5).checkpoint()
    one, two = at.select([0, 1, 2], exp.graph), at.select([3, 4, 5, 6], exp.graph)
    with pytest.raises(CheckpointError, match="stand after rounds 2 to 5"):
        Checkpoint.merge([one, later.select([3, 4, 5, 6], exp.graph)])
    with pytest.raises(CheckpointError, match="Two parts hold the same row"):
        Checkpoint.merge([one, at])
    with pytest.raises(CheckpointError, match="may still be under way"):
        Checkpoint.merge([one, replace(two, wire={"sigma": [np.zeros(1)]})])
    with pytest.raises(CheckpointError, match="of different rules"):
        Checkpoint.merge([one, replace(two, rule="DGD")])
    with pytest.raises(CheckpointError, match="does not hold row 3"):
        one.select([3], exp.graph)


# -- from engine to engine


@pytest.mark.parametrize("name", sorted(EVERY))
def test_simulator_to_shards_and_back(name):
    exp = experiment(name, rounds=12)
    whole = until(exp, 12)
    rows = exp.graph.rows
    for shards in (
        [[i] for i in range(rows)],
        [list(range(rows // 2)), list(range(rows // 2, rows))],
    ):
        middle = run_sharded(exp, shards, begin=until(exp, 4).checkpoint(), pause=8).checkpoint
        assert middle.t == 8
        same(until(exp, 12, middle).checkpoint(), whole.checkpoint())


@pytest.mark.parametrize(
    "name", ["DSpodFL", "SpodGT", "Depositum", "CHOCO", "MLLSGD", "PaME", "EXTRA"]
)
def test_simulator_to_peers_in_memory_and_back(name, identities, tmp_path):
    exp = experiment(name, rounds=70)
    begin = until(exp, 4).checkpoint()
    folders = [PeerFolder(tmp_path / str(row), spec_hash(exp)) for row in range(exp.graph.rows)]
    for row, folder in enumerate(folders):
        folder.begin_with(begin, row, exp.graph)
    run_in_memory(exp, identities, tmp_path, pause=61)
    middle = Checkpoint.merge([folder.delivered()[0] for folder in folders])
    assert middle.t == 61
    same(until(exp, 70, middle).checkpoint(), until(exp, 70).checkpoint())
    ends = run_in_memory(exp, identities, tmp_path)  # and the peers themselves go on, too
    assert torch.equal(torch.cat([end.state.x for end in ends]), until(exp, 70).state.x)


def test_what_is_still_under_way_between_peers_is_no_part_of_a_whole(tmp_path):
    exp = experiment("SpodGT")
    folder = PeerFolder(tmp_path, "spec")
    part = until(exp, 4).checkpoint().select([0], exp.graph)
    folder.save(part)
    assert [at.t for at in folder.delivered()] == [4]
    folder.journal().add([Decision("missed", 3, 1, 2)])
    assert folder.delivered() == []
    folder.journal().add([Decision("late", 4, 1, 2, (3, 1))])
    assert [at.t for at in folder.delivered()] == [4]
    folder.save(replace(part, t=5, wire={"sigma/1/0/0": [np.zeros(5)]}))
    assert [at.t for at in folder.delivered()] == [4]


def test_a_folder_of_the_run_command_goes_on_between_processes_and_back(tmp_path):
    """Real folders and processes: begun by `simulate`, paused as peers, ended by `simulate`."""
    rule = pl.rules.SpodGT(lr=0.05)
    exp = pl.Experiment(
        pl.graphs.ring(3),
        pl.problems.Classification("softmax", pl.problems.blobs(60, 4, 3), batch=4), rule,
        pl.schedules.Bernoulli(0.7, 0.7), rounds=30, seed=2, evaluate=pl.Evaluate(every=10),
    )  # fmt: skip
    whole = pl.simulate(exp, path="links")
    seen = []
    pl.simulate(
        exp,
        path="links",
        out=tmp_path / "one",
        observers=[each_round(seen.append)],
        stop=lambda: seen[-1] >= 9,
    )
    folder = RunFolder(tmp_path / "one")
    federation = Federation(folder.experiment(), tmp_path / "peers", begin=folder.checkpoint())
    federation.run(pause=17)
    assert {status["round"] for status in federation.status()} == {17}
    middle = federation.checkpoint()
    assert middle.t == 17
    folder.save(middle)
    rest = pl.simulate(folder.experiment(), path="links", out=folder.path, resume=True)
    assert torch.equal(rest.state.x, whole.state.x)
    assert torch.equal(rest.state.y, whole.state.y)
    for name, values in whole.ledger.arrays().items():
        assert np.array_equal(rest.ledger.arrays()[name], values), name
    assert rest.metrics["round"].tolist() == [0, 20, 30]
    federation.run()  # the peers can go on, too
    federation.collect()
    found = RunFolder(tmp_path / "peers").checkpoint()
    assert np.array_equal(found.state["x"], whole.state.x.numpy())


# -- older formats


def test_a_run_of_0_1_goes_on(tmp_path):
    """state.npz is read, and replaced by the new file.

    Its bits are another processor's, whose matrix products round in another way.
    """
    place = tmp_path / "run"
    shutil.copytree(OLD, place)
    folder = RunFolder(place)
    assert folder.checkpoint().t == 12
    rest = pl.simulate(folder.experiment(), out=place, resume=True)
    whole = pl.simulate(folder.experiment())
    torch.testing.assert_close(rest.state, whole.state, rtol=1e-5, atol=1e-6)
    assert rest.ledger.messages == whole.ledger.messages
    assert rest.metrics["round"].tolist() == [0, 5, 10, 15, 20]
    assert not (place / "state.npz").exists()
    assert folder.checkpoint().t == 20
    (place / "checkpoint.safetensors").unlink()
    (place / "state.npz").write_bytes(b"PK\x03\x04broken")
    with pytest.raises(
        CheckpointError, match=r"state.npz cannot be read .* Delete the folder and run again"
    ):
        folder.checkpoint()


def test_a_peers_checkpoint_of_0_1_is_refused(tmp_path):
    (tmp_path / "checkpoint-0.bin").write_bytes(b"old")
    with pytest.raises(
        CheckpointError,
        match=r"run of Peerloom 0.1.*Finish it with that version, or start a new run",
    ):
        PeerFolder(tmp_path, "spec").newest()


def test_the_hash_of_a_folder_is_that_of_its_experiment(tmp_path):
    exp = experiment("DSpodFL")
    pl.simulate(exp, out=tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata()["spec"] == spec_hash(RunFolder(tmp_path).experiment())
    text = json.loads((tmp_path / "run.json").read_text())
    assert text["algorithm"] == "DSpodFL"
    assert Ledger.of(exp.graph, Checkpoint.read(path).ledger).messages > 0
