"""Experiments whose rows run as peers over a network in memory, and checks of the results."""

import time
from dataclasses import replace

import numpy as np
import torch
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import ANQ, Coordinates, SignTopK
from peerloom.config import spec_hash
from peerloom.core.events import each_round
from peerloom.peers.decisions import read_decisions
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.replay import replay
from peerloom.peers.wire_plan import WirePlan
from peerloom.rules import RULES
from peerloom.runtime import iterate
from peerloom.schedules import Bernoulli, OneNode, Participation, Sampled
from peerloom.testing import graph_for
from peerloom.transport import Link, Member, Roster, RunIdentity, Settings
from tests.doubles.memory import Faults, MemoryNetwork
from tests.every_rule import EVERY

MESSAGES = {
    "CHOCO": SignTopK(0.4),
    "ANQNIDS": ANQ(),
    "PaME": Coordinates(0.5),
    "SpodGT": Coordinates(0.5),
}


def experiment(name, rounds=8, **changes):
    rule = RULES[name](**EVERY[name])
    graph = graph_for(rule)
    exp = pl.Experiment(
        graph, pl.testing.random_quadratic(graph.clients, 5), rule, Bernoulli(nodes=0.6, links=0.6),
        MESSAGES.get(name, pl.messages.Dense()), rounds=rounds, seed=2, dtype="float64",
    )  # fmt: skip
    return replace(exp, **changes)


def _varied(name, label, rows=6, **changes):
    """An experiment of a rule whose settings, data or schedule are not those of `experiment`."""
    rule = changes.pop("algorithm", None) or RULES[name](**EVERY[name])
    hubs = pl.graphs.hubs(pl.graphs.from_edges(1, []), [rows])
    given = {
        "graph": hubs if rule.needs.one_hub else pl.graphs.ring(rows),
        "problem": BATCHES,
        "schedule": Bernoulli(nodes=0.6, links=0.6),
        "rounds": 8, "seed": 2, "dtype": "float64", "label": label,
    }  # fmt: skip
    return pl.Experiment(algorithm=rule, **given | changes)


BATCHES = pl.problems.Classification(
    "softmax", partition=pl.problems.Labels(2), batch=(4, 8, 4, 2, 8, 6), replace=False
)
RATES = (0.01, 0.02, pl.rates.InverseSqrt(0.05, 3.0), 0.01, 0.03, 0.01)
ABLE = Bernoulli(nodes=(1.0, 0.1, 0.5, 1.0, 0.3, 0.9), links=0.5)

# Rules with batches of their own sizes, and with settings that `EVERY` leaves at their defaults.
VARIED = [
    _varied("ProxGTSRO", "ProxGT-SR-O, batches"),
    _varied("ProxGTSRE", "ProxGT-SR-E, batches"),
    _varied("PMGTSVRG", "PMGT-SVRG, batches"),
    _varied("AcceleratedDSMT", "accelerated DSMT"),
    _varied("Chebyshev", "Chebyshev, batches"),
    _varied(
        "QuantisedDFedAvgM", "quantised DFedAvgM", message=pl.messages.Quantised(4),
        algorithm=RULES["QuantisedDFedAvgM"](lr=0.05, K=3, theta=0.5),
    ),
    _varied("KGT", "K-GT's start", algorithm=RULES["KGT"](lr=0.05, start="gradients")),
    _varied("FedDR", "FedDR in part", schedule=Participation(0.4)),
    _varied("FedADMM", "FedADMM in part", schedule=Participation(0.4)),
    _varied(
        "SpodGT", "Spod-GT by client", message=Coordinates((0.2, 0.4, 0.6, 0.8, 1.0, 0.2)),
        algorithm=RULES["SpodGT"](lr=RATES),
    ),
    _varied(
        "PaME", "PaME by client", message=Coordinates((0.2, 0.4, 0.6, 0.8, 1.0, 0.2)),
        schedule=Sampled((1, 2, 1, 3, 1, 2), (0.5, 1.0, 0.5, 1.0, 0.5, 0.5)),
        algorithm=RULES["PaME"](
            (3.0, 4.0, 5.0, 6.0, 3.0, 4.0), (1.0, 1.1, 1.0, 1.2, 1.0, 1.05)
        ),
    ),
    _varied(
        "LocalAdamW", "LocalAdamW by client",
        algorithm=RULES["LocalAdamW"](RATES, K=2, moments="mixed"),
    ),
    _varied("PaME", "first to respond", schedule=Sampled(2, 0.5, resources=ABLE)),
    _varied(
        "DSpodFL", "rising",
        schedule=Bernoulli(nodes=0.3, links=0.6, nodes_follow=pl.rates.InverseSqrt(0.1, 5)),
    ),
    _varied("GossipPushPull", "one node", schedule=OneNode()),
]  # fmt: skip


def simulated(exp):
    *_, last = iterate(exp, path="links")
    return last


def roster_for(graph, identities):
    members = tuple(
        Member(f"row-{k}", identity.certificate.decode())
        for k, identity in enumerate(identities[: graph.rows])
    )
    ids = [member.id for member in members]
    links = tuple(
        Link(ids[s], ids[d], float(a), float(b), layer)
        for layer, part in graph.layers.items()
        for s, d, a, b in zip(part.src, part.dst, part.a, part.b, strict=True)
    )
    return Roster(identities[0].id, 1, 0, members, links).signed(identities[0])


def run_in_memory(
    exp,
    identities,
    folder,
    faults=None,
    seed=0,
    crashes=(),
    deadline=None,
    free=False,
    pause=None,
    upgrades=(),
    seen=None,
    large=None,
    largest_norm=None,
    timed=None,
    pace=None,
    enough=None,
    instead=None,
):
    """Run every row as a program over a seeded network; the results in row order.

    `upgrades` are (time, row, newest version): what the row speaks when it is next started.
    `seen` is called with every network event. Rows of `large` bytes and more lie in files.
    `timed` is called with the row and the time on the network's clock after every round.
    `pace` are the seconds that a round of each row takes, besides what it waits for. A round goes
    on with a share of `enough` of the neighbours. `instead` has, by row, what runs in place of the
    engine: a function of the row's endpoint.
    """
    roster = roster_for(exp.graph, identities)
    ids = [member.id for member in roster.members]
    plan = WirePlan.of(exp, deadline, free, largest_norm, enough)
    if large is not None:
        plan = replace(plan, large=large)
    run = RunIdentity("test", spec_hash(exp), plan.channels)
    chosen = plan.settings(Settings(wait=600.0))
    network = MemoryNetwork(roster, run, seed, faults, chosen, on_event=seen, scratch=folder)
    for at, row, newest in upgrades:
        network.upgrade(at, ids[row], newest)

    def program(row):
        def go(post):
            keep = PeerFolder(folder / str(row), spec_hash(exp))
            # Without waiting all rounds would take no time at all: here a round takes a while, and
            # not the same on all rows.
            paces = [0.01 * (1 + row % 3) for row in range(exp.graph.rows)] if free else pace
            slow = (
                [each_round(lambda t: post.wait_for_arrivals(10**12, paces[row]))] if paces else []
            )
            if timed is not None:
                slow.append(each_round(lambda t: timed(row, network.now)))
            return PeerRun(exp, row, post, keep, plan, observers=slow, pause=pause).run()

        return go

    found = network.run(
        {id: (instead or {}).get(row) or program(row) for row, id in enumerate(ids)},
        [(at, ids[row], rest) for at, row, rest in crashes],
    )
    return [found[id] for id in ids]


def check_same(exp, results):
    last = simulated(exp)
    for name in last.state._fields:
        found = torch.cat([getattr(result.state, name) for result in results])
        assert torch.equal(found, getattr(last.state, name)), name
    for name, values in last.ledger.arrays().items():
        assert np.array_equal(sum(result.ledger.arrays()[name] for result in results), values), name


crashes = st.lists(
    st.tuples(st.floats(0.01, 3.0), st.integers(0, 6), st.floats(0.0, 1.0)), max_size=4
)


def decisions_of(exp, folder):
    journals = {row: folder / str(row) / "decisions.jsonl" for row in range(exp.graph.rows)}
    return {row: read_decisions(path) if path.exists() else [] for row, path in journals.items()}


def check_replay(exp, folder, results):
    """The simulator, told what the peers decided, ends with their bits and their account."""
    made = decisions_of(exp, folder)
    state, ledger = replay(exp, made)
    for name in state._fields:
        assert torch.equal(
            torch.cat([getattr(result.state, name) for result in results]), getattr(state, name)
        ), name
    for name, values in ledger.arrays().items():
        assert np.array_equal(sum(result.ledger.arrays()[name] for result in results), values), name
    return [decision for decisions in made.values() for decision in decisions]


SLOW = Faults(breaks=0.03, delay=(0.001, 0.2))


def wait_for(true, seconds=90.0):
    """Call `true` until what it returns is true, and return that."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return found
