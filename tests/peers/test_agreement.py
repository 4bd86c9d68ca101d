"""What every peer learns of all, by gossip: held to the truth, which only a test can see."""

import numpy as np
import pytest
import torch

from peerloom.peers.agreement import AGREEMENT, Agreement, Sketch, agreement_channel
from peerloom.peers.telemetry import Telemetry
from peerloom.transport import RunIdentity
from tests.doubles.memory import Faults, MemoryNetwork
from tests.federation import federation, identity

RING = [(k, (k + 1) % 5) for k in range(5)]
BOTH = [*RING, *((b, a) for a, b in RING)]


def truth(models):
    """(1/m) sum_i |x_i - mean x|^2, in plain loops."""
    mean = sum(models) / len(models)
    return sum(
        float(sum((value - middle) ** 2 for value, middle in zip(x, mean, strict=True)))
        for x in models
    ) / len(models)


class Gossip:
    """Peers of a network in memory, each with a model that may change."""

    def __init__(self, models, pairs=BOTH, faults=None, seed=1):
        self.models, n = models, len(models[0])
        self.roster = federation(len(models), pairs)
        self.ids = [member.id for member in self.roster.members]
        run = RunIdentity("run", "spec", {AGREEMENT: agreement_channel(n)})
        self.network = MemoryNetwork(self.roster, run, seed, faults)
        self.posts, self.ends = {}, {}
        for k in range(len(models)):
            self.start(k)

    def start(self, k, client=True):
        self.posts[k] = self.network.endpoint(self.ids[k])
        self.posts[k].start()
        telemetry = Telemetry(k, 10, (0,), model=torch.from_numpy(self.models[k]))
        self.ends[k] = Agreement(self.posts[k], telemetry, len(self.models[k]), 3, client)

    def go(self, times):
        for _ in range(times):
            for k, end in self.ends.items():
                end._telemetry.model = torch.from_numpy(self.models[k])
                end.exchange()
            self.network.pass_time(0.25)
        return [end._telemetry.consensus for end in self.ends.values()]


@pytest.fixture
def models():
    rng = np.random.default_rng(0)
    return [rng.normal(size=20) + 100.0 for _ in range(5)]


@pytest.mark.parametrize("faults", [None, Faults(breaks=0.05, delay=(0.001, 0.3))])
@pytest.mark.parametrize("pairs", [RING, BOTH], ids=["directed", "both"])
def test_all_learn_the_consensus_error(pairs, faults, models):
    """Small models are their own sketch, so the estimate tends to the truth on any network."""
    gossip = Gossip(models, pairs, faults)
    assert gossip.go(400 if faults else 150) == pytest.approx([truth(models)] * 5, rel=1e-6)
    own = [end._telemetry.distance for end in gossip.ends.values()]
    assert own == pytest.approx(
        [float(np.square(x - np.mean(models, axis=0)).sum()) for x in models], rel=1e-6
    )


def test_it_follows_models_that_move_and_agree(models):
    gossip = Gossip(models)
    gossip.go(50)
    middle = np.mean(models, axis=0) + 7.0
    gossip.models = [middle + 1e-4 * (x - 100.0) for x in models]
    assert gossip.go(150) == pytest.approx([truth(gossip.models)] * 5, rel=1e-3), (
        "no digits are lost to large models"
    )


def test_a_restart_and_a_removal_leave_no_trace(models):
    gossip = Gossip(models, BOTH, Faults(breaks=0.03))
    gossip.go(30)
    gossip.start(2)  # kill -9, and started again: it remembers nothing
    assert gossip.go(150) == pytest.approx([truth(models)] * 5, rel=1e-6)
    without = gossip.roster.without_member(identity(0), "peer-4")
    for post in gossip.posts.values():
        post.consider(without)
    del gossip.ends[4]
    assert gossip.go(150) == pytest.approx([truth(models[:4])] * 4, rel=1e-6)


def test_hubs_pass_on_and_do_not_count(models):
    gossip = Gossip(models)
    gossip.start(3, client=False)
    assert gossip.go(150) == pytest.approx([truth(models[:3] + models[4:])] * 5, rel=1e-6)


def test_sketches_keep_distances():
    """The sketch is linear, the same everywhere, and keeps |v|^2 on average.

    Over draws of S, |S v|^2 has the mean |v|^2 and the promised spread.
    """
    v, w = np.random.default_rng(1).normal(size=(2, 5000))
    one = Sketch(5000, seed=7)
    np.testing.assert_allclose(one(2 * v - w), 2 * one(v) - one(w), atol=1e-10)
    np.testing.assert_array_equal(one(v), Sketch(5000, seed=7)(v))
    ratios = np.array(
        [np.square(Sketch(5000, seed)(v)).sum() / np.square(v).sum() for seed in range(200)]
    )
    assert abs(ratios.mean() - 1) < 4 * np.sqrt(2 / 256 / 200)
    assert 0.7 < ratios.std() / np.sqrt(2 / 256) < 1.3


@pytest.mark.parametrize(
    ("rate", "exchanges"),
    [(0.0, 30), (1.0, 30), (10.0, 37), (20.0, 75), (1000.0, 240)],
    ids=["none", "slow", "crowd", "quick", "fast"],
)
def test_it_wakes_hardly_more_often_than_it_exchanges(rate, exchanges, monkeypatch):
    """Sketches are sent every 16th round, at least every two seconds, at most four a second."""
    now, count = [0.0], [0]
    monkeypatch.setattr("peerloom.peers.agreement.time.monotonic", lambda: now[0])
    telemetry = Telemetry(0, 10**9, (0,))
    agreement = Agreement(None, telemetry, 5, 3, True)
    monkeypatch.setattr(agreement, "exchange", lambda: count.__setitem__(0, count[0] + 1))
    pause, woken = 0.25, 0
    while now[0] + pause < 60.0:
        now[0] += pause
        telemetry.round = int(rate * now[0])
        pause, woken = agreement.work(), woken + 1
        assert 0.25 <= pause <= 2.0
    assert count[0] == pytest.approx(exchanges, rel=0.1)
    assert woken <= 2.1 * count[0], "it need not look again and again"
    telemetry.round = 10**9
    assert agreement.work() is None
