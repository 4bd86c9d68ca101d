"""Loops between peers over TLS: the bits of one process, kills included, or a run that is right."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.config import spec_hash
from peerloom.peers.experiments import only_experiment, run_folder
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.folder import PeerFolder
from tests.live_peer import Client, model_of

pytestmark = pytest.mark.slow  # starts processes

PEERS = 3
SCRIPT = Path(__file__).parents[1] / "live_peer.py"
FILE = """
rounds = {rounds}
seed = 3
dtype = "float64"
[graph]
name = "ring"
clients = 3
[problem]
name = "Loop"
[schedule]
name = "Bernoulli"
nodes = 0.7
links = 0.7
[algorithm]
name = "{name}"
lr = 0.05
"""


class Loops:
    """Processes, one for each peer, that are killed at these steps and started again."""

    def __init__(self, folder, name, rounds=60):
        self.folder, self.file = folder, folder / "loops.toml"
        self.file.write_text(FILE.format(name=name, rounds=rounds))
        self.exp = only_experiment(self.file)
        self.homes = found_on_this_machine(self.exp, folder / "peers", self.file)

    def start(self, row, how="all", die_at=-1):
        words = [SCRIPT, self.homes[row].folder, self.file, row, how, die_at]
        with (self.folder / f"said-{row}").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, *map(str, words)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stderr=said,
                stdout=said,
                cwd=SCRIPT.parents[1],
            )

    def run(self, how="all", dies=()):
        """All to their end; `dies` are (row, step): one that died is started again."""
        steps = {row: [at for other, at in dies if other == row] + [-1] for row in range(PEERS)}
        running = {row: self.start(row, how, steps[row].pop(0)) for row in range(PEERS)}
        end = time.monotonic() + 90
        try:
            while running:
                assert time.monotonic() < end, "nothing happened"
                time.sleep(0.02)
                for row, process in list(running.items()):
                    if process.poll() == 0 and not steps[row]:
                        del running[row]
                    elif process.poll() is not None:
                        assert process.poll() == 9, self.said(row)
                        running[row] = self.start(row, how, steps[row].pop(0))
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        return self.ends()

    def said(self, row):
        return (self.folder / f"said-{row}").read_text()

    def ends(self):
        spec = spec_hash(self.exp)
        return [PeerFolder(run_folder(home, self.exp), spec).newest() for home in self.homes]


def unbroken(exp):
    """The same loops for all clients in one process."""
    clients, model = [Client(row) for row in range(PEERS)], model_of()
    # A second question about a batch comes after those of other clients: each keeps its closure.
    kept, run = {}, pl.live.rows(exp, path="links", repeats=True)
    opt = pl.live.optimizer(model, run)
    while not opt.finished:
        asked = opt.asked
        if asked not in kept:
            kept[asked] = clients[asked.client].closure(opt, model)
        opt.step(kept[asked])
    return run.session


def test_killed_peers_have_the_bits_of_one_process(tmp_path):
    """One in the first round of a rule whose start asks, one after a checkpoint was written."""
    loops = Loops(tmp_path, "SpodGT")
    ends, expected = loops.run(dies=[(1, 31), (2, 1)]), unbroken(loops.exp)
    for field, value in expected.state._asdict().items():
        found = np.concatenate([end.state[field] for end in ends])
        assert torch.equal(torch.from_numpy(found), value), field
    for name, values in expected.ledger.arrays().items():
        assert np.array_equal(sum(end.ledger[name] for end in ends), values), name
    assert all("repeats itself differently" not in loops.said(row) for row in range(PEERS))


def test_a_loop_that_forgets_its_generator_is_mended_by_the_journal(tmp_path):
    """Without it, trackers and gradients would part for ever: by 0.037 of 0.42 as measured once."""
    loops = Loops(tmp_path, "SpodGT", rounds=40)
    ends = loops.run("count", dies=[(1, 20)])
    assert "repeats itself differently" in loops.said(1)
    tracked, gradients = (sum(end.state[name][0] for end in ends) for name in ("y", "c"))
    np.testing.assert_allclose(tracked, gradients, atol=1e-12)
    assert np.abs(gradients).max() > 1e-3
