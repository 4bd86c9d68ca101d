"""Running sums keep mass and mean under loss, duplication, reordering and rollback."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.peers.floats import float_channel, from_body, to_body
from peerloom.transport import Flow, Inflow, Outflow, Parcel, RunIdentity
from tests.doubles.memory import Faults, MemoryNetwork
from tests.federation import LENGTH, federation

BAD = Faults(breaks=0.05, delay=(0.0, 0.1))
N, MASS, STATE = 5, 0, 1
RUN = RunIdentity(
    "sums",
    "spec",
    {MASS: float_channel("float64", [LENGTH]), STATE: float_channel("float64", [LENGTH])},
)
DIGRAPH = federation(N, [(i, (i + 1) % N) for i in range(N)] + [(i, (i + 2) % N) for i in range(N)])
GRAPH = federation(N, [(i, (i + k) % N) for i in range(N) for k in (1, -1)])


class Tracker:
    """A peer that pushes shares of its value to its targets, and keeps checkpoints of its own."""

    def __init__(self, network, peer, value):
        self.network, self.peer, self.value, self.round = network, peer, value, 0
        self.post = network.endpoint(peer)
        self.out = {target: Outflow(LENGTH) for target in self.post.roster.targets(peer)}
        self.into = {source: Inflow(LENGTH) for source in self.post.roster.sources(peer)}
        self.save()
        self.post.start()

    def save(self):
        self.saved = (
            self.value.copy(),
            {peer: out.sigma for peer, out in self.out.items()},
            {peer: (into.rho.copy(), into.order) for peer, into in self.into.items()},
        )

    def crash(self):
        """Back to the own checkpoint, in a new life; nobody is told."""
        self.value = self.saved[0].copy()
        for peer, sigma in self.saved[1].items():
            self.out[peer].restore(sigma)
        for peer, (rho, order) in self.saved[2].items():
            self.into[peer].restore(rho, order)
        self.post = self.network.endpoint(self.peer)
        self.post.start()
        self.push(0.0)

    def hear(self):
        for peer, into in self.into.items():
            letter = self.post.newest(peer, MASS)
            came = letter and into.receive(from_body(letter.body, "float64"), letter.order)
            if came is not None:
                self.value = self.value + came

    def push(self, share):
        self.round += 1
        for peer, out in self.out.items():
            amount = share * self.value
            self.value = self.value - amount
            self.post.send(
                peer, Parcel(MASS, self.round, 0, to_body(out.push(amount))), mode="latest"
            )

    def work(self):
        self.hear()
        self.push(0.3)

    def sigma(self, target):
        return self.out[target].sigma


class Averager(Tracker):
    """Symmetric mixing: the lower id of each link moves differences, the other shows its value."""

    def __init__(self, network, peer, value):
        self.flow = {other: Flow(LENGTH) for other in GRAPH.targets(peer) if peer < other}
        super().__init__(network, peer, value)

    def save(self):
        super().save()
        self.flows = {other: (flow.out.sigma, flow.met) for other, flow in self.flow.items()}

    def crash(self):
        for other, (sigma, met) in self.flows.items():
            self.flow[other].restore(sigma, met)
        super().crash()

    def push(self, share):
        self.round += 1
        for other in self.out:
            if other in self.flow:
                letter = self.post.newest(other, STATE) if share else None
                flow = letter and self.flow[other].meet(
                    self.value, from_body(letter.body, "float64"), share, letter.order
                )
                if flow is not None:
                    self.value = self.value + flow
                self.post.send(
                    other, Parcel(MASS, self.round, 0, to_body(self.sigma(other))), mode="latest"
                )
        for other in self.out:
            if other not in self.flow:
                self.post.send(
                    other, Parcel(STATE, self.round, 0, to_body(self.value)), mode="latest"
                )

    def sigma(self, target):
        return self.flow[target].out.sigma if target in self.flow else np.zeros(LENGTH)


def defect(peers, total):
    """How far the values and what is in transit are from what there was at the beginning."""
    transit = sum(
        peer.sigma(target) - peers[target].into[peer.peer].rho
        for peer in peers.values()
        for target in peer.out
    )
    return (
        np.abs(sum(peer.value for peer in peers.values()) + transit - total).max()
        / np.abs(total).max()
    )


def begin(kind, roster, seed):
    network = MemoryNetwork(roster, RUN, seed, BAD)
    draws = np.random.default_rng(seed)
    peers = {
        member.id: kind(network, member.id, draws.normal(size=LENGTH) + 3)
        for member in roster.members
    }
    return network, peers, sum(peer.value for peer in peers.values())


ACTIONS = st.sampled_from(["work", "work", "work", "save", "crash", "time"])
STEPS = st.lists(st.tuples(st.integers(0, N - 1), ACTIONS), max_size=80)


@settings(max_examples=40)
@given(STEPS, st.integers(0, 2**32), st.booleans())
def test_mass_is_kept_at_every_moment(steps, seed, symmetric):
    network, peers, total = begin(*((Averager, GRAPH) if symmetric else (Tracker, DIGRAPH)), seed)
    for who, what in steps:
        if what == "time":
            network.pass_time(0.15)
        else:
            getattr(list(peers.values())[who], what)()
        assert defect(peers, total) <= 1e-12


def test_flows_lead_to_the_mean_of_the_beginning():
    network, peers, total = begin(Averager, GRAPH, 3)
    draws = np.random.default_rng(4)
    for step in range(1500):
        peer = list(peers.values())[draws.integers(N)]
        what = (
            "crash"
            if draws.random() < 0.01 and step < 1000
            else ("save" if draws.random() < 0.1 else "work")
        )
        getattr(peer, what)()
        network.pass_time(0.05)
    network.pass_time(2.0)
    for peer in peers.values():
        peer.hear()
    values = np.array([peer.value for peer in peers.values()])
    assert np.abs(values - total / N).max() < 1e-9
    assert defect(peers, total) <= 1e-12


def test_plain_increments_lose_what_running_sums_keep():
    """The check can fail: the same network without sums loses mass for good."""
    network, peers, total = begin(Tracker, DIGRAPH, 3)
    for _ in range(30):
        for peer in peers.values():
            for target, out in peer.out.items():
                out.reset()  # an increment instead of a sum
                peers[target].into[peer.peer].reset()
            peer.work()
        network.pass_time(0.05)
    assert defect(peers, total) > 1e-3


def test_a_sigma_is_never_changed_after_it_was_sent():
    out = Outflow(2)
    sent = out.push(np.ones(2))
    out.push(np.ones(2))
    assert (sent == 1).all()
    assert not sent.flags.writeable
    assert out.sigma.dtype == np.float64


def test_sums_start_anew_with_an_epoch():
    out, into, flow = Outflow(1), Inflow(1), Flow(1)
    into.receive(out.push(np.ones(1)), (0, 1, 1))
    flow.meet(np.zeros(1), np.ones(1), 0.5, (0, 1, 1))
    for part in (out, into, flow):
        part.reset()
    assert (out.sigma, into.rho, flow.out.sigma) == (0, 0, 0)
    assert into.receive(np.ones(1), (0, 1, 1)) == 1
    assert flow.meet(np.zeros(1), np.ones(1), 0.5, (0, 1, 1)) == 0.5
    assert flow.meet(np.zeros(1), np.ones(1), 0.5, (0, 1, 1)) is None


def test_roundings_of_a_long_sum_do_not_add_up():
    """However many amounts crossed a link, the total is off by its last digit at most."""
    amounts = np.random.default_rng(3).uniform(0.1, 1.0, (20_000, 2))
    amounts[::7] *= -1e3  # larger than the sum itself, at first
    out, into = Outflow(2), Inflow(2)
    came = [into.receive(out.push(amount), (0, 1, k + 1)) for k, amount in enumerate(amounts)]
    for column in range(2):
        error = math.fsum(c[column] for c in came) - math.fsum(amounts[:, column])
        assert abs(error) <= np.spacing(abs(out.sigma[column]))
