"""What every peer learns of all, by gossip: held to the truth, which only a test can see."""

import numpy as np
import pytest
import torch

from peerloom.peers.agreement import AGREEMENT, LARGEST, Agreement, Sketch, agreement_channel
from peerloom.peers.floats import to_body
from peerloom.peers.telemetry import Telemetry
from peerloom.transport import Parcel, RunIdentity
from tests.doubles.memory import Faults, MemoryNetwork
from tests.federation import federation, identity

RING = [(k, (k + 1) % 5) for k in range(5)]
BOTH = [*RING, *((b, a) for a, b in RING)]


def truth(models, masses=None):
    """sum_i m_i |x_i - mean x|^2 / sum_i m_i, in plain loops."""
    masses = masses or [1.0] * len(models)
    mean = sum(m * x for m, x in zip(masses, models, strict=True)) / sum(masses)
    return sum(
        m * float(sum((value - middle) ** 2 for value, middle in zip(x, mean, strict=True)))
        for m, x in zip(masses, models, strict=True)
    ) / sum(masses)


class Gossip:
    """Peers of a network in memory, each with a model that may change."""

    def __init__(self, models, pairs=BOTH, faults=None, seed=1):
        self.models, self.masses, n = models, [1.0] * len(models), len(models[0])
        self.roster = federation(len(models), pairs)
        self.ids = [member.id for member in self.roster.members]
        run = RunIdentity("run", "spec", {AGREEMENT: agreement_channel(n)})
        self.network = MemoryNetwork(self.roster, run, seed, faults)
        self.posts, self.ends = {}, {}
        for k in range(len(models)):
            self.start(k)

    def start(self, k):
        self.posts[k] = self.network.endpoint(self.ids[k])
        self.posts[k].start()
        telemetry = Telemetry(k, 10, (0,), model=(torch.from_numpy(self.models[k]), 1.0))
        self.ends[k] = Agreement(self.posts[k], telemetry, len(self.models[k]), 3)

    def go(self, times):
        for _ in range(times):
            for k, end in self.ends.items():
                end._telemetry.model = torch.from_numpy(self.models[k]), self.masses[k]
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
    gossip.masses[3] = 0.0
    assert gossip.go(150) == pytest.approx([truth(models[:3] + models[4:])] * 5, rel=1e-6)


def test_models_count_by_their_masses_which_may_change(models):
    gossip = Gossip(models)
    for masses in ([0.25, 4.5, 0.5, 0.75, 1.0], [2.0, 0.1, 0.4, 1.0, 1.5]):
        gossip.masses = masses
        assert gossip.go(150) == pytest.approx([truth(models, masses)] * 5, rel=1e-6)


@pytest.mark.parametrize("large", [1e100, 1e160, 1e308])
def test_an_overflow_is_no_estimate_and_says_why(large, models):
    """One model diverges: nobody may show 0.0, which is what perfect agreement looks like."""
    gossip = Gossip(models)
    assert None not in gossip.go(50)
    gossip.models[2] = np.full(20, large)
    for _ in range(40):
        for found in gossip.go(1):
            assert found is None or found > 0.0
    telemetry = gossip.ends[2]._telemetry
    assert (telemetry.consensus, telemetry.distance) == (None, None)
    assert "diverged" in telemetry.agreement_unknown
    gossip.models[2] = models[1]
    without = gossip.roster.without_member(identity(0), "peer-4")
    for post in gossip.posts.values():
        post.consider(without)
    del gossip.ends[4]
    ends = gossip.go(150)
    assert ends == pytest.approx([truth(gossip.models[:4])] * 4, rel=1e-6), "it began anew"
    assert gossip.ends[2]._telemetry.agreement_unknown == ""


@pytest.mark.parametrize("lie", [1e149, -1e149, 1e153, 1e308, -1e308])
def test_a_member_that_lies_breaks_no_estimate(lie, models):
    """Whatever a member passes on, others show a number or none, and go on without a warning."""
    gossip = Gossip([models[0]] * 5)
    gossip.go(60)
    liar, length = gossip.posts.pop(0), agreement_channel(20).longest // 8
    del gossip.ends[0]
    for turn in range(20):
        numbers = np.full(length, lie if turn % 2 else -lie)
        numbers[-1] = gossip.roster.version
        for peer in (gossip.ids[1], gossip.ids[4]):
            liar.send(peer, Parcel(AGREEMENT, 0, 0, to_body(numbers)), mode="latest")
        for found in gossip.go(1):
            assert found is None or 0.0 <= found < np.inf
    assert all(np.isfinite(end._telemetry.distance or 0.0) for end in gossip.ends.values())
    refused = [gossip.posts[k].refusals().get("norm", 0) for k in (1, 4)]
    assert all(refused) == (abs(lie) > LARGEST), "by its own bound, whatever the site's is"


def test_an_estimate_below_zero_is_unsettled_not_perfect(models):
    gossip = Gossip(models)
    gossip.go(1)
    telemetry, end = gossip.ends[0]._telemetry, gossip.ends[0]
    end._mean.exchange = lambda own, mass: np.append(np.zeros(20), -3.0)
    end.exchange()
    assert telemetry.consensus is None
    assert "does not add up" in telemetry.agreement_unknown
    end._mean.exchange = lambda own, mass: np.append(np.zeros(20), -1e-13)
    end.exchange()
    assert (telemetry.consensus, telemetry.agreement_unknown) == (0.0, "")


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
    agreement = Agreement(None, telemetry, 5, 3)
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
