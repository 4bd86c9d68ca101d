"""`peerloom advise` as users meet it: suggestions, coverage, findings, scale."""

import io
import json
import re
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from rich.console import Console

from peerloom import graphs
from peerloom.cli.advice import render
from peerloom.cli.advise import advise_command
from peerloom.codecs import Coordinates, Quantised, TopK
from peerloom.config import comparison_from
from peerloom.core import ConfigError, Cosine, Draws, InverseSqrt, Links, Warmup
from peerloom.problems import MCP, Classification, Quadratic
from peerloom.rules import (
    CHOCO,
    D2,
    DGD,
    MLLSGD,
    NIDS,
    Depositum,
    DSpodFL,
    LocalAdamW,
    PaME,
    SpodGT,
)
from peerloom.schedules import (
    Always,
    Bernoulli,
    Every,
    Explicit,
    HubRounds,
    OneNode,
    Sampled,
    Split,
    distributions,
)
from peerloom.theory import advise, advise_all
from peerloom.theory.activity_rates import activity_rates
from peerloom.theory.contraction import pull_rate
from peerloom.theory.improve import better_weights, new_links, slopes, surer_links
from peerloom.theory.matrices import pull_moment
from tests.builders import experiment, quadratic, undirected_graphs
from tests.command import peerloom

ROOT = Path(__file__).parents[2]
ALIKE = Quadratic(np.tile(np.eye(2), (6, 1, 1)), np.ones((6, 2)))


# Suggestions


def best_by_hand(links, p, now):
    """Every link made sure, one after another, in a loop."""
    rates = {}
    for coin in np.unique(links.coin):
        mine = links.coin == coin
        if p[mine][0] < 1:
            rates[int(coin)] = pull_rate(links, np.where(mine, 1.0, p))[0]
    return min(rates.values(), default=now)


@given(undirected_graphs(least=3, most=7))
def test_the_link_that_helps_most_when_it_fires_more_often_is_found(graph):
    links = graph.peers
    _, at = np.unique(links.coin, return_inverse=True)
    p = np.random.default_rng(len(links)).uniform(0.05, 0.95, at.max() + 1)[at]
    now, worst = pull_rate(links, p)
    found = surer_links(links, p, worst, now)
    assert found[0].contraction <= best_by_hand(links, p, now) + 0.02 * (1 - now)
    assert all(one.contraction < now for one in found)


@given(undirected_graphs(least=3, most=6))
def test_slopes_of_the_contraction_are_difference_quotients(graph):
    links, rng = graph.peers, np.random.default_rng(len(graph.peers))
    p, x, phi = (
        rng.uniform(0.1, 0.9, len(links)),
        rng.normal(size=graph.rows),
        rng.uniform(0.5, 1, graph.rows),
    )
    for e in range(len(links)):
        up, down = (p + h * (np.arange(len(links)) == e) for h in (1e-5, -1e-5))
        by_hand = (x @ pull_moment(links, up, phi)(x) - x @ pull_moment(links, down, phi)(x)) / 2e-5
        assert slopes(links, p, x, phi)[e] == pytest.approx(by_hand, abs=1e-6)


def test_a_ring_on_a_path_is_closed_first():
    links = graphs.path(8).peers
    now, worst = pull_rate(links, np.ones(len(links)))
    first, *_ = new_links(links, np.ones(len(links)), worst, now)
    assert {first.source, first.target} == {0, 7}
    assert first.contraction == pytest.approx(pull_rate(graphs.ring(8).peers, np.ones(16))[0])
    assert surer_links(links, np.ones(len(links)), worst, now) == []


def test_hubs_in_a_line_are_closed_first():
    graph = graphs.hubs(graphs.path(6), [2, 1, 1, 1, 1, 2])
    rhythm_of_hubs = HubRounds(tau=2, q=2)
    found = advise(
        experiment(graph, MLLSGD(lr=0.1), problem=quadratic(8), schedule=rhythm_of_hubs)
    ).changes
    first = found.fresh[0]
    assert {first.source, first.target} == {0, 5}
    wider = graphs.hubs(graphs.ring(6), [2, 1, 1, 1, 1, 2])
    again = advise(experiment(wider, MLLSGD(lr=0.1), problem=quadratic(8), schedule=rhythm_of_hubs))
    assert first.contraction == pytest.approx(again.contraction.all_on)
    assert first.contraction < found.now


def test_weights_of_ones_own_get_no_new_links():
    own = graphs.from_matrix([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]).peers
    now, worst = pull_rate(own, np.ones(4))
    assert new_links(own, np.ones(4), worst, now) is None


def test_the_best_weights_of_a_ring_and_a_path_are_found():
    """A ring's best weight balances the ends of the spectrum; a path's is 1/2: cos(pi / n)."""
    ring, path = graphs.ring(10).peers, graphs.path(6).peers
    w = 2 / (6 - 2 * np.cos(2 * np.pi / 10))
    found, weights = better_weights(ring, np.ones(20), 1.0)
    assert found == pytest.approx((1 - 4 * w) ** 2, abs=2e-3)
    assert weights == pytest.approx(w, abs=0.02)
    assert better_weights(path, np.ones(10), 1.0)[0] == pytest.approx(
        np.cos(np.pi / 6) ** 2, abs=2e-3
    )


@given(undirected_graphs(least=3, most=8))
def test_better_weights_are_weights_and_are_better(graph):
    links = graph.peers
    p = np.full(len(links), 0.6)
    now, _ = pull_rate(links, p)
    found, w = better_weights(links, p, now)
    # Refuses what is no weight.
    mine = Links.make(links.rows, links.src, links.dst, w, w, one_coin=True)
    assert pull_rate(mine, p)[0] == pytest.approx(found, abs=1e-9)
    assert found <= now + 1e-12


# Rates of activity


def test_activity_rates_are_those_of_the_schedule():
    graph = graphs.ring(6)
    half = activity_rates(experiment(graph, schedule=Bernoulli(nodes=0.5, links=0.25)))
    assert (half.nodes == 0.5).all()
    assert (half.coins["peers"] == 0.25).all()
    both = activity_rates(
        experiment(graph, schedule=Split(nodes=Bernoulli(nodes=0.5), links=Every(3)))
    )
    assert (both.period["peers"], both.nodes[0], both.links["peers"][0]) == (
        3,
        0.5,
        pytest.approx(1 / 3),
    )
    table = np.zeros((6, 6))
    table[graph.peers.dst, graph.peers.src] = 1.0
    table[0, 1] = table[1, 0] = 0.0
    assert (
        activity_rates(experiment(graph, schedule=Bernoulli(links=table))).coins["peers"].min() == 0
    )
    written = Explicit(links=np.zeros((11, 6, 6), bool))
    assert activity_rates(experiment(graph, schedule=written)).coins is None
    assert advise(experiment(graph, schedule=written)).rounds_to_agree is None


# Coverage, one run per verdict


def verdict(exp):
    return advise(exp).coverage


def test_dspodfl_is_covered_where_it_is_smooth_and_steps_are_small():
    found = verdict(experiment(graphs.complete(6), DGD(lr=0.01), problem=ALIKE))
    assert (found.holds, found.theorem) == (True, "DSpodFL, Theorem 4.11 (strongly convex)")
    assert found.exact.error == pytest.approx(0, abs=1e-12)
    assert not verdict(experiment(graphs.complete(6), DGD(lr=0.9), problem=ALIKE)).holds
    softmax = Classification("softmax", batch="all")
    rough = verdict(experiment(graphs.complete(6), DGD(lr=1e-4), problem=softmax))
    assert (rough.holds, rough.theorem) == (True, "DSpodFL, Theorem 4.12 (non-convex)")
    assert rough.floor["mean |gradient|^2"] > 0
    assert (
        rough.floor["mean |gradient|^2"]
        < advise(
            experiment(graphs.complete(6), DGD(lr=1e-4), problem=softmax)
        ).constants.gradient.value
        ** 2
    )
    seldom = Bernoulli(nodes=0.3)
    assert "d_min" in " ".join(
        verdict(
            experiment(graphs.complete(6), DSpodFL(lr=1e-4), problem=softmax, schedule=seldom)
        ).fails
    )
    assert (
        "not smooth" in verdict(experiment(graphs.ring(6), problem=Classification("svm"))).fails[0]
    )
    shrinking = verdict(
        experiment(graphs.complete(6), DSpodFL(lr=InverseSqrt(0.001, 100)), problem=ALIKE)
    )
    assert shrinking.holds
    assert not verdict(
        experiment(
            graphs.complete(6), DSpodFL(lr=InverseSqrt(0.001, 100)), problem=ALIKE, schedule=seldom
        )
    ).holds


def test_spod_gt_wants_links_that_all_but_always_fire():
    sure = experiment(graphs.two_way(graphs.complete(6)), SpodGT(lr=1e-6), problem=ALIKE)
    assert verdict(sure).printed > 1e-6
    loose = verdict(
        experiment(
            graphs.directed_ring(6), SpodGT(lr=1e-6), problem=ALIKE, schedule=Bernoulli(links=0.9)
        )
    )
    assert any("Proposition 4.9" in why for why in loose.fails)
    assert any(
        "hold" in why
        for why in verdict(
            experiment(graphs.ring(6), SpodGT(lr=0.1, skip="hold"), problem=ALIKE)
        ).fails
    )


def test_steps_of_several_clients_are_judged_by_the_largest():
    steps = (0.1, InverseSqrt(0.3, 10.0), 0.1, 0.1, 0.2, 0.1)
    found = verdict(experiment(graphs.two_way(graphs.complete(6)), SpodGT(lr=steps), problem=ALIKE))
    assert found.step == 0.3
    assert "the step changes, and the theorem wants a constant one" in found.fails


def test_a_step_that_warms_up_is_judged_by_the_largest_of_the_run():
    lr, hubs = Warmup(5, Cosine(0.3, rounds=50)), graphs.hubs(graphs.ring(3), [2, 2, 2])
    for graph, rule in (
        (graphs.complete(6), DSpodFL(lr)),
        (graphs.two_way(graphs.complete(6)), SpodGT((lr, 0.1, 0.2, 0.1, 0.1, 0.1))),
        (hubs, MLLSGD(lr)),
        (graphs.complete(6), LocalAdamW(lr)),
    ):
        steps = [verdict(experiment(graph, rule, problem=ALIKE, rounds=t)).step for t in (4, 60)]
        assert steps == pytest.approx([0.24, 0.3]), type(rule)


def test_mll_sgd_wants_workers_that_step_often_on_data_that_look_alike():
    graph = graphs.hubs(graphs.ring(3), [2, 2, 2])
    often = HubRounds(tau=1, q=1, nodes=0.9)
    found = verdict(experiment(graph, MLLSGD(lr=1e-3), problem=ALIKE, schedule=often))
    assert found.holds
    assert found.floor["mean |gradient|^2"] == 0  # no noise
    seldom = verdict(
        experiment(graph, MLLSGD(lr=1e-3), problem=ALIKE, schedule=HubRounds(tau=1, nodes=0.5))
    )
    assert "0.5858" in seldom.fails[0]
    other = verdict(experiment(graph, MLLSGD(lr=1e-3), problem=quadratic(6), schedule=often))
    assert "data differ" in other.fails[0]


def test_depositum_wants_small_steps():
    graph, problem = graphs.complete(6), Quadratic(ALIKE.A, ALIKE.b, h=MCP(0.1, 1.0))
    every = Every(1)
    assert verdict(
        experiment(graph, Depositum(alpha=0.005, beta=0.1), problem=ALIKE, schedule=every)
    ).holds
    weak = verdict(
        experiment(graph, Depositum(alpha=0.2, h_scale="beta"), problem=problem, schedule=every)
    )
    assert weak.printed == pytest.approx(1 / 48)
    assert len(weak.fails) == 2
    assert (
        "sporadic"
        in verdict(
            experiment(graph, Depositum(alpha=0.1), problem=ALIKE, schedule=Bernoulli(links=0.5))
        ).fails[0]
    )


def test_pame_is_told_its_growth():
    graph, problem = (
        graphs.complete(32),
        Quadratic(np.tile(np.eye(10), (32, 1, 1)), np.ones((32, 10))),
    )
    options = {
        "problem": problem,
        "schedule": Sampled(kappa=5, fraction=0.19),
        "message": Coordinates(0.2),
    }
    found = verdict(experiment(graph, PaME(sigma=1.0, growth=1.005), **options))
    # The reference value: t = 6 of 31, a fifth of the coordinates.
    assert found.growth == pytest.approx(1.00962, abs=5e-6)
    assert found.holds
    assert not verdict(experiment(graph, PaME(sigma=1.0, growth=1.05), **options)).holds
    assert not verdict(experiment(graph, PaME(sigma=1.0, growth=1.0), **options)).holds
    # Of settings that differ the paper takes the least of each.
    own = PaME(sigma=(1.0, *[2.0] * 31), growth=(1.005, *[1.05] * 31))
    shares = {"message": Coordinates((0.2, *[0.7] * 31))}
    again = verdict(experiment(graph, own, **options | shares))
    assert (again.holds, again.step, again.growth) == (True, found.step, found.growth)
    assert again.notes == found.notes


def test_others_have_a_theory_of_their_own():
    found = verdict(experiment(graphs.ring(6), NIDS(lr=0.1), problem=ALIKE))
    assert not found.holds
    assert found.printed == pytest.approx(2.0)


# Findings


def levels(exp):
    return {(one.level, word) for one in advise(exp).findings for word in one.text.split()}


def test_what_cannot_work_is_said():
    cut = graphs.from_edges(6, [(0, 1), (1, 2), (3, 4), (4, 5)])
    assert "falls into 2 parts" in advise(experiment(cut)).findings[0].text
    one_way = graphs.from_edges(6, [(i, i + 1) for i in range(5)], directed=True)
    assert not advise(experiment(one_way, SpodGT(lr=0.1))).works
    never = np.zeros((6, 6))
    assert not advise(experiment(graphs.ring(6), schedule=Bernoulli(links=never))).works
    swaps = advise(experiment(graphs.ring(6), PaME(sigma=1.0), schedule=Always()))
    assert not swaps.works
    assert "bipartite" in swaps.findings[0].text
    assert advise(experiment(graphs.ring(6), PaME(sigma=1.0), schedule=Sampled(fraction=0.5))).works
    assert not advise(experiment(graphs.ring(6), DSpodFL(lr=50.0), problem=ALIKE)).works
    assert not advise(experiment(graphs.ring(6), schedule=Bernoulli(nodes=0.0))).works
    hubs = graphs.hubs(graphs.from_edges(3, [(0, 1)]), [2, 2, 2])
    assert (
        "hubs' graph"
        in advise(experiment(hubs, MLLSGD(lr=0.1), problem=ALIKE, schedule=HubRounds(2)))
        .findings[0]
        .text
    )


def test_links_that_were_only_not_seen_to_fire_are_no_error():
    """What first rounds show is a sample: rare links may come later."""
    able = Bernoulli(nodes=(1.0, 1.0, 1.0, 1.0, 1.0, 0.01))
    rare = Sampled(fraction=0.2, resources=able)
    found = advise(experiment(graphs.complete(6), PaME(sigma=1.0), schedule=rare, rounds=5))
    assert found.works
    assert any("do not fire in the first 5 rounds" in one.text for one in found.findings)
    found = advise(
        experiment(graphs.ring(40), schedule=OneNode(), rounds=20, problem=quadratic(40))
    )
    assert not any("do not fire" in one.text for one in found.findings), "its rates are known"


def test_what_is_risky_is_said():
    slow = advise(experiment(graphs.path(30), rounds=10, problem=quadratic(30)))
    assert any("Agreement" in one.text for one in slow.findings)
    uneven = advise(experiment(graphs.ring(6), schedule=Bernoulli(nodes=np.linspace(0.1, 1, 6))))
    assert any("counts less" in one.text for one in uneven.findings)
    alike = advise(
        experiment(graphs.ring(6), problem=ALIKE, schedule=Bernoulli(nodes=np.linspace(0.1, 1, 6)))
    )
    assert not any("counts less" in one.text for one in alike.findings)
    redrawn = advise(
        experiment(
            graphs.ring(6), schedule=Bernoulli(nodes=distributions.Uniform(0.5, 1), redraw=5)
        )
    )
    assert any("drawn anew" in one.text for one in redrawn.findings)
    twice = experiment(
        graphs.ring(6),
        schedule=Bernoulli(links=distributions.Uniform(0.1, 1.0), redraw=5),
        rounds=10,
    )
    activity = twice.schedule.bind(twice.graph, Draws(twice.seed))
    each = [pull_rate(twice.graph.peers, activity.link_chance(t, "peers"))[0] for t in (1, 6)]
    assert advise(twice).contraction.per_round == pytest.approx(max(each))
    assert each[0] != each[1]
    two = graphs.from_matrix([[0.0, 1.0], [1.0, 0.0]])
    assert any("-1/3" in one.text for one in advise(experiment(two, D2(lr=0.1))).findings)
    for codec, varies in ((Quantised(), True), (TopK(0.5), False)):
        known = advise(experiment(graphs.ring(6), CHOCO(lr=0.1, gamma=0.1), message=codec))
        assert any("depends on its numbers" in one.text for one in known.findings) is varies


# Scale


@pytest.mark.parametrize(
    "graph",
    [graphs.regular(1000, 6, seed=1), graphs.small_world(1000, seed=1)],
    ids=lambda g: g.name,
)
def test_a_thousand_clients_take_seconds(graph):
    problem = Quadratic(np.tile(np.eye(2), (1000, 1, 1)), np.ones((1000, 2)))
    law = distributions.Uniform(0.2, 1.0)
    started = time.perf_counter()
    found = advise(
        experiment(
            graph, DSpodFL(lr=0.01), problem=problem, schedule=Bernoulli(nodes=law, links=law)
        )
    )
    assert time.perf_counter() - started < 10
    assert found.shape.diameter is not None
    assert 0 < found.contraction.per_round < 1
    assert any("better weights" in text for text in found.skipped)


# The command


@pytest.mark.slow
def test_the_command_without_a_file_speaks_of_the_example(tmp_path):
    done = peerloom("advise", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in (
        "In short",
        "geometric",
        "doubly stochastic",
        "DFedAvg",
        "What would help",
        "Other seeds",
        "not smooth",
    ):
        assert word in done.stdout


@pytest.mark.slow
def test_json_is_for_machines(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        'rounds = 50\nseeds = [1, 2]\n[graph]\nname = "ring"\nclients = 4\n'
        '[problem]\nname = "Quadratic"\n'
        "A = [[[1.0]], [[1.0]], [[2.0]], [[1.0]]]\nb = [[1.0], [2.0], [0.0], [1.0]]\n"
        '[[algorithms]]\nname = "DSpodFL"\nlr = 0.01\n[[algorithms]]\nname = "NIDS"\nlr = 0.01\n'
    )
    words = "--json --seed 3 --set algorithms.NIDS.lr=0.5 --constant noise=0.25"
    done = peerloom("advise", file, *words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(word))
    assert [(one["label"], one["seed"]) for one in document["experiments"]] == [
        ("DSpodFL", 3),
        ("NIDS", 3),
    ]
    first, second = document["experiments"]
    assert first["constants"]["noise"] == {
        "value": 0.25,
        "low": 0.25,
        "high": 0.25,
        "how": "given",
        "note": "",
    }
    assert second["coverage"]["step"] == 0.5
    assert first["coverage"]["exact"]["consensus"] > 0
    assert {"contraction", "costs", "shape", "matrices", "changes", "findings", "skipped"} <= set(
        first
    )


@pytest.mark.slow
def test_what_cannot_work_ends_with_exit_code_2(tmp_path):
    file = tmp_path / "cut.toml"
    graph = 'name = "from_edges"\nn = 3\nedges = [[0, 1]]'
    rest = '[problem]\nname = "Classification"\n[algorithm]\nname = "DGD"\nlr = 0.1\n'
    file.write_text(f"[graph]\n{graph}\n{rest}")
    done = peerloom("advise", file, cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot work" in done.stdout
    with pytest.raises(ConfigError, match="symmetric"):  # exit code 2 as well
        comparison_from(tomllib.loads(f'[graph]\nname = "directed_ring"\nclients = 3\n{rest}'))
    with pytest.raises(ConfigError, match="NAME=NUMBER"):
        advise_command(None, [], None, ["noise=loud"], False)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "papers").glob("*.md")), ids=lambda path: path.stem
)
def test_every_papers_file_can_be_advised_on(path):
    (text,) = re.findall(r"^```toml\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    found = list(advise_all(comparison_from(tomllib.loads(text)).experiments))
    told = Console(width=120, file=io.StringIO(), record=True)
    told.print(render("paper", found))
    page = told.export_text()
    assert all(one.works for one in found)
    for word in ("What theory covers", "Each round", found[0].label):
        assert word in page
