"""Peers of two versions of the protocol: each pair speaks the newest that both know."""

from dataclasses import replace

import pytest

import peerloom as pl
from peerloom import graphs
from peerloom.transport.conversation import Conversation
from peerloom.transport.frames import FrameError, decode, encode
from peerloom.transport.schemas import Kind
from tests.federation import QUICK, endpoint, federation, free_ports, numbers, parcel, until
from tests.frame_samples import SAMPLES
from tests.memory_runs import check_same, experiment, run_in_memory

OLD = replace(QUICK, versions=(6, 6))
NEW_ONLY = replace(QUICK, versions=(7, 7))


def versions(one):
    return {link.version for link in one.links() if link.up}


def talk_both_ways(a, b, rounds=range(1, 12)):
    for round in rounds:
        a.send(b.me, parcel(round))
        b.send(a.me, parcel(round, value=-round))
        assert (numbers(b.take(a.me, round, 0, 5.0)) == round).all()
        assert (numbers(a.take(b.me, round, 0, 5.0)) == -round).all()
    assert a.settle(None, 5.0)
    assert b.settle(None, 5.0)


@pytest.mark.parametrize("dialler", [0, 1])
@pytest.mark.parametrize(
    ("first", "second", "agreed"),
    [(OLD, QUICK, 6), (QUICK, OLD, 6), (QUICK, QUICK, 7), (NEW_ONLY, QUICK, 7), (OLD, OLD, 6)],
    ids=["old-new", "new-old", "new-new", "only new", "old-old"],
)
def test_two_peers_speak_the_newest_version_that_both_know(
    tmp_path, first, second, agreed, dialler
):
    ports = free_ports(2)
    # The other one knows no address at which the dialler could be reached.
    known = [port if k != dialler else 1 for k, port in enumerate(ports)]
    roster = federation(2, [(0, 1), (1, 0)], known)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=first) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=second) as b,
    ):
        talk_both_ways(a, b)
        assert versions(a) == versions(b) == {agreed}
        assert not a.refusals()
        assert not b.refusals()


def test_versions_without_a_common_one_are_refused_on_both_sides(tmp_path):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=OLD) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=NEW_ONLY) as b,
    ):
        assert until(lambda: any("wrong_protocol" in each.reconnects for each in a.links()))
        assert until(lambda: any("wrong_protocol" in each.reconnects for each in b.links()))
        assert not versions(a)


def test_a_peer_is_upgraded_and_taken_back_under_way(tmp_path):
    """Every order of the two, with the same folders: rounds go on with the next number."""
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0], settings=QUICK) as a:
        for part, (settings, agreed) in enumerate([(OLD, 6), (QUICK, 7), (OLD, 6), (QUICK, 7)]):
            with endpoint(1, roster, tmp_path, ports[1], settings=settings) as b:
                b.expect(10 * part + 1)
                talk_both_ways(a, b, range(10 * part + 1, 10 * part + 11))
                assert versions(a) == versions(b) == {agreed}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_a_ring_is_upgraded_peer_by_peer_under_way_to_the_same_bits(
    tmp_path, identities, order, monkeypatch
):
    """Each is killed in the middle of the run and comes back with the newer version."""
    spoken = []
    speak = Conversation._speak
    monkeypatch.setattr(
        Conversation, "_speak", lambda self, version: (spoken.append(version), speak(self, version))
    )
    exp = experiment(
        "DSGT", rounds=60, graph=graphs.ring(4), problem=pl.testing.random_quadratic(4, 5)
    )
    results = run_in_memory(
        exp, identities, tmp_path,
        crashes=[(0.1 + 0.3 * k, row, 0.05) for k, row in enumerate(order)],
        upgrades=[(0.0, row, 6) for row in range(4)]
        + [(0.1 + 0.3 * k, row, 7) for k, row in enumerate(order)],
    )  # fmt: skip
    check_same(exp, results)
    assert spoken[:8] == [6] * 8
    assert spoken[-4:] == [7] * 4, "the last one that came back speaks it with both neighbours"


# -- versions that do not exist yet


def greeted(table, hello):
    """What is answered to a HELLO that was dialled in."""
    talk = Conversation(table, hello.pop("peer"), dialled=False, now=0.0)
    data = encode(Kind.HELLO, {**SAMPLES[Kind.HELLO], **hello})
    into = talk.buffer()
    into[: len(data)] = data
    try:
        talk.received(len(data), 0.0)
    finally:
        said = bytes(talk.outgoing(0.0))
    length = int.from_bytes(said[8:12], "big")
    return decode(said[: 28 + length])


@pytest.mark.parametrize(("offered", "answer"), [((7, 9), 7), ((6, 8), 7), ((8, 9), None)])
def test_a_later_version_is_answered_with_ours_or_refused(tmp_path, offered, answer):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    b = endpoint(1, roster, tmp_path, ports[1])
    try:
        run = b._table.run
        hello = {"peer": roster.members[0].id, "versions": list(offered), "run": run.run_id}
        hello |= {"agreement": run.agreement, "roster": roster.hash, "roster_version": 1}
        if answer is None:
            with pytest.raises(Exception, match="protocol_version"):
                greeted(b._table, hello)
        else:
            kind, said, _ = greeted(b._table, hello)
            assert (kind, said["version"]) == (Kind.HELLO_OK, answer)
    finally:
        b.close()


@pytest.mark.parametrize("version", [0, 6, 8, 2**63 - 1])
def test_a_version_that_was_not_offered_ends_the_connection(tmp_path, version):
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    a = endpoint(0, roster, tmp_path, ports[0])
    try:
        talk = Conversation(a._table, roster.members[1].id, dialled=True, now=0.0)
        data = encode(Kind.HELLO_OK, {**SAMPLES[Kind.HELLO_OK], "version": version})
        into = talk.buffer()
        into[: len(data)] = data
        with pytest.raises(FrameError, match="protocol_version"):
            talk.received(len(data), 0.0)
        assert a._table.greetings.current(talk.peer) is None
    finally:
        a.close()
