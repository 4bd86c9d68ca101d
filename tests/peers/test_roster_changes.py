"""Rosters that change while links are open: joining, leaving, coming back, and a fork."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.cli.peer.roster import roster_remove
from peerloom.config import spec_hash
from peerloom.core.events import each_round
from peerloom.errors import PeerError
from peerloom.peers.decisions import read_decisions
from peerloom.peers.experiments import run_folder
from peerloom.peers.federation import Federation
from peerloom.peers.floats import float_channel
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.replay import replay
from peerloom.peers.watch import RosterWatch
from peerloom.peers.wire_plan import WirePlan
from peerloom.rules import RULES
from peerloom.runtime import build_port
from peerloom.transport import Endpoint, Home, Link, Member, RosterForkError, RunIdentity, Settings
from tests.doubles.memory import Faults, MemoryNetwork
from tests.every_rule import EVERY
from tests.federation import (
    QUICK,
    endpoint,
    federation,
    free_ports,
    identity,
    numbers,
    parcel,
    until,
)
from tests.memory_runs import experiment, roster_for

pytestmark = pytest.mark.slow  # starts processes, or runs for long

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
BOTH = [*RING, *((b, a) for a, b in RING)]


@pytest.fixture
def ports():
    return free_ports(5)


def member(number, ports):
    return Member(
        f"peer-{number}", identity(number).certificate.decode(), (f"127.0.0.1:{ports[number]}",)
    )


def exchange(posts, ids, pairs, round):
    """One synchronous round over these links; the epochs of what came."""
    for a, b in pairs:
        posts[a].send(ids[b], parcel(round, value=round + a))
    got = [posts[b].take(ids[a], round, 0, 5.0) for a, b in pairs]
    assert all(
        (numbers(letter) == round + a).all() for letter, (a, _) in zip(got, pairs, strict=True)
    )
    return {letter.epoch for letter in got}


def test_members_join_leave_and_return_and_a_fork_is_refused(tmp_path, ports):
    """A newcomer changes nothing, a leaver is cut off, one that returns waits for an epoch."""
    first = federation(4, BOTH, ports)
    ids = [member.id for member in first.members]
    founder = identity(0)
    posts = {k: endpoint(k, first, tmp_path, ports[k]) for k in range(4)}
    try:
        for post in posts.values():
            post.start()
        assert exchange(posts, ids, BOTH, 1) == {0}

        joined = first.with_member(founder, member(4, ports))
        posts[0].consider(joined)
        assert until(lambda: {post.roster.version for post in posts.values()} == {2}), (
            "it goes round by open links"
        )
        assert exchange(posts, ids, BOTH, 2) == {0}, "the run goes on"

        left = joined.without_member(founder, "peer-2")
        begin = time.monotonic()
        posts[0].consider(left)
        others = [posts[1], posts[3]]
        assert until(
            lambda: all(post.closed("in", ids[2]) and post.closed("out", ids[2]) for post in others)
        )
        assert time.monotonic() - begin < 1.0
        assert until(lambda: not posts[2].links()), "it was shown the signed roster"
        with pytest.raises(PeerError, match="founder removed this peer"):
            posts[2].take(ids[1], 3, 0, 5.0)
        rest = [(0, 1), (1, 0), (3, 0), (0, 3)]
        assert exchange(posts, ids, rest, 3) == {0}, "no parcel of the others is stale"

        fork = joined.without_member(founder, "peer-1")
        with pytest.raises(RosterForkError, match="signed twice"):
            posts[3].consider(fork)
        assert {posts[k].roster.hash for k in (0, 1, 3)} == {left.hash}

        back = left.with_member(founder, member(2, ports))
        links = [Link(ids[a], ids[b], 0.25, 0.25) for a, b in BOTH]
        again = back.with_links(founder, links)
        posts[0].consider(again)
        assert until(lambda: {posts[k].offered() for k in (0, 1, 3)} == {again})
        assert exchange(posts, ids, rest, 4) == {0}, "the run stays in its epoch"
        posts[2].close()
        posts[2] = endpoint(2, again, tmp_path / "new", ports[2])
        posts[2].start()
        for k in (0, 1, 3):
            posts[k].adopt(again)
        assert exchange(posts, ids, BOTH, 5) == {1}, "all four, in the new one"
        assert all(link.tally.balanced for post in posts.values() for link in post.links())
    finally:
        for post in posts.values():
            post.close()


def test_a_forked_successor_ends_the_link_with_an_alarm(tmp_path, ports):
    roster, events = federation(2, [(0, 1)], ports), []
    one = roster.amended(identity(0), run="one")
    other = roster.amended(identity(0), run="other").amended(identity(0))
    with (
        endpoint(1, one, tmp_path, ports[1], on_event=events.append) as b,
        endpoint(0, other, tmp_path, ports[0]) as a,
    ):
        assert until(lambda: b.refusals().get("roster_fork"))
        assert b.roster.version == 2
        assert a.roster.version == 3
    assert [event.peer for event in events if event.kind == "alarm"] == [a.me], (
        "told once, however often it is tried"
    )


def test_acknowledgements_bring_a_newer_roster(tmp_path, ports):
    """peer-1 only sends to peer-0: acknowledgements tell it that there is a newer roster."""
    roster = federation(3, [(1, 0), (2, 1)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        assert until(lambda: any(link.up for link in b.links()))
        a.consider(roster.without_member(identity(0), "peer-2"))
        assert until(lambda: b.roster.version == 2)


def test_one_link_is_taken_away(tmp_path, ports):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    ids = [member.id for member in roster.members]
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
        a.consider(roster.without_links(identity(0), [(ids[0], ids[1])]))
        assert until(lambda: b.closed("in", ids[0]))
        assert a.closed("out", ids[1])
        assert not b.closed("out", ids[0])
        assert a.settle([b.send(ids[0], parcel(1))], 5.0)
        assert a.take(ids[1], 1, 0, 5.0).round == 1


def test_a_run_that_starts_again_stays_in_its_epoch(tmp_path, ports):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    next_run = roster.with_links(identity(0), roster.links)
    endpoint(0, roster, tmp_path, ports[0]).close()
    with endpoint(0, next_run, tmp_path, ports[0]) as a:
        assert (a.roster, a.offered()) == (roster, next_run)


def test_what_lies_in_the_folder_and_what_runs_are_kept_the_same(tmp_path, ports):
    """An operator's roster is adopted, a neighbour's is stored, a fork raises one alarm."""
    home = Home.create(tmp_path / "peer", "peer-0", (f"127.0.0.1:{ports[0]}",), found=True)
    alarms, first, key = [], home.roster, home.identity
    run = RunIdentity("run", "spec", {0: float_channel("float64", [1])})
    plan = WirePlan.of(experiment("DSpodFL"))
    with (
        Endpoint(
            key,
            first,
            run,
            tmp_path / "state",
            ("127.0.0.1", 0),
            on_event=alarms.append,
            keep=home.keep,
        ) as post,
        RosterWatch(home, post, plan, first),
    ):
        second = first.with_member(key, member(1, ports))
        home.trust(second)
        assert until(lambda: post.roster == second)
        third = second.without_member(key, "peer-1")
        post.consider(third)
        assert until(lambda: home.roster == third)
        (home.folder / "roster.json").write_bytes(second.amended(key, run="other").to_bytes())
        assert until(lambda: post.refusals().get("roster_fork"))
        (home.folder / "roster.json").write_bytes(b"rubbish")
        assert until(lambda: post.refusals().get("roster"))
        assert post.roster == third
        time.sleep(0.5)
        assert post.refusals() == {"roster_fork": 1, "roster": 1}
    assert [event.kind for event in alarms if event.kind != "roster"] == ["alarm", "alarm"]


def test_halting_ends_every_wait(tmp_path, ports):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0], settings=replace(QUICK, wait=60.0)) as a:
        a.halt(PeerError("because"))
        for wait in (
            lambda: a.take(roster.members[1].id, 1, 0, 60.0),
            lambda: a.wait_for_arrivals(0, 60.0),
        ):
            with pytest.raises(PeerError, match="because"):
                wait()


# -- what becomes of a run


def removed_in_memory(
    name,
    identities,
    folder,
    seed,
    when,
    deadline=None,
    free=False,
    crash=None,
    after=0.3,
    between=None,
):
    """Remove row 3 at a moment that differs by peer; each row's result or error."""
    exp = experiment(name, rounds=40, evaluate=pl.Evaluate(every=100))
    roster = roster_for(exp.graph, identities)
    without = roster.without_member(identities[0], "row-3")
    ids = [member.id for member in roster.members]
    plan = WirePlan.of(exp, deadline, free)
    run = RunIdentity("test", spec_hash(exp), plan.channels)
    network = MemoryNetwork(
        roster, run, seed, Faults(breaks=0.03), plan.settings(Settings(wait=600.0))
    )

    def program(row):
        def go(post):
            slow = [each_round(lambda t: post.wait_for_arrivals(10**12, 0.01))] if free else []
            if row == 3 and between is not None:
                slow.append(each_round(lambda t: t == between and post._table.consider(without)))
            work = PeerRun(
                exp, row, post, PeerFolder(folder / str(row), spec_hash(exp)), plan, observers=slow
            )
            try:
                return work.run()
            except PeerError as error:
                return error

        return go

    def hear(peer):
        network._roster = without  # what every new life finds in its folder
        if peer in network.drivers:
            network.drivers[peer].table.consider(without)

    for k, peer in enumerate(ids):
        network.at(when + 0.03 * k, lambda peer=peer: hear(peer))
    crashes = (
        []
        if crash is None
        else [(when + after, ids[crash], 0.2), (when + after + 0.3, ids[crash], 0.2)]
    )
    found = network.run({id: program(row) for row, id in enumerate(ids)}, crashes)
    return exp, [found[id] for id in ids]


def neighbours(exp, row):
    """Who hears from a row."""
    links = exp.graph.peers
    return set(links.dst[links.src == row].tolist())


@pytest.mark.parametrize(
    ("name", "deadline", "seed", "crash"),
    [
        ("DSpodFL", None, 0, None),
        ("DSpodFL", None, 2, 2),
        ("DSpodFL", 0.2, 1, None),
        ("PaME", None, 1, None),
    ],
)
def test_the_others_finish_without_a_removed_peer_and_can_be_replayed(
    name, deadline, seed, crash, identities, tmp_path
):
    """Also when one is killed later: its journal says since when the link is silent."""
    exp, ends = removed_in_memory(
        name, identities, tmp_path, seed, 0.1 + 0.1 * seed, deadline, crash=crash
    )
    assert "founder removed this peer" in str(ends[3])
    files = {row: tmp_path / str(row) / "decisions.jsonl" for row in range(7)}
    made = {row: read_decisions(path) if path.exists() else [] for row, path in files.items()}
    assert {
        row for row, made in made.items() for d in made if (d.kind, d.row) == ("unheard", 3)
    } == neighbours(exp, 3)
    state, ledger = replay(exp, made)
    links, live = exp.graph.peers, build_port(exp).activity
    for row in (0, 1, 2, 4, 5, 6):
        assert ends[row].finished, ends[row]
        assert torch.equal(ends[row].state.x[0], state.x[row]), row
        mine, charged = links.src == row, ends[row].ledger.layers["peers"]
        assert np.array_equal(charged.messages[mine], ledger.layers["peers"].messages[mine]), (
            "the account, too"
        )
        for link in np.flatnonzero(mine & (links.dst == 3)):
            silent = next(d.round for d in made[row] if (d.kind, d.row) == ("untold", 3))
            held = sum((d.kind, d.row) == ("held", 3) and d.round < silent for d in made[row])
            fired = sum(bool(live.links(t, "peers")[link]) for t in range(1, silent))
            assert charged.messages[link] == fired - held, (
                "what a removed peer is not sent costs nothing"
            )


def test_a_crash_right_after_a_removal_takes_nothing_back(identities, tmp_path):
    """A peer that learns of a removal writes a checkpoint first, even while it waits.

    What the removed peer sent cannot be had again.
    """
    for seed in range(16):
        crash, folder = (2, 5)[seed % 2], tmp_path / str(seed)
        exp, ends = removed_in_memory(
            "DSpodFL", identities, folder, seed, 0.2, crash=crash, after=0.02 + 0.03 * crash
        )
        paths = {row: folder / str(row) / "decisions.jsonl" for row in range(7)}
        state, _ = replay(
            exp, {row: read_decisions(path) if path.exists() else [] for row, path in paths.items()}
        )
        for row in (0, 1, 2, 4, 5, 6):
            assert torch.equal(ends[row].state.x[0], state.x[row]), (seed, row)


def test_a_peer_that_waits_for_an_acknowledgement_hears_of_a_removal_too(identities, tmp_path):
    """Row 1 is down, so row 0 waits before it sends more; row 2 is removed, then row 0 killed.

    Row 3 has seen what followed from what row 2 sent, which nobody can send again.
    """
    talks = np.zeros((31, 4, 4), bool)
    for source, target in [(0, 1), (0, 2), (2, 0), (0, 3)]:
        talks[:, target, source] = True
    exp = pl.Experiment(
        pl.graphs.from_edges(4, [(0, 1), (0, 2), (0, 3)]),
        pl.testing.random_quadratic(4, 5), RULES["DSpodFL"](lr=0.05),
        pl.schedules.Explicit(links=talks), rounds=30, seed=2, dtype="float64",
        evaluate=pl.Evaluate(every=100),
    )  # fmt: skip
    roster, plan = roster_for(exp.graph, identities), WirePlan.of(exp)
    without, ids = roster.without_member(identities[0], "row-2"), [i.id for i in identities[:4]]
    run = RunIdentity("test", spec_hash(exp), plan.channels)
    network = MemoryNetwork(roster, run, 0, settings=plan.settings(Settings(wait=600.0)))

    def program(row):
        def go(post):
            keep = PeerFolder(tmp_path / str(row), spec_hash(exp))
            try:
                return PeerRun(exp, row, post, keep, plan).run()
            except PeerError as error:
                return error

        return go

    def hear():
        network._roster = without  # what every new life finds in its folder
        for driver in list(network.drivers.values()):
            driver.table.consider(without)

    network.at(5.0, hear)
    crashes = [(0.0, ids[1], 30.0), (5.5, ids[0], 0.2)]
    ends = network.run({id: program(row) for row, id in enumerate(ids)}, crashes)
    files = {row: tmp_path / str(row) / "decisions.jsonl" for row in range(4)}
    state, _ = replay(
        exp, {row: read_decisions(file) if file.exists() else [] for row, file in files.items()}
    )
    for row in (0, 1, 3):
        assert torch.equal(ends[ids[row]].state.x[0], state.x[row]), row


@pytest.mark.parametrize("deadline", [None, 0.2])
def test_a_peer_that_is_removed_between_two_rounds_does_not_train_on_alone(
    deadline, identities, tmp_path
):
    """It has no links any more, so none of its rounds waits for anybody."""
    exp, ends = removed_in_memory("DSpodFL", identities, tmp_path, 1, 9.0, deadline, between=5)
    assert "founder removed this peer" in str(ends[3])
    assert PeerFolder(tmp_path / "3", spec_hash(exp)).newest().t == 5


def test_free_peers_go_on_without_a_removed_one(identities, tmp_path):
    _, ends = removed_in_memory("DSpodFL", identities, tmp_path, 1, 0.2, free=True)
    assert "founder removed this peer" in str(ends[3])
    assert all(ends[row].finished for row in (0, 1, 2, 4, 5, 6))


@pytest.mark.parametrize(
    ("name", "deadline"), [("SpodGT", None), ("SpodGT", 0.2), ("EXTRA", None), ("CHOCO", None)]
)
def test_rules_that_count_on_everyone_stop_and_say_what_to_do(name, deadline, identities, tmp_path):
    exp, ends = removed_in_memory(name, identities, tmp_path, 2, 0.2, deadline)
    # With one, those who are further away go on; at sites the watch stops them too.
    if deadline is None:
        assert all(isinstance(end, PeerError) for end in ends), "nobody hangs"
    word = f"took row-3, or a link with it, from the roster, and {name} cannot go on"
    told = {row for row, end in enumerate(ends) if word in str(end)}
    assert told
    assert told <= neighbours(exp, 3) | {row for row in range(7) if 3 in neighbours(exp, row)}
    assert all(list((tmp_path / str(row)).glob("checkpoint-*.safetensors")) for row in range(7)), (
        "what they have is kept"
    )


@pytest.mark.parametrize("name", ["EXTRA", "DSpodFL"])
def test_a_peer_that_went_back_too_far_stops_or_catches_up(name, identities, tmp_path, monkeypatch):
    """Its newest checkpoint is lost, and the one before is older than what neighbours retain."""
    monkeypatch.setattr(WirePlan, "remember", property(lambda plan: 68))
    exp = experiment(
        name, rounds=130, schedule=pl.schedules.Always(), evaluate=pl.Evaluate(every=100)
    )
    roster = roster_for(exp.graph, identities)
    ids = [member.id for member in roster.members]
    plan = WirePlan.of(exp)
    run = RunIdentity("test", spec_hash(exp), plan.channels)
    network = MemoryNetwork(roster, run, 1, settings=plan.settings(Settings(wait=600.0)))

    def lose(post, t):
        if post.me == ids[2] and post.incarnation == 1 and t == 125:
            max(
                (tmp_path / "2").glob("checkpoint-*.safetensors"),
                key=lambda path: path.stat().st_mtime_ns,
            ).unlink()
            network.at(network.now, lambda: network._kill(ids[2], 0.5))

    def program(row):
        def go(post):
            keep = PeerFolder(tmp_path / str(row), spec_hash(exp))
            try:
                return PeerRun(
                    exp, row, post, keep, plan, observers=[each_round(lambda t: lose(post, t))]
                ).run()
            except PeerError as error:
                return error

        return go

    found = network.run({id: program(row) for row, id in enumerate(ids)})
    if name == "DSpodFL":  # rounds that nobody keeps are rounds without neighbours
        assert all(end.finished for end in found.values())
        skipped = [
            d.round
            for d in read_decisions(tmp_path / "2" / "decisions.jsonl")
            if d.kind == "skipped"
        ]
        assert min(skipped) == 51
        assert max(skipped) < 60
    else:
        assert "no longer has what it sent for round 51" in str(found[ids[2]])
        assert "row-2 is down" in str(found[ids[1]])


def test_neighbours_hear_why_a_peer_goes_for_good(tmp_path, ports):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
        a.halt(PeerError("went back"), "too_far_behind")
        a.close()
        assert until(lambda: b.refusals().get("by_peer_too_far_behind"))


# -- real processes, real TLS


def ring_of_four(name, folder, rounds):
    rule = RULES[name](**EVERY[name])
    exp = pl.Experiment(
        pl.graphs.ring(4),
        pl.testing.random_quadratic(4, 5),
        rule,
        rounds=rounds,
        evaluate=pl.Evaluate(every=10**6),
    )
    federation = Federation(exp, folder)
    for row in range(4):
        federation.start(row)
    assert until(
        lambda: len(federation.status()) == 4 and all(s["round"] > 3 for s in federation.status()),
        30.0,
    )
    return federation


def remove(federation, name):
    """What `peerloom peer roster remove NAME` does at the founder, while it runs."""
    roster_remove(name, federation.homes[0].folder, as_json=True)


def log(federation, row):
    return (federation.homes[row].folder / "log.txt").read_text()


def test_a_member_is_removed_while_all_train(tmp_path, monkeypatch):
    """Three go on and finish; the fourth learns why it may not, also when it comes back."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    federation = ring_of_four("DSpodFL", tmp_path / "run", 4000)  # gossip takes seconds
    with federation.no_orphans():
        begin = time.monotonic()
        remove(federation, "row-2")
        for row in (1, 3):
            assert until(lambda: "link from row-2 is down" in log(federation, row))  # noqa: B023
        assert time.monotonic() - begin < 3.0
        removed = federation.homes[0].roster.version
        ended = federation._running.pop(2)
        ended.join(120)
        assert ended.exitcode == 6
        assert "error: The founder removed this peer from the federation" in log(federation, 2)
        federation.start(2)
        again = federation._running.pop(2)
        again.join(120)
        assert again.exitcode == 6
        federation.wait()
    stands = {s["row"]: s for s in federation.status()}
    assert {row: stands[row]["status"] for row in (0, 1, 3)} == dict.fromkeys((0, 1, 3), "done")
    assert {stands[row]["roster"]["version"] for row in (0, 1, 3)} == {removed}
    assert [link["peer"] for link in stands[1]["links"]] == ["row-0", "row-0"]
    assert federation.homes[3].roster.version == removed, "kept in its folder too"
    keeps = [
        PeerFolder(run_folder(federation.homes[row], federation.exp), spec_hash(federation.exp))
        for row in (0, 1, 3)
    ]
    x = np.stack([keep.newest().state["x"][0] for keep in keeps])
    spread = float(np.square(x - x.mean(axis=0)).sum(axis=1).mean())
    for row in (0, 1, 3):
        assert 0.5 < stands[row]["agreement"]["consensus"] / spread < 2.0, (
            "estimated by gossip among those who stay"
        )


def test_a_rule_that_counts_on_everyone_stops_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    federation = ring_of_four("EXTRA", tmp_path / "run", 100_000)
    with federation.no_orphans():
        remove(federation, "row-2")
        for process in federation._running.values():
            process.join(120)
        codes = {row: process.exitcode for row, process in federation._running.items()}
        assert codes == {0: 5, 1: 5, 2: 6, 3: 5}
    for row in (0, 1, 3):
        assert "took row-2, or a link with it, from the roster, and EXTRA cannot go on" in log(
            federation, row
        ), row
    assert {s["status"] for s in federation.status()} == {"failed"}
