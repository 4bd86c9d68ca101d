"""Rows as peers have the simulator's bits, over a faulty network in memory and over TLS."""

import errno
import os
import signal
import socket
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import Coordinates
from peerloom.config import spec_hash
from peerloom.core import Draws
from peerloom.errors import ConfigError, DataError, PeerError
from peerloom.peers.async_wire import AsyncWire
from peerloom.peers.experiments import check_deadline, check_free, check_roster
from peerloom.peers.federation import (
    Federation,
    _judged_state,
    found_on_this_machine,
    free_ports,
)
from peerloom.peers.floats import from_body, to_body
from peerloom.peers.folder import PeerFolder
from peerloom.peers.processes import context
from peerloom.peers.replay import DecisionsWire
from peerloom.peers.wire_memory import stack_bodies, unstack_bodies
from peerloom.peers.wire_plan import WirePlan
from peerloom.rules import RULES
from peerloom.runs import RunFolder
from peerloom.runtime import build_port
from peerloom.schedules import Bernoulli
from peerloom.transport import Home, LinkState, Parcel
from peerloom.transport.files import append_lines, read_lines
from tests.doubles.memory import CrashedError, Faults
from tests.every_rule import EVERY
from tests.memory_runs import (
    SLOW,
    VARIED,
    check_replay,
    check_same,
    crashes,
    decisions_of,
    experiment,
    roster_for,
    run_in_memory,
    simulated,
    wait_for,
)
from tests.peer_worker import run_jobs

pytestmark = pytest.mark.slow  # starts processes, or runs for long

# -- in memory


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_algorithm_gives_the_simulators_bits_over_a_bad_network(name, identities, tmp_path):
    exp = experiment(name)
    check_same(exp, run_in_memory(exp, identities, tmp_path, Faults(breaks=0.05), seed=len(name)))


@pytest.mark.parametrize("exp", VARIED, ids=lambda exp: exp.label)
def test_settings_and_batches_of_their_own_give_the_simulators_bits(exp, identities, tmp_path):
    check_same(exp, run_in_memory(exp, identities, tmp_path, Faults(breaks=0.05), seed=3))


def test_peers_that_meet_in_random_pairs_give_the_simulators_bits(identities, tmp_path):
    """Of seven one stays alone in every round."""
    complete = pl.graphs.complete(7)
    exp = experiment("NoLoCo", graph=complete, schedule=pl.schedules.RandomPairs(), rounds=12)
    check_same(exp, run_in_memory(exp, identities, tmp_path, Faults(breaks=0.05), seed=4))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["DSpodFL", "SpodGT", "Depositum", "PaME", "CHOCO", "LocalAdamW"]),
    seed=st.integers(0, 2**32), crashes=crashes, breaks=st.floats(0.0, 0.1),
)  # fmt: skip
def test_crashes_change_no_bit(name, seed, crashes, breaks, identities, tmp_path_factory):
    """Killed at any moment and started again, a row goes on undisturbed, and so do the others."""
    exp = experiment(name, rounds=25)
    folder = tmp_path_factory.mktemp("crash")
    check_same(exp, run_in_memory(exp, identities, folder, Faults(breaks=breaks), seed, crashes))


def test_all_crash_at_once(identities, tmp_path):
    """A power cut: every row goes back to a checkpoint, and the sent logs close the gaps."""
    exp = experiment("SpodGT", rounds=40)
    all_down = [(at, row, 0.5) for at in (0.2, 0.5, 0.9) for row in range(7)]
    check_same(
        exp, run_in_memory(exp, identities, tmp_path, Faults(breaks=0.03), seed=3, crashes=all_down)
    )


# -- those who are late


@pytest.mark.parametrize(
    "name", ["DSpodFL", "SpodGT", "MLLSGD", "PaME", "PushDIGing", "EpidemicLearning"]
)
def test_rounds_go_on_without_those_who_are_late(name, identities, tmp_path):
    exp = experiment(name, rounds=40)
    results = run_in_memory(exp, identities, tmp_path, SLOW, seed=5, deadline=0.05)
    made = check_replay(exp, tmp_path, results)
    assert {"missed"} <= {decision.kind for decision in made}
    if name in ("SpodGT", "PushDIGing"):
        assert "late" in {decision.kind for decision in made}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32), crashes=crashes, deadline=st.floats(0.02, 0.3), whole=st.booleans()
)
def test_no_mass_is_lost_when_messages_are_late_and_peers_crash(
    seed, crashes, deadline, whole, identities, tmp_path_factory
):
    """Spod-GT's trackers, with what is still owed, always sum to the gradients used last."""
    exp = experiment(
        "SpodGT", rounds=ROUNDS, message=pl.messages.Dense() if whole else Coordinates(0.5)
    )
    folder = tmp_path_factory.mktemp("late")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, deadline)
    check_replay(exp, folder, results)
    if whole:
        y, c = (
            torch.cat([getattr(result.state, name) for result in results]).sum(dim=0)
            for name in ("y", "c")
        )
        assert torch.allclose(y + owed(exp, decisions_of(exp, folder)), c, rtol=0, atol=1e-12)


ROUNDS = 30


class Watched(DecisionsWire):
    """Knows the last round of which something came along each link."""

    def __init__(self, *of):
        super().__init__(*of)
        self.arrived = {}

    def exchange(self, tag, links, out, rows, into, parts):
        came = super().exchange(tag, links, out, rows, into, parts)
        # After a crash a round is repeated, and hands over nothing new: the last five may be such.
        for link in into[came.arrived & (tag[0] <= ROUNDS - 5)].tolist():
            self.arrived[int(links.src[link]), int(links.dst[link])] = tag[0]
        return came


def owed(exp, decisions):
    """Mass that left its sender, missed its deadline and has not come since: b_ij y_j of each.

    Parcels come in order, so what has not come is newer than what has: nothing was lost.
    """
    wire = Watched(decisions, exp.message, Draws(exp.seed))
    net = build_port(exp, mixer="links", wire=wire)
    state = exp.algorithm.init(exp.start(range(exp.graph.rows)).to(net.place.dtype), net)
    for net.t in range(1, exp.rounds + 1):
        state = exp.algorithm.step(state, net)
    for tag, source, target in wire._owed:
        assert tag[0] >= wire.arrived.get((source, target), 0) - 1, "lost"
    out = exp.graph.peers.out_degree
    n = exp.problem.n
    parcels = [(row[1], source) for (_, source, _), row in wire._owed.items()]
    return sum(
        (y / (1 + out[source]) for y, source in parcels), torch.zeros(n, dtype=torch.float64)
    )


def test_rules_that_need_every_message_refuse_a_deadline():
    for name in ("CHOCO", "EXTRA", "NIDS", "FedDR", "DistributedSGD"):
        with pytest.raises(ConfigError, match="every message of every round"):
            check_deadline(experiment(name), 1.0)
    check_deadline(experiment("CHOCO"), None)
    for name in ("SpodGT", "DSGT", "Depositum", "DSMT", "ProxGT", "KGT"):
        check_deadline(experiment(name), 1.0)


# -- those who wait for nobody


def sums_of(exp, folder, results):
    """What each row's checkpoint holds of its links: by (what, row, mix_index, other, column)."""
    found = {}
    for row in range(len(results)):
        memory = PeerFolder(folder / str(row), spec_hash(exp)).newest().memory()
        for name, value in memory.items():
            what, mix_index, other, column = name.split("/")
            found[what, row, int(mix_index), int(other), int(column)] = value
    return found


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), crashes=crashes, name=st.sampled_from(["SpodGT", "AB"]))
def test_running_sums_keep_all_mass(seed, crashes, name, identities, tmp_path_factory):
    """What was pushed less what was added is what is in transit: nothing is lost or doubled."""
    exp = experiment(name, rounds=40, message=pl.messages.Dense())
    folder = tmp_path_factory.mktemp("free")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, free=True)
    sums, links, n = sums_of(exp, folder, results), exp.graph.peers, exp.problem.n
    under_way = torch.zeros(n, dtype=torch.float64)
    for source, target, b in zip(links.src.tolist(), links.dst.tolist(), links.b, strict=True):
        places = {
            (key[2], key[4]) for key in sums if key[:2] == ("sigma", source) and key[3] == target
        }
        places |= {
            (key[2], key[4]) for key in sums if key[:2] == ("rho", target) and key[3] == source
        }
        for (
            mix_index,
            column,
        ) in places:  # one end may have gone back to where it had pushed, or heard, nothing yet
            sigma = sums.get(("sigma", source, mix_index, target, column), 0.0)
            rho = sums.get(("rho", target, mix_index, source, column), 0.0)
            if np.size(sigma - rho) == n:
                under_way += torch.from_numpy(b * (sigma - rho))
    total = {
        name: torch.cat([getattr(r.state, name) for r in results]).sum(dim=0)
        for name in results[0].state._fields
    }
    gradients = total["c"] if name == "SpodGT" else total["g"]
    assert torch.allclose(total["y"] + under_way, gradients, rtol=0, atol=1e-11)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), crashes=crashes)
def test_symmetric_mixing_keeps_the_mean(seed, crashes, identities, tmp_path_factory):
    """Without gradients the sum of the models, what is in transit included, never changes."""
    exp = experiment("DSpodFL", rounds=60, schedule=Bernoulli(nodes=0.0, links=0.8))
    exp = replace(exp, x0=np.random.default_rng(0).normal(size=(7, 5)))
    folder = tmp_path_factory.mktemp("flow")
    results = run_in_memory(exp, identities, folder, SLOW, seed, crashes, free=True)
    sums = sums_of(exp, folder, results)
    total = torch.cat([result.state.x for result in results]).sum(dim=0).numpy()
    links = {
        (row, mix_index, other, column)
        for what, row, mix_index, other, column in sums
        if what == "flow"
    }
    links |= {
        (other, mix_index, row, column)
        for what, row, mix_index, other, column in sums
        if what == "rho"
    }
    for (
        row,
        mix_index,
        other,
        column,
    ) in links:  # one end may have gone back to where it had moved nothing yet
        total = total + sums.get(("flow", row, mix_index, other, column), np.zeros(5))
        total = total - sums.get(("rho", other, mix_index, row, column), np.zeros(5))
    np.testing.assert_allclose(total, np.asarray(exp.x0).sum(axis=0), atol=1e-11)


def test_free_peers_come_to_agree_and_to_the_optimum(identities, tmp_path):
    exp = experiment(
        "SpodGT", rounds=1500, message=pl.messages.Dense(), schedule=Bernoulli(links=0.7)
    )
    results = run_in_memory(exp, identities, tmp_path, Faults(breaks=0.03), seed=4, free=True)
    x = torch.cat([result.state.x for result in results]).numpy()
    assert np.abs(x - exp.problem.solution()).max() < 0.05


def test_what_cannot_be_free_is_refused():
    # Hubs whose rule needs every worker, too.
    for name in ("CHOCO", "NIDS", "DistributedSGD", "FedDR"):
        with pytest.raises(ConfigError, match="wait for each other"):
            check_free(experiment(name))
    for name in ("MLLSGD", "HLSGD", "LocalSGD", "FedAvg"):
        check_free(experiment(name))
    with pytest.raises(ConfigError, match="whole"):
        check_free(experiment("PaME"))


# -- hubs that wait for nobody


class HeardBy:
    """A transport whose newest parcels a test sets, and which notes what is sent."""

    wait = 60.0

    def __init__(self, roster, me):
        self.roster, self.me, self.there, self.sent, self.later, self.down = (
            roster,
            me,
            {},
            [],
            [],
            0.0,
        )

    def put(self, row, mix_index, round, value):
        peer = self.roster.members[row].id
        self.there[peer, mix_index] = Parcel(
            mix_index, round, mix_index, to_body(np.full(1, float(value))), peer
        )

    def wait_for_arrivals(self, seen, seconds):
        self.later.pop(0)()
        return seen + 1

    def newest(self, peer, channel):
        return self.there.get((peer, channel))

    def send(self, peer, parcel, mode):
        self.sent.append(
            (self.roster.row(peer), parcel.mix_index, from_body(parcel.body, "float64").tolist())
        )

    def links(self):
        return [LinkState(self.roster.members[0].id, "worker", "in", not self.down, self.down)]


def alone(row, identities):
    """One row of two workers under a hub, with weights 1/4 and 3/4, over a `HeardBy`."""
    graph = pl.graphs.hubs(pl.graphs.from_edges(1, []), [2], weights=[1, 3])
    exp = pl.Experiment(
        graph, pl.problems.Quadratic(np.zeros((2, 1, 1)), np.zeros((2, 1))), pl.rules.MLLSGD(0.1),
        pl.schedules.HubRounds(1), rounds=9, dtype="float64",
    )  # fmt: skip
    roster = roster_for(graph, identities)
    post = HeardBy(roster, roster.members[row].id)
    return (
        exp,
        post,
        build_port(
            exp,
            np.array([row]),
            mixer="links",
            wire=AsyncWire(post, row, WirePlan.of(exp, free=True), roster),
        ),
    )


def test_a_free_hub_averages_the_newest_of_every_worker(identities):
    """z = sum of v_i x_i over the newest; the weight of a silent row stays with the hub."""
    exp, post, net = alone(2, identities)
    state = exp.algorithm.init(torch.zeros(1, 1, dtype=torch.float64), net)
    story = [
        ({0: 8.0}, 0.25 * 8.0),
        ({1: 4.0}, 0.25 * 8.0 + 0.75 * 4.0),
        ({0: 0.0, 1: 0.0}, 0.0),
        ({0: 4.0}, 0.25 * 4.0),
    ]
    for t, (news, wanted) in enumerate(story, start=1):
        for row, value in news.items():
            post.put(row, 1, t, value)
        net.t, post.sent = t, []
        state = exp.algorithm.step(state, net)
        assert state.x.item() == wanted
        assert post.sent == [(0, 3, [wanted]), (1, 3, [wanted])]


def test_a_free_hub_goes_on_with_its_fastest_worker_and_not_before(identities):
    exp, post, net = alone(2, identities)
    post.put(1, 1, 4, 7.0)  # the slower one
    post.later = [lambda: post.put(0, 1, 5, 1.0), lambda: post.put(0, 1, 6, 3.0)]
    net.t = 6
    found = exp.algorithm.step(exp.algorithm.init(torch.zeros(1, 1, dtype=torch.float64), net), net)
    assert found.x.item() == 0.25 * 3.0 + 0.75 * 7.0
    assert not post.later
    post.down = 61.0
    net.t = 7
    with pytest.raises(PeerError, match="All workers of this hub are down"):
        exp.algorithm.step(found, net)


def test_a_free_worker_takes_the_newest_of_its_hub(identities):
    exp, post, net = alone(0, identities)
    x = exp.algorithm.init(torch.ones(1, 1, dtype=torch.float64), net)
    for t, (news, wanted) in enumerate([(None, 1.0), (5.0, 5.0), (None, 5.0), (7.0, 7.0)], start=1):
        if news is not None:
            post.put(2, 3, t, news)
        net.t = t
        assert exp.algorithm.step(x, net).x.item() == wanted


def test_free_hubs_converge_to_what_waiting_hubs_converge_to(identities, tmp_path):
    """With full gradients a round contracts the rows' largest norm, so old models only delay it.

    Workers differ threefold in speed, one is killed and goes back to a checkpoint, and messages are
    lost.
    """
    graph = pl.graphs.hubs(pl.graphs.complete(2), [2, 1], weights=[1, 2, 3])
    rule, problem = pl.rules.MLLSGD(lr=0.3), pl.testing.random_quadratic(3, 5)
    exp = pl.Experiment(
        graph, problem, rule, pl.schedules.HubRounds(2), rounds=320, seed=2, dtype="float64"
    )
    results = run_in_memory(
        exp, identities, tmp_path, Faults(breaks=0.03), seed=4, crashes=[(0.5, 1, 0.1)], free=True
    )
    x = torch.cat([result.state.x for result in results])
    wanted = simulated(replace(exp, rounds=600)).state.x
    distances = torch.linalg.vector_norm(exp.start(range(5)) - wanted, dim=1)
    assert torch.linalg.vector_norm(x - wanted, dim=1).max() < 2e-3 * distances.min()


# -- what a peer keeps


def test_a_checkpoint_that_was_cut_is_passed_over(tmp_path):
    exp = experiment("DSpodFL")
    last = simulated(exp)
    keep = PeerFolder(tmp_path, "spec")
    for t in (3, 4, 5):
        keep.save(replace(last.checkpoint(), t=t))
    files = sorted(tmp_path.glob("checkpoint-*.safetensors"))
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-7])
    assert keep.newest().t == 4
    for path in files:
        path.write_bytes(b"rubbish")
    with pytest.raises(DataError, match="No checkpoint"):
        keep.newest()
    assert PeerFolder(tmp_path / "new", "spec").newest() is None
    keep = PeerFolder(tmp_path / "other", "one")
    keep.save(last.checkpoint())
    with pytest.raises(DataError, match="another experiment"):
        PeerFolder(tmp_path / "other", "two").newest()


def test_a_checkpoint_joins_the_pieces_that_it_is_given(tmp_path):
    exp = experiment("DSpodFL")
    last = simulated(exp)
    keep, body = PeerFolder(tmp_path, "spec"), np.array([0.0, -0.0, 1.5], np.float32)
    pieces = {
        "sent": [body, body + 1],
        "about": [np.arange(6).reshape(2, 3)],
        "none": [np.empty(0)],
    }
    keep.save(replace(last.checkpoint(), wire=pieces))
    kept = keep.newest()
    memory = kept.memory()
    assert memory["sent"].tobytes() == body.tobytes() + (body + 1).tobytes()
    assert memory["about"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert len(memory["none"]) == 0
    for name, value in last.state._asdict().items():
        assert torch.equal(torch.from_numpy(np.array(kept.state[name])), value)
    for name, value in last.ledger.arrays().items():
        assert np.array_equal(kept.ledger[name], value)


def test_what_all_neighbours_are_sent_is_kept_once():
    """After a crash each neighbour's parcel is the same, and one body serves all receivers."""
    one, other = (np.frombuffer(text, np.uint8) for text in (b"ab", b"cde"))
    bodies = [one, one, other, one, np.empty(0, np.uint8)]
    places = [(to, 7, 1) for to in range(5)]
    pieces = stack_bodies("sent", list(zip(places, bodies, strict=True)))
    assert sum(len(piece) for piece in pieces["sent"]) == 5
    memory = {name: np.concatenate(parts) for name, parts in pieces.items()}
    again = list(unstack_bodies("sent", memory))
    assert [place for place, _ in again] == places
    assert [body.tobytes() for _, body in again] == [body.tobytes() for body in bodies]
    assert again[0][1] is again[1][1]
    assert not any(body.flags.writeable for _, body in again)


def test_the_older_checkpoint_is_as_good_as_the_newest(identities, tmp_path, monkeypatch):
    """Killed before a checkpoint, with the newest damaged, a row goes on from the one before."""
    exp, save, killed = experiment("SpodGT", rounds=230, schedule=Bernoulli()), PeerFolder.save, []

    def save_or_die(keep, at):
        if keep.path.name == "0" and at.t == 200 and not killed:
            known = {kept.t: path for path in keep._paths() if (kept := keep._read(path))}
            known[150].write_bytes(b"spoilt")
            killed.append(min(known))
            raise CrashedError("killed")
        save(keep, at)

    monkeypatch.setattr(PeerFolder, "save", save_or_die)
    check_same(exp, run_in_memory(exp, identities, tmp_path))
    assert killed == [100], "the round it went back to"


@pytest.mark.parametrize("failures", [2, 3])
def test_a_full_disk_is_borne_for_a_while_and_then_stops_the_row(
    failures, identities, tmp_path, monkeypatch
):
    """A disk full twice is tried again, with the same bits; full three times, the row stops.

    Older checkpoints stay whole.
    """
    exp = experiment("SpodGT", rounds=120)
    real, left = PeerFolder.save, [failures]

    def save(keep, at):
        if at.t == 100 and keep.path.name == "0" and left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        real(keep, at)

    monkeypatch.setattr(PeerFolder, "save", save)
    if failures < 3:
        check_same(exp, run_in_memory(exp, identities, tmp_path))
        return
    with pytest.raises(
        PeerError, match=r"round 100 cannot be written \(No space left on device\), tried 3 times"
    ):
        run_in_memory(exp, identities, tmp_path)
    assert PeerFolder(tmp_path / "0", spec_hash(exp)).newest().t == 50


def test_lines_are_added_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    assert read_lines(path) == []
    append_lines(path, ["one", "two"])
    with path.open("a") as file:
        file.write("[cut by a cra")
    assert read_lines(path) == ["one", "two"]
    append_lines(path, ["three"])
    assert path.read_text() == "one\ntwo\nthree\n"

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        append_lines(path, ["four"])
    assert path.read_text() == "one\ntwo\nthree\n"


def test_a_roster_that_is_not_the_graphs_is_refused(identities):
    exp = experiment("DSpodFL")
    check_roster(roster_for(exp.graph, identities), exp)
    with pytest.raises(ConfigError, match="links of the roster"):
        check_roster(roster_for(pl.graphs.complete(7), identities), exp)
    with pytest.raises(ConfigError, match="5 members"):
        check_roster(roster_for(pl.graphs.ring(5), identities), exp)


# -- real processes, real TLS


@pytest.mark.usefixtures("small_threads")
def test_every_algorithm_between_processes_over_tls(tmp_path):
    """One process per row, kept for all experiments of one graph: same bits, same ledger."""
    groups = {}
    for exp in [*map(experiment, sorted(EVERY)), *VARIED]:
        groups.setdefault(exp.graph.rows, []).append(exp)
    for rows, exps in groups.items():
        assert rows >= 5
        folders = [RunFolder.create(tmp_path / exp.name, exp) for exp in exps]
        homes = [
            found_on_this_machine(exp, folder.path / "peers")
            for exp, folder in zip(exps, folders, strict=True)
        ]
        workers = []
        for row in range(rows):
            each = zip(folders, homes, strict=True)
            jobs = [
                (str(folder.path / "config.toml"), str(home[row].folder)) for folder, home in each
            ]
            workers.append(context().Process(target=run_jobs, args=(jobs,), daemon=True))
            workers[-1].start()
        try:
            for worker in workers:
                worker.join(180)
        finally:
            for worker in workers:
                worker.kill()
        assert [worker.exitcode for worker in workers] == [0] * rows
        for exp, folder in zip(exps, folders, strict=True):
            Federation.adopt(exp, folder.path).collect()
            last = simulated(exp)
            file = safetensors.numpy.load_file(folder.path / "checkpoint.safetensors")
            for field in last.state._fields:
                assert np.array_equal(file[f"state/{field}"], getattr(last.state, field).numpy()), (
                    exp.name
                )
            for key, values in last.ledger.arrays().items():
                assert np.array_equal(file[f"ledger/{key}"], values), exp.name


@pytest.mark.usefixtures("small_threads")
def test_kill_9_and_start_again_changes_no_bit(tmp_path):
    """One of `up`'s processes is killed amid the run and restarted; the report still works."""
    exp = replace(experiment("SpodGT", rounds=400), evaluate=pl.Evaluate(every=50))
    federation = Federation(exp, tmp_path / "run")
    with federation.no_orphans():
        for row in range(exp.graph.rows):
            federation.start(row)
        wait_for(lambda: any(s["round"] > 20 for s in federation.status() if s["row"] == 2))
        federation.kill(2)
        federation.start(2)
        federation.wait()
    federation.collect()
    assert [s["incarnation"] for s in federation.status() if s["row"] == 2] == [2]
    result = pl.simulate(exp, path="links", out=tmp_path / "simulated")
    file = safetensors.numpy.load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert np.array_equal(file["state/x"], result.state.x.numpy())
    again = pl.simulate(
        replace(exp, schedule=pl.schedules.Replay(str(tmp_path / "run"))), path="links"
    )
    assert torch.equal(again.state.x, result.state.x)
    found = RunFolder(tmp_path / "run").read().metrics
    assert found.drop("seconds").equals(result.metrics.drop("seconds"))


def all_beyond(federation, t):
    """Whether all seven peers have told of a round after t."""
    found = federation.status()
    return len(found) == 7 and all(status["round"] > t for status in found)


@pytest.mark.usefixtures("small_threads")
def test_stopped_peers_go_on(tmp_path):
    """All are asked to stop amid the run, and end with the simulator's bits once started again."""
    exp = experiment("DSpodFL", rounds=2000)  # some seconds: far beyond the first status
    federation = Federation(exp, tmp_path / "run")
    with federation.no_orphans():
        for row in range(exp.graph.rows):
            federation.start(row)
        wait_for(lambda: all_beyond(federation, 5))
        for row in range(exp.graph.rows):
            federation.stop(row)
        federation.wait()
        assert {s["status"] for s in federation.status()} == {"stopped"}
        for row in range(exp.graph.rows):
            federation.start(row)
        federation.wait()
    federation.collect()
    file = safetensors.numpy.load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert np.array_equal(file["state/x"], simulated(exp).state.x.numpy())


@pytest.mark.usefixtures("small_threads")
def test_a_peer_that_is_stopped_after_its_last_round_has_ended_well(tmp_path):
    """It only waits for neighbours, which never start; all it did is written."""
    exp = experiment("DSpodFL", rounds=5)
    federation = Federation(exp, tmp_path / "run", free=True)
    with federation.no_orphans():
        federation.start(0)
        status = wait_for(lambda: [s for s in federation.status() if s["round"] == 5])[0]
        os.kill(status["pid"], signal.SIGTERM)
        federation.wait()
    assert federation.peer_folders()[0].newest().t == 5


@pytest.mark.usefixtures("small_threads")
@pytest.mark.parametrize("how", [{"deadline": 0.2}, {"free": True}], ids=["deadline", "free"])
def test_processes_go_on_while_one_is_stopped(how, tmp_path):
    """One is stopped by SIGSTOP for a while; the others go on, and a deadline can be replayed."""
    rounds = 2000 if "free" in how else 600  # peers that wait for nobody are soon done
    exp = experiment("DSpodFL", rounds=rounds)
    federation = Federation(exp, tmp_path / "run", **how)
    with federation.no_orphans():
        for row in range(exp.graph.rows):
            federation.start(row)
        wait_for(lambda: all_beyond(federation, 3))
        asleep = next(s["pid"] for s in federation.status() if s["row"] == 1)
        os.kill(asleep, signal.SIGSTOP)
        wait_for(lambda: any(s["round"] > 20 for s in federation.status() if s["row"] != 1))
        os.kill(asleep, signal.SIGCONT)
        federation.wait()
    federation.collect()
    assert {s["status"] for s in federation.status()} == {"done"}
    if "deadline" in how:
        again = pl.simulate(
            replace(exp, schedule=pl.schedules.Replay(str(tmp_path / "run"))), path="links"
        )
        file = safetensors.numpy.load_file(tmp_path / "run" / "checkpoint.safetensors")
        assert np.array_equal(file["state/x"], again.state.x.numpy())


@pytest.mark.usefixtures("small_threads")
def test_free_hubs_end_after_their_workers(tmp_path):
    """A hub ends after its workers: each row does all its rounds and leaves its start."""
    graph = pl.graphs.hubs(pl.graphs.complete(2), [2, 1])
    rule, rhythm = pl.rules.MLLSGD(lr=0.1), pl.schedules.HubRounds(2)
    exp = pl.Experiment(
        graph, pl.testing.random_quadratic(3, 5), rule, rhythm, rounds=100, dtype="float64"
    )
    federation = Federation(exp, tmp_path / "run", free=True)
    federation.run()
    federation.collect()
    assert {(s["status"], s["round"]) for s in federation.status()} == {("done", 100)}
    file = safetensors.numpy.load_file(tmp_path / "run" / "checkpoint.safetensors")
    assert (np.abs(file["state/x"] - exp.start(range(5)).numpy()).max(axis=1) > 0.01).all()


@pytest.mark.usefixtures("small_threads")
@pytest.mark.parametrize("name", ["SGP", "MLLSGD"])
def test_what_peers_judged_is_averaged_as_in_the_simulator(name, tmp_path):
    """Also where models do not count alike: push-sums, and workers of unequal weights."""
    graph, schedule = pl.graphs.directed_ring(3), pl.schedules.Always()
    if name == "MLLSGD":
        graph = pl.graphs.hubs(pl.graphs.complete(2), [2, 1], weights=[1, 5, 2])
        schedule = pl.schedules.HubRounds(2, 2)
    exp = pl.Experiment(
        graph,
        pl.testing.random_quadratic(3, 5),
        RULES[name](0.1),
        schedule,
        rounds=7,
        x0=np.random.default_rng(2).normal(size=(3, 5)),
        dtype="float64",
        evaluate=pl.Evaluate(every=1),
    )
    federation = Federation(exp, tmp_path / "run")
    federation.run()
    federation.collect()
    found, wanted = RunFolder(tmp_path / "run").read().metrics, pl.simulate(exp, path="links")
    assert found.drop("seconds").equals(wanted.metrics.drop("seconds"))


def test_evaluations_kept_without_what_models_count_by_are_refused():
    exp = experiment("SpodGT", message=pl.messages.Dense())
    push = replace(exp, algorithm=pl.rules.SGP(0.1))
    entries = [{"x": np.zeros(4)}] * exp.graph.rows
    assert _judged_state(exp, entries)._fields == ("x",)
    with pytest.raises(DataError, match="lacks w, by which the models of SGP are averaged"):
        _judged_state(push, entries)


@pytest.mark.usefixtures("small_threads")
def test_a_peer_that_fails_is_named(tmp_path):
    exp = experiment("DSpodFL", rounds=50)
    federation = Federation(exp, tmp_path / "run")
    Home.open(federation.homes[3].folder).identity.key_file.chmod(0o644)
    with pytest.raises(PeerError, match="row-3 failed with exit code 5"):
        federation.run()


# -- ports of a federation on one machine


def test_federations_that_start_at_the_same_time_are_given_different_ports(monkeypatch):
    """Peers listen only after a while, so a port that was found free may be found free again."""
    first, again = free_ports(64), free_ports(64)
    me = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: me + 1)
    beside = free_ports(64)
    assert len({*first, *again, *beside}) == 3 * 64
    # Above are those that the system gives to those that dial.
    assert max(first + again + beside) < 32768


def test_a_port_that_is_taken_is_passed_over_and_too_few_are_told(monkeypatch):
    taken, *others = free_ports(3)
    monkeypatch.setattr("peerloom.peers.federation._PORTS", [taken, *others])
    with socket.create_server(("127.0.0.1", taken)):
        assert set(free_ports(2)) == set(others)
        with pytest.raises(
            PeerError,
            match=f"3 rows need a port each, but only 2 of {taken} to {others[-1]} are free",
        ):
            free_ports(3)
