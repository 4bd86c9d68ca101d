"""`resources = "measured"`: peers' measurements decide who acts, and can be replayed."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.config import comparison_from, experiment_to_toml, spec_hash
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.peers.experiments import run_folder
from peerloom.peers.federation import Federation
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.resources import (
    FILE,
    check_measurable,
    measure_resources,
    probe_channels,
    read_seconds,
    restore_resources,
)
from peerloom.peers.wire_plan import WirePlan
from peerloom.runs import RunFolder
from peerloom.schedules import (
    Always,
    Bernoulli,
    Cycle,
    HubRounds,
    Measured,
    Replay,
    Sampled,
    Split,
    from_seconds,
    with_measured,
)
from peerloom.transport import RunIdentity, Settings
from tests.doubles.memory import MemoryNetwork
from tests.memory_runs import SLOW, check_same, crashes, experiment, roster_for, wait_for

MEASURED = {"schedule": Measured(), "resources": None}


# -- the equation


@pytest.mark.parametrize(
    "graph", [pl.graphs.ring(5), pl.graphs.random_digraph(5, p=0.4, seed=1)], ids=lambda g: g.name
)
def test_the_fastest_has_probability_one_and_the_others_in_proportion(graph):
    rng, links = np.random.default_rng(3), graph.peers
    gradient, message = rng.uniform(0.001, 0.05, graph.rows), rng.uniform(0.01, 0.4, len(links))
    found = from_seconds(graph, gradient, {"peers": message}).bind(graph, Draws(0))
    by_link = {
        (s, d): t
        for s, d, t in zip(links.src.tolist(), links.dst.tolist(), message.tolist(), strict=True)
    }
    slower = {
        (s, d): t if graph.directed else max(t, by_link[d, s]) for (s, d), t in by_link.items()
    }
    least = min(slower.values())
    for i in range(graph.rows):
        assert found.node_probability(1)[i] == pytest.approx(
            max(0.01, min(gradient) / gradient[i]), rel=1e-15
        )
    for e, (s, d) in enumerate(zip(links.src.tolist(), links.dst.tolist(), strict=True)):
        assert found.link_probability(1, "peers")[e] == pytest.approx(
            max(0.01, least / slower[s, d]), rel=1e-15
        )
    assert found.node_probability(1).max() == found.link_probability(1, "peers").max() == 1.0


def test_hubs_have_links_but_no_gradients():
    graph = pl.graphs.hubs(pl.graphs.ring(3), workers=[2, 1, 2])
    message = {name: np.arange(1.0, len(links) + 1) for name, links in graph.layers.items()}
    found = from_seconds(graph, np.array([1.0, 2.0, 4.0, 1.0, 1.0]), message).bind(graph, Draws(0))
    assert found.node_probability(1).tolist() == [1.0, 0.5, 0.25, 1.0, 1.0]
    # Directed: each its own.
    assert found.link_probability(1, "down").tolist() == [1 / k for k in range(1, 6)]


def test_what_was_measured_takes_its_place_wherever_it_is_asked_for():
    found = Bernoulli(0.3, 0.7)
    split = with_measured(Split(nodes=Measured(), links=HubRounds(tau=4)), found)
    assert split.nodes is found
    assert split.links.tau == 4
    assert with_measured(Cycle(resources=Measured()), found).resources is found
    assert with_measured(always := Always(), found) is always
    exp = experiment("DFedAvg", **MEASURED)
    assert exp.measures
    assert not exp.measured(found).measures
    # Presets plan on it.
    assert exp.measured(Bernoulli(0.25, 1.0)).active_schedule.resources.nodes == 0.25


# -- where there is nothing to measure


FILE_TEXT = """
rounds = 5
resources = "measured"
[graph]
name = "ring"
clients = 4
[problem]
name = "Classification"
[algorithm]
name = "DSpodFL"
lr = 0.1
"""


def test_a_file_says_it_in_one_line():
    (exp,) = comparison_from(tomllib.loads(FILE_TEXT)).experiments
    assert exp.schedule == exp.resources == Measured()
    (again,) = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments
    assert spec_hash(again) == spec_hash(exp)
    # The schedule decides; what is measured is its cost.
    (other,) = comparison_from(tomllib.loads(FILE_TEXT) | {"schedule": "Always"}).experiments
    assert other.schedule == Always()
    assert other.resources == Measured()
    assert other.measures


def test_the_simulator_refuses_it_and_leaves_nothing_behind(tmp_path):
    for changes in (MEASURED, {"resources": Measured()}, {"schedule": Split(nodes=Measured())}):
        exp = experiment("DSpodFL", **changes)
        with pytest.raises(ConfigError, match="nothing to measure"):
            pl.simulate(exp, out=tmp_path / "run")
        with pytest.raises(ConfigError, match="nothing to measure"):
            next(pl.iterate(exp))
    assert not (tmp_path / "run").exists()


def test_where_not_all_hear_of_all_it_is_refused():
    one_way = pl.graphs.from_edges(3, [(0, 1), (1, 2)], directed=True)
    exp = replace(
        experiment("SpodGT"),
        graph=one_way,
        problem=pl.testing.random_quadratic(3, 5),
        schedule=Measured(),
    )
    with pytest.raises(ConfigError, match="strongly connected"):
        check_measurable(exp)
    check_measurable(experiment("SpodGT", **MEASURED))
    check_measurable(experiment("MLLSGD", **MEASURED))


# -- between peers, in memory


def run_measured(exp, identities, folder, seed, crashes, deadline=None):
    roster = roster_for(exp.graph, identities)
    ids = [member.id for member in roster.members]
    plan = WirePlan.of(exp, deadline)
    run = RunIdentity("test", spec_hash(exp), plan.channels | probe_channels(exp, plan))
    network = MemoryNetwork(roster, run, seed, SLOW, plan.settings(Settings(wait=600.0)))

    def program(row):
        def go(post):
            keep = PeerFolder(folder / str(row), spec_hash(exp))
            found = measure_resources(exp, row, post, keep.path, plan)
            return PeerRun(found, row, post, keep, plan).run()

        return go

    found = network.run(
        {id: program(row) for row, id in enumerate(ids)},
        [(at, ids[row], rest) for at, row, rest in crashes],
    )
    return [found[id] for id in ids]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    crashes=crashes,
    name=st.sampled_from(["DSpodFL", "SpodGT", "MLLSGD", "DFedAvg", "PaME"]),
)
@example(seed=1, crashes=[(0.5, 2, 0.1)], name="PaME")
def test_all_peers_agree_on_one_table_also_after_crashes(
    seed, crashes, name, identities, tmp_path_factory
):
    exp, folder = experiment(name, rounds=12, **MEASURED), tmp_path_factory.mktemp("measured")
    if name == "PaME":  # it hears those that respond first
        exp = replace(exp, schedule=Sampled(2, 0.5, resources=Measured()))
    results = run_measured(exp, identities, folder, seed, crashes)
    tables = [read_seconds(folder / str(row) / FILE, exp.graph) for row in range(exp.graph.rows)]
    assert tables[0].all()
    assert all(np.array_equal(tables[0], table) for table in tables)
    check_same(restore_resources(exp, folder / "0"), results)


# -- between processes


@pytest.mark.slow
@pytest.mark.usefixtures("small_threads")
def test_a_slow_peer_acts_seldom_and_the_record_can_be_replayed(tmp_path):
    """200 times the samples take longer, and a killed peer goes on with what it measured."""
    problem = pl.problems.Classification(
        data=pl.problems.DATA["blobs"](samples=40_000, features=40),
        partition=pl.problems.BySize((1, 1, 1, 200)),
        batch="all",
    )
    rule = pl.rules.DSpodFL(lr=0.1)
    exp = pl.Experiment(
        pl.graphs.ring(4),
        problem,
        rule,
        Measured(),
        rounds=80,
        dtype="float64",
        evaluate=pl.Evaluate(80),
    )
    federation = Federation(exp, tmp_path / "run")
    place = run_folder(federation.homes[1], federation.exp)
    with federation.no_orphans():
        for row in range(3):
            federation.start(row)
        # The status says so.
        wait_for(lambda: federation.status() and federation.status()[0]["status"] == "measuring")
        federation.start(3)
        wait_for((place / FILE).exists)
        federation.kill(1)
        told = read_seconds(place / FILE, exp.graph)
        federation.start(1)
        federation.wait()
    federation.collect()
    assert np.array_equal(read_seconds(place / FILE, exp.graph)[told > 0], told[told > 0])
    found = restore_resources(federation.exp, place)
    able = found.schedule.bind(exp.graph, Draws(exp.seed)).node_probability(1)
    assert able[3] < 0.5 * able[:3].min()
    assert able.max() == 1.0

    again = pl.simulate(
        replace(exp, schedule=Replay(str(tmp_path / "run")), resources=Measured()), path="links"
    )
    straight = pl.simulate(found, path="links")
    file = safetensors.numpy.load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert np.array_equal(file["state/x"], again.state.x.numpy())
    assert torch.equal(again.state.x, straight.state.x)
    for (
        name,
        values,
    ) in again.ledger.arrays().items():  # what it cost, too: the record knows what was measured
        assert np.array_equal(file[f"ledger/{name}"], values), name
    assert again.ledger.rows.gradients[3] < 40
    assert (
        "measured: row 3 is able to compute in"
        in (federation.homes[3].folder / "log.txt").read_text()
    )
    drawn = RunFolder(tmp_path / "run").read().network
    assert drawn["node_probability"] == able.tolist()
