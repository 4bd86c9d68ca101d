"""A rehearsal at one site: its own file, invented neighbours, a kill and a removal."""

import struct
from dataclasses import replace

import numpy as np
import pytest

import peerloom as pl
from peerloom.errors import ConfigError, DataError
from peerloom.peers.experiments import only_experiment
from peerloom.peers.rehearsal import SAMPLES, Rehearsal, invented_samples

FILE = """
rounds = 1500
seed = 1
dtype = "float64"
graph = { name = "ring", clients = 4 }
algorithms = [{ name = "DSpodFL", lr = 0.05 }]
[problem]
name = "Classification"
model = "logistic"
[problem.data]
name = "own"
classes = 2
label = "ill"
features = ["age", "weight"]
neutral = [50, 80]
scale = [10, 20]
"""
MARK = 51.30481726


@pytest.fixture
def site(tmp_path):
    (tmp_path / "hearts.toml").write_text(FILE)
    lines = [f"{MARK},{60 + k},{k % 2}" for k in range(40)]
    (tmp_path / "patients.csv").write_text("\n".join(["age,weight,ill", *lines]) + "\n")
    return tmp_path


def test_invented_samples_follow_the_file_and_nothing_else(site):
    place = only_experiment(site / "hearts.toml").problem.data
    x, y = invented_samples(place, 1)
    assert x.shape == (SAMPLES, 2)
    assert np.abs(x.mean(axis=0) - [50, 80]).max() < 5
    assert 0.7 < (x.std(axis=0) / [10, 20]).min() <= (x.std(axis=0) / [10, 20]).max() < 1.3
    assert set(y.tolist()) == {0, 1}
    assert not np.array_equal(x, invented_samples(place, 2)[0])
    real = invented_samples(pl.problems.own(3, 0), 1)
    assert real[0].shape == (SAMPLES, 3)
    assert real[1].dtype == np.float64


def test_a_rehearsal_refuses_what_it_cannot_rehearse(site):
    exp = only_experiment(site / "hearts.toml")
    (site / "wrong.csv").write_text("age,ill\n1,0\n")
    with pytest.raises(DataError, match="weight"):
        Rehearsal(exp, site / "run", "cleveland", site / "wrong.csv").run(print)
    assert not (site / "run").exists(), "refused before anything was made"
    named = replace(exp, problem=pl.testing.random_quadratic(4, 3))
    with pytest.raises(ConfigError, match="names data itself"):
        Rehearsal(named, site / "run", "cleveland", site / "patients.csv").run(print)


@pytest.mark.slow
@pytest.mark.parametrize("relay", [False, True])
def test_a_rehearsal_kills_removes_and_keeps_the_patients_where_they_are(site, relay, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    exp = only_experiment(site / "hearts.toml")
    rehearsal = Rehearsal(exp, site / "run", "cleveland", site / "patients.csv", relay=relay)
    found = rehearsal.run(print)
    assert not found["to_fix"]
    ways = {way for peer in found["peers"] for way in peer["ways"]}
    assert ways == ({"relay:relay"} if relay else {"direct"})
    assert all(bool(peer["address"]) != relay for peer in found["peers"])
    assert [peer["exit_code"] for peer in found["peers"]] == [0, 0, 0, 6]
    assert [peer["round"] for peer in found["peers"][:3]] == [1500] * 3
    assert [peer["samples"] for peer in found["peers"]] == ["its own"] + ["invented"] * 3
    killed, removed = found["events"][-2:]
    assert "row-1 was killed" in killed
    assert "never" not in killed
    assert "row-3 was removed by the founder" in removed
    scaled = (MARK - 50) / 10
    marks = [str(MARK).encode(), b"%.6f" % scaled]
    marks += [struct.pack(form, value) for form in ("<d", "<f") for value in (MARK, scaled)]
    for file in (site / "run").rglob("*"):
        assert not file.is_file() or not any(mark in file.read_bytes() for mark in marks), file
